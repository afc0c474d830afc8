/*
 * The writer thread: group commit. It takes all requests that wait, runs each in a savepoint,
 * commits once and then calls their `done`s. What if it stops right here? Before the COMMIT nothing
 * of the group is there and nobody was told; after it all of it is there.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "db/internal.h"

/* Bounds a group, so that the first of it does not wait for ever under load. */
#define MAX_GROUP 256

void db_submit(struct db *db, const struct db_request *request)
{
    struct db_queued *q = xcalloc(1, sizeof *q);

    q->request = *request;
    pthread_mutex_lock(&db->queue_lock);
    *db->tail = q;
    db->tail = &q->next;
    atomic_fetch_add(&db->queued, 1);
    pthread_cond_signal(&db->queue_ready);
    pthread_mutex_unlock(&db->queue_lock);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    db_done_fn *done;
    db_run_fn *run;
    void *arg;
    bool ended;
    int result;
};

static int waiter_run(struct db_conn *txn, void *arg)
{
    struct waiter *w = arg;

    return w->run(txn, w->arg);
}

static void waiter_done(void *arg, int result)
{
    struct waiter *w = arg;

    if (w->done)
        w->done(w->arg, result);
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    w->result = result;
    pthread_cond_signal(&w->ready);
    pthread_mutex_unlock(&w->lock);
}

int db_submit_wait(struct db *db, const struct db_request *request)
{
    struct waiter w = {PTHREAD_MUTEX_INITIALIZER,
                       PTHREAD_COND_INITIALIZER,
                       request->done,
                       request->run,
                       request->arg,
                       false,
                       0};
    struct db_request wrapped = {request->name, waiter_run, waiter_done, &w};

    db_submit(db, &wrapped);
    pthread_mutex_lock(&w.lock);
    while (!w.ended)
        pthread_cond_wait(&w.ready, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.result;
}

/* Up to MAX_GROUP requests; NULL when the store closes and nothing waits. */
static struct db_queued *take_group(struct db *db)
{
    struct db_queued *group, *last;
    size_t count = 1;

    pthread_mutex_lock(&db->queue_lock);
    while (!db->head && !db->closing)
        pthread_cond_wait(&db->queue_ready, &db->queue_lock);
    group = last = db->head;
    while (last && last->next && count < MAX_GROUP) {
        last = last->next;
        count++;
    }
    if (last) {
        db->head = last->next;
        last->next = NULL;
        if (!db->head)
            db->tail = &db->head;
        atomic_fetch_sub(&db->queued, count);
    }
    pthread_mutex_unlock(&db->queue_lock);
    return group;
}

/* Runs one request in a savepoint of its own. A database failure in it undoes it also when `run`
 * overlooked it. Returns 0, or why the whole group must be given up. */
static int run_one(struct db_conn *c, struct db_queued *q)
{
    int rc;

    c->failure = 0;
    rc = db_run(c, db_stmt(c, STMT_SAVEPOINT, ""));
    if (rc != 0)
        return rc;
    q->result = q->request.run(c, q->request.arg);
    if (q->result == 0)
        q->result = c->failure;
    for (size_t i = STMT_SNAPSHOT; i < STMT_COUNT; i++)
        sqlite3_reset(c->stmt[i]);
    /* A failure such as a full disk may have ended the whole transaction. */
    if (sqlite3_get_autocommit(c->handle))
        return c->failure != 0 ? c->failure : -EIO;
    if (q->result != 0)
        rc = db_run(c, db_stmt(c, STMT_ROLLBACK_TO, ""));
    return rc != 0 ? rc : db_run(c, db_stmt(c, STMT_RELEASE, ""));
}

/* Runs a group; 0, or what to tell everybody in it. */
static int run_group(struct db *db, struct db_queued *group)
{
    struct db_conn *c = &db->writer;
    uint64_t start;
    int rc = db_run(c, db_stmt(c, STMT_BEGIN_WRITE, ""));

    if (rc != 0)
        return rc;
    for (struct db_queued *q = group; rc == 0 && q; q = q->next)
        rc = run_one(c, q);
    if (rc == 0) {
        start = clock_mono_ns();
        rc = db_run(c, db_stmt(c, STMT_COMMIT, ""));
        atomic_fetch_add(&db->commit_ns, clock_mono_ns() - start);
    }
    if (rc != 0 && !sqlite3_get_autocommit(c->handle))
        db_run(c, db_stmt(c, STMT_ROLLBACK, ""));
    return rc;
}

static void *writer_main(void *arg)
{
    struct db *db = arg;
    struct db_queued *group;

    while ((group = take_group(db))) {
        int rc = run_group(db, group);

        if (rc == 0)
            atomic_fetch_add(&db->commits, 1);
        while (group) {
            struct db_queued *q = group;
            int result = rc != 0 ? rc : q->result;

            group = q->next;
            atomic_fetch_add(result == 0 ? &db->transactions : &db->failed, 1);
            if (q->request.done)
                q->request.done(q->request.arg, result);
            free(q);
        }
    }
    return NULL;
}

int db_writer_start(struct db *db)
{
    int rc = pthread_create(&db->thread, NULL, writer_main, db);

    if (rc != 0)
        log_error("cannot start the database's writer thread");
    return -rc;
}

void db_writer_stop(struct db *db)
{
    pthread_mutex_lock(&db->queue_lock);
    db->closing = true;
    pthread_cond_signal(&db->queue_ready);
    pthread_mutex_unlock(&db->queue_lock);
    pthread_join(db->thread, NULL);
}

void db_get_stats(const struct db *db, struct db_stats *out)
{
    out->commits = atomic_load(&db->commits);
    out->transactions = atomic_load(&db->transactions);
    out->failed = atomic_load(&db->failed);
    out->commit_ns = atomic_load(&db->commit_ns);
    out->queued = atomic_load(&db->queued);
}
