/* The transport over real sockets on 127.0.0.1: RFC 5531's answers, records in every shape, bounds,
 * throttles, offloading, close and stop. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/rpc/rpc.h"
#include "common/clock.h"
#include "tests/unit/agent/rpc_peer.h"

#define PROG 0x20000001

enum {
    PROC_NULL,
    PROC_ECHO,
    PROC_BIG,
    PROC_LIMITED,
    PROC_BLOCK,
    PROC_WHO,
    PROC_TOO_WEAK,
    PROC_GARBAGE,
    PROC_GAP,
    PROCS
};

static struct throttle *limit;
static sem_t gate, entered;
static atomic_int cleaned, ran_limited;

static enum rpc_verdict run_null(struct rpc_call *call)
{
    (void)call;
    return RPC_REPLY;
}

static enum rpc_verdict run_echo(struct rpc_call *call)
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(&call->args, RPC_MAX_DATA, &len);

    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    if (!rpc_reserve(call, 4 + xdr_pad(len)))
        return RPC_SYSTEM_ERR;
    xdr_put_opaque(&call->res, data, len);
    return RPC_REPLY;
}

/* As many bytes as asked for. */
static enum rpc_verdict run_big(struct rpc_call *call)
{
    uint32_t n = xdr_get_u32(&call->args);

    xdr_put_u32(&call->res, n);
    if (!rpc_reserve(call, n))
        return RPC_SYSTEM_ERR;
    memset(call->res.at, 0x5a, n);
    call->res.at += n;
    return RPC_REPLY;
}

static void count_cleanup(struct rpc_call *call)
{
    (void)call;
    atomic_fetch_add(&cleaned, 1);
}

/* Costs what its first argument says; answers the stage it ended in and the second argument. */
static enum rpc_verdict run_limited(struct rpc_call *call)
{
    uint32_t cost = xdr_get_u32(&call->args), value = xdr_get_u32(&call->args);

    if (call->stage == 0) {
        call->cleanup = count_cleanup;
        call->throttle = limit;
        call->stage = 1;
        if (throttle_offer(limit, &call->qos, call->client, cost, clock_mono_ns()) ==
            THROTTLE_PARKED)
            return RPC_PARKED;
    }
    atomic_fetch_add(&ran_limited, 1);
    xdr_put_u32(&call->res, value);
    return RPC_REPLY;
}

/* Blocks on an I/O thread until the test lets it go; answers its argument. */
static enum rpc_verdict run_block(struct rpc_call *call)
{
    uint32_t value = xdr_get_u32(&call->args);

    if (!call->may_block) {
        call->cleanup = count_cleanup;
        return RPC_OFFLOAD;
    }
    sem_post(&entered);
    sem_wait(&gate);
    xdr_put_u32(&call->res, value);
    return RPC_REPLY;
}

static enum rpc_verdict run_who(struct rpc_call *call)
{
    xdr_put_u32(&call->res, call->cred.flavor);
    xdr_put_u32(&call->res, call->cred.uid);
    xdr_put_u32(&call->res, call->cred.gid);
    xdr_put_u32(&call->res, call->cred.ngids);
    xdr_put_u32(&call->res, call->cred.ngids > 0 ? call->cred.gids[call->cred.ngids - 1] : 0);
    xdr_put_u32(&call->res, ntohl(call->client.s_addr));
    xdr_put_u32(&call->res, ntohl(call->local.s_addr));
    return RPC_REPLY;
}

static enum rpc_verdict run_too_weak(struct rpc_call *call)
{
    (void)call;
    return RPC_AUTH_TOOWEAK;
}

static enum rpc_verdict run_garbage(struct rpc_call *call)
{
    (void)call;
    return RPC_GARBAGE_ARGS;
}

static const struct rpc_proc procs[PROCS] = {
    [PROC_NULL] = {"NULL", run_null},
    [PROC_ECHO] = {"ECHO", run_echo},
    [PROC_BIG] = {"BIG", run_big},
    [PROC_LIMITED] = {"LIMITED", run_limited},
    [PROC_BLOCK] = {"BLOCK", run_block},
    [PROC_WHO] = {"WHO", run_who},
    [PROC_TOO_WEAK] = {"TOO_WEAK", run_too_weak},
    [PROC_GARBAGE] = {"GARBAGE", run_garbage},
    [PROC_GAP] = {"GAP", NULL},
};

static const struct rpc_proc *test_procs(uint32_t vers, size_t *n)
{
    *n = PROCS;
    return vers == 4 ? NULL : procs; /* 3 and 5 are served */
}

