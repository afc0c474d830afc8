/*
 * A worker: one thread, one epoll instance, its connections. A turn of its loop takes the ready
 * connections, runs the throttles that are due, takes what other threads sent back, then sends all
 * that has gathered.
 *
 * The inbox is a lock-free stack that is taken whole and turned round. A sender wakes the worker
 * only when it sleeps: the worker says so before its last look into the inbox, senders look after
 * their push (both sequentially consistent), so one of the two sees the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/rpc/internal.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define EVENTS_PER_TURN 128

void worker_wake(struct worker *w)
{
    uint64_t one = 1;

    if (atomic_load(&w->sleeping) && atomic_exchange(&w->sleeping, false) &&
        write(w->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        log_error("cannot wake a worker: errno %d", errno);
}

void worker_post(struct worker *w, struct inbox_item *item)
{
    item->next = atomic_load_explicit(&w->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&w->inbox, &item->next, item))
        ;
    if (rpc_thread_worker() != w)
        worker_wake(w);
}

static void take_inbox(struct worker *w)
{
    struct inbox_item *stack, *list = NULL, *next;

    if (atomic_load_explicit(&w->inbox, memory_order_relaxed) == NULL)
        return;
    for (stack = atomic_exchange(&w->inbox, NULL); stack != NULL; stack = next) {
        next = stack->next;
        stack->next = list;
        list = stack;
    }
    for (; list != NULL; list = next) {
        next = list->next;
        list->deliver(w, list);
    }
}

struct command {
    struct inbox_item item;
    void (*fn)(struct worker *w, void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
};

static void run_command(struct worker *w, struct inbox_item *item)
{
    struct command *command = (struct command *)(void *)item;

    command->fn(w, command->arg);
    pthread_mutex_lock(&command->lock);
    command->done = true;
    pthread_cond_signal(&command->cond);
    pthread_mutex_unlock(&command->lock);
}

void worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg)
{
    struct command command = {.item.deliver = run_command, .fn = fn, .arg = arg};

    pthread_mutex_init(&command.lock, NULL);
    pthread_cond_init(&command.cond, NULL);
    worker_post(w, &command.item);
    pthread_mutex_lock(&command.lock);
    while (!command.done)
        pthread_cond_wait(&command.cond, &command.lock);
    pthread_mutex_unlock(&command.lock);
    pthread_cond_destroy(&command.cond);
    pthread_mutex_destroy(&command.lock);
}

void worker_mark_dirty(struct worker *w, struct rpc_conn *c)
{
    if (c->dirty)
        return;
    c->dirty = true;
    c->next_dirty = w->dirty;
    w->dirty = c;
}

static void service_dirty(struct worker *w)
{
    struct rpc_conn *c;

    while ((c = w->dirty) != NULL) {
        w->dirty = c->next_dirty;
        c->dirty = false;
        if (!c->closed)
            conn_service(c);
    }
}

static void free_buried(struct worker *w)
{
    struct rpc_conn *c;

    while ((c = w->graveyard) != NULL) {
        w->graveyard = c->next;
        w->nalive--;
        listener_put(c->listener);
        free(c);
    }
}

static void feed_starved(struct worker *w)
{
    if (!atomic_load_explicit(&w->relieved, memory_order_relaxed) ||
        !atomic_exchange(&w->relieved, false))
        return;
    for (struct rpc_conn *c = w->conns; c != NULL; c = c->next) {
        if (c->starved)
            worker_mark_dirty(w, c);
    }
}

/* Closes connections that have nothing left to finish, at the end of the time all. */
static void drain(struct worker *w)
{
    bool over = w->now_ns >= w->drain_until_ns;

    for (struct rpc_conn *c = w->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (over || c->refs == 0)
            conn_close(c);
    }
}

static void event_ready(struct worker *w, struct poll_target *target, uint32_t events)
{
    uint64_t n;

    (void)target;
    (void)events;
    if (read(w->event_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
        log_error("eventfd: errno %d", errno);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Not before the last connection of all workers: what waits at a limit on one may need another's
 * timer. */
static bool is_done(const struct worker *w)
{
    return w->draining && w->nalive == 0 && atomic_load(&w->server->connections) == 0;
}

static int wait_events(struct worker *w, struct epoll_event *events)
{
    uint64_t due = earlier(conn_next_deadline(w), listener_next_retry(w));
    struct timespec ts, *timeout = NULL;
    int n;

    if (w->draining)
        due = earlier(due, w->drain_until_ns);
    atomic_store(&w->sleeping, true);
    due = earlier(due, atomic_load(&w->timers.next_ns));
    if (atomic_load(&w->inbox) != NULL || atomic_load(&w->relieved) || is_done(w))
        due = 0;
    if (due != UINT64_MAX) {
        uint64_t now = due == 0 ? 0 : clock_mono_ns();
        uint64_t left = due > now ? due - now : 0;

        ts = (struct timespec){.tv_sec = (time_t)(left / NS_PER_S),
                               .tv_nsec = (long)(left % NS_PER_S)};
        timeout = &ts;
    }
    n = epoll_pwait2(w->epoll_fd, events, EVENTS_PER_TURN, timeout, NULL);
    atomic_store(&w->sleeping, false);
    if (n < 0 && errno != EINTR)
        fatal("epoll_pwait2: errno %d", errno);
    return n;
}

static void turn(struct worker *w)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int n = wait_events(w, events);

    w->now_ns = clock_mono_ns();
    for (int i = 0; i < n; i++) {
        struct poll_target *target = events[i].data.ptr;

        target->ready(w, target, events[i].events);
    }
    if (atomic_load_explicit(&w->timers.next_ns, memory_order_relaxed) != UINT64_MAX)
        timers_run(&w->timers, clock_mono_ns());
    take_inbox(w);
    feed_starved(w);
    listener_retry(w);
    service_dirty(w);
    conn_expire(w);
    if (w->draining)
        drain(w);
    free_buried(w);
}

void *worker_main(void *arg)
{
    struct worker *w = arg;

    /* The kernel's default lets timers of a thread be 50 us late. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    prctl(PR_SET_NAME, "rpc-worker");
    rpc_thread_enter(w, 1 + w->index);
    pool_thread_start(&w->server->pool);
    while (!is_done(w))
        turn(w);
    call_cache_drain(w);
    pool_thread_end();
    return NULL;
}

bool worker_init(struct worker *w, struct rpc_server *server, unsigned index)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &w->event_poll};

    w->server = server;
    w->index = index;
    w->event_poll.ready = event_ready;
    timers_init(&w->timers);
    w->chunk = xcalloc(1, CHUNK_BYTES);
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return w->epoll_fd >= 0 && w->event_fd >= 0 &&
           epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->event_fd, &e) == 0;
}

void worker_destroy(struct worker *w)
{
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    if (w->event_fd >= 0)
        close(w->event_fd);
    timers_destroy(&w->timers);
    free(w->chunk);
}
