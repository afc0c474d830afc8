/* The thread that resolves host names of export rules: see resolve.h. */
#include "agent/volume/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/volume/export.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define AGAIN_S        60
#define AGAIN_FAILED_S 10

struct name {
    struct name *next;
    char *text;
    unsigned holders;
    time_t due; /* CLOCK_MONOTONIC; 0: never resolved */
    bool failed;
    size_t count;
    struct in_addr addresses[EXPORT_NAME_ADDRESSES];
};

struct resolver {
    resolve_fn *resolve;
    void (*changed)(void *arg);
    void *arg;
    pthread_mutex_t calling; /* held while `changed` runs; before `lock` */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct name *names;
    bool started, stopped;
    unsigned users; /* the owner and the thread: the last one frees */
};

static int by_address(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in_addr));
}

int resolve_system(const char *name, struct in_addr *out, size_t max)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list, *a;
    size_t n = 0;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return -1;
    for (a = list; a && n < max; a = a->ai_next) {
        struct sockaddr_in address;

        memcpy(&address, a->ai_addr, sizeof(address));
        out[n++] = address.sin_addr;
    }
    freeaddrinfo(list);
    /* Name servers turn the order of their answers. */
    qsort(out, n, sizeof(*out), by_address);
    return (int)n;
}

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static struct name *find(struct resolver *r, const char *text)
{
    struct name *n = r->names;

    while (n && strcasecmp(n->text, text) != 0)
        n = n->next;
    return n;
}

/* Under the lock: who leaves last frees. */
static void leave(struct resolver *r)
{
    bool last = --r->users == 0;

    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    while (r->names) {
        struct name *n = r->names;

        r->names = n->next;
        free(n->text);
        free(n);
    }
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->calling);
    pthread_cond_destroy(&r->wake);
    free(r);
}

/* Keeps an answer; true when it is another than before. Under the lock. */
static bool keep(struct resolver *r, const char *text, int count, const struct in_addr *found)
{
    struct name *n = find(r, text);
    bool other;

    if (!n)
        return false;
    n->due = now_s() + (count < 0 ? AGAIN_FAILED_S : AGAIN_S);
    if (count < 0) {
        if (!n->failed)
            log_warn("export rules: host %s does not resolve; %s", text,
                     n->count > 0 ? "its last addresses stay" : "it matches no client");
        n->failed = true;
        return false;
    }
    n->failed = false;
    other = n->count != (size_t)count ||
            (count > 0 && memcmp(n->addresses, found, (size_t)count * sizeof(*found)) != 0);
    n->count = (size_t)count;
    if (count > 0)
        memcpy(n->addresses, found, (size_t)count * sizeof(*found));
    return other;
}

static struct name *next_due(struct resolver *r)
{
    struct name *first = NULL;

    for (struct name *n = r->names; n; n = n->next)
        if (!first || n->due < first->due)
            first = n;
    return first;
}

static void wait_until(struct resolver *r, const struct name *n)
{
    struct timespec at = {.tv_sec = n ? n->due : 0};

    if (n)
        pthread_cond_timedwait(&r->wake, &r->lock, &at);
    else
        pthread_cond_wait(&r->wake, &r->lock);
}

static void tell(struct resolver *r)
{
    bool stopped;

    pthread_mutex_lock(&r->calling);
    pthread_mutex_lock(&r->lock);
    stopped = r->stopped;
    pthread_mutex_unlock(&r->lock);
    if (!stopped)
        r->changed(r->arg);
    pthread_mutex_unlock(&r->calling);
}

static void *work(void *arg)
{
    struct resolver *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stopped) {
        struct name *n = next_due(r);
        struct in_addr found[EXPORT_NAME_ADDRESSES];
        bool other;
        char *text;
        int count;

        if (!n || n->due > now_s()) {
            wait_until(r, n);
            continue;
        }
        text = xstrdup(n->text);
        pthread_mutex_unlock(&r->lock);
        count = r->resolve(text, found, EXPORT_NAME_ADDRESSES);
        pthread_mutex_lock(&r->lock);
        other = keep(r, text, count, found);
        free(text);
        if (other) {
            pthread_mutex_unlock(&r->lock);
            tell(r);
            pthread_mutex_lock(&r->lock);
        }
    }
    leave(r);
    return NULL;
}

struct resolver *resolver_new(resolve_fn *resolve, void (*changed)(void *arg), void *arg)
{
    struct resolver *r = xcalloc(1, sizeof(*r));
    pthread_condattr_t attr;

    r->resolve = resolve;
    r->changed = changed;
    r->arg = arg;
    r->users = 1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->calling, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    return r;
}

/* Under the lock. Detached, because a stop must not wait for a name server. */
static void start(struct resolver *r)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, work, r) == 0) {
        pthread_setname_np(thread, "resolver");
        pthread_detach(thread);
        r->started = true;
        r->users++;
    } else {
        log_error("export rules: no thread to resolve host names");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void resolver_hold(struct resolver *r, const char *text)
{
    struct name *n;

    pthread_mutex_lock(&r->lock);
    n = find(r, text);
    if (!n) {
        n = xcalloc(1, sizeof(*n));
        n->text = xstrdup(text);
        n->next = r->names;
        r->names = n;
        pthread_cond_signal(&r->wake);
    }
    n->holders++;
    if (!r->started)
        start(r);
    pthread_mutex_unlock(&r->lock);
}

void resolver_release(struct resolver *r, const char *text)
{
    struct name **at;

    pthread_mutex_lock(&r->lock);
    for (at = &r->names; *at && strcasecmp((*at)->text, text) != 0;)
        at = &(*at)->next;
    if (*at && --(*at)->holders == 0) {
        struct name *n = *at;

        *at = n->next;
        free(n->text);
        free(n);
    }
    pthread_mutex_unlock(&r->lock);
}

size_t resolver_lookup(struct resolver *r, const char *text, struct in_addr *out, size_t max)
{
    struct name *n;
    size_t count = 0;

    pthread_mutex_lock(&r->lock);
    n = find(r, text);
    if (n) {
        count = n->count < max ? n->count : max;
        memcpy(out, n->addresses, count * sizeof(*out));
    }
    pthread_mutex_unlock(&r->lock);
    return count;
}

void resolver_stop(struct resolver *r)
{
    pthread_mutex_lock(&r->calling);
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->calling);
    leave(r);
}
