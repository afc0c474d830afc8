/*
 * The life of a call: parsed, dispatched, run, perhaps parked or offloaded, answered, freed. Runs
 * on the connection's worker, but for call_run_blocking.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/rpc/internal.h"
#include "agent/rpc/message.h"
#include "common/clock.h"
#include "common/log.h"

#define FREE_CALLS 1024 /* kept by a worker */

static struct call *call_of(struct rpc_call *pub)
{
    return (struct call *)pub;
}

static uint8_t *reply_area(struct call *call)
{
    return call->out != NULL ? call->out->data : call->reply;
}

static void reset_cursors(struct call *call)
{
    uint8_t *area = reply_area(call) + REPLY_OFFSET;
    size_t room = call->out != NULL ? call->out->size - REPLY_OFFSET : RPC_REPLY_INLINE;

    call->pub.args = (struct xdr_in){.at = call->args_start, .end = call->args_end};
    call->pub.res = (struct xdr_out){.start = area, .at = area, .end = area + room};
}

static struct call *call_get(struct rpc_conn *c)
{
    struct worker *w = c->worker;
    struct call *call = w->free_calls;

    if (call != NULL) {
        w->free_calls = call->next;
        w->nfree_calls--;
    } else {
        call = aligned_alloc(16, sizeof(*call));
        if (call == NULL)
            return NULL;
    }
    /* args_copy and reply are filled before they are read. */
    memset(call, 0, offsetof(struct call, args_copy));
    call->pub.conn = c;
    call->pub.server = w->server;
    call->inbox.deliver = call_returned;
    pool_charge(&w->server->pool, sizeof(*call));
    c->refs++;
    return call;
}

void call_free(struct call *call)
{
    struct rpc_conn *c = call->pub.conn;
    struct worker *w = c->worker;

    rbuf_put(&w->server->pool, call->in);
    rbuf_put(&w->server->pool, call->out);
    pool_uncharge(&w->server->pool, sizeof(*call));
    if (w->nfree_calls < FREE_CALLS) {
        call->next = w->free_calls;
        w->free_calls = call;
        w->nfree_calls++;
    } else {
        free(call);
    }
    conn_unref(c);
}

void call_cache_drain(struct worker *w)
{
    for (struct call *call = w->free_calls, *next; call != NULL; call = next) {
        next = call->next;
        free(call);
    }
    w->free_calls = NULL;
}

/* The handler will not run again. */
static void call_done(struct call *call)
{
    if (call->pub.cleanup != NULL) {
        call->pub.cleanup(&call->pub);
        call->pub.cleanup = NULL;
    }
}

static void send_bytes(struct call *call, const uint8_t *data, size_t len)
{
    struct rpc_conn *c = call->pub.conn;

    /* The request is not needed any more, its memory may serve the next one while the reply waits.
     */
    rbuf_put(&c->worker->server->pool, call->in);
    call->in = NULL;
    call->seg = (struct out_segment){.data = data, .len = len, .last_of = call};
    count(&c->worker->counters.replies, 1);
    conn_queue(c, call);
}

static void answer_accepted(struct call *call, enum rpc_accept_stat stat)
{
    uint8_t *header = reply_area(call) + REPLY_OFFSET - RPC_ACCEPTED_HEADER;
    size_t results = stat == RPC_SUCCESS ? xdr_written(&call->pub.res) : 0;

    if (stat != RPC_SUCCESS)
        count(&call->pub.conn->worker->counters.bad_calls, 1);
    rpc_put_accepted(header, call->pub.xid, stat, results);
    send_bytes(call, header, RPC_ACCEPTED_HEADER + results);
}

static void answer_auth_error(struct call *call, enum rpc_auth_stat why)
{
    count(&call->pub.conn->worker->counters.bad_calls, 1);
    send_bytes(call, call->reply, rpc_put_denied_auth(call->reply, call->pub.xid, why));
}

