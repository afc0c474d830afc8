/*
 * The answers (anf-api.md D.2, D.5): every one passes through finish(), which sets ARM's headers,
 * writes the audit line of a write, counts the request and frees the call. Any thread; no state.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/call.h"
#include "api/prom.h"
#include "api/route.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/uuid.h"

#define CLIENT_ID_MAX                                                                              \
    128 /* of an id that a client sends and gets back; longer ones are not echoed */

struct arm_call *arm_call_new(struct api *api, struct http_request *http)
{
    struct arm_call *call = xcalloc(1, sizeof *call);
    struct uuid id = uuid_random();

    call->api = api;
    call->http = http;
    call->started_ns = clock_mono_ns();
    uuid_format(&id, call->request_id);
    return call;
}

static void call_free(struct arm_call *call)
{
    if (call->free_state != NULL) {
        call->free_state(call->state);
    }
    for (size_t i = 0; i < ARM_PARAM_COUNT; i++) {
        free(call->param[i]);
    }
    json_decref(call->body);
    free(call->resource_id);
    free(call);
}

/* A header that a client chose and that goes back to it; NULL unless it is short and printable. */
static const char *client_id(const struct http_request *r, const char *name)
{
    const char *value = http_header(r, name);
    size_t len = value == NULL ? 0 : strlen(value);

    if (len == 0 || len > CLIENT_ID_MAX) {
        return NULL;
    }
    for (const char *p = value; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            return NULL;
        }
    }
    return value;
}

static void set_headers(struct arm_call *call)
{
    static const struct {
        const char *name, *value;
    } fixed[] = {
        {"Cache-Control", "no-cache"},
        {"Pragma", "no-cache"},
        {"Expires", "-1"},
        {"X-Content-Type-Options", "nosniff"},
    };
    struct http_request *http = call->http;
    const char *correlation = client_id(http, "x-ms-correlation-request-id");
    const char *client = client_id(http, "x-ms-client-request-id");
    const char *wanted = http_header(http, "x-ms-return-client-request-id");
    char when[24], *routing;
    time_t now = time(NULL);
    struct tm utc;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        http_set_header(http, fixed[i].name, fixed[i].value);
    }
    if (http_is_tls(http)) {
        http_set_header(http, "Strict-Transport-Security", "max-age=31536000; includeSubDomains");
    }
    http_set_header(http, "x-ms-request-id", call->request_id);
    http_set_header(http, "x-ms-correlation-request-id",
                    correlation == NULL ? call->request_id : correlation);
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    routing = xasprintf("LOCAL:%s:%s", when, call->request_id);
    http_set_header(http, "x-ms-routing-request-id", routing);
    free(routing);
    if (client != NULL && wanted != NULL && strcasecmp(wanted, "true") == 0) {
        http_set_header(http, "x-ms-client-request-id", client);
    }
}

/* One line a write: who, what, result. The path is the last, whatever stands in it. */
static void audit(const struct arm_call *call, unsigned status, const char *code)
{
    const char *method = http_method(call->http);
    bool agents = call->route != NULL && call->route->kind == ROUTE_AGENT;

    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || agents) {
        return;
    }
    log_info("audit: who=%s method=%s status=%u code=%s request=%s id=%.1024s",
             call->principal[0] == '\0' ? "-" : call->principal, method, status,
             code == NULL ? "-" : code, call->request_id,
             call->resource_id == NULL ? http_path(call->http) : call->resource_id);
}

/* Ends the call. `body` (NUL-terminated) is taken over; NULL answers without one. */
static void finish(struct arm_call *call, unsigned status, const char *code, const char *type,
                   char *body)
{
    struct http_request *http = call->http;

    set_headers(call);
    if (body != NULL) {
        http_set_header(http, "Content-Type", type);
    }
    audit(call, status, code);
    prom_request_done(call->route, status, clock_mono_ns() - call->started_ns);
    call_free(call);
    http_respond(http, status, body, body == NULL ? 0 : strlen(body));
}

