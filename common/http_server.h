/*
 * The HTTP server's shell: the one place that knows libmicrohttpd (wall of the design). Epoll
 * threads; a request whose handler has not answered yet is suspended and holds no thread, so that
 * thousands of long polls and every waiting commit cost memory only.
 *
 * Used by api/ (the control plane's port) and agent/control/ (the agent's status port).
 */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;
struct http_request;

/* Called on a server thread once the whole request is there. The handler answers with http_respond,
 * now or later and from any thread, exactly once; until then the request stays valid. It must not
 * block. */
typedef void http_handler(struct http_request *request, void *arg);

struct http_server_config {
    const char *listen;              /* "ADDR:PORT"; port 0 takes a free one */
    const char *tls_cert, *tls_key;  /* PEM text; both NULL for plain HTTP */
    unsigned threads;                /* epoll threads, at least 1 */
    size_t max_body;                 /* bytes; more is answered 413 through `too_large` */
    size_t max_header;               /* bytes of request line and headers; more is answered 431 */
    unsigned max_connections;        /* further ones are closed at accept */
    unsigned max_connections_per_ip; /* 0: no such limit */
    unsigned idle_timeout_s;         /* a connection on which nothing moves for so long is closed */
    http_handler *handle;
    http_handler *too_large; /* answers a body over max_body, before it returns */
    void *arg;
};

/* 0, or -errno with the reason logged (address in use, bad certificate). */
int http_server_start(const struct http_server_config *config, struct http_server **out);
uint16_t http_server_port(const struct http_server *server);
/* Stops accepting, waits until every open request was answered (the caller answers its long polls
 * first), then closes. NULL is allowed. */
void http_server_stop(struct http_server *server);

/* What came in. Texts live as long as the request. */
const char *http_method(const struct http_request *r);
const char *
http_path(const struct http_request *r); /* raw: not percent-decoded, without the query */
const char *http_query(const struct http_request *r); /* raw text after '?', or NULL */
const char *http_header(const struct http_request *r, const char *name); /* NULL when absent */
const char *http_body(const struct http_request *r, size_t *len); /* NUL-terminated, never NULL */
const struct sockaddr *http_peer(const struct http_request *r);
bool http_is_tls(const struct http_request *r);

/* Header of the answer to come; the texts are copied. */
void http_set_header(struct http_request *r, const char *name, const char *value);

/* Sends the answer; `body` (len bytes, malloc'd, may be NULL when len is 0) is taken over. `r` must
 * not be touched afterwards. */
void http_respond(struct http_request *r, unsigned status, char *body, size_t len);

#endif
