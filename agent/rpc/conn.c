/*
 * A connection: receives records, sends replies, stops reading where a bound is reached. All on its
 * worker.
 *
 * Receiving is level-triggered, one readv a wake-up, so that busy connections take turns. Small
 * records are parsed where they lie in the worker's chunk; what the chunk ends in the middle of,
 * and large records, gather in a buffer of their own, into which the kernel writes directly.
 *
 * Reading stops ("paused") while the connection has too much parked, offloaded or unsent, and
 * ("starved") while the server is short of memory; a record already begun in a buffer is still
 * completed then, since only its end frees it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/rpc/internal.h"
#include "common/clock.h"

#define SHORT_PATIENCE_NS (2 * NS_PER_S)

static void deadline_clear(struct rpc_conn *c, enum conn_deadline which)
{
    struct deadline_link *link = &c->deadline[which];

    if (link->since_ns == 0)
        return;
    *(link->prev != NULL ? &link->prev->deadline[which].next : &c->worker->deadlines[which].first) =
        link->next;
    *(link->next != NULL ? &link->next->deadline[which].prev : &c->worker->deadlines[which].last) =
        link->prev;
    *link = (struct deadline_link){0};
}

static void deadline_set(struct rpc_conn *c, enum conn_deadline which)
{
    struct deadline_link *link = &c->deadline[which];
    struct rpc_conn **last = &c->worker->deadlines[which].last;

    if (link->since_ns != 0)
        return;
    link->since_ns = c->worker->now_ns;
    link->prev = *last;
    link->next = NULL;
    *(*last != NULL ? &(*last)->deadline[which].next : &c->worker->deadlines[which].first) = c;
    *last = c;
}

static void bury(struct rpc_conn *c)
{
    if (c->buried)
        return;
    c->buried = true;
    c->next = c->worker->graveyard;
    c->worker->graveyard = c;
}

void conn_unref(struct rpc_conn *c)
{
    if (--c->refs == 0 && c->closed)
        bury(c);
}

static void drop_output(struct rpc_conn *c)
{
    for (struct out_segment *seg = c->out_first, *next; seg != NULL; seg = next) {
        struct call *last_of = seg->last_of;

        next = seg->next;
        if (last_of != NULL)
            call_free(last_of);
    }
    c->out_first = c->out_last = NULL;
    c->out_bytes = 0;
}

static void wake_all(struct rpc_server *server)
{
    for (unsigned i = 0; i < server->nworkers; i++)
        worker_wake(&server->workers[i]);
}

/* Ends a connection; what its calls still do is thrown away as it comes back. */
void conn_close(struct rpc_conn *c)
{
    struct worker *w = c->worker;
    struct buffer_pool *pool = &w->server->pool;

    if (c->closed)
        return;
    c->closed = true;
    /* Closing is not enough: a process that is being started right now has the descriptor too. */
    epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    *(c->prev != NULL ? &c->prev->next : &w->conns) = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    for (enum conn_deadline d = 0; d < CONN_DEADLINES; d++)
        deadline_clear(c, d);
    record_reset(&c->rec, pool);
    rbuf_put(pool, c->stash);
    c->stash = NULL;
    drop_output(c);
    for (struct call *call = c->parked_first, *next; call != NULL; call = next) {
        next = call->next;
        call_cancel(call);
    }
    /* Workers that are to end wait for the last one, whose this may be. */
    if (atomic_fetch_sub(&w->server->connections, 1) == 1)
        wake_all(w->server);
    if (c->refs == 0)
        bury(c);
}

/* --- sending --- */

static void output_sent(struct rpc_conn *c, size_t n)
{
    count(&c->worker->counters.bytes_out, n);
    for (struct out_segment *seg = c->out_first; seg != NULL && n > 0; seg = c->out_first) {
        struct call *last_of = seg->last_of;

        if (n < seg->len) {
            seg->data += n;
            seg->len -= n;
            c->out_bytes -= n;
            return;
        }
        n -= seg->len;
        c->out_bytes -= seg->len;
        c->out_first = seg->next;
        if (c->out_first == NULL)
            c->out_last = NULL;
        if (last_of != NULL) {
            c->out_bytes -= sizeof(struct call);
            call_free(last_of);
        }
    }
}

