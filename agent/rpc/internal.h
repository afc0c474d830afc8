/*
 * What the transport's files share: server, workers, connections, calls.
 *
 * Who owns what:
 *   - A connection, its queues and its counters belong to one worker; nobody else touches them.
 *   - A call belongs to one thread at a time: its connection's worker, a throttle while it is
 * parked, an I/O thread while it is offloaded. It comes back to the worker through the worker's
 * inbox, always.
 *   - A connection lives until all its calls have come back (`refs`); closed ones answer nothing
 * any more.
 *   - A listener is counted by its connections and by the server's list.
 *
 * Locks, all leaves but the first: current_lock (server.c) > timers.lock; server.listen_lock;
 * io.lock; a throttle's.
 */
#ifndef AGENT_RPC_INTERNAL_H
#define AGENT_RPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/rpc/buffer.h"
#include "agent/rpc/record.h"
#include "agent/rpc/rpc.h"

/* Bounds of one connection, less when memory gets short (conn.c). Past any of them its socket is
 * not read until it is at 3/4 again. */
#define MAX_PARKED       1024                /* calls held by throttles */
#define MAX_PARKED_BYTES ((size_t)32 << 20)  /* their records */
#define MAX_OFFLOADED    128                 /* calls with the I/O threads */
#define MAX_OUT_BYTES    ((size_t)2 << 20)   /* replies that the socket has not taken */
#define FLUSH_BYTES      ((size_t)256 << 10) /* replies are sent when so many wait, or all is read */

#define CHUNK_BYTES ((size_t)128 << 10) /* a worker receives into it */
#define LARGE_RECORD                                                                               \
    ((size_t)32 << 10) /* after such a record only the next one's head is received into the chunk  \
                        */
#define HEAD_BYTES  512
#define ARGS_INLINE 256 /* arguments up to this are kept in the call; more get a buffer */
#define REPLY_OFFSET                                                                               \
    32 /* of the results in a reply's memory: the header stands right before them */
#define SEND_IOV 64

struct worker;
struct call;
struct listener;

struct inbox_item {
    struct inbox_item *next;
    void (*deliver)(struct worker *w, struct inbox_item *item); /* on the worker */
};

/* What an epoll event points to. */
struct poll_target {
    void (*ready)(struct worker *w, struct poll_target *target, uint32_t events);
};

/* A piece of a reply, in the order of sending. */
struct out_segment {
    struct out_segment *next;
    const uint8_t *data;
    size_t len;
    struct call *last_of; /* the call that ends with this segment */
};

enum call_state { CALL_ON_WORKER, CALL_PARKED, CALL_OFFLOADED };

struct call {
    struct rpc_call pub; /* first: handlers see this */
    struct inbox_item inbox;
    struct call *next, *prev; /* free list, I/O queue, or the connection's parked calls */
    const struct rpc_proc *proc;
    const uint8_t *args_start, *args_end;
    struct rbuf *in, *out; /* the record, the reply; NULL while inline or in the chunk */
    struct out_segment seg;
    enum call_state state;
    enum rpc_verdict verdict; /* of the I/O thread */
    _Alignas(16) uint8_t args_copy[ARGS_INLINE];
    _Alignas(16) uint8_t reply[REPLY_OFFSET + RPC_REPLY_INLINE];
};

struct listener {
    struct poll_target poll;
    struct listener *next;
    struct worker *worker;
    int fd;
    atomic_uint refs;
    struct in_addr address;
    uint16_t port;
    int open_error;    /* of listener_open */
    uint64_t retry_ns; /* accepting again after a failure; 0: not waiting */
    struct listener *next_retry;
    const struct rpc_program *const *programs;
};

/* A list of connections that something is due for, in order of time. */
enum conn_deadline { DEADLINE_RECORD, DEADLINE_SEND, CONN_DEADLINES };
struct deadline_link {
    struct rpc_conn *prev, *next;
    uint64_t since_ns; /* 0: not in the list */
};

struct rpc_conn {
    struct poll_target poll;
    struct inbox_item inbox; /* on its way to its worker */
    struct worker *worker;
    struct listener *listener;
    int fd;
    struct in_addr client, local;
    uint16_t client_port;
    bool closed, buried;
    bool paused;                  /* not read: one of its own bounds is reached */
    bool starved;                 /* not read: memory is short */
    bool blocked;                 /* the socket takes no more */
    bool large;                   /* the last record was a large one */
    uint32_t events;              /* asked of epoll */
    unsigned refs;                /* calls alive */
    struct rpc_conn *prev, *next; /* all of the worker's */
    struct rpc_conn *next_dirty;
    bool dirty;
    struct deadline_link deadline[CONN_DEADLINES];