static const struct rpc_program program = {PROG, "test", 3, 5, test_procs};
static const struct rpc_program *const programs[] = {&program, NULL};

static struct rpc_server *server;
static uint16_t port;

static void start_with(struct rpc_server_config config)
{
    config.programs = programs;
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
    server = rpc_server_start(&config);
    cr_assert_not_null(server);
    port = peer_free_port();
    cr_assert_eq(rpc_listen(server, "127.0.0.1", port, NULL), 0);
}

static void start(void)
{
    start_with((struct rpc_server_config){.workers = 2, .io_threads = 4});
}

static void stop(void)
{
    if (server != NULL)
        rpc_server_stop(server, 5);
    server = NULL;
    throttle_free(limit);
    limit = NULL;
}

static struct rpc_stats stats(void)
{
    struct rpc_stats s;

    rpc_get_stats(server, &s);
    return s;
}

/* Waits until a condition on the statistics holds; they change without an event to wait for. */
#define await(condition)                                                                           \
    do {                                                                                           \
        struct rpc_stats s = stats();                                                              \
        for (int i_ = 0; i_ < 5000 && !(condition); i_++, s = stats())                             \
            usleep(1000);                                                                          \
        cr_assert(condition);                                                                      \
    } while (0)

static int dial(void)
{
    int fd = peer_connect(NULL, "127.0.0.1", port);

    cr_assert_geq(fd, 0);
    return fd;
}

static void call_u32(int fd, uint32_t xid, uint32_t proc, uint32_t a, uint32_t b)
{
    uint8_t msg[128], args[8];

    peer_put_u32(args, a);
    peer_put_u32(args + 4, b);
    peer_send(fd, msg, peer_call(msg, xid, PROG, 3, proc, args, 8));
}

/* A reply's 24 bytes of accepted header, checked. */
static void expect_accepted(const uint8_t *reply, uint32_t xid, uint32_t stat)
{
    cr_assert_eq(peer_u32(reply), xid);
    cr_assert_eq(peer_u32(reply + 4), 1);
    cr_assert_eq(peer_u32(reply + 8), 0);
    cr_assert_eq(peer_u32(reply + 12), 0);
    cr_assert_eq(peer_u32(reply + 16), 0);
    cr_assert_eq(peer_u32(reply + 20), stat);
}

