/*
 * The throttles of one worker that want to be run, by due time: a binary heap behind a lock, since
 * any thread may change a limit. A throttle is out of the heap while it runs; cancelling waits for
 * that run to end.
 */
#include <stdlib.h>

#include "agent/rpc/internal.h"
#include "common/mem.h"

void timers_init(struct timers *q)
{
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->idle, NULL);
    atomic_init(&q->next_ns, UINT64_MAX);
}

void timers_destroy(struct timers *q)
{
    for (size_t i = 0; i < q->len; i++)
        throttle_get_slot(q->heap[i])->index = 0;
    free(q->heap);
    pthread_cond_destroy(&q->idle);
    pthread_mutex_destroy(&q->lock);
}

static uint64_t due_at(const struct timers *q, size_t i)
{
    return throttle_get_slot(q->heap[i])->due_ns;
}

static void put(struct timers *q, size_t at, struct throttle *t)
{
    q->heap[at] = t;
    throttle_get_slot(t)->index = at + 1;
}

static void sift(struct timers *q, size_t at)
{
    struct throttle *t = q->heap[at];
    uint64_t due = throttle_get_slot(t)->due_ns;
    size_t child;

    while (at > 0 && due < due_at(q, (at - 1) / 2)) {
        put(q, at, q->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    while ((child = 2 * at + 1) < q->len) {
        if (child + 1 < q->len && due_at(q, child + 1) < due_at(q, child))
            child++;
        if (due <= due_at(q, child))
            break;
        put(q, at, q->heap[child]);
        at = child;
    }
    put(q, at, t);
}

static void take_out(struct timers *q, struct throttle *t)
{
    struct throttle_slot *slot = throttle_get_slot(t);
    size_t at = slot->index - 1;
    struct throttle *moved = q->heap[--q->len];

    slot->index = 0;
    if (moved == t)
        return;
    put(q, at, moved);
    sift(q, at);
}

static void publish(struct timers *q)
{
    atomic_store(&q->next_ns, q->len == 0 ? UINT64_MAX : due_at(q, 0));
}

void timers_arm(struct timers *q, struct throttle *t, uint64_t due_ns, bool *earlier)
{
    struct throttle_slot *slot = throttle_get_slot(t);

    pthread_mutex_lock(&q->lock);
    *earlier = due_ns < atomic_load(&q->next_ns);
    if (due_ns == UINT64_MAX) {
        if (slot->index != 0)
            take_out(q, t);
        while (q->running == t && !pthread_equal(q->runner, pthread_self()))
            pthread_cond_wait(&q->idle, &q->lock);
    } else {
        slot->due_ns = due_ns;
        if (slot->index == 0) {
            if (q->len == q->cap) {
                q->cap = q->cap == 0 ? 16 : q->cap * 2;
                q->heap = xrealloc(q->heap, q->cap * sizeof(struct throttle *));
            }
            put(q, q->len++, t);
        }
        sift(q, slot->index - 1);
    }
    publish(q);
    pthread_mutex_unlock(&q->lock);
}

void timers_run(struct timers *q, uint64_t now_ns)
{
    if (atomic_load_explicit(&q->next_ns, memory_order_relaxed) > now_ns)
        return;
    pthread_mutex_lock(&q->lock);
    q->runner = pthread_self();
    while (q->len > 0 && due_at(q, 0) <= now_ns) {
        struct throttle *t = q->heap[0];

        take_out(q, t);
        publish(q);
        q->running = t;
        pthread_mutex_unlock(&q->lock);
        throttle_run(t, now_ns);
        pthread_mutex_lock(&q->lock);
        q->running = NULL;
        pthread_cond_broadcast(&q->idle);
    }
    pthread_mutex_unlock(&q->lock);
}
