/*
 * The server: start, stop, endpoints, statistics, and the transport's side of the throttles.
 *
 * A process has one server at a time: throttles find it through `current`. Start, stop, listen and
 * unlisten are for the program's own threads, never for a handler.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/rpc/internal.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define DEFAULT_IO_THREADS  16
#define DEFAULT_CONNECTIONS 4096
#define DEFAULT_MEMORY      ((size_t)512 << 20)
#define DEFAULT_PARTIAL_S   60

static pthread_rwlock_t current_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct rpc_server *current;

static _Thread_local struct worker *thread_worker;
static _Thread_local unsigned thread_slot;

void rpc_thread_enter(struct worker *w, unsigned slot)
{
    thread_worker = w;
    thread_slot = slot;
}

struct worker *rpc_thread_worker(void)
{
    return thread_worker;
}

unsigned rpc_thread_slot(void)
{
    return thread_slot;
}

/* --- throttles --- */

static void throttle_release(struct qos_request *request)
{
    struct call *call = (struct call *)(void *)((char *)request - offsetof(struct call, pub.qos));

    worker_post(call->pub.conn->worker, &call->inbox);
}

static void throttle_arm(struct throttle *t, uint64_t due_ns)
{
    bool sooner;

    pthread_rwlock_rdlock(&current_lock);
    if (current != NULL) {
        /* A throttle has the same worker always; its address is as good a name as any. */
        struct worker *w = &current->workers[((uintptr_t)t >> 6) % current->nworkers];

        timers_arm(&w->timers, t, due_ns, &sooner);
        if (sooner && w != thread_worker)
            worker_wake(w);
    }
    pthread_rwlock_unlock(&current_lock);
}

const struct throttle_owner rpc_throttle_owner = {.release = throttle_release, .arm = throttle_arm};

/* --- start and stop --- */

static void memory_relieved(void *arg)
{
    struct rpc_server *server = arg;

    for (unsigned i = 0; i < server->nworkers; i++) {
        atomic_store(&server->workers[i].relieved, true);
        worker_wake(&server->workers[i]);
    }
}

static unsigned cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void set_sizes(struct rpc_server *server, const struct rpc_server_config *config)
{
    /* Slot 0 is for threads that are not the server's. */
    unsigned slots = RPC_MAX_THREADS - 1;

    server->nworkers = config->workers != 0 ? config->workers : cores();
    if (server->nworkers > slots / 2)
        server->nworkers = slots / 2;
    server->nio = config->io_threads != 0 ? config->io_threads : DEFAULT_IO_THREADS;
    if (server->nio > slots - server->nworkers)
        server->nio = slots - server->nworkers;
    server->max_connections =
        config->max_connections != 0 ? config->max_connections : DEFAULT_CONNECTIONS;
    server->partial_ns =
        (config->idle_timeout_s != 0 ? config->idle_timeout_s : DEFAULT_PARTIAL_S) * NS_PER_S;
}

static void begin_drain(struct worker *w, void *arg)
{
    w->draining = true;
    w->drain_until_ns = *(const uint64_t *)arg;
    for (struct rpc_conn *c = w->conns; c != NULL; c = c->next)
        worker_mark_dirty(w, c);
}

static void shut_listeners(struct worker *w, void *arg)
{
    struct rpc_server *server = arg;

    for (struct listener *l = server->listeners; l != NULL; l = l->next) {
        if (l->worker == w)
            listener_shut(w, l);
    }
}

static void server_free(struct rpc_server *server)
{
    for (struct listener *l = server->listeners, *next; l != NULL; l = next) {
        next = l->next;
        listener_put(l);
    }
    for (unsigned i = 0; i < server->nworkers; i++)
        worker_destroy(&server->workers[i]);
    pool_destroy(&server->pool);
    pthread_mutex_destroy(&server->listen_lock);
    free(server->workers);
    free(server);
}

void rpc_server_stop(struct rpc_server *server, unsigned drain_s)
{
    uint64_t until = clock_mono_ns() + drain_s * NS_PER_S;

    /* In two steps: a worker that still accepts may hand connections to any other. */
    for (unsigned i = 0; i < server->nworkers; i++) {
        if (server->workers[i].started)
            worker_call(&server->workers[i], shut_listeners, server);
    }
    for (unsigned i = 0; i < server->nworkers; i++) {
        if (server->workers[i].started)
            worker_call(&server->workers[i], begin_drain, &until);
    }
    for (unsigned i = 0; i < server->nworkers; i++) {
        if (server->workers[i].started)
            pthread_join(server->workers[i].thread, NULL);
    }
    io_pool_stop(&server->io);
    pthread_rwlock_wrlock(&current_lock);
    current = NULL;
    pthread_rwlock_unlock(&current_lock);
    server_free(server);
}

