/*
 * The HTTP server's shell over libmicrohttpd.
 *
 * A request's life: `begin` (request line read) → `on_request` once for the headers, once for each
 * piece of the body, once when all is there: the handler runs → the answer comes → `on_request`
 * again queues it → `on_completed` frees the request, whatever became of the connection.
 *
 * The answer may come from another thread at any moment, also before the handler has returned.
 * `stage` settles who goes on: the handler's thread moves it from HANDLING to SUSPENDED after it
 * has suspended the connection, http_respond moves it to ANSWERED. Whoever finds the other was
 * first acts: ANSWERED found at suspending resumes at once; SUSPENDED found at answering resumes. A
 * suspended connection is not looked at by its thread, so a client that goes away meanwhile is
 * noticed when the answer is sent.
 *
 * Locking: server->lock guards the two counts alone. Requests need no lock: they are
 * handed from one thread to the other through `stage`.
 */
#include "common/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/url.h"

/* A body over the limit is read to its end up to this size, so that the client, which may send
 * before it reads, sees the answer; past it the connection closes. */
#define DISCARD_MAX (UINT64_C(16) << 20)
/* What libmicrohttpd needs of a connection's memory beside the request's headers: its records of
 * them and the answer's headers. */
#define POOL_EXTRA 16384
#define BACKLOG    1024
/* At stop: how long answers may take to leave once all are given. */
#define DRAIN_S 5

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_server_config config;
    uint16_t port;
    atomic_bool starting, stopping;
    pthread_mutex_t lock;
    pthread_cond_t quiet; /* one of these went down */
    unsigned open;        /* requests between their handler's start and their completion */
    unsigned unanswered;  /* of these, http_respond has not finished */
};

enum stage { READING, HANDLING, SUSPENDED, ANSWERED, QUEUED };

struct header {
    struct header *next;
    char *name, *value;
};

struct http_request {
    struct http_server *server;
    struct MHD_Connection *connection;
    char *target; /* the request target as it came; path and query point into it */
    const char *path, *query;
    const char *method; /* libmicrohttpd's, set with the headers */
    char *body;
    size_t body_len, body_cap;
    uint64_t received; /* body bytes, discarded ones included */
    bool began;        /* the headers were seen */
    bool over;         /* the body is larger than allowed */
    bool close;        /* close the connection after the answer */
    bool counted;      /* in server->open */
    atomic_int stage;  /* enum stage */
    struct header *headers;
    unsigned status;
    struct MHD_Response *response;
};

/* ---- counting ---- */

static void count_out(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->open--;
    pthread_cond_broadcast(&server->quiet);
    pthread_mutex_unlock(&server->lock);
}

/* A request is answered. The last touch of the answering thread: once `unanswered` is 0 the server
 * may go. */
static void count_answered(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->unanswered--;
    pthread_cond_broadcast(&server->quiet);
    pthread_mutex_unlock(&server->lock);
}

static void count_in(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->open++;
    server->unanswered++;
    pthread_mutex_unlock(&server->lock);
}

/* ---- the request ---- */

/* The path of "/a?b" and of the absolute form "https://host/a?b" (RFC 9112 3.2.2). */
static const char *skip_authority(char *target)
{
    char *slashes = strstr(target, "://");
    char *path;

    if (*target == '/' || !slashes || slashes > target + strcspn(target, "/?"))
        return target;
    path = slashes + 3 + strcspn(slashes + 3, "/?");
    return *path == '/' ? path : "/";
}

/* Called with the request line: the only place where the target is seen as it came. */
static void *begin(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct http_request *r = xcalloc(1, sizeof(*r));
    char *question;

    r->server = cls;
    r->connection = connection;
    r->target = xstrdup(target);
    question = strchr(r->target, '?');
    if (question) {
        *question = '\0';
        r->query = question + 1;
    }
    r->path = skip_authority(r->target);
    atomic_init(&r->stage, READING);
    return r;
}

static void request_free(struct http_request *r)
{
    struct header *next;

    for (struct header *h = r->headers; h; h = next) {
        next = h->next;
        free(h->name);
        free(h->value);
        free(h);
    }
    if (r->response)
        MHD_destroy_response(r->response);
    free(r->body);
    free(r->target);
    free(r);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = cls;
    struct http_request *r = *slot;
    bool counted;

    (void)connection;
    (void)code;
    if (!r)
        return;
    *slot = NULL;
    counted = r->counted;
    request_free(r);
    if (counted)
        count_out(server);
}

