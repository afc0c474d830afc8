/*
 * One volume's limit, see throttle.h. Handlers offer requests from the workers, the owner's timer
 * runs it, the control channel changes its rate.
 *
 * Order among waiting requests is start-time fair queueing (Goyal et al., 1996) over client
 * addresses, by bytes: a client's next request starts, in virtual time, where its last one ended;
 * the lowest start goes first, equal ones in the order they came to the head. Virtual time is the
 * start of the request last let go. A client that has nothing waiting is remembered only while its
 * last end is ahead of virtual time, else it would gain by coming back.
 *
 * Locking: `lock` guards everything, a leaf. `arm` and `release` of the owner are called without
 * it.
 */
#include "agent/qos/throttle.h"

#include <pthread.h>
#include <stdlib.h>

#include "agent/qos/gcra.h"
#include "common/mem.h"

/* Timers are set at least so far ahead: at high rates several requests are then due together, and
 * one wake-up serves them. Nothing is lost by it, the allowance (QOS_BURST_NS) is fifty times as
 * deep. */
#define GRAIN_NS UINT64_C(100000)
/* Clients remembered with nothing waiting; beyond it the one longest idle is forgotten. */
#define MAX_IDLE 4096
/* Forgotten clients kept for reuse, so that a client that comes and goes costs no allocation. */
#define MAX_SPARE 8

struct qos_client {
    struct in_addr address;
    struct qos_client *hash_next;
    struct qos_client *prev, *next;  /* the idle list, longest idle first */
    struct qos_request *head, *tail; /* waiting, in order of arrival */
    uint64_t tag;   /* virtual start of the head; when idle, virtual end of the last */
    uint64_t order; /* breaks ties between tags: when the head became the head */
    size_t heap_at;
};

struct throttle {
    pthread_mutex_t lock;
    const struct throttle_owner *owner;
    struct throttle_slot slot;
    struct gcra gcra;

    uint64_t armed_ns;   /* what the owner was last asked for; UINT64_MAX: nothing */
    uint64_t arm_change; /* counts changes of armed_ns */

    uint64_t virtual_now, order;
    struct qos_client **heap; /* clients with something waiting, lowest (tag, order) first */
    size_t heap_len, heap_cap;
    struct qos_client **buckets; /* all clients known, by address */
    size_t nbuckets, nclients;
    struct qos_client *idle_first, *idle_last;
    size_t nidle;
    struct qos_client *spare; /* chained by hash_next */
    size_t nspare;
    struct qos_client anyone; /* stands for new clients when memory is out; never in the table */

    struct throttle_stats stats;
    uint64_t busy_since_ns; /* when something began to wait */
};

/* Tags wrap after centuries; comparisons survive it. */
static bool tag_before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

static bool client_before(const struct qos_client *a, const struct qos_client *b)
{
    return a->tag == b->tag ? tag_before(a->order, b->order) : tag_before(a->tag, b->tag);
}

/* --- heap of the clients that wait --- */

static void heap_put(struct throttle *t, size_t at, struct qos_client *c)
{
    t->heap[at] = c;
    c->heap_at = at;
}

