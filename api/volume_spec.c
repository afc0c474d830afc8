/*
 * A volume between its row and its agent: what the agent is told, and what becomes of the row when
 * the agent reports or does not. All but resource_state read or write rows,
 * inside a reader's snapshot or a transaction.
 */
#include "api/volume_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/agents.h"
#include "api/export_policy.h"
#include "api/operation.h"
#include "api/resource.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"

const char *resource_state(const struct db_resource *r)
{
    static const char *const verbs[] = {
        [DB_VERB_CREATING] = "Creating", [DB_VERB_UPDATING] = "Updating",
        [DB_VERB_PATCHING] = "Patching", [DB_VERB_DELETING] = "Deleting",
        [DB_VERB_MOVING] = "Moving",
    };

    if (r->observed >= r->generation) {
        return "Succeeded";
    }
    return r->failed == r->generation ? "Failed" : verbs[r->verb];
}

/* ---- what the agent is told ---- */

static bool is_breakthrough(const json_t *properties)
{
    return strcmp(json_get_text(properties, "breakthroughMode", ""), "Enabled") == 0;
}

static enum volume_kind kind_of(const json_t *properties)
{
    return volume_kind_of(json_get_bool(properties, "isLargeVolume", false),
                          is_breakthrough(properties));
}

enum volume_kind volume_kind_of_row(const struct db_resource *volume)
{
    json_t *doc = json_loads(volume->doc, 0, NULL);
    enum volume_kind kind = kind_of(json_object_get(doc, "properties"));

    json_decref(doc);
    return kind;
}

char *volume_subnet_key(const struct db_resource *volume)
{
    const char *end = strrchr(volume->export_key, '/'); /* a path has no slash */

    return xstrndup(volume->export_key, (size_t)(end - volume->export_key));
}

static int add_address(const struct db_endpoint *e, void *arg)
{
    json_array_append_new(arg, json_string(e->address));
    return 0;
}

json_t *volume_addresses(struct db_conn *c, const struct db_resource *volume)
{
    json_t *out = json_array();

    db_endpoint_each_fs(c, volume->fs_id, add_address, out);
    if (json_array_size(out) == 0) {
        char *subnet = volume_subnet_key(volume), *address = NULL;
        if (db_endpoint_of_subnet(c, volume->agent, subnet, &address) == 0) {
            json_array_append_new(out, json_string(address));
        }
        free(address);
        free(subnet);
    }
    return out;
}

json_t *volume_agent_spec(struct db_conn *c, const struct db_resource *volume)
{
    json_t *spec = json_pack("{s:s, s:I}", "fileSystemId", volume->fs_id, "generation",
                             (json_int_t)volume->generation);

    /* Once asked for, a deletion stays: also one that nobody confirmed in time. */
    if (volume->verb == DB_VERB_DELETING) {
        json_object_set_new(spec, "deleted", json_true());
        return spec;
    }
    json_t *doc = json_loads(volume->doc, 0, NULL);
    const json_t *p = json_object_get(doc, "properties");
    json_t *addresses = volume_addresses(c, volume);
    if (doc == NULL || json_array_size(addresses) == 0) {
        log_error("volume %s: %s", volume->id,
                  doc == NULL ? "its document cannot be read" : "it has no address");
        json_decref(spec);
        json_decref(addresses);
        json_decref(doc);
        return NULL;
    }
    char *path = xasprintf("/%s", json_get_text(p, "creationToken", ""));
    json_object_set_new(spec, "id", json_string(volume->id));
    json_object_set_new(spec, "deleted", json_false());
    json_object_set_new(spec, "exportPath", json_string(path));
    json_object_set_new(spec, "endpoints", addresses);
    json_object_set_new(spec, "breakthrough", json_boolean(is_breakthrough(p)));
    json_object_set_new(spec, "quotaBytes", json_integer(volume->size));
    json_object_set_new(spec, "maxFiles", json_integer(volume_max_files(volume->size, kind_of(p))));
    json_object_set_new(spec, "limitBytesPerSecond",
                        json_integer(throughput_bytes_per_second(volume->throughput)));
    json_object_set_new(spec, "handleKey", json_string(volume->handle_key));
    json_object_set_new(spec, "unixPermissions",
                        json_string(json_get_text(p, "unixPermissions", "0770")));
    json_object_set_new(spec, "snapshotDirectoryVisible",
                        json_boolean(json_get_bool(p, "snapshotDirectoryVisible", true)));
    json_object_set_new(
        spec, "rules",
        export_policy_spec(json_object_get(json_object_get(p, "exportPolicy"), "rules")));
    free(path);
    json_decref(doc);
    return spec;
}

/* ---- what the agent reports ---- */

struct report {
    struct db_conn *txn;
    struct db_resource row;
    int64_t generation, now;
    const char *message;
};

static int report_ready(struct report *o)
{
    struct db_resource *r = &o->row;

    if (o->generation <= r->observed || r->verb == DB_VERB_DELETING) {
        return 0; /* known, or overtaken by the deletion */
    }
    r->observed = o->generation;
    if (r->observed == r->generation) {
        r->failed = 0;
        free(r->failure);
        r->failure = NULL;
    }
    int rc = db_resource_update(o->txn, r);
    return rc != 0 ? rc
                   : operation_end_upto(o->txn, r->rid, o->generation, "Succeeded", NULL, o->now);
}

static int set_failed(struct db_conn *txn, struct db_resource *r, const char *error)
{
    r->failed = r->generation;
    free(r->failure);
    r->failure = xstrdup(error);
    return db_resource_update(txn, r);
}

