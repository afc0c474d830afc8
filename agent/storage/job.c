/* A background thread with a queue of jobs: see job.h. */
#include "agent/storage/job.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/mem.h"

struct job_thread {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a job was queued or told to stop, or stopping */
    pthread_cond_t done; /* the running job ended */
    struct job *first, **last;
    struct job *running;
    bool stopping;
    pthread_t thread;
};

static struct job *take(struct job_thread *w)
{
    struct job *job = w->first;

    w->first = job->next;
    if (!w->first)
        w->last = &w->first;
    job->queued = false;
    return job;
}

static void *work(void *arg)
{
    struct job_thread *w = arg;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->stopping)
            pthread_cond_wait(&w->wake, &w->lock);
        if (w->stopping)
            break;
        w->running = take(w);
        pthread_mutex_unlock(&w->lock);
        w->running->run(w->running);
        pthread_mutex_lock(&w->lock);
        w->running = NULL;
        pthread_cond_broadcast(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct job_thread *job_thread_start(const char *name)
{
    struct job_thread *w = xcalloc(1, sizeof(*w));
    pthread_condattr_t attr;
    sigset_t all, before;
    int rc;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&w->done, NULL);
    w->last = &w->first;
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(w);
        return NULL;
    }
    pthread_setname_np(w->thread, name);
    return w;
}

void job_queue(struct job_thread *w, struct job *job)
{
    pthread_mutex_lock(&w->lock);
    if (!job->queued && !job->stop) {
        job->queued = true;
        job->next = NULL;
        *w->last = job;
        w->last = &job->next;
        pthread_cond_broadcast(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
}

void job_cancel(struct job_thread *w, struct job *job)
{
    pthread_mutex_lock(&w->lock);
    job->stop = true;
    pthread_cond_broadcast(&w->wake);
    for (struct job **at = &w->first; *at; at = &(*at)->next) {
        if (*at != job)
            continue;
        *at = job->next;
        if (!*at)
            w->last = at;
        job->queued = false;
        break;
    }
    while (w->running == job)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void job_drain(struct job_thread *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->first || w->running)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void job_rest(struct job_thread *w, const struct job *job, uint64_t ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / NS_PER_S);
    until.tv_nsec = (long)(ns % NS_PER_S);
    pthread_mutex_lock(&w->lock);
    while (!job->stop && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&w->lock);
}

void job_thread_stop(struct job_thread *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    if (w->running)
        w->running->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
