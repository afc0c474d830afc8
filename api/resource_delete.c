/*
 * DELETE of every resource type. One that no agent serves goes in the transaction; a served one
 * becomes Deleting and goes when its agent says that the data is out of reach. With forceDelete it
 * goes at once and leaves a tombstone, so that its agent deletes the data whenever it is back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/etag.h"
#include "api/operation.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/url.h"

struct removal {
    struct arm_call *call;
    const struct resource_type *type;
    bool force;
    int64_t now;
    struct db_resource row;
    struct agent_set wake;
    struct arm_error error;
    bool absent;
    char operation[UUID_TEXT_MAX];
};

static void removal_free(void *state)
{
    struct removal *d = state;

    db_resource_clear(&d->row);
    free(d->wake.list);
    free(d);
}

static int refuse(struct removal *d, unsigned status, const char *code, const char *fmt,
                  const char *what)
{
    arm_error_set(&d->error, status, code, NULL, fmt, what);
    return REFUSED;
}

static int check(struct db_conn *txn, struct removal *d)
{
    char etag[ETAG_MAX];

    if (!etag_allows(http_header(d->call->http, "If-Match"), NULL,
                     etag_format(d->row.etag_ticks, etag))) {
        return refuse(d, 412, "PreconditionFailed", "%s",
                      "The condition of the request's If-Match header is not met.");
    }
    if (strcmp(resource_state(&d->row), "Deleting") == 0 && !d->force) {
        return refuse(d, 409, "Conflict",
                      "The resource '%.300s' is in the state 'Deleting' already.",
                      resource_path_of(d->row.id));
    }
    if (db_resource_has_children(txn, d->row.rid)) {
        return refuse(d, 409, "CannotDeleteResource",
                      "Cannot delete resource '%.300s' before its nested resources are deleted.",
                      resource_path_of(d->row.id));
    }
    return 0;
}

/* Takes the row out now. */
static int remove_now(struct db_conn *txn, struct removal *d)
{
    struct db_resource *r = &d->row;
    struct api *api = d->call->api;
    int rc = operation_end_upto(txn, r->rid, INT64_MAX, "Canceled", NULL, d->now);

    if (rc == 0) {
        rc = operation_begin(api, txn, r, "DELETE", "", true, d->now, d->operation);
    }
    if (rc == 0 && r->agent != 0) {
        rc = db_tombstone_add(txn, r->agent, r->fs_id, r->generation + 1);
        if (rc == 0) {
            rc = db_change_add(txn, r->agent, r->fs_id);
            agent_set_add(&d->wake, r->agent);
        }
    }
    if (rc == 0) {
        rc = resource_remove(txn, r);
    }
    return rc == 0 ? group_sweep(txn, r, d->now) : rc;
}

static int removal_run(struct db_conn *txn, void *arg)
{
    struct removal *d = arg;

    d->now = clock_wall_ns();
    int rc = group_check(txn, d->call, false, &d->error);
    if (rc == 0) {
        rc = db_resource_get(txn, d->call->resource_id, &d->row);
        d->absent = rc == -ENOENT;
    }
    if (d->absent || rc != 0) {
        return d->absent ? 0 : rc;
    }
    rc = db_lock_resource(txn, d->row.rid);
    if (rc == 0) {
        rc = check(txn, d);
    }
    if (rc != 0) {
        return rc;
    }
    if (!d->type->served || d->force) {
        return remove_now(txn, d);
    }
    return resource_start_delete(d->call->api, txn, &d->row, d->now, &d->wake, d->operation);
}

static void removal_done(void *arg, int result)
{
    struct removal *d = arg;
    struct arm_call *call = d->call;

    if (result != 0) {
        fail_result(call, result, &d->error);
    } else if (d->absent) {
        arm_reply(call, 204, NULL);
    } else {
        agent_set_wake(call->api, &d->wake);
        if (d->force && d->row.fs_id != NULL) {
            metrics_db_forget(call->api->metrics, d->row.fs_id);
        }
        char *collection = operation_collection(d->row.subscription, d->row.location);
        operation_set_headers(call, collection, d->operation,
                              OPERATION_ASYNC | OPERATION_LOCATION | OPERATION_RUNNING);
        free(collection);
        arm_reply(call, 202, NULL);
    }
}

void resource_delete(struct arm_call *call, const struct resource_type *type)
{
    char force[8];
    int found = url_query_get(http_query(call->http), "forceDelete", force, sizeof force);
    bool yes = found == 1 && strcasecmp(force, "true") == 0;

    if (found < 0 || (found == 1 && !yes && strcasecmp(force, "false") != 0)) {
        arm_fail(call, 400, "InvalidValueReceived", "forceDelete",
                 "'forceDelete' must be true or false.");
        return;
    }
    struct removal *d = xcalloc(1, sizeof *d);
    d->call = call;
    d->type = type;
    d->force = yes;
    call->state = d;
    call->free_state = removal_free;
    db_submit(call->api->db,
              &(struct db_request){
                  .name = "resource delete", .run = removal_run, .done = removal_done, .arg = d});
}
