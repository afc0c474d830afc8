/*
 * A background thread of the store with a queue of jobs. A job is embedded in what it works for,
 * stands in the queue once at most, and runs without any lock of the queue.
 *
 * Long jobs rest between their steps (worker_rest) instead of having a lower priority: a thread
 * that the scheduler leaves standing while it holds a lock, of ours or of the file system's
 * journal, would hold up the service that it should not disturb.
 *
 * Locking: one mutex a worker, a leaf.
 */
#ifndef AGENT_STORAGE_WORKER_H
#define AGENT_STORAGE_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;

struct worker_job {
    void (*run)(struct worker_job *job);
    struct worker_job *next;
    bool queued;
    /* Set by worker_cancel and worker_stop: a long run looks at it between its steps and returns.
     */
    atomic_bool stop;
};

/* `name` is the thread's (at most 15 characters). NULL when the thread cannot be started. */
struct worker *worker_start(const char *name);
/* Queues the job; one that is running now is queued for another run. Nothing after worker_cancel.
 */
void worker_queue(struct worker *w, struct worker_job *job);
/* Takes the job out of the queue, and waits for its end when it is running. */
void worker_cancel(struct worker *w, struct worker_job *job);
/* For the running job: waits for `ns`, or until it is told to stop. */
void worker_rest(struct worker *w, const struct worker_job *job, uint64_t ns);
/* Waits until nothing is queued or running. */
void worker_drain(struct worker *w);
/* Tells the running job to stop, waits for it and ends the thread. Queued jobs are dropped. NULL is
 * fine. */
void worker_stop(struct worker *w);

#endif
