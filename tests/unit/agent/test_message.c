/* The call header and credential, byte by byte (RFC 5531 sections 8 and 9, appendix A), and the
 * replies' headers. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "agent/rpc/message.h"
#include "tests/unit/agent/rpc_peer.h"

/* An AUTH_SYS call of NFS 3 READ with 12 bytes of arguments; without its mark. */
static size_t sample(uint8_t *at)
{
    static const uint32_t cred[] = {7, 4, 0x686f7374, 1000, 100, 2, 4, 24};
    uint8_t body[sizeof(cred)], msg[256];
    size_t n;

    for (size_t i = 0; i < sizeof(cred) / 4; i++)
        peer_put_u32(body + i * 4, cred[i]);
    n = peer_call_auth(msg, 0x1234, 100003, 3, 6, 1, body, sizeof(body), "argumentsarg", 12);
    memcpy(at, msg + 4, n - 4);
    return n - 4;
}

/* Parses a copy that ends where the record ends, so that a sanitizer sees a byte too far. */
static enum rpc_parsed parse(const uint8_t *record, size_t len, struct rpc_call *call,
                             enum rpc_auth_stat *why)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);
    enum rpc_parsed parsed;

    memset(call, 0xee, sizeof(*call));
    if (len > 0)
        memcpy(copy, record, len);
    parsed = rpc_parse_call(call, copy, len, why);
    if (parsed == RPC_PARSED_CALL)
        cr_assert_eq(call->args.end, copy + len);
    free(copy);
    return parsed;
}

Test(message, a_call_is_taken_apart)
{
    enum rpc_auth_stat why;
    struct rpc_call call;
    uint8_t record[256];

    cr_assert_eq(parse(record, sample(record), &call, &why), RPC_PARSED_CALL);
    cr_assert_eq(call.xid, 0x1234);
    cr_assert_eq(call.prog, 100003);
    cr_assert_eq(call.vers, 3);
    cr_assert_eq(call.proc, 6);
    cr_assert_eq(call.cred.flavor, 1);
    cr_assert_eq(call.cred.uid, 1000);
    cr_assert_eq(call.cred.gid, 100);
    cr_assert_eq(call.cred.ngids, 2);
    cr_assert_eq(call.cred.gids[1], 24);
    cr_assert_eq(call.args.end - call.args.at, 12);
}

Test(message, a_call_cut_off_anywhere_is_refused_by_what_is_missing)
{
    enum rpc_auth_stat why;
    struct rpc_call call;
    uint8_t record[256];
    size_t whole = sample(record), head = 24, cred_end = head + 8 + 32;

    for (size_t len = 0; len < whole; len++) {
        enum rpc_parsed parsed = parse(record, len, &call, &why);

        if (len < head) {
            cr_assert_eq(parsed, RPC_PARSED_GARBAGE, "%zu", len);
        } else if (len < cred_end) {
            cr_assert_eq(parsed, RPC_PARSED_DENIED);
            cr_assert_eq(why, RPC_AUTHSTAT_BADCRED);
        } else if (len < cred_end + 8) {
            cr_assert_eq(parsed, RPC_PARSED_DENIED);
            cr_assert_eq(why, RPC_AUTHSTAT_BADVERF);
        } else {
            cr_assert_eq(parsed, RPC_PARSED_CALL);
        }
    }
}

Test(message, lengths_that_lie_are_not_followed)
{
    static const uint32_t lies[] = {1, 3, 33, 401, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    enum rpc_auth_stat why;
    struct rpc_call call;
    uint8_t record[256];
    size_t whole = sample(record);

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        /* The credential's, the machine name's, the number of groups. */
        static const size_t at[] = {28, 36, 52};

        for (size_t k = 0; k < 3; k++) {
            if (at[k] == 36 && lies[i] <= 4)
                continue; /* a shorter name in the same four bytes */
            sample(record);
            peer_put_u32(record + at[k], lies[i]);
            cr_assert_eq(parse(record, whole, &call, &why), RPC_PARSED_DENIED, "%zu %x", at[k],
                         lies[i]);
            cr_assert_eq(why, RPC_AUTHSTAT_BADCRED);
        }
        sample(record);
        peer_put_u32(record + 68, lies[i]);
        if (lies[i] > 12) {
            cr_assert_eq(parse(record, whole, &call, &why), RPC_PARSED_DENIED);
            cr_assert_eq(why, RPC_AUTHSTAT_BADVERF);
        }
    }
}

Test(message, random_bytes_do_no_harm)
{
    enum rpc_auth_stat why;
    struct rpc_call call;
    uint8_t record[256];

    srand(1);
    for (int i = 0; i < 100000; i++) {
        size_t whole = sample(record), len = (size_t)rand() % (whole + 1);

        for (int k = rand() % 4; k >= 0; k--)
            record[(size_t)rand() % whole] = (uint8_t)rand();
        if (parse(record, len, &call, &why) == RPC_PARSED_CALL)
            cr_assert(call.cred.flavor <= 1 && call.cred.ngids <= RPC_MAX_GIDS);
    }
}

Test(message, replies_have_the_form_of_rfc_5531)
{
    static const uint32_t accepted[] = {0x80000000 | (24 + 100), 9, 1, 0, 0, 0, 4};
    static const uint32_t mismatch[] = {0x80000000 | 32, 9, 1, 0, 0, 0, 2, 1, 3};
    static const uint32_t version[] = {0x80000000 | 24, 9, 1, 1, 0, 2, 2};
    static const uint32_t auth[] = {0x80000000 | 20, 9, 1, 1, 1, 5};
    uint8_t out[64];

#define EXPECT(call, words)                                                                        \
    do {                                                                                           \
        cr_assert_eq(call, sizeof(words));                                                         \
        for (size_t i_ = 0; i_ < sizeof(words) / 4; i_++)                                          \
            cr_assert_eq(peer_u32(out + i_ * 4), words[i_]);                                       \
    } while (0)
    EXPECT(rpc_put_accepted(out, 9, RPC_ACCEPT_GARBAGE_ARGS, 100), accepted);
    EXPECT(rpc_put_prog_mismatch(out, 9, 1, 3), mismatch);
    EXPECT(rpc_put_denied_version(out, 9), version);
    EXPECT(rpc_put_denied_auth(out, 9, RPC_AUTHSTAT_TOOWEAK), auth);
}