static void finish_json(struct arm_call *call, unsigned status, const char *code, json_t *body)
{
    char *text = body == NULL ? NULL : json_render(body);

    json_decref(body);
    finish(call, status, code, "application/json; charset=utf-8", text);
}

void arm_reply(struct arm_call *call, unsigned status, json_t *body)
{
    finish_json(call, status, NULL, body);
}

void arm_reply_text(struct arm_call *call, unsigned status, const char *content_type, char *body)
{
    finish(call, status, NULL, content_type, body);
}

void arm_error_set(struct arm_error *e, unsigned status, const char *code, const char *target,
                   const char *fmt, ...)
{
    va_list ap;

    e->status = status;
    e->code = code;
    e->detail_code = NULL;
    snprintf(e->target, sizeof e->target, "%s", target == NULL ? "" : target);
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
}

/* Texts that were cut in the middle of a character, or came from a path, must still be UTF-8. */
static json_t *safe_text(const char *text)
{
    json_t *value = json_string(text);

    if (value == NULL) {
        char *copy = xstrdup(text);
        for (char *p = copy; *p != '\0'; p++) {
            if ((unsigned char)*p >= 0x80) {
                *p = '?';
            }
        }
        value = json_string(copy);
        free(copy);
    }
    return value;
}

static json_t *error_members(const char *code, const struct arm_error *e)
{
    json_t *members = json_object();

    json_object_set_new(members, "code", json_string(code));
    json_object_set_new(members, "message", safe_text(e->message));
    if (e->target[0] != '\0') {
        json_object_set_new(members, "target", safe_text(e->target));
    }
    return members;
}

void arm_fail_error(struct arm_call *call, const struct arm_error *e)
{
    json_t *error = error_members(e->code, e), *body = json_object();

    if (e->detail_code != NULL) {
        json_t *details = json_array();
        json_array_append_new(details, error_members(e->detail_code, e));
        json_object_set_new(error, "details", details);
    }
    json_object_set_new(body, "error", error);
    finish_json(call, e->status, e->code, body);
}

void arm_fail(struct arm_call *call, unsigned status, const char *code, const char *target,
              const char *fmt, ...)
{
    struct arm_error e = {.status = status, .code = code};
    va_list ap;

    snprintf(e.target, sizeof e.target, "%s", target == NULL ? "" : target);
    va_start(ap, fmt);
    vsnprintf(e.message, sizeof e.message, fmt, ap);
    va_end(ap);
    arm_fail_error(call, &e);
}

void store_error(int result, struct arm_error *error)
{
    if (result == -ENOSPC) {
        arm_error_set(error, 507, "InsufficientStorage", NULL,
                      "The control plane's disk is full; nothing was changed.");
    } else {
        arm_error_set(error, 500, "InternalServerError", NULL,
                      "The control plane's database failed (%s); nothing was changed.",
                      strerror(-result));
    }
}

void fail_store(struct arm_call *call, int result)
{
    struct arm_error error = {0};

    store_error(result, &error);
    arm_fail_error(call, &error);
}

void fail_result(struct arm_call *call, int result, const struct arm_error *error)
{
    if (result == REFUSED && error->status != 0) {
        arm_fail_error(call, error);
    } else {
        fail_store(call, result);
    }
}

/* A Host header is the client's word: only what can be a host and a port is repeated. */
static bool host_is_plain(const char *host)
{
    static const char others[] = ".:-_[]";
    size_t len = strlen(host);

    for (const char *p = host; *p != '\0'; p++) {
        bool alnum =
            (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!alnum && strchr(others, *p) == NULL) {
            return false;
        }
    }
    return len > 0 && len <= 255;
}

char *arm_url(const struct arm_call *call, const char *path_and_query)
{
    const char *host = http_header(call->http, "Host");

    if (host == NULL || !host_is_plain(host)) {
        host = call->api->fallback_host;
    }
    return xasprintf("%s://%s%s", http_is_tls(call->http) ? "https" : "http", host, path_and_query);
}
