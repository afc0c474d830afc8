/*
 * Memory of the data path: buffers in size classes, recycled through a cache of each server thread
 * and a shared depot, counted against one bound.
 *
 * Above `soft` bytes in use connections are no longer read (pool_tight), above `hard` replies find
 * no room; when use falls well under `soft` again, `relieved` is called. What is cached is not in
 * use, and bounded itself.
 */
#ifndef AGENT_RPC_BUFFER_H
#define AGENT_RPC_BUFFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBUF_CLASSES 9
/* Class c holds (4 KiB << c) and 1 KiB of headers; the largest any record and any reply of
 * RPC_MAX_DATA. */
#define RBUF_MAX ((1u << 20) + 8192)

struct rbuf {
    struct rbuf *next; /* in a cache; the owner's otherwise */
    uint32_t size;     /* usable bytes */
    uint32_t class;
    _Alignas(16) uint8_t data[];
};

struct buffer_pool {
    size_t soft, hard;
    void (*relieved)(void *arg); /* from the thread that gave the memory back */
    void *arg;
    _Alignas(64) _Atomic size_t used;
    _Alignas(64) atomic_bool waiting; /* somebody wants `relieved` */
    struct {
        pthread_mutex_t lock; /* leaf */
        struct rbuf *first;
        size_t n;
    } depot[RBUF_CLASSES];
};

void pool_init(struct buffer_pool *pool, size_t max_bytes, void (*relieved)(void *arg), void *arg);
void pool_destroy(struct buffer_pool *pool);
/* Gives the calling thread a cache until pool_thread_end; threads without one go to the depot. */
void pool_thread_start(struct buffer_pool *pool);
void pool_thread_end(void);

/* Counts memory that is not a buffer of the pool. */
void pool_charge(struct buffer_pool *pool, size_t bytes);
void pool_uncharge(struct buffer_pool *pool, size_t bytes);
static inline size_t pool_used(const struct buffer_pool *pool)
{
    return atomic_load_explicit(&pool->used, memory_order_relaxed);
}
/* True when no new work should be taken in; `relieved` will then be called once it may. */
bool pool_tight(struct buffer_pool *pool);
/* True from when somebody found the pool tight until `relieved`. */
static inline bool pool_awaited(const struct buffer_pool *pool)
{
    return atomic_load(&pool->waiting);
}

/* A buffer of at least `size` bytes; NULL when size > RBUF_MAX, memory is out, or, unless `forced`,
 * the hard bound is reached. Forced is for what was already taken in. */
struct rbuf *rbuf_get(struct buffer_pool *pool, size_t size, bool forced);
/* NULL is allowed. */
void rbuf_put(struct buffer_pool *pool, struct rbuf *buf);

#endif
