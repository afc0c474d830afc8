/*
 * Puts the control plane together. A failure on the way unwinds what was opened, so that
 * server_stop works on every partial state.
 */
#include "api/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/dispatch.h"
#include "api/reconcile.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/tls.h"
#include "common/url.h"
#include "common/uuid.h"

#define THREADS         4
#define MAX_BODY        ((size_t)1024 * 1024)
#define MAX_HEADER      ((size_t)32 * 1024)
#define MAX_CONNECTIONS 8192 /* two of each of some thousand agents, and the clients */
#define IDLE_TIMEOUT_S  75
#define PEM_MAX         ((size_t)1024 * 1024)

struct server {
    struct api api;
    struct reconciler *reconciler;
    struct http_server *http;
    char *cert, *key; /* PEM text */
    char *url;
};

/* ---- the state folder ---- */

int server_claim_state(const char *dir)
{
    int rc = fs_mkdir_p(dir, 0700);

    if (rc != 0) {
        log_error("%s: %s", dir, strerror(-rc));
        return rc;
    }
    rc = fs_lock_dir(dir);
    if (rc == -EWOULDBLOCK) {
        log_error("%s: another spillwayd uses this state folder", dir);
    } else if (rc != 0) {
        log_error("%s/lock: %s", dir, strerror(-rc));
    }
    return rc;
}

static int read_pem(const char *path, char **out)
{
    size_t len;
    int rc = fs_read_file(path, PEM_MAX, out, &len);

    if (rc != 0) {
        log_error("%s: %s", path, strerror(-rc));
    }
    return rc;
}

/* The certificate is written after its key (common/tls.h): where it is, the pair is whole. */
static int open_tls(struct server *s, const struct server_options *o)
{
    char host[256];
    uint16_t port;
    char *cert = xasprintf("%s/tls-cert.pem", o->state);
    char *key = xasprintf("%s/tls-key.pem", o->state);
    const char *cert_path = o->tls_cert == NULL ? cert : o->tls_cert;
    const char *key_path = o->tls_key == NULL ? key : o->tls_key;
    int rc = 0;

    if (o->tls_cert == NULL && access(cert, F_OK) != 0) {
        bool known = url_split_host_port(o->listen, host, sizeof host, &port);
        rc = tls_make_self_signed(known ? host : NULL, cert, key);
    }
    if (rc == 0) {
        rc = read_pem(cert_path, &s->cert);
    }
    if (rc == 0) {
        rc = read_pem(key_path, &s->key);
    }
    free(cert);
    free(key);
    return rc;
}

/* ---- the database ---- */

static int open_store(struct server *s, const char *dir)
{
    int rc = db_open(dir, &s->api.db);

    if (rc == 0) {
        rc = metrics_db_open(dir, &s->api.metrics);
    }
    return rc;
}

/* ---- start and stop ---- */

static int open_port(struct server *s, const struct server_options *o)
{
    struct http_server_config config = {
        .listen = o->listen,
        .tls_cert = s->cert,
        .tls_key = s->key,
        .threads = THREADS,
        .max_body = MAX_BODY,
        .max_header = MAX_HEADER,
        .max_connections = MAX_CONNECTIONS,
        .idle_timeout_s = IDLE_TIMEOUT_S,
        .handle = dispatch_request,
        .too_large = dispatch_too_large,
        .arg = &s->api,
    };
    int rc = http_server_start(&config, &s->http);

    if (rc == 0) {
        const char *colon = strrchr(o->listen, ':');
        s->url =
            xasprintf("%s://%.*s:%u", s->cert == NULL ? "http" : "https", (int)(colon - o->listen),
                      o->listen, (unsigned)http_server_port(s->http));
    }
    return rc;
}

int server_start(const struct server_options *o, struct server **out)
{
    struct server *s = xcalloc(1, sizeof *s);
    struct uuid instance = uuid_random();
    char text[UUID_TEXT_MAX];

    s->api.apply_timeout_ns = o->apply_timeout_s * NS_PER_S;
    s->api.strict_groups = o->strict_groups;
    s->api.fallback_host = xstrdup(o->listen);
    s->api.instance = xstrdup(uuid_format(&instance, text));

    int rc = auth_open(o->state, o->auth, &s->api.auth);
    if (rc == 0 && !o->no_tls) {
        rc = open_tls(s, o);
    }
    if (rc == 0) {
        rc = open_store(s, o->state);
    }
    if (rc == 0) {
        s->api.agents = agents_new(&s->api);
        s->reconciler = reconcile_start(&s->api);
        rc = open_port(s, o);
    }
    if (rc != 0) {
        server_stop(s);
        return rc;
    }
    *out = s;
    return 0;
}

void server_stop(struct server *s)
{
    if (s == NULL) {
        return;
    }
    if (s->api.agents != NULL) {
        agents_stop(s->api.agents);
    }
    http_server_stop(s->http);
    reconcile_stop(s->reconciler);
    if (s->api.db != NULL) {
        db_close(s->api.db);
    }
    if (s->api.metrics != NULL) {
        metrics_db_close(s->api.metrics);
    }
    agents_free(s->api.agents);
    auth_free(s->api.auth);
    free(s->api.fallback_host);
    free(s->api.instance);
    free(s->cert);
    free(s->key);
    free(s->url);
    free(s);
}

const char *server_url(const struct server *s)
{
    return s->url;
}

struct api *server_api(struct server *s)
{
    return &s->api;
}