static void expect_alive(int fd)
{
    uint8_t msg[64];

    peer_send(fd, msg, peer_call(msg, 0xa11e, PROG, 3, PROC_NULL, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 0xa11e, 0);
}

TestSuite(rpc, .init = start, .fini = stop, .timeout = 60);

Test(rpc, null_procedure_answers_without_a_credential)
{
    int fd = dial();

    expect_alive(fd);
    close(fd);
}

Test(rpc, other_rpc_version_is_denied_with_2_to_2)
{
    uint8_t msg[64];
    int fd = dial();
    size_t n = peer_call(msg, 7, PROG, 3, 0, NULL, 0);

    peer_put_u32(msg + 12, 3);
    peer_send(fd, msg, n);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    cr_assert_eq(peer_u32(msg), 7);
    cr_assert_eq(peer_u32(msg + 8), 1);  /* MSG_DENIED */
    cr_assert_eq(peer_u32(msg + 12), 0); /* RPC_MISMATCH */
    cr_assert_eq(peer_u32(msg + 16), 2);
    cr_assert_eq(peer_u32(msg + 20), 2);
    expect_alive(fd);
}

Test(rpc, unknown_program_version_and_procedure)
{
    uint8_t msg[64];
    int fd = dial();

    peer_send(fd, msg, peer_call(msg, 1, PROG + 1, 3, 0, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 1, 1);
    for (uint32_t vers = 0; vers < 8; vers++) {
        bool served = vers == 3 || vers == 5;

        peer_send(fd, msg, peer_call(msg, vers, PROG, vers, 0, NULL, 0));
        cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), served ? 24 : 32);
        expect_accepted(msg, vers, served ? 0 : 2);
        if (!served) {
            cr_assert_eq(peer_u32(msg + 24), 3);
            cr_assert_eq(peer_u32(msg + 28), 5);
        }
    }
    peer_send(fd, msg, peer_call(msg, 3, PROG, 3, PROCS, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 3, 3);
    peer_send(fd, msg, peer_call(msg, 4, PROG, 3, PROC_GAP, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 4, 3);
    peer_send(fd, msg, peer_call(msg, 5, PROG, 3, PROC_ECHO, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 5, 4);
}

static size_t auth_sys(uint8_t *at, uint32_t machine_len, uint32_t ngids)
{
    uint8_t *p = at;

    peer_put_u32(p, 1);
    peer_put_u32(p + 4, machine_len);
    memset(p + 8, 'm', (machine_len + 3) & ~3u);
    p += 8 + ((machine_len + 3) & ~3u);
    peer_put_u32(p, 1000);
    peer_put_u32(p + 4, 100);
    peer_put_u32(p + 8, ngids);
    p += 12;
    for (uint32_t i = 0; i < ngids; i++, p += 4)
        peer_put_u32(p, 500 + i);
    return (size_t)(p - at);
}

static void expect_auth_error(int fd, uint32_t xid, uint32_t why)
{
    uint8_t msg[64];

    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 20);
    cr_assert_eq(peer_u32(msg), xid);
    cr_assert_eq(peer_u32(msg + 8), 1);  /* MSG_DENIED */
    cr_assert_eq(peer_u32(msg + 12), 1); /* AUTH_ERROR */
    cr_assert_eq(peer_u32(msg + 16), why);
}

Test(rpc, auth_sys_with_16_groups_and_255_bytes_of_machine_name_is_taken)
{
    uint8_t msg[1024], cred[512];
    int fd = dial();
    size_t n = auth_sys(cred, 255, 16);

    peer_send(fd, msg, peer_call_auth(msg, 9, PROG, 3, PROC_WHO, 1, cred, n, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24 + 28);
    cr_assert_eq(peer_u32(msg + 24), 1);
    cr_assert_eq(peer_u32(msg + 28), 1000);
    cr_assert_eq(peer_u32(msg + 32), 100);
    cr_assert_eq(peer_u32(msg + 36), 16);
    cr_assert_eq(peer_u32(msg + 40), 515);
    cr_assert_eq(peer_u32(msg + 44), 0x7f000001);
    cr_assert_eq(peer_u32(msg + 48), 0x7f000001);
}

Test(rpc, bad_credentials_get_an_auth_error_and_the_connection_stays)
{
    uint8_t msg[1024], cred[512] = {0};
    int fd = dial();
    size_t n = auth_sys(cred, 4, 17);

    peer_send(fd, msg, peer_call_auth(msg, 1, PROG, 3, PROC_WHO, 1, cred, n, NULL, 0));
    expect_auth_error(fd, 1, 1);
    n = auth_sys(cred, 256, 1);
    peer_send(fd, msg, peer_call_auth(msg, 2, PROG, 3, PROC_WHO, 1, cred, n, NULL, 0));
    expect_auth_error(fd, 2, 1);
    n = auth_sys(cred, 4, 3);
    peer_send(fd, msg, peer_call_auth(msg, 3, PROG, 3, PROC_WHO, 1, cred, n - 4, NULL, 0));
    expect_auth_error(fd, 3, 1);
    peer_send(fd, msg, peer_call_auth(msg, 4, PROG, 3, PROC_WHO, 1, cred, 404, NULL, 0));
    expect_auth_error(fd, 4, 1);
    peer_send(fd, msg, peer_call_auth(msg, 5, PROG, 3, PROC_NULL, 6, cred, 8, NULL, 0));
    expect_auth_error(fd, 5, 5); /* RPCSEC_GSS */
    peer_send(fd, msg, peer_call_auth(msg, 6, PROG, 3, PROC_NULL, 2, cred, 8, NULL, 0));
    expect_auth_error(fd, 6, 2); /* AUTH_SHORT */
    peer_send(fd, msg, peer_call(msg, 7, PROG, 3, PROC_TOO_WEAK, NULL, 0));
    expect_auth_error(fd, 7, 5);
    expect_alive(fd);
}

Test(rpc, calls_256_in_one_segment_are_all_answered)
{
    uint8_t *msg = malloc(256 * 64), reply[64];
    bool seen[256] = {false};
    size_t n = 0;
    int fd = dial();

    for (uint32_t i = 0; i < 256; i++) {
        uint8_t args[8];

        peer_put_u32(args, 4);
        peer_put_u32(args + 4, i * 3);
        n += peer_call(msg + n, i, PROG, 3, PROC_ECHO, args, 8);
    }
    peer_send(fd, msg, n);
    for (int i = 0; i < 256; i++) {
        uint32_t xid;

        cr_assert_eq(peer_reply(fd, reply, sizeof(reply)), 32);
        xid = peer_u32(reply);
        cr_assert_lt(xid, 256);
        cr_assert_not(seen[xid]);
        seen[xid] = true;
        cr_assert_eq(peer_u32(reply + 28), xid * 3);
    }
    free(msg);
}

/* An ECHO call of `len` bytes, its mark stripped. */
static size_t echo_record(uint8_t *at, uint32_t len)
{
    uint8_t *args = malloc(len + 8);
    size_t n;

    peer_put_u32(args, len);
    for (uint32_t i = 0; i < len; i++)
        args[4 + i] = (uint8_t)(i * 7);
    n = peer_call(at, 77, PROG, 3, PROC_ECHO, args, 4 + ((len + 3) & ~3u));
    free(args);
    memmove(at, at + 4, n - 4);
    return n - 4;
}

static void expect_echo(int fd, uint32_t len)
{
    uint8_t *reply = malloc(len + 64);

    cr_assert_eq(peer_reply(fd, reply, len + 64), (long)(28 + ((len + 3) & ~3u)));
    expect_accepted(reply, 77, 0);
    for (uint32_t i = 0; i < len; i++)
        cr_assert_eq(reply[28 + i], (uint8_t)(i * 7));
    free(reply);
}

static void send_in_fragments(int fd, const uint8_t *record, size_t len, size_t fragment)
{
    uint8_t *out = malloc(len * 5 + 8);
    size_t n = 0;

    for (size_t at = 0; at < len; at += fragment) {
        size_t piece = len - at < fragment ? len - at : fragment;

        peer_put_u32(out + n, (uint32_t)piece | (at + piece == len ? 0x80000000u : 0));
        memcpy(out + n + 4, record + at, piece);
        n += 4 + piece;
    }
    peer_send(fd, out, n);
    free(out);
}

Test(rpc, fragments_are_joined)
{
    uint8_t *record = malloc(RPC_MAX_RECORD);
    size_t n = echo_record(record, 5000);
    int fd = dial();

    send_in_fragments(fd, record, n, 1);
    expect_echo(fd, 5000);
    send_in_fragments(fd, record, n, (n + 2) / 3);
    expect_echo(fd, 5000);
    n = echo_record(record, 200000);
    send_in_fragments(fd, record, n, 1000);
    expect_echo(fd, 200000);
    free(record);
}

Test(rpc, bytes_that_arrive_one_by_one_make_a_record)
{
    uint8_t msg[128];
    int fd = dial();
    uint32_t args[2] = {htonl(4), htonl(42)};
    size_t n = peer_call(msg, 5, PROG, 3, PROC_ECHO, args, 8);

    for (size_t i = 0; i < n; i++)
        peer_send(fd, msg + i, 1);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 32);
    cr_assert_eq(peer_u32(msg + 28), 42);
}

Test(rpc, records_of_every_size_class_pass_whole)
{
    uint8_t *record = malloc(RPC_MAX_RECORD + 4);
    int fd = dial();

    for (uint32_t len = 0; len <= RPC_MAX_DATA; len = len == 0 ? 1 : len * 4) {
        size_t n = echo_record(record + 4, len);

        peer_put_u32(record, 0x80000000u | (uint32_t)n);
        peer_send(fd, record, n + 4);
        peer_send(fd, record, n + 4);
        expect_echo(fd, len);
        expect_echo(fd, len);
    }
    free(record);
}

Test(rpc, an_oversize_record_closes_its_connection_only)
{
    static const uint32_t marks[] = {0x80000000u | (RPC_MAX_RECORD + 1), 0x80000000u | (64u << 20),
                                     0xffffffffu, RPC_MAX_RECORD + 1, 0x7fffffffu};
    int other = dial();
    uint64_t memory = stats().memory;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        uint8_t mark[4];
        int fd = dial();

        peer_put_u32(mark, marks[i]);
        peer_send(fd, mark, 4);
        cr_assert(peer_closed(fd));
        close(fd);
        cr_assert_eq(stats().closed_protocol, i + 1);
    }
    cr_assert_eq(stats().memory, memory);
    expect_alive(other);
}

Test(rpc, fragments_that_add_up_to_too_much_close_the_connection)
{
    uint8_t mark[4], *zeros = calloc(1, RPC_MAX_RECORD);
    int fd = dial();

    peer_put_u32(mark, RPC_MAX_RECORD);
    peer_send(fd, mark, 4);
    peer_send(fd, zeros, RPC_MAX_RECORD);
    peer_put_u32(mark, 1);
    peer_send(fd, mark, 4);
    cr_assert(peer_closed(fd));
    cr_assert_eq(stats().closed_protocol, 1);
    free(zeros);
}

Test(rpc, garbage_and_replies_close_the_connection_and_are_counted)
{
    uint8_t msg[64];
    int other = dial(), fd = dial();
    size_t n = peer_call(msg, 1, PROG, 3, 0, NULL, 0);

    peer_put_u32(msg + 8, 1); /* REPLY */
    peer_send(fd, msg, n);
    cr_assert(peer_closed(fd));
    fd = dial();
    peer_put_u32(msg, 0x80000000u); /* an empty record */
    peer_send(fd, msg, 4);
    cr_assert(peer_closed(fd));
    fd = dial();
    peer_put_u32(msg, 0x80000000u | 20); /* ends before the procedure */
    peer_put_u32(msg + 8, 0);
    peer_send(fd, msg, 24);
    cr_assert(peer_closed(fd));
    fd = dial();
    peer_send(fd, "GET / HTTP/1.1\r\n\r\n", 18);
    cr_assert(peer_closed(fd));
    cr_assert_eq(stats().closed_protocol, 4);
    expect_alive(other);
}

Test(rpc, a_large_reply_comes_whole_to_a_slow_reader)
{
    uint8_t *reply = malloc(RPC_MAX_DATA + 64);
    int fd = dial();

    for (uint32_t i = 0; i < 16; i++)
        call_u32(fd, i, PROC_BIG, RPC_MAX_DATA, 0);
    for (uint32_t i = 0; i < 16; i++) {
        cr_assert_eq(peer_reply(fd, reply, RPC_MAX_DATA + 64), RPC_MAX_DATA + 28);
        expect_accepted(reply, i, 0);
    }
    free(reply);
}

Test(rpc, a_client_that_does_not_read_is_not_read_from)
{
    uint8_t *reply = malloc(RPC_MAX_DATA + 64);
    int fd = dial(), other;

    for (uint32_t i = 0; i < 500; i++)
        call_u32(fd, i, PROC_BIG, RPC_MAX_DATA, 0);
    await(s.calls >= 3);
    other = dial();
    expect_alive(other);
    /* What it may hold: the bound, one reply more, and what lies in the chunk. */
    cr_assert_leq(stats().memory, 4u << 20);
    for (uint32_t i = 0; i < 500; i++) {
        cr_assert_eq(peer_reply(fd, reply, RPC_MAX_DATA + 64), RPC_MAX_DATA + 28);
        cr_assert_eq(peer_u32(reply), i);
    }
    free(reply);
}

Test(rpc, offloaded_calls_hold_up_nobody_and_come_back)
{
    uint8_t msg[64];
    int fd = dial();

    for (uint32_t i = 0; i < 4; i++)
        call_u32(fd, i, PROC_BLOCK, i + 100, 0);
    for (int i = 0; i < 4; i++)
        sem_wait(&entered);
    /* The same connection still answers, out of order. */
    expect_alive(fd);
    for (int i = 0; i < 4; i++)
        sem_post(&gate);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
        cr_assert_eq(peer_u32(msg + 24), peer_u32(msg) + 100);
    }
    cr_assert_eq(atomic_load(&cleaned), 4);
    cr_assert_eq(stats().offloaded, 4);
}