/* Acts on a final verdict. */
static void answer(struct call *call, enum rpc_verdict verdict)
{
    struct rpc_conn *c = call->pub.conn;

    if (c->closed || verdict == RPC_DROP) {
        count(&c->worker->counters.dropped, 1);
        call_free(call);
        return;
    }
    switch (verdict) {
    case RPC_REPLY:
        answer_accepted(call, call->pub.res.failed ? RPC_ACCEPT_SYSTEM_ERR : RPC_SUCCESS);
        break;
    case RPC_GARBAGE_ARGS:
        answer_accepted(call, RPC_ACCEPT_GARBAGE_ARGS);
        break;
    case RPC_AUTH_TOOWEAK:
        answer_auth_error(call, RPC_AUTHSTAT_TOOWEAK);
        break;
    default:
        answer_accepted(call, RPC_ACCEPT_SYSTEM_ERR);
        break;
    }
}

/* Makes the call independent of the worker's chunk, in which its record may lie. */
static bool detach(struct call *call)
{
    size_t len = (size_t)(call->args_end - call->args_start);

    if (call->in != NULL || len == 0)
        return true;
    if (call->args_start == call->args_copy)
        return true;
    if (len <= ARGS_INLINE) {
        memcpy(call->args_copy, call->args_start, len);
        call->args_start = call->args_copy;
    } else {
        call->in = rbuf_get(&call->pub.server->pool, len, true);
        if (call->in == NULL)
            return false;
        memcpy(call->in->data, call->args_start, len);
        call->args_start = call->in->data;
    }
    call->args_end = call->args_start + len;
    return true;
}

static void park(struct call *call)
{
    struct rpc_conn *c = call->pub.conn;

    call->state = CALL_PARKED;
    call->next = NULL;
    call->prev = c->parked_last;
    *(c->parked_last != NULL ? &c->parked_last->next : &c->parked_first) = call;
    c->parked_last = call;
    c->nparked++;
    c->parked_bytes += call->pub.record_len;
    if (!detach(call))
        conn_close(c);
}

static void unpark(struct call *call)
{
    struct rpc_conn *c = call->pub.conn;

    *(call->prev != NULL ? &call->prev->next : &c->parked_first) = call->next;
    *(call->next != NULL ? &call->next->prev : &c->parked_last) = call->prev;
    call->next = call->prev = NULL;
    call->state = CALL_ON_WORKER;
    c->nparked--;
    c->parked_bytes -= call->pub.record_len;
}

static void offload(struct call *call)
{
    struct rpc_conn *c = call->pub.conn;

    if (!detach(call)) {
        call_done(call);
        answer(call, RPC_SYSTEM_ERR);
        return;
    }
    call->state = CALL_OFFLOADED;
    c->noffloaded++;
    count(&c->worker->counters.offloaded, 1);
    io_pool_push(&c->worker->server->io, call);
}

static void run(struct call *call)
{
    enum rpc_verdict verdict;

    reset_cursors(call);
    verdict = call->proc->run(&call->pub);
    switch (verdict) {
    case RPC_PARKED:
        park(call);
        break;
    case RPC_OFFLOAD:
        offload(call);
        break;
    default:
        call_done(call);
        answer(call, verdict);
        break;
    }
}

void call_run_blocking(struct call *call)
{
    call->pub.may_block = true;
    reset_cursors(call);
    call->verdict = call->proc->run(&call->pub);
    if (call->verdict == RPC_PARKED || call->verdict == RPC_OFFLOAD)
        fatal("%s: a handler on an I/O thread must come to an end", call->proc->name);
    call_done(call);
    worker_post(call->pub.conn->worker, &call->inbox);
}

/* Ends a call whose connection has closed; one that was let go and did not move is paid back. */
static void abandon(struct call *call, bool charged)
{
    if (charged)
        throttle_refund(call->pub.throttle, call->pub.qos.cost);
    call_done(call);
    count(&call->pub.conn->worker->counters.dropped, 1);
    call_free(call);
}

