/*
 * Accepting. A listener lives on one worker and deals connections out to all of them in turn, so
 * that a client's nconnect connections spread evenly (SO_REUSEPORT would spread them by a hash).
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/rpc/internal.h"
#include "common/clock.h"
#include "common/log.h"

#define ACCEPTS_PER_TURN 64
#define RETRY_NS         (100 * NS_PER_MS)

static void set_option(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof(value)) != 0)
        log_warn("cannot set socket option %d of level %d: errno %d", option, level, errno);
}

void listener_put(struct listener *l)
{
    if (atomic_fetch_sub(&l->refs, 1) == 1)
        free(l);
}

static void set_events(struct worker *w, struct listener *l, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = &l->poll};

    if (epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, l->fd, &e) != 0)
        log_error("epoll_ctl of a listener: errno %d", errno);
}

/* Out of descriptors or memory: tries again in a while instead of spinning on a listener that stays
 * ready. */
static void pause_accepting(struct worker *w, struct listener *l)
{
    log_warn("cannot accept connections (errno %d); trying again", errno);
    set_events(w, l, 0);
    l->retry_ns = w->now_ns + RETRY_NS;
    l->next_retry = w->retry;
    w->retry = l;
}

uint64_t listener_next_retry(const struct worker *w)
{
    uint64_t first = UINT64_MAX;

    for (const struct listener *l = w->retry; l != NULL; l = l->next_retry)
        first = l->retry_ns < first ? l->retry_ns : first;
    return first;
}

void listener_retry(struct worker *w)
{
    for (struct listener **at = &w->retry, *l; (l = *at) != NULL;) {
        if (l->retry_ns > w->now_ns) {
            at = &l->next_retry;
            continue;
        }
        *at = l->next_retry;
        l->retry_ns = 0;
        set_events(w, l, EPOLLIN);
    }
}

void listener_open(struct worker *w, void *arg)
{
    struct listener *l = arg;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &l->poll};

    l->open_error = epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, l->fd, &e) == 0 ? 0 : -errno;
}

void listener_shut(struct worker *w, struct listener *l)
{
    for (struct listener **at = &w->retry; *at != NULL; at = &(*at)->next_retry) {
        if (*at == l) {
            *at = l->next_retry;
            break;
        }
    }
    if (l->fd >= 0) {
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL); /* as for a connection */
        close(l->fd);
    }
    l->fd = -1;
}

static void hand_out(struct worker *w, struct listener *l, int fd, const struct sockaddr_in *peer)
{
    struct rpc_server *server = w->server;
    struct rpc_conn *c = NULL;
    struct sockaddr_in local = {0};
    socklen_t len = sizeof(local);

    if (atomic_fetch_add(&server->connections, 1) >= server->max_connections ||
        (c = calloc(1, sizeof(*c))) == NULL ||
        getsockname(fd, (struct sockaddr *)&local, &len) != 0) {
        atomic_fetch_sub(&server->connections, 1);
        atomic_fetch_add(&server->refused, 1);
        free(c);
        close(fd);
        return;
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    c->fd = fd;
    c->client = peer->sin_addr;
    c->client_port = ntohs(peer->sin_port);
    c->local = local.sin_addr;
    c->listener = l;
    atomic_fetch_add(&l->refs, 1);
    c->worker = &server->workers[atomic_fetch_add(&server->next_worker, 1) % server->nworkers];
    c->inbox.deliver = conn_adopt;
    atomic_fetch_add(&server->accepted, 1);
    if (c->worker == w)
        conn_adopt(w, &c->inbox);
    else
        worker_post(c->worker, &c->inbox);
}

void listener_ready(struct worker *w, struct poll_target *target, uint32_t events)
{
    struct listener *l =
        (struct listener *)(void *)((char *)target - offsetof(struct listener, poll));

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof(peer);
        int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            hand_out(w, l, fd, &peer);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_accepting(w, l);
        if (errno == EAGAIN || errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM)
            return;
        /* A connection that failed before it was accepted: the next one. */
    }
}