Test(rpc, a_call_on_an_io_thread_outlives_its_connection)
{
    int fd = dial();

    call_u32(fd, 1, PROC_BLOCK, 1, 0);
    sem_wait(&entered);
    close(fd);
    await(s.connections == 0);
    cr_assert_eq(atomic_load(&cleaned), 0);
    sem_post(&gate);
    await(s.dropped == 1);
    cr_assert_eq(atomic_load(&cleaned), 1);
    await(s.memory == 0);
}

Test(rpc, parked_calls_are_answered_at_their_time_and_others_before)
{
    uint8_t msg[64];
    uint64_t began, took;
    int fd = dial();

    limit = throttle_new(1000000, &rpc_throttle_owner); /* 1 MB/s */
    began = clock_mono_ns();
    for (uint32_t i = 0; i < 11; i++)
        call_u32(fd, i, PROC_LIMITED, 20000, i);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    expect_alive(fd);
    cr_assert_leq(clock_mono_ns() - began, 15 * NS_PER_MS);
    for (uint32_t i = 1; i < 11; i++) {
        cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
        cr_assert_eq(peer_u32(msg), i);
        cr_assert_eq(peer_u32(msg + 24), i);
    }
    took = clock_mono_ns() - began;
    /* The first goes at once, ten wait for 20 ms each, less the burst depth. */
    cr_assert_geq(took, 194 * NS_PER_MS);
    cr_assert_leq(took, 300 * NS_PER_MS);
    cr_assert_eq(atomic_load(&cleaned), 11);
}

