/* Record marking, see record.h. */
#include "agent/rpc/record.h"

#include <arpa/inet.h>
#include <string.h>

#include "agent/rpc/rpc.h"

#define LAST_FRAGMENT UINT32_C(0x80000000)
/* A record in fragments of one byte each is the worst that makes sense; more are empty ones. */
#define MAX_FRAGMENTS RPC_MAX_RECORD

static uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return ntohl(v);
}

/* Makes room for `need` bytes, keeping what is there. Later fragments at least double it, so that
 * joining many costs no more than copying twice. */
static bool make_room(struct record_in *r, struct buffer_pool *pool, size_t need)
{
    struct rbuf *buf;

    if (need == 0 || (r->buf != NULL && r->buf->size >= need))
        return true;
    if (r->buf != NULL && need < 2 * (size_t)r->buf->size)
        need =
            2 * (size_t)r->buf->size < RPC_MAX_RECORD ? 2 * (size_t)r->buf->size : RPC_MAX_RECORD;
    buf = rbuf_get(pool, need, true);
    if (buf == NULL)
        return false;
    if (r->buf != NULL) {
        memcpy(buf->data, r->buf->data, r->have);
        rbuf_put(pool, r->buf);
    }
    r->buf = buf;
    return true;
}

static void give(struct record_in *r, struct record *out)
{
    *out = (struct record){
        .data = r->buf == NULL ? NULL : r->buf->data, .len = r->have, .buf = r->buf};
    *r = (struct record_in){0};
}

/* Reads a mark; RECORD_READY here says only that the fragment has begun. */
static enum record_status begin_fragment(struct record_in *r, struct buffer_pool *pool,
                                         const uint8_t **at, const uint8_t *end)
{
    uint32_t mark, len;

    while (r->nmark < 4 && *at < end)
        r->mark[r->nmark++] = *(*at)++;
    if (r->nmark < 4)
        return RECORD_MORE;
    mark = load_u32(r->mark);
    len = mark & ~LAST_FRAGMENT;
    r->nmark = 0;
    if (len > RPC_MAX_RECORD - r->have || r->fragments >= MAX_FRAGMENTS)
        return RECORD_BAD;
    r->fragments++;
    r->last = (mark & LAST_FRAGMENT) != 0;
    r->frag_left = len;
    r->in_fragment = true;
    return make_room(r, pool, (size_t)r->have + len) ? RECORD_READY : RECORD_NOMEM;
}

enum record_status record_next(struct record_in *r, struct buffer_pool *pool, const uint8_t **at,
                               const uint8_t *end, struct record *out)
{
    for (;;) {
        size_t n = (size_t)(end - *at);

        if (!record_partial(r) && n >= 4) {
            uint32_t mark = load_u32(*at), len = mark & ~LAST_FRAGMENT;

            if ((mark & LAST_FRAGMENT) != 0 && len <= RPC_MAX_RECORD && len <= n - 4) {
                *out = (struct record){.data = *at + 4, .len = len};
                *at += 4 + len;
                return RECORD_READY;
            }
        }
        if (!r->in_fragment) {
            enum record_status begun = begin_fragment(r, pool, at, end);

            if (begun != RECORD_READY)
                return begun;
            n = (size_t)(end - *at);
        }
        if (n > r->frag_left)
            n = r->frag_left;
        if (n > 0)
            memcpy(r->buf->data + r->have, *at, n);
        *at += n;
        if (record_received(r, n, out) == RECORD_READY)
            return RECORD_READY;
        if (r->in_fragment)
            return RECORD_MORE;
    }
}

size_t record_space(struct record_in *r, uint8_t **where)
{
    if (!r->in_fragment)
        return 0;
    *where = r->buf->data + r->have;
    return r->frag_left;
}

enum record_status record_received(struct record_in *r, size_t n, struct record *out)
{
    r->have += (uint32_t)n;
    r->frag_left -= (uint32_t)n;
    if (r->frag_left > 0)
        return RECORD_MORE;
    r->in_fragment = false;
    if (!r->last)
        return RECORD_MORE;
    give(r, out);
    return RECORD_READY;
}

bool record_partial(const struct record_in *r)
{
    return r->nmark > 0 || r->fragments > 0;
}

void record_reset(struct record_in *r, struct buffer_pool *pool)
{
    rbuf_put(pool, r->buf);
    *r = (struct record_in){0};
}
