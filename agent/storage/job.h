/*
 * A background thread of the store with a queue of jobs. A job is embedded in what it works for,
 * stands in the queue once at most, and runs without any lock of the queue.
 *
 * Long jobs rest between their steps (job_rest) instead of having a lower priority: a thread
 * that the scheduler leaves standing while it holds a lock, of ours or of the file system's
 * journal, would hold up the service that it should not disturb.
 *
 * Locking: one mutex a thread, a leaf.
 */
#ifndef AGENT_STORAGE_JOB_H
#define AGENT_STORAGE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct job_thread;

struct job {
    void (*run)(struct job *job);
    struct job *next;
    bool queued;
    /* Set by job_cancel and job_thread_stop: a long run looks at it between its steps and returns.
     */
    atomic_bool stop;
};

/* `name` is the thread's (at most 15 characters). NULL when the thread cannot be started. */
struct job_thread *job_thread_start(const char *name);
/* Queues the job; one that is running now is queued for another run. Nothing after job_cancel.
 */
void job_queue(struct job_thread *w, struct job *job);
/* Takes the job out of the queue, and waits for its end when it is running. */
void job_cancel(struct job_thread *w, struct job *job);
/* For the running job: waits for `ns`, or until it is told to stop. */
void job_rest(struct job_thread *w, const struct job *job, uint64_t ns);
/* Waits until nothing is queued or running. */
void job_drain(struct job_thread *w);
/* Tells the running job to stop, waits for it and ends the thread. Queued jobs are dropped. NULL is
 * fine. */
void job_thread_stop(struct job_thread *w);

#endif