Test(rpc, a_limit_holds_over_connections_and_addresses)
{
    uint8_t msg[64];
    uint64_t began, took;
    int fd[4];

    limit = throttle_new(1000000, &rpc_throttle_owner);
    for (int i = 0; i < 4; i++) {
        fd[i] = peer_connect(i % 2 == 0 ? "127.0.0.3" : "127.0.0.4", "127.0.0.1", port);
        cr_assert_geq(fd[i], 0);
    }
    began = clock_mono_ns();
    for (uint32_t i = 0; i < 40; i++)
        call_u32(fd[i % 4], i, PROC_LIMITED, 5000, i);
    for (uint32_t i = 0; i < 40; i++)
        cr_assert_eq(peer_reply(fd[i % 4], msg, sizeof(msg)), 28);
    took = clock_mono_ns() - began;
    cr_assert_geq(took, 189 * NS_PER_MS);
    cr_assert_leq(took, 300 * NS_PER_MS);
}

Test(rpc, calls_parked_on_a_closed_connection_are_dropped_uncharged)
{
    struct throttle_stats t;
    int fd = dial();

    limit = throttle_new(1000, &rpc_throttle_owner); /* 1 kB/s: they would wait for minutes */
    for (uint32_t i = 0; i < 50; i++)
        call_u32(fd, i, PROC_LIMITED, 10000, i);
    await(s.calls == 50);
    close(fd);
    await(s.connections == 0 && s.memory == 0);
    throttle_get_stats(limit, clock_mono_ns(), &t);
    cr_assert_eq(t.waiting, 0);
    cr_assert_eq(t.charged, 10000);
    cr_assert_eq(atomic_load(&cleaned), 50);
    cr_assert_eq(atomic_load(&ran_limited), 1);
}

