/*
 * The I/O threads: run handlers that may block. One queue for all, first come first served; a call
 * goes back to its connection's worker, which alone sends.
 */
#include <sys/prctl.h>

#include "agent/rpc/internal.h"
#include "common/log.h"

struct io_thread_arg {
    struct rpc_server *server;
    unsigned slot;
};

static struct io_thread_arg thread_args[RPC_MAX_THREADS];

static void *io_main(void *p)
{
    const struct io_thread_arg *arg = p;
    struct io_pool *io = &arg->server->io;

    prctl(PR_SET_NAME, "rpc-io");
    rpc_thread_enter(NULL, arg->slot);
    pool_thread_start(&arg->server->pool);
    pthread_mutex_lock(&io->lock);
    for (;;) {
        struct call *call = io->first;

        if (call == NULL) {
            if (io->stop)
                break;
            io->nidle++;
            pthread_cond_wait(&io->work, &io->lock);
            io->nidle--;
            continue;
        }
        io->first = call->next;
        if (io->first == NULL)
            io->last = NULL;
        pthread_mutex_unlock(&io->lock);
        call->next = NULL;
        call_run_blocking(call);
        pthread_mutex_lock(&io->lock);
    }
    pthread_mutex_unlock(&io->lock);
    pool_thread_end();
    return NULL;
}

bool io_pool_start(struct rpc_server *server, unsigned first_slot, unsigned threads)
{
    struct io_pool *io = &server->io;

    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->work, NULL);
    for (unsigned i = 0; i < threads; i++) {
        thread_args[i] = (struct io_thread_arg){.server = server, .slot = first_slot + i};
        if (pthread_create(&io->threads[i], NULL, io_main, &thread_args[i]) != 0) {
            log_error("cannot start I/O thread %u", i);
            return false;
        }
        io->nthreads++;
    }
    return true;
}

void io_pool_push(struct io_pool *io, struct call *call)
{
    bool wake;

    call->next = NULL;
    pthread_mutex_lock(&io->lock);
    if (io->last != NULL)
        io->last->next = call;
    else
        io->first = call;
    io->last = call;
    wake = io->nidle > 0;
    pthread_mutex_unlock(&io->lock);
    if (wake)
        pthread_cond_signal(&io->work);
}

/* Runs what is queued, then ends the threads. */
void io_pool_stop(struct io_pool *io)
{
    pthread_mutex_lock(&io->lock);
    io->stop = true;
    pthread_mutex_unlock(&io->lock);
    pthread_cond_broadcast(&io->work);
    for (unsigned i = 0; i < io->nthreads; i++)
        pthread_join(io->threads[i], NULL);
    pthread_cond_destroy(&io->work);
    pthread_mutex_destroy(&io->lock);
}
