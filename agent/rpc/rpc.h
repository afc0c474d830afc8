/*
 * The RPC transport as programs (NFS, MOUNT, portmap) see it: calls come in decoded up to their
 * arguments, a handler answers, waits or moves to a thread that may block.
 *
 * Workers (one a core) own connections and run an epoll loop; a handler on a worker must not block.
 * The I/O pool's threads may. A call belongs to one thread at a time and is handed over whole, so
 * handlers take no lock for it.
 */
#ifndef AGENT_RPC_RPC_H
#define AGENT_RPC_RPC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/qos/throttle.h"
#include "agent/rpc/xdr.h"

#define RPC_MAX_GIDS     16         /* AUTH_SYS, RFC 5531 appendix A */
#define RPC_MAX_DATA     (1u << 20) /* largest READ or WRITE payload, bytes */
#define RPC_MAX_RECORD   (RPC_MAX_DATA + 4096)
#define RPC_REPLY_INLINE 1024 /* bytes of reply that every call has room for */
#define RPC_SCRATCH      512  /* bytes a handler keeps between its stages */
#define RPC_MAX_THREADS  64   /* workers and pool threads together: slots of per-thread counters */

struct rpc_cred {
    uint32_t flavor; /* AUTH_NONE 0, AUTH_SYS 1 */
    uint32_t uid, gid;
    uint32_t ngids;
    uint32_t gids[RPC_MAX_GIDS];
};

struct rpc_conn;
struct rpc_server;

struct rpc_call {
    struct rpc_conn *conn;
    struct rpc_server *server;
    uint32_t xid, prog, vers, proc;
    struct rpc_cred cred;
    struct in_addr client; /* network order */
    uint16_t client_port;  /* host order; < 1024 is a privileged one */
    struct in_addr local;  /* the endpoint's address */
    struct xdr_in args;    /* the arguments; re-set to their start before each run of the handler */
    struct xdr_out res; /* the results, after an accepted reply's header; emptied before each run */
    uint64_t arrived_ns; /* when the record was complete, CLOCK_BOOTTIME */
    uint32_t record_len; /* bytes of the call's record */

    bool may_block;            /* on an I/O thread */
    unsigned stage;            /* the handler's own; 0 at first */
    struct throttle *throttle; /* set while parked: where to cancel */
    struct qos_request qos;    /* for throttle_offer */
    /* If set: called once, when the handler will not run again, on the thread that ran it last, or
     * on the worker when the call's connection has closed. The reply may be unsent still. */
    void (*cleanup)(struct rpc_call *call);
    /* Zeroed at first. */
    _Alignas(16) unsigned char scratch[RPC_SCRATCH];
};

enum rpc_verdict {
    RPC_REPLY,        /* res is complete: accepted, SUCCESS */
    RPC_GARBAGE_ARGS, /* accepted, GARBAGE_ARGS */
    RPC_SYSTEM_ERR,   /* accepted, SYSTEM_ERR */
    RPC_AUTH_TOOWEAK, /* denied, AUTH_ERROR */
    RPC_OFFLOAD,      /* run me again on an I/O thread; there the handler must come to an end */
    /* A throttle holds it: run me again, on the worker, when released. Only while not may_block:
     * limits come before I/O. `throttle` must be set before the request is offered. */
    RPC_PARKED,
    RPC_DROP, /* no reply (the client will send again) */
};

typedef enum rpc_verdict rpc_handler(struct rpc_call *call);

struct rpc_proc {
    const char *name;
    rpc_handler *run; /* NULL: PROC_UNAVAIL */
};

struct rpc_program {
    uint32_t prog;
    const char *name;
    uint32_t vers_low, vers_high; /* versions served; others get PROG_MISMATCH with these */
    /* The table of a version in that range; NULL is answered as a mismatch too. */
    const struct rpc_proc *(*procs)(uint32_t vers, size_t *count);
};

/* Makes room for `bytes` of results before they are encoded; false when the memory bound is reached
 * (answer JUKEBOX or the like). What was encoded so far is kept. */
bool rpc_reserve(struct rpc_call *call, size_t bytes);

struct rpc_server_config {
    unsigned workers;         /* 0: one a core */
    unsigned io_threads;      /* 0: 16 */
    unsigned max_connections; /* 0: 4096 */
    size_t max_memory;        /* bytes of buffers in flight, all connections; 0: 512 MiB */
    unsigned idle_timeout_s; /* a half-received record is given up after it; 0: 60. Idle connections
                                stay (keepalive). */
    const struct rpc_program *const *programs; /* NULL-terminated */
};

/* A process has one at a time. This and the next three are not for handlers. */
struct rpc_server *rpc_server_start(const struct rpc_server_config *config); /* NULL: logged */
/* Stops accepting, lets what runs finish (at most `drain_s` seconds), closes. */
void rpc_server_stop(struct rpc_server *server, unsigned drain_s);

/* Listens on an address (dotted IPv4) and TCP port with the given programs only (NULL: all of the
 * server's). 0 or -errno. Calling it again for the same address and port changes nothing. */
int rpc_listen(struct rpc_server *server, const char *address, uint16_t port,
               const struct rpc_program *const *programs);
int rpc_unlisten(struct rpc_server *server, const char *address, uint16_t port);

/* What a throttle needs from the transport. */
extern const struct throttle_owner rpc_throttle_owner;

/* The calling thread's counter slot, below RPC_MAX_THREADS; 0 for threads that are not the
 * server's. */
unsigned rpc_thread_slot(void);

struct rpc_stats {
    uint64_t connections, accepted, refused, closed_protocol,
        closed_idle; /* the first is a gauge */
    uint64_t calls, replies, dropped, bad_calls, offloaded;
    uint64_t bytes_in, bytes_out, memory; /* memory: bytes of buffers now */
};
void rpc_get_stats(const struct rpc_server *server, struct rpc_stats *out);

#endif