Test(rpc, at_most_1024_calls_of_a_connection_are_parked)
{
    bool seen[1500] = {false};
    struct throttle_stats t;
    uint8_t msg[64];
    int fd = dial(), other;

    limit = throttle_new(1, &rpc_throttle_owner);
    for (uint32_t i = 0; i < 1500; i++)
        call_u32(fd, i, PROC_LIMITED, 1000, i);
    await(s.calls >= 1025);
    other = dial();
    expect_alive(other);
    throttle_get_stats(limit, clock_mono_ns(), &t);
    cr_assert_eq(t.waiting, 1024);
    /* Without the limit all come, those that were not read too; in any order, once each. */
    throttle_set_rate(limit, 0, clock_mono_ns());
    for (uint32_t i = 0; i < 1500; i++) {
        cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
        cr_assert_lt(peer_u32(msg), 1500);
        cr_assert_not(seen[peer_u32(msg)]);
        seen[peer_u32(msg)] = true;
    }
}

Test(rpc, a_client_that_leaves_while_it_is_not_read_is_noticed)
{
    int fd = dial();

    limit = throttle_new(1, &rpc_throttle_owner);
    for (uint32_t i = 0; i < 1500; i++)
        call_u32(fd, i, PROC_LIMITED, 1000, i);
    await(s.calls >= 1025);
    close(fd);
    await(s.connections == 0 && s.memory == 0);
    cr_assert_eq(atomic_load(&cleaned), 1025);
}

Test(rpc, a_new_limit_retimes_what_waits)
{
    uint8_t msg[64];
    uint64_t began;
    int fd = dial();

    limit = throttle_new(1000, &rpc_throttle_owner);
    call_u32(fd, 1, PROC_LIMITED, 100000, 1); /* 100 s of it */
    call_u32(fd, 2, PROC_LIMITED, 100000, 2);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    await(s.calls == 2);
    began = clock_mono_ns();
    throttle_set_rate(limit, 1000000, began);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    cr_assert_eq(peer_u32(msg), 2);
    cr_assert_leq(clock_mono_ns() - began, 200 * NS_PER_MS);
}

Test(rpc, an_unlistened_endpoint_closes_its_connections_and_only_those)
{
    uint16_t second = peer_free_port();
    int a = dial(), b;

    cr_assert_eq(rpc_listen(server, "127.0.0.2", second, NULL), 0);
    cr_assert_eq(rpc_listen(server, "127.0.0.2", second, NULL), 0);
    b = peer_connect(NULL, "127.0.0.2", second);
    expect_alive(b);
    expect_alive(a);
    cr_assert_eq(rpc_unlisten(server, "127.0.0.2", second), 0);
    cr_assert(peer_closed(b));
    cr_assert_lt(peer_connect(NULL, "127.0.0.2", second), 0);
    cr_assert_eq(rpc_unlisten(server, "127.0.0.2", second), -ENOENT);
    expect_alive(a);
    cr_assert_eq(rpc_listen(server, "no address", second, NULL), -EINVAL);
}

