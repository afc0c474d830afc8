/*
 * The answers of program 100000, see portmap.h. All handlers are short and run on the workers; what
 * they read (the port) is set before the first endpoint listens.
 *
 * SET and UNSET are refused with FALSE: nothing but the agent's own programs is mapped here.
 * CALLIT, BCAST and INDIRECT are not offered: they make a server call itself on behalf of others
 * (RFC 1833 section 3.2 warns of it).
 */
#include "agent/portmap/portmap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/portmap/rpcbind.h"
#include "common/clock.h"
#include "common/log.h"

#define UADDR_MAX  32  /* "255.255.255.255.255.255" and its NUL */
#define STRING_MAX 256 /* netids, addresses, owners that are looked at */
#define TCP_PROTO  6

static atomic_uint nfs_port;
static bool registered; /* with rpcbind */

static const struct portmap_entry {
    uint32_t prog, vers;
    bool is_portmap; /* port 111, else the agent's */
} entries[] = {
    {100000, 2, true},  {100000, 3, true},  {100000, 4, true},
    {100003, 3, false}, {100005, 1, false}, {100005, 3, false},
};
#define NENTRIES (sizeof(entries) / sizeof(entries[0]))

static uint16_t port_of(const struct portmap_entry *e)
{
    return e->is_portmap ? PORTMAP_PORT : (uint16_t)atomic_load(&nfs_port);
}

/* The version asked for; else, unless `exact`, the highest of the program, as portmappers have
 * always answered. */
static const struct portmap_entry *find(uint32_t prog, uint32_t vers, bool exact)
{
    const struct portmap_entry *found = NULL;

    for (size_t i = 0; i < NENTRIES; i++) {
        if (entries[i].prog != prog)
            continue;
        if (entries[i].vers == vers)
            return &entries[i];
        if (!exact)
            found = &entries[i];
    }
    return found;
}

static enum rpc_verdict run_null(struct rpc_call *call)
{
    (void)call;
    return RPC_REPLY;
}

/* --- version 2 --- */

static enum rpc_verdict run_refuse_pmap(struct rpc_call *call)
{
    xdr_get_fixed(&call->args, 16);
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    xdr_put_bool(&call->res, false);
    return RPC_REPLY;
}

static enum rpc_verdict run_getport(struct rpc_call *call)
{
    uint32_t prog = xdr_get_u32(&call->args), vers = xdr_get_u32(&call->args),
             proto = xdr_get_u32(&call->args);
    const struct portmap_entry *e = find(prog, vers, false);

    xdr_get_u32(&call->args); /* the port: ignored */
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    xdr_put_u32(&call->res, e != NULL && proto == TCP_PROTO ? port_of(e) : 0);
    return RPC_REPLY;
}

static enum rpc_verdict run_pmap_dump(struct rpc_call *call)
{
    for (size_t i = 0; i < NENTRIES; i++) {
        xdr_put_bool(&call->res, true);
        xdr_put_u32(&call->res, entries[i].prog);
        xdr_put_u32(&call->res, entries[i].vers);
        xdr_put_u32(&call->res, TCP_PROTO);
        xdr_put_u32(&call->res, port_of(&entries[i]));
    }
    xdr_put_bool(&call->res, false);
    return RPC_REPLY;
}

/* --- versions 3 and 4 --- */

static void put_string(struct xdr_out *x, const char *text)
{
    xdr_put_opaque(x, text, (uint32_t)strlen(text));
}

/* RFC 1833's universal address of TCP over IPv4, at the endpoint that was asked. */
static const char *uaddr(const struct rpc_call *call, uint16_t port, char out[static UADDR_MAX])
{
    uint32_t a = ntohl(call->local.s_addr);

    snprintf(out, UADDR_MAX, "%u.%u.%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255,
             port >> 8 & 255u, port & 255u);
    return out;
}

/* struct rpcb; true when it asks for a transport that is served: "tcp", or none named. */
static bool get_rpcb(struct xdr_in *x, uint32_t *prog, uint32_t *vers)
{
    const uint8_t *netid;
    uint32_t netid_len, len;

    *prog = xdr_get_u32(x);
    *vers = xdr_get_u32(x);
    netid = xdr_get_opaque(x, STRING_MAX, &netid_len);
    xdr_get_opaque(x, STRING_MAX,
                   &len); /* r_addr: where the caller is; the answer is where it called */
    xdr_get_opaque(x, STRING_MAX, &len); /* r_owner */
    return !x->failed && (netid_len == 0 || (netid_len == 3 && memcmp(netid, "tcp", 3) == 0));
}

static enum rpc_verdict run_refuse_rpcb(struct rpc_call *call)
{
    uint32_t prog, vers;

    get_rpcb(&call->args, &prog, &vers);
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    xdr_put_bool(&call->res, false);
    return RPC_REPLY;
}