static void heap_up(struct throttle *t, struct qos_client *c)
{
    size_t at = c->heap_at;

    while (at > 0 && client_before(c, t->heap[(at - 1) / 2])) {
        heap_put(t, at, t->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(t, at, c);
}

static void heap_down(struct throttle *t, struct qos_client *c)
{
    size_t at = c->heap_at, child;

    while ((child = 2 * at + 1) < t->heap_len) {
        if (child + 1 < t->heap_len && client_before(t->heap[child + 1], t->heap[child]))
            child++;
        if (!client_before(t->heap[child], c))
            break;
        heap_put(t, at, t->heap[child]);
        at = child;
    }
    heap_put(t, at, c);
}

static void heap_add(struct throttle *t, struct qos_client *c)
{
    c->heap_at = t->heap_len++;
    heap_up(t, c);
}

static void heap_remove(struct throttle *t, struct qos_client *c)
{
    struct qos_client *moved = t->heap[--t->heap_len];
    size_t at = c->heap_at;

    if (moved == c)
        return;
    heap_put(t, at, moved);
    heap_up(t, moved);
    heap_down(t, moved);
}

/* --- table of the clients known --- */

static size_t bucket_of(const struct throttle *t, struct in_addr address)
{
    return (size_t)(address.s_addr * UINT32_C(2654435761) >> 7) & (t->nbuckets - 1);
}

static void idle_unlink(struct throttle *t, struct qos_client *c)
{
    *(c->prev != NULL ? &c->prev->next : &t->idle_first) = c->next;
    *(c->next != NULL ? &c->next->prev : &t->idle_last) = c->prev;
    c->prev = c->next = NULL;
    t->nidle--;
}

static void idle_append(struct throttle *t, struct qos_client *c)
{
    c->prev = t->idle_last;
    c->next = NULL;
    *(c->prev != NULL ? &c->prev->next : &t->idle_first) = c;
    t->idle_last = c;
    t->nidle++;
}

/* Forgets the client that has been idle for longest. */
static void forget_first(struct throttle *t)
{
    struct qos_client *c = t->idle_first, **at = &t->buckets[bucket_of(t, c->address)];

    while (*at != c)
        at = &(*at)->hash_next;
    *at = c->hash_next;
    t->idle_first = c->next;
    if (c->next != NULL)
        c->next->prev = NULL;
    else
        t->idle_last = NULL;
    t->nidle--;
    t->nclients--;
    if (t->nspare >= MAX_SPARE) {
        free(c);
        return;
    }
    c->hash_next = t->spare;
    t->spare = c;
    t->nspare++;
}

static void forget_idle(struct throttle *t)
{
    while (t->idle_first != NULL)
        forget_first(t);
}

/* Looks at a few of the longest idle and forgets those that virtual time has passed: constant work
 * per request. */
static void forget_passed(struct throttle *t)
{
    for (int i = 0; i < 2 && t->idle_first != NULL; i++) {
        struct qos_client *c = t->idle_first;

        if (t->nidle > MAX_IDLE || !tag_before(t->virtual_now, c->tag)) {
            forget_first(t);
        } else {
            idle_unlink(t, c);
            idle_append(t, c);
        }
    }
}

/* Makes room for one more client in the table and the heap. */
static bool grow(struct throttle *t)
{
    size_t n = t->nbuckets == 0 ? 8 : t->nbuckets * 2, old = t->nbuckets;
    struct qos_client **buckets, **heap, **from = t->buckets;

    if (t->nclients < t->nbuckets)
        return true;
    heap = realloc(t->heap, (n + 1) * sizeof(struct qos_client *)); /* + 1: `anyone` */
    if (heap == NULL)
        return false;
    t->heap = heap;
    t->heap_cap = n + 1;
    buckets = calloc(n, sizeof(struct qos_client *));
    if (buckets == NULL)
        return false;
    t->buckets = buckets;
    t->nbuckets = n;
    for (size_t i = 0; i < old; i++) {
        for (struct qos_client *c = from[i], *next; c != NULL; c = next) {
            struct qos_client **to = &t->buckets[bucket_of(t, c->address)];

            next = c->hash_next;
            c->hash_next = *to;
            *to = c;
        }
    }
    free(from);
    return true;
}

static struct qos_client *client_find(struct throttle *t, struct in_addr address)
{
    struct qos_client *c = t->nbuckets == 0 ? NULL : t->buckets[bucket_of(t, address)];

    while (c != NULL && c->address.s_addr != address.s_addr)
        c = c->hash_next;
    return c;
}

/* The client of an address, made when it is new; it is idle or waiting. */
static struct qos_client *client_get(struct throttle *t, struct in_addr address)
{
    struct qos_client *c = client_find(t, address), **to;

    if (c != NULL)
        return c;
    c = t->spare;
    if (!grow(t) || (c == NULL && (c = malloc(sizeof(*c))) == NULL))
        return &t->anyone;
    if (c == t->spare) {
        t->spare = c->hash_next;
        t->nspare--;
    }
    *c = (struct qos_client){.address = address, .tag = t->virtual_now};
    to = &t->buckets[bucket_of(t, address)];
    c->hash_next = *to;
    *to = c;
    t->nclients++;
    idle_append(t, c);
    return c;
}

/* --- requests --- */

static void set_head(struct throttle *t, struct qos_client *c)
{
    c->order = ++t->order;
}

static void enqueue(struct throttle *t, struct qos_client *c, struct qos_request *r)
{
    r->client = c;
    r->parked = true;
    r->next = NULL;
    r->prev = c->tail;
    *(c->tail != NULL ? &c->tail->next : &c->head) = r;
    c->tail = r;
    if (c->head == r) {
        if (c != &t->anyone)
            idle_unlink(t, c);
        if (tag_before(c->tag, t->virtual_now))
            c->tag = t->virtual_now;
        set_head(t, c);
        heap_add(t, c);
    }
    t->stats.waiting++;
    t->stats.waiting_bytes += r->cost;
}

/* Takes a request out of its client's queue; the client's place in the order follows. */
static void dequeue(struct throttle *t, struct qos_request *r, uint64_t now_ns)
{
    struct qos_client *c = r->client;
    bool was_head = c->head == r;

    *(r->prev != NULL ? &r->prev->next : &c->head) = r->next;
    *(r->next != NULL ? &r->next->prev : &c->tail) = r->prev;
    r->next = r->prev = NULL;
    r->parked = false;
    t->stats.waiting--;
    t->stats.waiting_bytes -= r->cost;
    if (c->head == NULL) {
        heap_remove(t, c);
        if (c != &t->anyone)
            idle_append(t, c);
    } else if (was_head) {
        set_head(t, c);
        heap_down(t, c);
    }
    if (t->stats.waiting == 0 && now_ns > t->busy_since_ns)
        t->stats.limited_ns += now_ns - t->busy_since_ns;
}

/* Asks the owner for the next run. Called without the lock. Two threads may get here in either
 * order; the one that finds its question overtaken asks again, so that the last word is the present
 * one. */
static void rearm(struct throttle *t)
{
    uint64_t due, change;
    bool overtaken;

    do {
        pthread_mutex_lock(&t->lock);
        due = t->armed_ns;
        change = t->arm_change;
        pthread_mutex_unlock(&t->lock);
        t->owner->arm(t, due);
        pthread_mutex_lock(&t->lock);
        overtaken = change != t->arm_change;
        pthread_mutex_unlock(&t->lock);
    } while (overtaken);
}

/* Under the lock: true when the owner must be asked anew. A timer that comes too early, or has
 * become needless, is left to fire once. */
static bool want_arm(struct throttle *t, uint64_t now_ns)
{
    uint64_t due = gcra_due(&t->gcra, now_ns);

    if (due < now_ns + GRAIN_NS)
        due = now_ns + GRAIN_NS;
    if (t->stats.waiting == 0 || due >= t->armed_ns)
        return false;
    t->armed_ns = due;
    t->arm_change++;
    return true;
}

/* Under the lock: takes out all that is due, charged, as a list in order. */
static struct qos_request *take_due(struct throttle *t, uint64_t now_ns)
{
    struct qos_request *first = NULL, **last = &first;

    while (t->stats.waiting > 0 && gcra_due(&t->gcra, now_ns) <= now_ns) {
        struct qos_client *c = t->heap[0];
        struct qos_request *r = c->head;

        t->virtual_now = c->tag;
        c->tag += r->cost;
        gcra_take(&t->gcra, r->cost, now_ns);
        t->stats.charged += r->cost;
        if (now_ns > r->parked_ns)
            t->stats.waited_ns += now_ns - r->parked_ns;
        dequeue(t, r, now_ns);
        forget_passed(t);
        *last = r;
        last = &r->next;
    }
    return first;
}

/* Called without the lock. The throttle may be gone once the last request was handed back. */
static unsigned release_all(const struct throttle_owner *owner, struct qos_request *list)
{
    unsigned n = 0;

    for (struct qos_request *next; list != NULL; list = next, n++) {
        next = list->next;
        list->next = NULL;
        owner->release(list);
    }
    return n;
}

struct throttle *throttle_new(uint64_t bytes_per_s, const struct throttle_owner *owner)
{
    struct throttle *t = xcalloc(1, sizeof(*t));

    pthread_mutex_init(&t->lock, NULL);
    t->owner = owner;
    t->armed_ns = UINT64_MAX;
    /* Without a clock here: time 0 is as if it had been idle for long; the first take allows
     * QOS_BURST_NS only. */
    gcra_init(&t->gcra, bytes_per_s, 0);
    t->heap = xcalloc(1, sizeof(struct qos_client *));
    t->heap_cap = 1;
    return t;
}

void throttle_free(struct throttle *t)
{
    if (t == NULL)
        return;
    t->owner->arm(t, UINT64_MAX);
    forget_idle(t);
    for (struct qos_client *c = t->spare, *next; c != NULL; c = next) {
        next = c->hash_next;
        free(c);
    }
    free(t->heap);
    free(t->buckets);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

struct throttle_slot *throttle_get_slot(struct throttle *t)
{
    return &t->slot;
}

/* Under the lock: nothing waits and it is due. Remembers the client while the clock is ahead of
 * time, since only then somebody else may come to wait because of it. */
static void let_pass(struct throttle *t, struct in_addr address, uint64_t cost, uint64_t now_ns)
{
    struct qos_client *c;

    gcra_take(&t->gcra, cost, now_ns);
    t->stats.charged += cost;
    if (gcra_due(&t->gcra, now_ns) <= now_ns) {
        forget_idle(t);
        return;
    }
    c = client_get(t, address);
    if (tag_before(c->tag, t->virtual_now))
        c->tag = t->virtual_now;
    t->virtual_now = c->tag;
    c->tag += cost;
    forget_passed(t);
}

enum throttle_verdict throttle_offer(struct throttle *t, struct qos_request *request,
                                     struct in_addr client, uint64_t cost, uint64_t now_ns)
{
    enum throttle_verdict verdict = THROTTLE_GO;
    bool arm = false;

    request->cost = cost;
    if (cost == 0)
        return THROTTLE_GO;
    pthread_mutex_lock(&t->lock);
    if (t->stats.waiting == 0 && gcra_due(&t->gcra, now_ns) <= now_ns) {
        let_pass(t, client, cost, now_ns);
    } else {
        if (t->stats.waiting == 0)
            t->busy_since_ns = now_ns;
        request->parked_ns = now_ns;
        enqueue(t, client_get(t, client), request);
        t->stats.parked_total++;
        arm = want_arm(t, now_ns);
        verdict = THROTTLE_PARKED;
    }
    pthread_mutex_unlock(&t->lock);
    if (arm)
        rearm(t);
    return verdict;
}

bool throttle_cancel(struct throttle *t, struct qos_request *request, uint64_t now_ns)
{
    bool was_parked;

    pthread_mutex_lock(&t->lock);
    was_parked = request->parked;
    if (was_parked)
        dequeue(t, request, now_ns);
    pthread_mutex_unlock(&t->lock);
    return was_parked;
}

void throttle_refund(struct throttle *t, uint64_t bytes)
{
    bool arm;

    if (bytes == 0)
        return;
    pthread_mutex_lock(&t->lock);
    gcra_refund(&t->gcra, bytes);
    t->stats.charged -= bytes < t->stats.charged ? bytes : t->stats.charged;
    /* Without a clock here; whether the new due time lies in the future or the past, a timer for it
     * is right. */
    arm = want_arm(t, 0);
    pthread_mutex_unlock(&t->lock);
    if (arm)
        rearm(t);
}

unsigned throttle_run(struct throttle *t, uint64_t now_ns)
{
    const struct throttle_owner *owner = t->owner;
    struct qos_request *list;
    bool arm;

    pthread_mutex_lock(&t->lock);
    /* Whatever was asked for is over: this run may be that of a timer that another thread is just
     * replacing. */
    t->armed_ns = UINT64_MAX;
    t->arm_change++;
    list = take_due(t, now_ns);
    arm = want_arm(t, now_ns);
    pthread_mutex_unlock(&t->lock);
    if (arm)
        rearm(t);
    return release_all(owner, list);
}

void throttle_set_rate(struct throttle *t, uint64_t bytes_per_s, uint64_t now_ns)
{
    const struct throttle_owner *owner = t->owner;
    struct qos_request *list;
    bool arm;

    pthread_mutex_lock(&t->lock);
    gcra_set_rate(&t->gcra, bytes_per_s, now_ns);
    list = take_due(t, now_ns);
    arm = want_arm(t, now_ns);
    pthread_mutex_unlock(&t->lock);
    if (arm)
        rearm(t);
    release_all(owner, list);
}

void throttle_flush(struct throttle *t, uint64_t now_ns)
{
    const struct throttle_owner *owner = t->owner;
    struct qos_request *first = NULL, **last = &first;

    pthread_mutex_lock(&t->lock);
    while (t->stats.waiting > 0) {
        struct qos_request *r = t->heap[0]->head;

        dequeue(t, r, now_ns);
        *last = r;
        last = &r->next;
    }
    pthread_mutex_unlock(&t->lock);
    release_all(owner, first);
}

void throttle_get_stats(struct throttle *t, uint64_t now_ns, struct throttle_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->stats;
    out->rate = t->gcra.rate;
    out->clients = t->heap_len;
    if (t->stats.waiting > 0 && now_ns > t->busy_since_ns)
        out->limited_ns += now_ns - t->busy_since_ns;
    pthread_mutex_unlock(&t->lock);
}