Test(rpc, an_endpoint_serves_only_its_programs)
{
    static const struct rpc_program *const none[] = {NULL};
    uint16_t second = peer_free_port();
    uint8_t msg[64];
    int fd;

    cr_assert_eq(rpc_listen(server, "127.0.0.1", second, none), 0);
    fd = peer_connect(NULL, "127.0.0.1", second);
    peer_send(fd, msg, peer_call(msg, 1, PROG, 3, 0, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    expect_accepted(msg, 1, 1);
}

Test(rpc, stop_lets_what_runs_finish)
{
    uint8_t msg[64];
    pthread_t thread;
    int fd = dial();

    call_u32(fd, 1, PROC_BLOCK, 11, 0);
    sem_wait(&entered);
    pthread_create(&thread, NULL, (void *(*)(void *))stop, NULL);
    /* Idle connections go, the busy one gets its answer first. */
    sem_post(&gate);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    cr_assert_eq(peer_u32(msg + 24), 11);
    cr_assert(peer_closed(fd));
    pthread_join(thread, NULL);
    cr_assert_lt(peer_connect(NULL, "127.0.0.1", port), 0);
}

Test(rpc, stop_gives_up_parked_calls_after_its_time)
{
    int fd = dial();
    uint64_t began;

    limit = throttle_new(1, &rpc_throttle_owner);
    call_u32(fd, 1, PROC_LIMITED, 1000, 1);
    call_u32(fd, 2, PROC_LIMITED, 1000, 2);
    await(s.calls == 2);
    began = clock_mono_ns();
    rpc_server_stop(server, 1);
    server = NULL;
    cr_assert_leq(clock_mono_ns() - began, 2 * NS_PER_S);
    cr_assert_eq(atomic_load(&cleaned), 2);
}

TestSuite(rpc_bounds, .fini = stop, .timeout = 60);

/* The timer of a limit may be another worker's than the connection's. */
Test(rpc_bounds, stop_answers_what_becomes_due_meanwhile)
{
    uint8_t msg[64];
    uint64_t began;
    int fd;

    start_with((struct rpc_server_config){.workers = 16, .io_threads = 1});
    limit = throttle_new(1000, &rpc_throttle_owner);
    fd = dial();
    call_u32(fd, 1, PROC_LIMITED, 300, 1);
    call_u32(fd, 2, PROC_LIMITED, 1000, 2);
    await(s.calls == 2);
    began = clock_mono_ns();
    rpc_server_stop(server, 5);
    server = NULL;
    cr_assert_lt(clock_mono_ns() - began, 2 * NS_PER_S);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 28);
    cr_assert_eq(peer_u32(msg), 2);
    cr_assert(peer_closed(fd));
}

Test(rpc_bounds, a_half_sent_record_is_given_up_and_an_idle_connection_kept)
{
    uint8_t msg[64];
    int idle, fd;
    uint64_t began;

    start_with((struct rpc_server_config){.workers = 1, .io_threads = 1, .idle_timeout_s = 1});
    idle = dial();
    expect_alive(idle);
    fd = dial();
    began = clock_mono_ns();
    peer_send(fd, msg, peer_call(msg, 1, PROG, 3, 0, NULL, 0) / 2);
    cr_assert(peer_closed(fd));
    cr_assert_geq(clock_mono_ns() - began, 900 * NS_PER_MS);
    cr_assert_eq(stats().closed_idle, 1);
    expect_alive(idle);
}

Test(rpc_bounds, a_client_that_takes_no_replies_is_given_up)
{
    int fd;

    start_with((struct rpc_server_config){.workers = 1, .io_threads = 1, .idle_timeout_s = 1});
    fd = dial();
    for (uint32_t i = 0; i < 20; i++)
        call_u32(fd, i, PROC_BIG, RPC_MAX_DATA, 0);
    await(s.closed_idle == 1);
    await(s.memory == 0);
}

Test(rpc_bounds, connections_over_the_limit_are_refused_cleanly)
{
    int fd[4], more;

    start_with((struct rpc_server_config){.workers = 2, .io_threads = 1, .max_connections = 4});
    for (int i = 0; i < 4; i++) {
        fd[i] = dial();
        expect_alive(fd[i]);
    }
    more = dial();
    cr_assert(peer_closed(more));
    cr_assert_eq(stats().refused, 1);
    for (int i = 0; i < 4; i++)
        expect_alive(fd[i]);
    close(fd[0]);
    await(s.connections == 3);
    more = dial();
    expect_alive(more);
}

Test(rpc_bounds, over_its_memory_the_server_reads_no_more_and_heals)
{
    uint8_t msg[64], *record = malloc(RPC_MAX_RECORD + 4);
    int hog[12], fd;

    start_with((struct rpc_server_config){.workers = 2, .io_threads = 1, .max_memory = 8u << 20});
    /* Half a record each, of 1 MiB: memory for the first seven. */
    memset(record, 0, RPC_MAX_RECORD);
    peer_put_u32(record, 0x80000000u | RPC_MAX_RECORD);
    for (int i = 0; i < 12; i++) {
        hog[i] = dial();
        peer_send(hog[i], record, 1000);
    }
    await(s.memory >= 7u << 20);
    fd = dial();
    peer_send(fd, msg, peer_call(msg, 1, PROG, 3, PROC_NULL, NULL, 0));
    cr_assert_leq(stats().memory, 10u << 20);
    for (int i = 0; i < 12; i++)
        close(hog[i]);
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24);
    await(s.memory == 0);
    free(record);
}