static void conn_flush(struct rpc_conn *c)
{
    while (c->out_first != NULL && !c->blocked && !c->closed) {
        struct iovec iov[SEND_IOV];
        struct msghdr msg = {.msg_iov = iov};
        size_t total = 0;
        ssize_t n;

        for (struct out_segment *seg = c->out_first; seg != NULL && msg.msg_iovlen < SEND_IOV;
             seg = seg->next) {
            iov[msg.msg_iovlen++] =
                (struct iovec){.iov_base = (void *)(uintptr_t)seg->data, .iov_len = seg->len};
            total += seg->len;
        }
        n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EAGAIN)
                c->blocked = true;
            else if (errno != EINTR)
                conn_close(c);
            continue;
        }
        if ((size_t)n < total)
            c->blocked = true;
        if (n > 0) {
            deadline_clear(c, DEADLINE_SEND);
            output_sent(c, (size_t)n);
        }
    }
}

/* Takes over the call until its segment is sent. */
void conn_queue(struct rpc_conn *c, struct call *call)
{
    struct out_segment *seg = &call->seg;

    *(c->out_last != NULL ? &c->out_last->next : &c->out_first) = seg;
    c->out_last = seg;
    c->out_bytes += seg->len + sizeof(struct call);
    if (c->out_bytes >= FLUSH_BYTES && !c->blocked)
        conn_flush(c);
}

/* --- receiving --- */

/* The share of its bounds that a connection has while memory is plenty, half used, nearly used up:
 * many slow clients together then leave room for the others. What counts against the bounds is the
 * connection's own, so it always has an event to come that lets it go on. */
static unsigned bound_shift(const struct rpc_conn *c)
{
    const struct buffer_pool *pool = &c->worker->server->pool;
    size_t used = pool_used(pool);

    return used < pool->hard / 2 ? 0 : used < pool->hard / 4 * 3 ? 3 : 6;
}

/* True at `quarters` quarters of any bound. */
static bool over(const struct rpc_conn *c, unsigned quarters)
{
    unsigned shift = bound_shift(c);

    return c->nparked >= (MAX_PARKED >> shift) * quarters / 4 ||
           c->parked_bytes >= (MAX_PARKED_BYTES >> shift) / 4 * quarters ||
           c->noffloaded >= (MAX_OFFLOADED >> shift) * quarters / 4 ||
           c->out_bytes >= (MAX_OUT_BYTES >> shift) / 4 * quarters || c->worker->draining;
}

static void got_record(struct rpc_conn *c, const struct record *record)
{
    c->records++;
    c->large = record->len >= LARGE_RECORD;
    call_start(c, record);
}

/* Keeps what was received and may not be looked at yet. */
static void stash(struct rpc_conn *c, const uint8_t *at, const uint8_t *end)
{
    c->stash = rbuf_get(&c->worker->server->pool, (size_t)(end - at), true);
    if (c->stash == NULL) {
        conn_close(c);
        return;
    }
    memcpy(c->stash->data, at, (size_t)(end - at));
    c->stash_at = 0;
    c->stash_end = (uint32_t)(end - at);
}

static void conn_input(struct rpc_conn *c, const uint8_t *at, const uint8_t *end)
{
    struct record record;

    while (at < end && !c->closed) {
        if (over(c, 4)) {
            c->paused = true;
            stash(c, at, end);
            return;
        }
        switch (record_next(&c->rec, &c->worker->server->pool, &at, end, &record)) {
        case RECORD_READY:
            got_record(c, &record);
            break;
        case RECORD_MORE:
            break;
        case RECORD_BAD:
            count(&c->worker->counters.closed_protocol, 1);
            conn_close(c);
            break;
        case RECORD_NOMEM:
            conn_close(c);
            break;
        }
    }
}

static void conn_receive(struct rpc_conn *c)
{
    struct worker *w = c->worker;
    struct iovec iov[2];
    struct record record;
    uint8_t *where = NULL;
    size_t space = record_space(&c->rec, &where);
    size_t head = pool_tight(&w->server->pool) ? 0 : c->large ? HEAD_BYTES : CHUNK_BYTES;
    ssize_t n;

    if (space + head == 0) {
        c->starved = true;
        /* Those whose connections hold the memory have less patience from now on. */
        wake_all(w->server);
        return;
    }
    iov[0] = (struct iovec){.iov_base = where, .iov_len = space};
    iov[1] = (struct iovec){.iov_base = w->chunk, .iov_len = head};
    n = space == 0 ? read(c->fd, w->chunk, head) : readv(c->fd, iov, 2);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            conn_close(c);
        return;
    }
    count(&w->counters.bytes_in, (uint64_t)n);
    if (space > 0) {
        size_t direct = (size_t)n < space ? (size_t)n : space;

        if (record_received(&c->rec, direct, &record) == RECORD_READY)
            got_record(c, &record);
        n -= (ssize_t)direct;
    }
    if (n > 0)
        conn_input(c, w->chunk, w->chunk + n);
}