/* Signals are the program's own threads' business: the server's take none. */
static bool start_threads(struct rpc_server *server)
{
    sigset_t all, before;
    bool ok;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = io_pool_start(server, 1 + server->nworkers, server->nio);
    for (unsigned i = 0; i < server->nworkers && ok; i++) {
        struct worker *w = &server->workers[i];

        w->started = pthread_create(&w->thread, NULL, worker_main, w) == 0;
        ok = w->started;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

struct rpc_server *rpc_server_start(const struct rpc_server_config *config)
{
    struct rpc_server *server;
    bool busy, ok = true;

    pthread_rwlock_rdlock(&current_lock);
    busy = current != NULL;
    pthread_rwlock_unlock(&current_lock);
    if (busy) {
        log_error("a process has one RPC server only");
        return NULL;
    }
    server = xcalloc(1, sizeof(*server));
    server->programs = config->programs;
    set_sizes(server, config);
    pool_init(&server->pool, config->max_memory != 0 ? config->max_memory : DEFAULT_MEMORY,
              memory_relieved, server);
    pthread_mutex_init(&server->listen_lock, NULL);
    server->workers = aligned_alloc(64, server->nworkers * sizeof(struct worker));
    if (server->workers == NULL)
        fatal("out of memory");
    memset(server->workers, 0, server->nworkers * sizeof(struct worker));
    for (unsigned i = 0; i < server->nworkers; i++)
        ok &= worker_init(&server->workers[i], server, i);
    pthread_rwlock_wrlock(&current_lock);
    current = server;
    pthread_rwlock_unlock(&current_lock);
    if (ok && start_threads(server))
        return server;
    log_error("cannot start the RPC server: errno %d", errno);
    rpc_server_stop(server, 0);
    return NULL;
}

/* --- endpoints --- */

static int open_listener(struct in_addr address, uint16_t port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, err;

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    err = -errno;
    close(fd);
    return err;
}

static struct listener **find_listener(struct rpc_server *server, struct in_addr address,
                                       uint16_t port)
{
    struct listener **at = &server->listeners;

    while (*at != NULL && ((*at)->address.s_addr != address.s_addr || (*at)->port != port))
        at = &(*at)->next;
    return at;
}

/* Under listen_lock. */
static int add_listener(struct rpc_server *server, struct in_addr address, uint16_t port,
                        const struct rpc_program *const *programs)
{
    int fd = open_listener(address, port), err;
    struct listener *l;

    if (fd < 0)
        return fd;
    l = xcalloc(1, sizeof(*l));
    l->poll.ready = listener_ready;
    l->fd = fd;
    l->address = address;
    l->port = port;
    l->programs = programs != NULL ? programs : server->programs;
    l->worker = &server->workers[server->next_listener++ % server->nworkers];
    atomic_init(&l->refs, 1);
    worker_call(l->worker, listener_open, l);
    if (l->open_error != 0) {
        err = l->open_error;
        close(fd);
        free(l);
        return err;
    }
    l->next = server->listeners;
    server->listeners = l;
    return 0;
}

int rpc_listen(struct rpc_server *server, const char *address, uint16_t port,
               const struct rpc_program *const *programs)
{
    struct in_addr in;
    int err = 0;

    if (inet_pton(AF_INET, address, &in) != 1)
        return -EINVAL;
    pthread_mutex_lock(&server->listen_lock);
    if (*find_listener(server, in, port) == NULL)
        err = add_listener(server, in, port, programs);
    pthread_mutex_unlock(&server->listen_lock);
    return err;
}

static void shut_one(struct worker *w, void *arg)
{
    listener_shut(w, arg);
}

static void close_connections(struct worker *w, void *arg)
{
    for (struct rpc_conn *c = w->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (c->listener == arg)
            conn_close(c);
    }
}

int rpc_unlisten(struct rpc_server *server, const char *address, uint16_t port)
{
    struct listener **at, *l;
    struct in_addr in;

    if (inet_pton(AF_INET, address, &in) != 1)
        return -EINVAL;
    pthread_mutex_lock(&server->listen_lock);
    at = find_listener(server, in, port);
    l = *at;
    if (l != NULL)
        *at = l->next;
    pthread_mutex_unlock(&server->listen_lock);
    if (l == NULL)
        return -ENOENT;
    /* First no new ones; those on their way are in the inboxes before the second order. */
    worker_call(l->worker, shut_one, l);
    for (unsigned i = 0; i < server->nworkers; i++)
        worker_call(&server->workers[i], close_connections, l);
    listener_put(l);
    return 0;
}

/* --- statistics --- */

#define SUM(field)                                                                                 \
    do {                                                                                           \
        for (unsigned i_ = 0; i_ < server->nworkers; i_++)                                         \
            out->field +=                                                                          \
                atomic_load_explicit(&server->workers[i_].counters.field, memory_order_relaxed);   \
    } while (0)

void rpc_get_stats(const struct rpc_server *server, struct rpc_stats *out)
{
    *out = (struct rpc_stats){
        .connections = atomic_load(&server->connections),
        .accepted = atomic_load(&server->accepted),
        .refused = atomic_load(&server->refused),
        .memory = pool_used(&server->pool),
    };
    SUM(closed_protocol);
    SUM(closed_idle);
    SUM(calls);
    SUM(replies);
    SUM(dropped);
    SUM(bad_calls);
    SUM(offloaded);
    SUM(bytes_in);
    SUM(bytes_out);
}