/* A mark of four bytes is enough to have memory kept for a whole record. */
Test(rpc_bounds, half_sent_records_silence_others_for_seconds_only)
{
    uint8_t msg[64], mark[4];
    int hog[12], fd;

    start_with((struct rpc_server_config){.workers = 2, .io_threads = 1, .max_memory = 8u << 20});
    fd = dial();
    expect_alive(fd);
    peer_put_u32(mark, 0x80000000u | RPC_MAX_RECORD);
    for (int i = 0; i < 12; i++) {
        hog[i] = dial();
        peer_send(hog[i], mark, sizeof(mark));
    }
    await(s.memory >= 7u << 20);
    peer_send(fd, msg, peer_call(msg, 1, PROG, 3, PROC_NULL, NULL, 0));
    cr_assert_eq(peer_reply(fd, msg, sizeof(msg)), 24, "within the 10 s of the socket, not 60");
    for (int i = 0; i < 12; i++)
        close(hog[i]);
    await(s.memory == 0);
}

Test(rpc_bounds, many_slow_writers_leave_memory_for_others)
{
    uint8_t *record = calloc(1, 300000), *args = calloc(1, 262144);
    uint8_t *answer = malloc(RPC_MAX_DATA + 64);
    uint64_t sum = 0;
    size_t n;
    int slow[8], fd;

    start_with((struct rpc_server_config){.workers = 2, .io_threads = 1, .max_memory = 32u << 20});
    limit = throttle_new(1, &rpc_throttle_owner);
    n = peer_call(record, 1, PROG, 3, PROC_LIMITED, args, 262144);
    peer_put_u32(record + 44, 1000); /* what it costs */
    for (int i = 0; i < 8; i++) {
        slow[i] = dial();
        /* As much as it takes without waiting: 8 MiB each would be 64 MiB. */
        for (int k = 0; k < 32; k++) {
            ssize_t sent = send(slow[i], record, n, MSG_NOSIGNAL | MSG_DONTWAIT);

            sum += sent > 0 ? (uint64_t)sent : 0;
            if (sent != (ssize_t)n)
                break;
            usleep(1000);
        }
    }
    cr_assert_gt(sum, 16u << 20);
    /* All are held by the limit for ever; another client is served, with large answers too. */
    cr_assert_leq(stats().memory, 28u << 20);
    fd = dial();
    for (uint32_t i = 0; i < 20; i++) {
        call_u32(fd, i, PROC_BIG, RPC_MAX_DATA, 0);
        cr_assert_eq(peer_reply(fd, answer, RPC_MAX_DATA + 64), RPC_MAX_DATA + 28);
    }
    /* What they have sent and we have not read keeps their end from us: it comes once all is read.
     */
    for (int i = 0; i < 8; i++)
        close(slow[i]);
    close(fd);
    throttle_set_rate(limit, 0, clock_mono_ns());
    await(s.memory == 0 && s.connections == 0);
    free(record);
    free(args);
    free(answer);
}

Test(rpc_bounds, out_of_descriptors_does_not_spin_and_heals)
{
    struct rlimit limits = {.rlim_cur = 40, .rlim_max = 40};
    int fd[40], n = 0;
    struct timespec before, after;

    start_with((struct rpc_server_config){.workers = 1, .io_threads = 1});
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limits), 0);
    while (n < 40 && (fd[n] = peer_connect(NULL, "127.0.0.1", port)) >= 0)
        n++;
    cr_assert_lt(n, 40);
    /* The process is out of descriptors, with connections in the backlog. */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    cr_assert_lt((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000,
                 100);
    for (int i = 0; i < n / 2; i++)
        close(fd[i]);
    expect_alive(fd[n - 1]);
}
