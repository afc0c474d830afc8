/*
 * Deadlines and housekeeping. The thread reads the earliest deadline of the running operations and
 * sleeps until then; an operation that starts meanwhile is due one apply time-out after its start
 * at the earliest, so that no sleep is longer than that and nobody has to wake the thread.
 * Deadlines are wall-clock moments, so the wait is on CLOCK_REALTIME and follows a clock that is
 * set. The duty is taken by a lease inside the transaction that does the work: of several control
 * planes one does it. The lock guards `stopping` only.
 */
#include "api/reconcile.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define LEASE_NS ((int64_t)(5 * NS_PER_S)) /* so long a dead holder delays the next one */
#define RETRY_NS                                                                                   \
    ((int64_t)NS_PER_S) /* after a failed transaction, or when another holds the lease */
#define PRUNE_EVERY_NS ((int64_t)(600 * NS_PER_S))
#define KEEP_ENDED_NS  ((int64_t)(86400 * NS_PER_S)) /* an ended operation can be read for a day */
#define KEEP_CHANGES   4096 /* per agent; one further behind gets the full list */

struct reconciler {
    struct api *api;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    int64_t prune_at;
};

struct duty {
    struct api *api;
    int64_t now;
    bool prune;
    bool held; /* out: the lease is ours */
};

static int duty_run(struct db_conn *txn, void *arg)
{
    struct duty *d = arg;

    d->held = db_lease_take(txn, "reconcile", d->api->instance, d->now, LEASE_NS);
    if (!d->held) {
        return 0;
    }
    int rc = operations_expire(d->api, txn, d->now);
    if (rc == 0 && d->prune) {
        rc = db_operation_prune(txn, d->now - KEEP_ENDED_NS);
        if (rc == 0) {
            rc = db_change_prune(txn, KEEP_CHANGES);
        }
    }
    return rc;
}

static int64_t next_deadline(struct db *db)
{
    struct db_conn *reader = db_read_begin(db);
    int64_t next = db_operation_next_deadline(reader);

    db_read_end(reader);
    return next == 0 ? INT64_MAX : next;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Does what is due at `now`; returns when the thread must look again. */
static int64_t look(struct reconciler *r, int64_t now)
{
    struct api *api = r->api;
    int64_t next = next_deadline(api->db);
    bool prune = now >= r->prune_at;

    if (next <= now || prune) {
        struct duty d = {.api = api, .now = now, .prune = prune};
        int rc = db_submit_wait(
            api->db, &(struct db_request){.name = "reconcile", .run = duty_run, .arg = &d});
        if (rc != 0) {
            log_warn("operations past their deadline could not be ended: %s", strerror(-rc));
        }
        if (rc == 0 && d.held && prune) {
            r->prune_at = now + PRUNE_EVERY_NS;
        }
        next = next_deadline(api->db);
        if (rc != 0 || !d.held || next <= now) {
            return now + RETRY_NS;
        }
    }
    return earlier(earlier(next, r->prune_at), now + (int64_t)api->apply_timeout_ns);
}

static void *reconcile_main(void *arg)
{
    struct reconciler *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stopping) {
        pthread_mutex_unlock(&r->lock);
        int64_t now = clock_wall_ns();
        int64_t again = look(r, now);
        pthread_mutex_lock(&r->lock);
        struct timespec until = {.tv_sec = again / (int64_t)NS_PER_S,
                                 .tv_nsec = again % (int64_t)NS_PER_S};
        int rc = 0;
        while (!r->stopping && rc == 0) {
            rc = pthread_cond_timedwait(&r->wake, &r->lock, &until);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct reconciler *reconcile_start(struct api *api)
{
    struct reconciler *r = xcalloc(1, sizeof *r);

    r->api = api;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    int rc = pthread_create(&r->thread, NULL, reconcile_main, r);
    if (rc != 0) {
        fatal("cannot start the reconciler's thread: %s", strerror(rc));
    }
    return r;
}

void reconcile_stop(struct reconciler *r)
{
    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
