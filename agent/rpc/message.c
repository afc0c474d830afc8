/* RPC messages, see message.h. */
#include "agent/rpc/message.h"

enum { MSG_CALL = 0, MSG_REPLY = 1 };
enum { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum { DENIED_RPC_MISMATCH = 0, DENIED_AUTH_ERROR = 1 };
enum { FLAVOR_NONE = 0, FLAVOR_SYS = 1, FLAVOR_SHORT = 2 };

#define RPC_VERSION   2
#define LAST_FRAGMENT UINT32_C(0x80000000)

/* authsys_parms; false when it is not exactly that. */
static bool parse_auth_sys(struct rpc_cred *cred, const uint8_t *body, uint32_t len)
{
    struct xdr_in x = {.at = body, .end = body + len};
    uint32_t machine_len;

    xdr_get_u32(&x); /* stamp */
    xdr_get_opaque(&x, RPC_MAX_MACHINE, &machine_len);
    cred->uid = xdr_get_u32(&x);
    cred->gid = xdr_get_u32(&x);
    cred->ngids = xdr_get_u32(&x);
    if (x.failed || cred->ngids > RPC_MAX_GIDS)
        return false;
    for (uint32_t i = 0; i < cred->ngids; i++)
        cred->gids[i] = xdr_get_u32(&x);
    return !x.failed && x.at == x.end;
}

static enum rpc_auth_stat parse_cred(struct rpc_cred *cred, struct xdr_in *x)
{
    const uint8_t *body;
    uint32_t len;

    cred->flavor = xdr_get_u32(x);
    cred->uid = cred->gid = cred->ngids = 0;
    body = xdr_get_opaque(x, RPC_MAX_AUTH, &len);
    if (x->failed)
        return RPC_AUTHSTAT_BADCRED;
    switch (cred->flavor) {
    case FLAVOR_NONE:
        return RPC_AUTHSTAT_OK;
    case FLAVOR_SYS:
        return parse_auth_sys(cred, body, len) ? RPC_AUTHSTAT_OK : RPC_AUTHSTAT_BADCRED;
    case FLAVOR_SHORT: /* none was ever given out: the client starts over with a full one */
        return RPC_AUTHSTAT_REJECTEDCRED;
    default:
        return RPC_AUTHSTAT_TOOWEAK;
    }
}

enum rpc_parsed rpc_parse_call(struct rpc_call *call, const uint8_t *data, size_t len,
                               enum rpc_auth_stat *auth)
{
    struct xdr_in x = {.at = data, .end = data + len};
    uint32_t type, version, verf_len;

    *auth = RPC_AUTHSTAT_OK;
    if (len == 0)
        return RPC_PARSED_GARBAGE;
    call->xid = xdr_get_u32(&x);
    type = xdr_get_u32(&x);
    version = xdr_get_u32(&x);
    if (x.failed || type != MSG_CALL)
        return RPC_PARSED_GARBAGE;
    /* What follows the version has this layout in version 2 only. */
    if (version != RPC_VERSION)
        return RPC_PARSED_MISMATCH;
    call->prog = xdr_get_u32(&x);
    call->vers = xdr_get_u32(&x);
    call->proc = xdr_get_u32(&x);
    if (x.failed)
        return RPC_PARSED_GARBAGE;
    *auth = parse_cred(&call->cred, &x);
    if (*auth != RPC_AUTHSTAT_OK)
        return RPC_PARSED_DENIED;
    xdr_get_u32(&x); /* The verifier's flavour: AUTH_NONE's and AUTH_SYS's verifier says nothing. */
    xdr_get_opaque(&x, RPC_MAX_AUTH, &verf_len);
    if (x.failed) {
        *auth = RPC_AUTHSTAT_BADVERF;
        return RPC_PARSED_DENIED;
    }
    call->args = x;
    return RPC_PARSED_CALL;
}

static struct xdr_out begin(uint8_t *at, size_t len, uint32_t xid, uint32_t reply_stat,
                            size_t following)
{
    struct xdr_out x = {.start = at, .at = at, .end = at + len};

    xdr_put_u32(&x, LAST_FRAGMENT | (uint32_t)(len - 4 + following));
    xdr_put_u32(&x, xid);
    xdr_put_u32(&x, MSG_REPLY);
    xdr_put_u32(&x, reply_stat);
    return x;
}

size_t rpc_put_accepted(uint8_t *at, uint32_t xid, enum rpc_accept_stat stat, size_t results)
{
    struct xdr_out x = begin(at, RPC_ACCEPTED_HEADER, xid, MSG_ACCEPTED, results);

    xdr_put_u32(&x, FLAVOR_NONE);
    xdr_put_u32(&x, 0);
    xdr_put_u32(&x, stat);
    return xdr_written(&x);
}

size_t rpc_put_prog_mismatch(uint8_t *at, uint32_t xid, uint32_t low, uint32_t high)
{
    size_t n = rpc_put_accepted(at, xid, RPC_PROG_MISMATCH, 8);
    struct xdr_out x = {.start = at + n, .at = at + n, .end = at + n + 8};

    xdr_put_u32(&x, low);
    xdr_put_u32(&x, high);
    return n + xdr_written(&x);
}

size_t rpc_put_denied_version(uint8_t *at, uint32_t xid)
{
    struct xdr_out x = begin(at, 28, xid, MSG_DENIED, 0);

    xdr_put_u32(&x, DENIED_RPC_MISMATCH);
    xdr_put_u32(&x, RPC_VERSION);
    xdr_put_u32(&x, RPC_VERSION);
    return xdr_written(&x);
}

size_t rpc_put_denied_auth(uint8_t *at, uint32_t xid, enum rpc_auth_stat why)
{
    struct xdr_out x = begin(at, 24, xid, MSG_DENIED, 0);

    xdr_put_u32(&x, DENIED_AUTH_ERROR);
    xdr_put_u32(&x, why);
    return xdr_written(&x);
}