void call_returned(struct worker *w, struct inbox_item *item)
{
    struct call *call = (struct call *)(void *)((char *)item - offsetof(struct call, inbox));
    struct rpc_conn *c = call->pub.conn;

    if (call->state == CALL_OFFLOADED) {
        call->state = CALL_ON_WORKER;
        c->noffloaded--;
        answer(call, call->verdict);
    } else {
        unpark(call);
        if (c->closed) {
            abandon(call, true);
            return;
        }
        run(call);
    }
    if (!c->closed)
        worker_mark_dirty(w, c);
}

void call_cancel(struct call *call)
{
    /* One that has just been let go is in the inbox and ends when it comes out. */
    if (!throttle_cancel(call->pub.throttle, &call->pub.qos, clock_mono_ns()))
        return;
    unpark(call);
    abandon(call, false);
}

bool rpc_reserve(struct rpc_call *pub, size_t bytes)
{
    struct call *call = call_of(pub);
    size_t written = xdr_written(&pub->res);
    struct rbuf *buf;

    if (pub->res.failed)
        return false;
    if (xdr_room(&pub->res) >= bytes)
        return true;
    if (bytes > RBUF_MAX)
        return false;
    buf = rbuf_get(&pub->server->pool, REPLY_OFFSET + written + bytes, false);
    if (buf == NULL)
        return false;
    memcpy(buf->data + REPLY_OFFSET, pub->res.start, written);
    rbuf_put(&pub->server->pool, call->out);
    call->out = buf;
    pub->res = (struct xdr_out){.start = buf->data + REPLY_OFFSET,
                                .at = buf->data + REPLY_OFFSET + written,
                                .end = buf->data + buf->size};
    return true;
}

/* --- dispatch --- */

static const struct rpc_program *find_program(const struct rpc_conn *c, uint32_t prog)
{
    const struct rpc_program *const *p = c->listener->programs;

    while (*p != NULL && (*p)->prog != prog)
        p++;
    return *p;
}

/* Finds the procedure; answers the call itself and returns false when there is none. */
static bool dispatch(struct call *call)
{
    const struct rpc_program *program = find_program(call->pub.conn, call->pub.prog);
    const struct rpc_proc *procs = NULL;
    size_t n = 0;

    if (program == NULL) {
        answer_accepted(call, RPC_PROG_UNAVAIL);
        return false;
    }
    if (call->pub.vers >= program->vers_low && call->pub.vers <= program->vers_high)
        procs = program->procs(call->pub.vers, &n);
    if (procs == NULL) {
        count(&call->pub.conn->worker->counters.bad_calls, 1);
        send_bytes(call, call->reply,
                   rpc_put_prog_mismatch(call->reply, call->pub.xid, program->vers_low,
                                         program->vers_high));
        return false;
    }
    if (call->pub.proc >= n || procs[call->pub.proc].run == NULL) {
        answer_accepted(call, RPC_PROC_UNAVAIL);
        return false;
    }
    call->proc = &procs[call->pub.proc];
    return true;
}

void call_start(struct rpc_conn *c, const struct record *record)
{
    struct worker *w = c->worker;
    struct call *call = call_get(c);
    enum rpc_auth_stat why;

    if (call == NULL) {
        rbuf_put(&w->server->pool, record->buf);
        conn_close(c);
        return;
    }
    call->in = record->buf;
    call->pub.record_len = record->len;
    call->pub.arrived_ns = w->now_ns;
    call->pub.client = c->client;
    call->pub.client_port = c->client_port;
    call->pub.local = c->local;
    count(&w->counters.calls, 1);
    switch (rpc_parse_call(&call->pub, record->data, record->len, &why)) {
    case RPC_PARSED_CALL:
        call->args_start = call->pub.args.at;
        call->args_end = call->pub.args.end;
        if (dispatch(call))
            run(call);
        break;
    case RPC_PARSED_MISMATCH:
        count(&w->counters.bad_calls, 1);
        send_bytes(call, call->reply, rpc_put_denied_version(call->reply, call->pub.xid));
        break;
    case RPC_PARSED_DENIED:
        answer_auth_error(call, why);
        break;
    case RPC_PARSED_GARBAGE:
        count(&w->counters.bad_calls, 1);
        count(&w->counters.closed_protocol, 1);
        conn_close(c);
        call_free(call);
        break;
    }
}
