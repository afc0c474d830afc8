/*
 * Operations. A row is made in the transaction of the write that starts it, so that a client never
 * holds the URL of one that is not there. Handlers read and answer at once.
 */
#include "api/operation.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/resource.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"
#include "common/url.h"

#define NOT_ENDED "0001-01-01T00:00:00Z" /* as the service that this follows writes it */

/* ---- rows ---- */

int operation_begin(struct api *api, struct db_conn *txn, const struct db_resource *r,
                    const char *action, const char *status, bool ended, int64_t now,
                    char id[static UUID_TEXT_MAX])
{
    struct uuid uuid = uuid_random();
    char *texts[] = {xstrdup(action), xstrdup(ended ? "Succeeded" : status)};

    uuid_format(&uuid, id);
    const struct db_operation op = {
        .id = id,
        .subscription = r->subscription,
        .location = r->location,
        .resource_id = r->id,
        .rid = r->rid,
        .action = texts[0],
        .status = texts[1],
        .generation = r->generation,
        .started = now,
        .ended = ended ? now : 0,
        .deadline = now + (int64_t)api->apply_timeout_ns,
    };
    int rc = db_operation_insert(txn, &op);
    free(texts[0]);
    free(texts[1]);
    return rc;
}

struct ending {
    struct db_conn *txn;
    int64_t generation, now;
    const char *status, *error;
    int rc;
};

static int end_one(const struct db_operation *op, void *arg)
{
    struct ending *e = arg;

    if (op->generation <= e->generation) {
        e->rc = db_operation_end(e->txn, op->id, e->status, e->error, e->now);
    }
    return e->rc;
}

int operation_end_upto(struct db_conn *txn, int64_t rid, int64_t generation, const char *status,
                       const char *error, int64_t now)
{
    struct ending e = {
        .txn = txn, .generation = generation, .now = now, .status = status, .error = error};
    int rc = db_operation_each_running(txn, rid, end_one, &e);

    return rc < 0 ? rc : e.rc;
}

char *operation_error(const char *code, const char *fmt, ...)
{
    char message[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    json_t *text = json_string(message);
    json_t *error = json_pack("{s:s, s:o}", "code", code, "message",
                              text == NULL ? json_string("(not readable)") : text);
    char *out = json_render(error);
    json_decref(error);
    return out;
}

/* ---- headers ---- */

char *operation_collection(const char *subscription, const char *location)
{
    return xasprintf("/subscriptions/%s/providers/Microsoft.NetApp/locations/%s/operationResults",
                     subscription, location);
}

void operation_set_headers(struct arm_call *call, const char *collection, const char *id,
                           unsigned which)
{
    char *path = xasprintf("%s/%s?api-version=%s", collection, id, call->api_version);
    char *async = arm_url(call, path);
    char *location = xasprintf("%s&operationResultResponseType=Location", async);

    if (which & OPERATION_ASYNC) {
        http_set_header(call->http, "Azure-AsyncOperation", async);
    }
    if (which & OPERATION_LOCATION) {
        http_set_header(call->http, "Location", location);
    }
    if (which & OPERATION_RUNNING) {
        http_set_header(call->http, "Retry-After", "1");
    }
    free(path);
    free(async);
    free(location);
}

/* ---- polling ---- */

static json_t *describe(const struct arm_call *call, const struct db_operation *op)
{
    char started[CLOCK_ISO_MAX], ended[CLOCK_ISO_MAX];

    clock_format_iso(op->started, 7, started);
    clock_format_iso(op->ended, 7, ended);
    json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:{s:s, s:s}}", "id",
                             call->resource_id, "name", op->id, "status", op->status, "startTime",
                             started, "endTime", op->ended == 0 ? NOT_ENDED : ended,
                             "percentComplete", op->ended == 0 ? 0.0 : 100.0, "properties",
                             "resourceName", op->resource_id, "action", op->action);
    if (op->error != NULL) {
        json_object_set_new(body, "error", json_loads(op->error, 0, NULL));
    }
    return body;
}

/* The form of the Location header: 202 while it runs, then what the call itself would have
 * answered. */
static void answer_location(struct arm_call *call, struct db_conn *reader,
                            const struct db_operation *op)
{
    struct db_resource r = {0};

    if (op->ended == 0) {
        arm_reply(call, 202, NULL);
    } else if (strcmp(op->status, "Succeeded") != 0) {
        json_t *error = op->error == NULL ? NULL : json_loads(op->error, 0, NULL);
        bool failed = error != NULL;
        arm_fail(call, failed ? 500 : 409, json_get_text(error, "code", "OperationCanceled"), NULL,
                 "%s", json_get_text(error, "message", "The operation was canceled."));
        json_decref(error);
    } else if (strcmp(op->action, "DELETE") != 0 &&
               db_resource_get(reader, op->resource_id, &r) == 0) {
        arm_reply(call, 200, resource_render(reader, &r, call->api_version));
    } else {
        arm_reply(call, 204, NULL);
    }
    db_resource_clear(&r);
}

static bool belongs_here(const struct arm_call *call, const struct db_operation *op)
{
    char *location = NULL;
    bool ok = strcasecmp(op->subscription, call->param[ARM_SUBSCRIPTION]) == 0;

    if (ok && call->param[ARM_LOCATION] != NULL) {
        location = location_normalise(call->param[ARM_LOCATION]);
        ok = location != NULL && strcmp(location, op->location) == 0;
    }
    free(location);
    return ok;
}

static void answer(struct arm_call *call, struct db_conn *reader, const struct db_operation *op)
{
    char kind[32];
    int found =
        url_query_get(http_query(call->http), "operationResultResponseType", kind, sizeof kind);

    if (op->ended == 0) {
        http_set_header(call->http, "Retry-After", "1");
    }
    if (found == 0) {
        arm_reply(call, 200, describe(call, op));
    } else if (found == 1 && strcasecmp(kind, "Location") == 0) {
        answer_location(call, reader, op);
    } else {
        arm_fail(call, 400, "InvalidValueReceived", "operationResultResponseType",
                 "'operationResultResponseType' must be 'Location' where it is given.");
    }
}

void operation_get(struct arm_call *call)
{
    struct db_operation op = {0};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_operation_get(reader, call->param[ARM_NAME], &op);

    if (rc == 0 && !belongs_here(call, &op)) {
        rc = -ENOENT;
    }
    if (rc == 0) {
        answer(call, reader, &op);
    } else if (rc == -ENOENT) {
        arm_fail(call, 404, "OperationNotFound", NULL,
                 "The operation '%.64s' was not found; operations can be read for a day after "
                 "their end.",
                 call->param[ARM_NAME]);
    } else {
        fail_store(call, rc);
    }
    db_operation_clear(&op);
    db_read_end(reader);
}