static enum rpc_verdict answer_addr(struct rpc_call *call, bool exact)
{
    uint32_t prog, vers;
    bool served = get_rpcb(&call->args, &prog, &vers);
    const struct portmap_entry *e = served ? find(prog, vers, exact) : NULL;
    char text[UADDR_MAX];

    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    put_string(&call->res, e != NULL ? uaddr(call, port_of(e), text) : "");
    return RPC_REPLY;
}

static enum rpc_verdict run_getaddr(struct rpc_call *call)
{
    return answer_addr(call, false);
}

static enum rpc_verdict run_getversaddr(struct rpc_call *call)
{
    return answer_addr(call, true);
}

static enum rpc_verdict run_rpcb_dump(struct rpc_call *call)
{
    char text[UADDR_MAX];

    for (size_t i = 0; i < NENTRIES; i++) {
        xdr_put_bool(&call->res, true);
        xdr_put_u32(&call->res, entries[i].prog);
        xdr_put_u32(&call->res, entries[i].vers);
        put_string(&call->res, "tcp");
        put_string(&call->res, uaddr(call, port_of(&entries[i]), text));
        put_string(&call->res, "superuser");
    }
    xdr_put_bool(&call->res, false);
    return RPC_REPLY;
}

static enum rpc_verdict run_gettime(struct rpc_call *call)
{
    xdr_put_u32(&call->res, (uint32_t)(clock_wall_ns() / (int64_t)NS_PER_S));
    return RPC_REPLY;
}

/* All transports of a program and version: TCP is the one. */
static enum rpc_verdict run_getaddrlist(struct rpc_call *call)
{
    uint32_t prog, vers;
    const struct portmap_entry *e;
    char text[UADDR_MAX];

    get_rpcb(&call->args, &prog, &vers);
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    e = find(prog, vers, true);
    if (e != NULL) {
        xdr_put_bool(&call->res, true);
        put_string(&call->res, uaddr(call, port_of(e), text));
        put_string(&call->res, "tcp");
        xdr_put_u32(&call->res, 3); /* NC_TPI_COTS_ORD */
        put_string(&call->res, "inet");
        put_string(&call->res, "tcp");
    }
    xdr_put_bool(&call->res, false);
    return RPC_REPLY;
}

static const struct rpc_proc pmap_procs[] = {
    {"NULL", run_null},       {"SET", run_refuse_pmap}, {"UNSET", run_refuse_pmap},
    {"GETPORT", run_getport}, {"DUMP", run_pmap_dump},
};
static const struct rpc_proc rpcb_procs[] = {
    {"NULL", run_null},         {"SET", run_refuse_rpcb},
    {"UNSET", run_refuse_rpcb}, {"GETADDR", run_getaddr},
    {"DUMP", run_rpcb_dump},    {"BCAST", NULL},
    {"GETTIME", run_gettime},   {"UADDR2TADDR", NULL},
    {"TADDR2UADDR", NULL},      {"GETVERSADDR", run_getversaddr}, /* from here on version 4 only */
    {"INDIRECT", NULL},         {"GETADDRLIST", run_getaddrlist},
};

static const struct rpc_proc *portmap_procs(uint32_t vers, size_t *count)
{
    *count = vers == 2   ? sizeof(pmap_procs) / sizeof(pmap_procs[0])
             : vers == 3 ? 9
                         : sizeof(rpcb_procs) / sizeof(rpcb_procs[0]);
    return vers == 2 ? pmap_procs : rpcb_procs;
}

const struct rpc_program portmap_program = {100000, "portmap", 2, 4, portmap_procs};
static const struct rpc_program *const programs[] = {&portmap_program, NULL};

/* --- endpoints --- */

int portmap_start(struct rpc_server *server, uint16_t port)
{
    (void)server;
    atomic_store(&nfs_port, port);
    return 0;
}

int portmap_endpoint(struct rpc_server *server, const char *address)
{
    int err = rpc_listen(server, address, PORTMAP_PORT, programs);
    unsigned port = atomic_load(&nfs_port);

    if (err == 0)
        return 0;
    if (err == -EADDRINUSE) {
        err = registered ? 0 : rpcbind_register((uint16_t)port);
        registered = err == 0;
    }
    if (err != 0)
        log_warn("%s: clients cannot look up the NFS port (errno %d); mount with the options "
                 "port=%u,mountport=%u",
                 address, -err, port, port);
    return err;
}

void portmap_endpoint_gone(struct rpc_server *server, const char *address)
{
    int err = rpc_unlisten(server, address, PORTMAP_PORT);

    if (err != 0 && err != -ENOENT)
        log_warn("%s: cannot close the portmap endpoint: errno %d", address, -err);
}

void portmap_stop(void)
{
    if (registered)
        rpcbind_unregister();
    registered = false;
}
