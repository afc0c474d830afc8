/* Buffers of the data path, see buffer.h. A thread's cache is its own; only the depot is locked. */
#include "agent/rpc/buffer.h"

#include <stdlib.h>

#include "common/mem.h"

#define CACHE_BYTES (1u << 20) /* a class, a thread */
#define DEPOT_BYTES (4u << 20) /* a class */

struct buffer_cache {
    struct buffer_pool *pool;
    struct {
        struct rbuf *first;
        size_t n;
    } class[RBUF_CLASSES];
};

static _Thread_local struct buffer_cache *cache;

static size_t class_size(unsigned class)
{
    return class == RBUF_CLASSES - 1 ? RBUF_MAX : ((size_t)4096 << class) + 1024;
}

void pool_init(struct buffer_pool *pool, size_t max_bytes, void (*relieved)(void *arg), void *arg)
{
    *pool = (struct buffer_pool){
        .soft = max_bytes - max_bytes / 8, .hard = max_bytes, .relieved = relieved, .arg = arg};
    for (unsigned i = 0; i < RBUF_CLASSES; i++)
        pthread_mutex_init(&pool->depot[i].lock, NULL);
}

static void free_chain(struct rbuf *buf)
{
    for (struct rbuf *next; buf != NULL; buf = next) {
        next = buf->next;
        free(buf);
    }
}

void pool_destroy(struct buffer_pool *pool)
{
    for (unsigned i = 0; i < RBUF_CLASSES; i++) {
        free_chain(pool->depot[i].first);
        pthread_mutex_destroy(&pool->depot[i].lock);
    }
}

void pool_thread_start(struct buffer_pool *pool)
{
    cache = xcalloc(1, sizeof(*cache));
    cache->pool = pool;
}

void pool_thread_end(void)
{
    if (cache == NULL)
        return;
    for (unsigned i = 0; i < RBUF_CLASSES; i++)
        free_chain(cache->class[i].first);
    free(cache);
    cache = NULL;
}

void pool_charge(struct buffer_pool *pool, size_t bytes)
{
    atomic_fetch_add_explicit(&pool->used, bytes, memory_order_relaxed);
}

void pool_uncharge(struct buffer_pool *pool, size_t bytes)
{
    /* Sequentially consistent with pool_tight, which sets `waiting` and looks again. */
    size_t left = atomic_fetch_sub(&pool->used, bytes) - bytes;

    if (left < pool->soft - pool->soft / 8 && atomic_load(&pool->waiting) &&
        atomic_exchange(&pool->waiting, false))
        pool->relieved(pool->arg);
}

bool pool_tight(struct buffer_pool *pool)
{
    if (pool_used(pool) < pool->soft)
        return false;
    atomic_store(&pool->waiting, true);
    return atomic_load(&pool->used) >= pool->soft - pool->soft / 8;
}

static struct rbuf *depot_get(struct buffer_pool *pool, unsigned class)
{
    struct rbuf *buf;

    pthread_mutex_lock(&pool->depot[class].lock);
    buf = pool->depot[class].first;
    if (buf != NULL) {
        pool->depot[class].first = buf->next;
        pool->depot[class].n--;
    }
    pthread_mutex_unlock(&pool->depot[class].lock);
    return buf;
}

static bool depot_put(struct buffer_pool *pool, struct rbuf *buf)
{
    bool kept;

    pthread_mutex_lock(&pool->depot[buf->class].lock);
    kept = pool->depot[buf->class].n * buf->size < DEPOT_BYTES;
    if (kept) {
        buf->next = pool->depot[buf->class].first;
        pool->depot[buf->class].first = buf;
        pool->depot[buf->class].n++;
    }
    pthread_mutex_unlock(&pool->depot[buf->class].lock);
    return kept;
}

struct rbuf *rbuf_get(struct buffer_pool *pool, size_t size, bool forced)
{
    struct rbuf *buf = NULL;
    unsigned class = 0;

    if (size > RBUF_MAX)
        return NULL;
    while (class_size(class) < size)
        class ++;
    if (!forced && pool_used(pool) + class_size(class) > pool->hard)
        return NULL;
    if (cache != NULL && cache->pool == pool && cache->class[class].first != NULL) {
        buf = cache->class[class].first;
        cache->class[class].first = buf->next;
        cache->class[class].n--;
    } else {
        buf = depot_get(pool, class);
    }
    if (buf == NULL) {
        buf = malloc(sizeof(*buf) + class_size(class));
        if (buf == NULL)
            return NULL;
        buf->size = (uint32_t)class_size(class);
        buf->class = class;
    }
    buf->next = NULL;
    pool_charge(pool, buf->size);
    return buf;
}

void rbuf_put(struct buffer_pool *pool, struct rbuf *buf)
{
    if (buf == NULL)
        return;
    pool_uncharge(pool, buf->size);
    if (cache != NULL && cache->pool == pool &&
        cache->class[buf->class].n * buf->size < CACHE_BYTES) {
        buf->next = cache->class[buf->class].first;
        cache->class[buf->class].first = buf;
        cache->class[buf->class].n++;
    } else if (!depot_put(pool, buf)) {
        free(buf);
    }
}