static void update_deadlines(struct rpc_conn *c)
{
    /* Each record has its time anew; one that we do not read on with is not the client's delay. */
    if (!record_partial(&c->rec) || c->paused || c->starved || c->records_seen != c->records)
        deadline_clear(c, DEADLINE_RECORD);
    if (record_partial(&c->rec) && !c->paused && !c->starved) {
        deadline_set(c, DEADLINE_RECORD);
        c->records_seen = c->records;
    }
    if (c->out_first != NULL)
        deadline_set(c, DEADLINE_SEND);
}

static void update_events(struct rpc_conn *c)
{
    struct epoll_event e = {.events = EPOLLRDHUP, .data.ptr = &c->poll};

    if (!c->paused && !c->starved)
        e.events |= EPOLLIN;
    if (c->blocked)
        e.events |= EPOLLOUT;
    if (e.events == c->events)
        return;
    if (epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_MOD, c->fd, &e) == 0)
        c->events = e.events;
    else
        conn_close(c);
}

void conn_service(struct rpc_conn *c)
{
    for (;;) {
        struct rbuf *buf;

        conn_flush(c);
        if (c->closed)
            return;
        c->paused = over(c, c->paused ? 3 : 4);
        if (c->starved)
            c->starved = pool_tight(&c->worker->server->pool);
        buf = c->stash;
        if (c->paused || buf == NULL)
            break;
        c->stash = NULL;
        conn_input(c, buf->data + c->stash_at, buf->data + c->stash_end);
        rbuf_put(&c->worker->server->pool, buf);
    }
    update_deadlines(c);
    update_events(c);
}

static void conn_ready(struct worker *w, struct poll_target *target, uint32_t events)
{
    struct rpc_conn *c =
        (struct rpc_conn *)(void *)((char *)target - offsetof(struct rpc_conn, poll));

    if (c->closed)
        return;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        conn_close(c);
        return;
    }
    if ((events & EPOLLOUT) != 0)
        c->blocked = false;
    if (c->paused || c->starved) {
        /* The client has gone: what it has parked must not be charged. */
        if ((events & EPOLLRDHUP) != 0) {
            conn_close(c);
            return;
        }
    } else if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
        conn_receive(c);
    }
    if (!c->closed)
        worker_mark_dirty(w, c);
}

void conn_adopt(struct worker *w, struct inbox_item *item)
{
    struct rpc_conn *c =
        (struct rpc_conn *)(void *)((char *)item - offsetof(struct rpc_conn, inbox));
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = &c->poll};

    c->poll.ready = conn_ready;
    c->events = e.events;
    c->next = w->conns;
    if (c->next != NULL)
        c->next->prev = c;
    w->conns = c;
    w->nalive++;
    if (w->draining || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) != 0)
        conn_close(c);
}

/* How long half a record or an untaken reply may hold its memory: shorter while others wait for it,
 * so that clients that only begin to speak cannot silence the rest. */
static uint64_t patience(const struct worker *w)
{
    return w->server->partial_ns > SHORT_PATIENCE_NS && pool_awaited(&w->server->pool)
               ? SHORT_PATIENCE_NS
               : w->server->partial_ns;
}

uint64_t conn_next_deadline(const struct worker *w)
{
    uint64_t first = UINT64_MAX, wait_ns = patience(w);

    for (enum conn_deadline d = 0; d < CONN_DEADLINES; d++) {
        const struct rpc_conn *c = w->deadlines[d].first;

        if (c != NULL && c->deadline[d].since_ns + wait_ns < first)
            first = c->deadline[d].since_ns + wait_ns;
    }
    return first;
}

void conn_expire(struct worker *w)
{
    uint64_t wait_ns = patience(w);

    for (enum conn_deadline d = 0; d < CONN_DEADLINES; d++) {
        struct rpc_conn *c;

        while ((c = w->deadlines[d].first) != NULL &&
               c->deadline[d].since_ns + wait_ns <= w->now_ns) {
            count(&w->counters.closed_idle, 1);
            conn_close(c);
        }
    }
}