static void body_add(struct http_request *r, const char *data, size_t len)
{
    r->received += len;
    if (r->over || len > r->server->config.max_body - r->body_len) {
        r->over = true;
        free(r->body);
        r->body = NULL;
        r->body_len = r->body_cap = 0;
        return;
    }
    if (r->body_len + len + 1 > r->body_cap) {
        r->body_cap = (r->body_len + len + 1) * 2;
        r->body = xrealloc(r->body, r->body_cap);
    }
    memcpy(r->body + r->body_len, data, len);
    r->body_len += len;
    r->body[r->body_len] = '\0';
}

/* Hands the queued answer to libmicrohttpd; only ever on the connection's own thread. */
static enum MHD_Result queue_answer(struct http_request *r)
{
    enum MHD_Result rc;

    atomic_store(&r->stage, QUEUED);
    if (r->close || atomic_load(&r->server->stopping))
        MHD_add_response_header(r->response, MHD_HTTP_HEADER_CONNECTION, "close");
    rc = MHD_queue_response(r->connection, r->status, r->response);
    if (rc != MHD_YES)
        log_debug("http: the answer to %s could not be queued", r->path);
    return rc;
}

static void run_handler(struct http_request *r)
{
    struct http_server *server = r->server;

    r->counted = true;
    atomic_store(&r->stage, HANDLING);
    count_in(server);
    if (r->over)
        server->config.too_large(r, server->config.arg);
    else if (atomic_load(&server->stopping))
        http_respond(r, 503, NULL, 0);
    else
        server->config.handle(r, server->config.arg);
}

/* The whole request is there. */
static enum MHD_Result dispatch(struct http_request *r)
{
    int expected = HANDLING;

    run_handler(r);
    if (atomic_load(&r->stage) == ANSWERED)
        return queue_answer(r);
    /* The order matters: once SUSPENDED can be seen, the connection must be resumable. */
    MHD_suspend_connection(r->connection);
    if (!atomic_compare_exchange_strong(&r->stage, &expected, SUSPENDED))
        MHD_resume_connection(r->connection);
    return MHD_YES;
}

/* A body that is announced too large is refused before it is sent, where the client waits for that
 * (Expect: 100-continue) or where it is too much to read to its end. */
static bool refuse_early(struct http_request *r)
{
    const char *length = http_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *expect = http_header(r, MHD_HTTP_HEADER_EXPECT);
    unsigned long long announced;

    if (!length)
        return false;
    announced = strtoull(length, NULL, 10); /* checked by libmicrohttpd; ULLONG_MAX when huge */
    if (announced <= r->server->config.max_body)
        return false;
    r->over = true;
    return announced > DISCARD_MAX || (expect && strcasecmp(expect, "100-continue") == 0);
}

/* libmicrohttpd bounds a connection's memory, which headers share with other things: this is exact.
 */
static bool header_too_large(const struct http_request *r)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info && info->header_size > r->server->config.max_header;
}

/* With the headers. A request that is refused here is answered at once, its body is not read. */
static enum MHD_Result on_headers(struct http_request *r)
{
    if (header_too_large(r)) {
        count_in(r->server);
        r->counted = true;
        r->close = true;
        http_respond(r, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, NULL, 0);
        return queue_answer(r);
    }
    if (!refuse_early(r))
        return MHD_YES;
    r->close = true;
    run_handler(r);
    /* No later moment is left (see http_server.h). */
    if (atomic_load(&r->stage) != ANSWERED)
        fatal("http: too_large returned without an answer");
    return queue_answer(r);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **slot)
{
    struct http_request *r = *slot;

    (void)cls;
    (void)connection;
    (void)url;
    (void)version;
    if (!r->began) {
        r->began = true;
        r->method = method;
        return on_headers(r);
    }
    if (*data_size > 0) {
        body_add(r, data, *data_size);
        *data_size = 0;
        return r->received > DISCARD_MAX ? MHD_NO : MHD_YES;
    }
    switch (atomic_load(&r->stage)) {
    case READING:
        return dispatch(r);
    case ANSWERED:
        return queue_answer(r);
    default:
        return MHD_YES;
    }
}

const char *http_method(const struct http_request *r)
{
    return r->method;
}

const char *http_path(const struct http_request *r)
{
    return r->path;
}

const char *http_query(const struct http_request *r)
{
    return r->query;
}

const char *http_header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_request *r, size_t *len)
{
    if (len)
        *len = r->body_len;
    return r->body ? r->body : "";
}

