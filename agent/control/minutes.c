/* Minute accounting. Called by the status thread under its lock; allocates only when volumes or
 * points grow. */
#include "agent/control/minutes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

#define MINUTE_S      60
#define COARSE_S      300
#define AFTER_FOLDING ((size_t)196608) /* three quarters of MINUTES_MAX_POINTS */

/* What is known of a volume from the last snapshot. */
struct baseline {
    struct minutes_sample last;
    uint64_t open; /* serial of the waiting point that takes further increments, 0: none */
};

struct minutes {
    int64_t wall_ns; /* of the last snapshot */
    struct baseline *known;
    size_t nknown;
    struct minutes_point *waiting; /* from `head` on, in order of their making */
    size_t head, nwaiting, capacity;
    uint64_t
        first; /* serial of waiting[head]; serials only grow, so that points may move below them */
    struct minutes_point batch[MINUTES_BATCH_POINTS];
    size_t nbatch;
    uint64_t number; /* of the batch in flight, or of the last one */
    uint64_t dropped, acknowledged;
};

struct minutes *minutes_new(int64_t wall_ns)
{
    struct minutes *m = xcalloc(1, sizeof(*m));

    m->wall_ns = wall_ns;
    m->first = 1;
    m->capacity = 64;
    m->waiting = xcalloc(m->capacity, sizeof(m->waiting[0]));
    return m;
}

void minutes_free(struct minutes *m)
{
    if (!m)
        return;
    free(m->known);
    free(m->waiting);
    free(m);
}

static void merge_point(struct minutes_point *into, const struct minutes_point *later)
{
    for (size_t i = 0; i < MINUTES_SUM_COUNT; i++)
        into->sum[i] += later->sum[i];
    memcpy(into->gauge, later->gauge, sizeof(into->gauge));
}

/* By volume, then time. */
static int compare_points(const void *pa, const void *pb)
{
    const struct minutes_point *a = pa, *b = pb;
    int order = memcmp(a->fs_id.b, b->fs_id.b, sizeof(a->fs_id.b));

    if (order == 0 && a->minute != b->minute)
        order = a->minute < b->minute ? -1 : 1;
    return order;
}

static int compare_minutes(const void *pa, const void *pb)
{
    const struct minutes_point *a = pa, *b = pb;

    if (a->minute != b->minute)
        return a->minute < b->minute ? -1 : 1;
    return compare_points(pa, pb);
}

/* Moves what waits to the start of its array. */
static void compact(struct minutes *m)
{
    assert(m->waiting);
    if (m->head > 0)
        memmove(m->waiting, m->waiting + m->head, m->nwaiting * sizeof(m->waiting[0]));
    m->head = 0;
}

/* Makes room when too much waits. Points of one volume within five minutes become one. */
static void fold(struct minutes *m)
{
    size_t kept = 0;

    compact(m);
    /* Minutes are rounded after sorting: that the sort is not stable only matters for a minute that
     * is there twice, after the clock was set back. */
    qsort(m->waiting, m->nwaiting, sizeof(m->waiting[0]), compare_points);
    for (size_t i = 0; i < m->nwaiting; i++) {
        struct minutes_point point = m->waiting[i];

        point.minute -= point.minute % COARSE_S;
        if (kept > 0 && compare_points(&m->waiting[kept - 1], &point) == 0)
            merge_point(&m->waiting[kept - 1], &point);
        else
            m->waiting[kept++] = point;
    }
    qsort(m->waiting, kept, sizeof(m->waiting[0]), compare_minutes);
    m->first += m->nwaiting; /* no point is open any more */
    m->nwaiting = kept;
    if (kept > AFTER_FOLDING) {
        size_t drop = kept - AFTER_FOLDING;

        memmove(m->waiting, m->waiting + drop, AFTER_FOLDING * sizeof(m->waiting[0]));
        m->dropped += drop;
        m->nwaiting = AFTER_FOLDING;
    }
}

static void add_point(struct minutes *m, struct baseline *b, const struct minutes_point *point)
{
    struct minutes_point *open =
        b->open >= m->first ? &m->waiting[m->head + b->open - m->first] : NULL;

    if (open && open->minute == point->minute) {
        merge_point(open, point);
        return;
    }
    if (m->nwaiting == MINUTES_MAX_POINTS)
        fold(m);
    if (m->head + m->nwaiting == m->capacity && m->head > m->capacity / 2)
        compact(m);
    if (m->head + m->nwaiting == m->capacity) {
        m->capacity *= 2;
        m->waiting = xrealloc(m->waiting, m->capacity * sizeof(m->waiting[0]));
    }
    assert(m->waiting);
    b->open = m->first + m->nwaiting;
    m->waiting[m->head + m->nwaiting++] = *point;
}

/* Books what a volume did since `before` (zeros for a new one). */
static void book(struct minutes *m, struct baseline *b, const struct minutes_sample *now,
                 bool is_new)
{
    struct minutes_point point = {.fs_id = now->fs_id};
    int64_t second = m->wall_ns / (int64_t)NS_PER_S;
    bool changed = is_new || memcmp(now->gauge, b->last.gauge, sizeof(now->gauge)) != 0;

    for (size_t i = 0; i < MINUTES_SUM_COUNT; i++) {
        uint64_t before = now->sum[i] >= b->last.sum[i] ? b->last.sum[i] : 0;

        point.sum[i] = now->sum[i] - before;
        changed = changed || point.sum[i] != 0;
    }
    b->last = *now;
    if (!changed)
        return;
    memcpy(point.gauge, now->gauge, sizeof(point.gauge));
    point.minute = second - second % MINUTE_S;
    add_point(m, b, &point);
}

void minutes_snapshot(struct minutes *m, int64_t wall_ns, const struct minutes_sample *samples,
                      size_t count)
{
    struct baseline *next = xcalloc(count + 1, sizeof(*next));
    size_t k = 0;

    for (size_t i = 0; i < count; i++) {
        int order = -1;

        while (k < m->nknown && (order = memcmp(m->known[k].last.fs_id.b, samples[i].fs_id.b,
                                                sizeof(samples[i].fs_id.b))) < 0)
            k++;
        bool is_new = k == m->nknown || order != 0;

        if (!is_new)
            next[i] = m->known[k];
        book(m, &next[i], &samples[i], is_new);
    }
    free(m->known);
    m->known = next;
    m->nknown = count;
    m->wall_ns = wall_ns;
}

bool minutes_batch(struct minutes *m, struct minutes_batch *out)
{
    if (m->nbatch == 0) {
        size_t take = m->nwaiting < MINUTES_BATCH_POINTS ? m->nwaiting : MINUTES_BATCH_POINTS;

        if (take == 0)
            return false;
        memcpy(m->batch, m->waiting + m->head, take * sizeof(m->batch[0]));
        m->head += take;
        m->nwaiting -= take;
        m->first += take;
        m->nbatch = take;
        m->number++;
    }
    *out = (struct minutes_batch){.number = m->number, .points = m->batch, .count = m->nbatch};
    return true;
}

void minutes_ack(struct minutes *m, uint64_t number)
{
    if (m->nbatch == 0 || number != m->number)
        return;
    m->nbatch = 0;
    m->acknowledged++;
}

void minutes_get_stats(const struct minutes *m, struct minutes_stats *out)
{
    *out = (struct minutes_stats){
        .waiting = m->nwaiting + m->nbatch, .dropped = m->dropped, .acknowledged = m->acknowledged};
}