static int report_failed(struct report *o)
{
    struct db_resource *r = &o->row;

    if (o->generation != r->generation || r->observed >= o->generation) {
        return 0; /* of an older generation: a newer one is under way */
    }
    struct db_agent agent = {0};
    db_agent_get(o->txn, r->agent, &agent);
    char *error = operation_error("AgentReportedFailure", "Agent '%s' could not apply it: %s",
                                  agent.name == NULL ? "?" : agent.name,
                                  o->message == NULL || o->message[0] == '\0' ? "no reason given"
                                                                              : o->message);
    db_agent_clear(&agent);
    int rc = 0;
    if (r->failed != r->generation || r->failure == NULL || strcmp(r->failure, error) != 0) {
        rc = set_failed(o->txn, r, error);
    }
    if (rc == 0) {
        rc = operation_end_upto(o->txn, r->rid, o->generation, "Failed", error, o->now);
    }
    free(error);
    return rc;
}

static int report_deleted(struct report *o)
{
    struct db_resource *r = &o->row;

    if (r->verb != DB_VERB_DELETING || o->generation != r->generation) {
        log_warn("volume %s: its agent reports it deleted, which nobody asked for", r->id);
        return 0;
    }
    int rc = operation_end_upto(o->txn, r->rid, o->generation, "Succeeded", NULL, o->now);
    if (rc == 0) {
        rc = resource_remove(o->txn, r);
    }
    return rc == 0 ? group_sweep(o->txn, r, o->now) : rc;
}

int volume_observed(struct db_conn *txn, int64_t agent, const char *fs_id, int64_t generation,
                    const char *state, const char *message, int64_t now_ns)
{
    static const struct {
        const char *state;
        int (*run)(struct report *o);
    } reports[] = {{"ready", report_ready}, {"failed", report_failed}, {"deleted", report_deleted}};
    struct report o = {.txn = txn, .generation = generation, .now = now_ns, .message = message};
    int rc = db_resource_get_fs(txn, fs_id, &o.row);

    if (rc != 0) {
        return rc == -ENOENT ? 0 : rc; /* gone: deleted by force, or reported before */
    }
    if (o.row.agent != agent || generation > o.row.generation) {
        log_warn("volume %s: a report of generation %lld from an agent that it is not for",
                 o.row.id, (long long)generation);
    } else {
        for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
            if (strcmp(reports[i].state, state) == 0) {
                rc = reports[i].run(&o);
            }
        }
    }
    db_resource_clear(&o.row);
    return rc;
}

/* ---- what nobody reports ---- */

struct expiry {
    struct api *api;
    struct db_conn *txn;
    int64_t now;
    int rc;
};

/* Why an operation did not end in time: {code,message}. Caller frees. */
static char *overdue_reason(const struct expiry *x, const struct db_operation *op,
                            const struct db_resource *r)
{
    struct db_agent agent = {0};
    char when[CLOCK_ISO_MAX];
    long long seconds = (long long)((op->deadline - op->started) / (int64_t)NS_PER_S);
    char *error;

    if (r->agent == 0 || db_agent_get(x->txn, r->agent, &agent) != 0) {
        return operation_error("OperationTimedOut",
                               "The operation did not end within %lld seconds.", seconds);
    }
    if (agents_is_live(x->api->agents, agent.id, clock_mono_ns())) {
        error = operation_error("OperationTimedOut",
                                "Agent '%s' is live but has not reported generation %lld of the "
                                "volume as applied within %lld seconds.",
                                agent.name, (long long)op->generation, seconds);
    } else {
        clock_format_iso(agent.last_contact, 0, when);
        error = operation_error("OperationTimedOut",
                                "Agent '%s', which serves the volume, did not answer within %lld "
                                "seconds; it was last heard of about %s.",
                                agent.name, seconds, when);
    }
    db_agent_clear(&agent);
    return error;
}

/* "rg" of a group's id; a resource's id has more behind it. */
static const char *group_of_id(const char *id)
{
    const char *found = strcasestr(id, "/resourceGroups/");

    found = found == NULL ? NULL : found + strlen("/resourceGroups/");
    return found == NULL || strchr(found, '/') != NULL ? NULL : found;
}

static int expire_one(const struct db_operation *op, void *arg)
{
    struct expiry *x = arg;
    struct db_resource r = {0};
    int rc = op->rid == 0 ? -ENOENT : db_resource_get_rid(x->txn, op->rid, &r);
    char *error = overdue_reason(x, op, &r);
    const char *group = group_of_id(op->resource_id);

    if (rc == 0 && op->generation == r.generation && r.observed < r.generation &&
        r.failed != r.generation) {
        rc = set_failed(x->txn, &r, error);
    } else if (rc == -ENOENT) {
        rc = group == NULL ? 0 : group_undelete(x->txn, op->subscription, group, op->id);
    }
    if (rc == 0) {
        rc = db_operation_end(x->txn, op->id, "Failed", error, x->now);
    }
    log_warn("operation %s (%s of %s) failed: overdue", op->id, op->action, op->resource_id);
    free(error);
    db_resource_clear(&r);
    x->rc = rc;
    return rc;
}

int operations_expire(struct api *api, struct db_conn *txn, int64_t now_ns)
{
    struct expiry x = {.api = api, .txn = txn, .now = now_ns};
    int rc = db_operation_each_overdue(txn, now_ns, expire_one, &x);

    return rc < 0 ? rc : x.rc;
}