const struct sockaddr *http_peer(const struct http_request *r)
{
    return MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

bool http_is_tls(const struct http_request *r)
{
    return r->server->config.tls_cert != NULL;
}

void http_set_header(struct http_request *r, const char *name, const char *value)
{
    struct header *h = xcalloc(1, sizeof(*h));

    h->name = xstrdup(name);
    h->value = xstrdup(value);
    h->next = r->headers;
    r->headers = h;
}

void http_respond(struct http_request *r, unsigned status, char *body, size_t len)
{
    struct http_server *server = r->server;
    struct MHD_Connection *connection = r->connection;

    r->status = status;
    r->response = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
    if (!r->response)
        fatal("out of memory: an HTTP answer");
    for (const struct header *h = r->headers; h; h = h->next)
        if (MHD_add_response_header(r->response, h->name, h->value) != MHD_YES)
            log_warn("http: the header %s cannot be sent", h->name);
    /* The request may be gone right after: only what is SUSPENDED waits for this thread. */
    if (atomic_exchange(&r->stage, ANSWERED) == SUSPENDED)
        MHD_resume_connection(connection);
    count_answered(server);
}

/* ---- the server ---- */

/* Paths and queries stay as they came: decoding is the router's. */
static size_t keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static void on_log(void *cls, const char *fmt, va_list ap)
{
    const struct http_server *server = cls;
    char line[512];

    vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, "\r\n")] = '\0';
    if (atomic_load(&server->starting))
        log_error("http: %s", line);
    else
        log_debug("http: %s", line); /* what clients do wrong */
}

/* A listening socket on "ADDR:PORT", or -errno. */
static int listen_on(const char *text, uint16_t *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {0};
    socklen_t size = sizeof(bound);
    struct addrinfo *found;
    char host[256], service[8];
    int fd, rc, one = 1;

    if (!url_split_host_port(text, host, sizeof(host), port)) {
        log_error("http: \"%s\" is not ADDR:PORT", text);
        return -EINVAL;
    }
    snprintf(service, sizeof(service), "%u", (unsigned)*port);
    rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) {
        log_error("http: %s: %s", text, gai_strerror(rc));
        return -EADDRNOTAVAIL;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, &bound.any, &size) != 0) {
        rc = -errno;
        log_error("http: cannot listen on %s: %s", text, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = rc;
    } else {
        *port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
    }
    freeaddrinfo(found);
    return fd;
}

static struct MHD_Daemon *start_daemon(struct http_server *server, int fd)
{
    const struct http_server_config *c = &server->config;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem optional[8];
    size_t n = 0;

    if (c->threads > 1)
        optional[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, c->threads, NULL};
    if (c->max_connections_per_ip > 0)
        optional[n++] = (struct MHD_OptionItem){MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                                                c->max_connections_per_ip, NULL};
    if (c->tls_cert) {
        flags |= MHD_USE_TLS;
        optional[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)c->tls_cert};
        optional[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)c->tls_key};
        optional[n++] = (struct MHD_OptionItem){
            MHD_OPTION_HTTPS_PRIORITIES, 0,
            (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"};
    }
    optional[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* The logger comes first: it must be there for what the other options have to say. */
    return MHD_start_daemon(
        flags, server->port, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log,
        server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, begin, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, server, MHD_OPTION_CONNECTION_LIMIT, c->max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, c->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        c->max_header + POOL_EXTRA, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, optional,
        MHD_OPTION_END);
}

int http_server_start(const struct http_server_config *config, struct http_server **out)
{
    struct http_server *server = xcalloc(1, sizeof(*server));
    pthread_condattr_t attr;
    int fd, rc;

    server->config = *config;
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&server->quiet, &attr);
    pthread_condattr_destroy(&attr);
    fd = listen_on(config->listen, &server->port);
    if (fd < 0) {
        rc = fd;
        goto fail;
    }
    atomic_store(&server->starting, true);
    server->daemon = start_daemon(server, fd);
    atomic_store(&server->starting, false);
    if (!server->daemon) {
        log_error("http: cannot serve %s%s", config->listen,
                  config->tls_cert ? ": are certificate and key PEM and do they match?" : "");
        close(fd);
        rc = -EINVAL;
        goto fail;
    }
    *out = server;
    return 0;
fail:
    pthread_cond_destroy(&server->quiet);
    pthread_mutex_destroy(&server->lock);
    free(server);
    return rc;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

static void drain(struct http_server *server)
{
    struct timespec until;

    pthread_mutex_lock(&server->lock);
    while (server->unanswered > 0)
        pthread_cond_wait(&server->quiet, &server->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += DRAIN_S;
    while (server->open > 0 && pthread_cond_timedwait(&server->quiet, &server->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&server->lock);
}

void http_server_stop(struct http_server *server)
{
    int fd;

    if (!server)
        return;
    atomic_store(&server->stopping, true);
    fd = MHD_quiesce_daemon(server->daemon);
    drain(server);
    MHD_stop_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
    pthread_cond_destroy(&server->quiet);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