    struct record_in rec;
    uint64_t records;      /* completed */
    uint64_t records_seen; /* when its deadline was set */
    struct rbuf *stash;    /* received and not yet looked at, because the connection was paused */
    uint32_t stash_at, stash_end;

    struct call *parked_first, *parked_last;
    unsigned nparked, noffloaded;
    size_t parked_bytes;
    struct out_segment *out_first, *out_last;
    size_t out_bytes; /* waiting to be sent, and the calls that hold them */
};

/* Throttles that want to be run, of one worker. */
struct timers {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* `running` has ended */
    struct throttle **heap;
    size_t len, cap;
    struct throttle *running;
    pthread_t runner;
    _Atomic uint64_t next_ns; /* the earliest; UINT64_MAX: none */
};

/* Written by the worker only. */
struct worker_counters {
    _Atomic uint64_t closed_protocol, closed_idle, calls, replies, dropped, bad_calls, offloaded,
        bytes_in, bytes_out;
};

struct worker {
    struct rpc_server *server;
    pthread_t thread;
    bool started;
    unsigned index;
    int epoll_fd, event_fd;
    struct poll_target event_poll;
    _Atomic(struct inbox_item *) inbox;
    atomic_bool sleeping;
    atomic_bool relieved; /* memory is free again */
    struct timers timers;
    uint64_t now_ns; /* when this turn of the loop began */
    unsigned nalive; /* connections not yet freed */

    struct rpc_conn *conns, *dirty, *graveyard;
    struct {
        struct rpc_conn *first, *last;
    } deadlines[CONN_DEADLINES];
    struct listener *retry;
    struct call *free_calls;
    size_t nfree_calls;
    uint8_t *chunk;
    bool draining;
    uint64_t drain_until_ns;
    _Alignas(64) struct worker_counters counters;
};

struct io_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct call *first, *last;
    unsigned nidle, nthreads;
    bool stop;
    pthread_t threads[RPC_MAX_THREADS];
};

struct rpc_server {
    const struct rpc_program *const *programs;
    unsigned nworkers, nio, max_connections;
    uint64_t partial_ns;
    struct buffer_pool pool;
    struct io_pool io;
    struct worker *workers;
    pthread_mutex_t listen_lock;
    struct listener *listeners;
    unsigned next_listener;
    _Alignas(64) atomic_uint next_worker;
    atomic_uint connections;
    _Atomic uint64_t accepted, refused;
};

static inline void count(_Atomic uint64_t *counter, uint64_t n)
{
    /* One writer: no locked instruction needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* server.c */
void rpc_thread_enter(struct worker *w, unsigned slot);
struct worker *rpc_thread_worker(void);

/* worker.c */
bool worker_init(struct worker *w, struct rpc_server *server, unsigned index);
void *worker_main(void *arg);
void worker_destroy(struct worker *w);
/* From any thread. */
void worker_post(struct worker *w, struct inbox_item *item);
void worker_wake(struct worker *w);
/* Runs fn(w, arg) on the worker and waits for it. Not from a server thread. */
void worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg);
void worker_mark_dirty(struct worker *w, struct rpc_conn *c);

/* listener.c */
void listener_ready(struct worker *w, struct poll_target *target, uint32_t events);
void listener_retry(struct worker *w);
uint64_t listener_next_retry(const struct worker *w);
/* On its worker (worker_call): begins to accept; accepts no more. */
void listener_open(struct worker *w, void *l);
void listener_shut(struct worker *w, struct listener *l);
void listener_put(struct listener *l);

/* timers.c */
void timers_init(struct timers *q);
void timers_destroy(struct timers *q);
void timers_arm(struct timers *q, struct throttle *t, uint64_t due_ns, bool *earlier);
void timers_run(struct timers *q, uint64_t now_ns);

/* conn.c */
void conn_adopt(struct worker *w, struct inbox_item *item);
void conn_close(struct rpc_conn *c);
void conn_unref(struct rpc_conn *c);
void conn_queue(struct rpc_conn *c, struct call *call);
/* Sends, takes up reading again where it may; at the end of each turn for connections marked dirty.
 */
void conn_service(struct rpc_conn *c);
void conn_expire(struct worker *w);
uint64_t conn_next_deadline(const struct worker *w);

/* call.c */
void call_start(struct rpc_conn *c, const struct record *record);
void call_returned(struct worker *w, struct inbox_item *item);
/* On an I/O thread. */
void call_run_blocking(struct call *call);
/* The end of a call: sent, dropped or its connection gone. */
void call_free(struct call *call);
void call_cancel(struct call *call);
void call_cache_drain(struct worker *w);

/* io_pool.c */
bool io_pool_start(struct rpc_server *server, unsigned first_slot, unsigned threads);
void io_pool_push(struct io_pool *io, struct call *call);
void io_pool_stop(struct io_pool *io);

#endif
