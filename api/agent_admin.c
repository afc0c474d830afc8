/*
 * The administrator's calls on agents: enrolment tokens, list, show, drain, remove. They are this
 * project's own, with ARM's error envelope.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/agents_internal.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/url.h"

#define TOKEN_LIFE_NS ((int64_t)NS_PER_S * 24 * 3600)

/* ---- enrolment tokens ---- */

struct token_request {
    struct arm_call *call;
    char token[SECRET_HEX_MAX];
    char hash[SECRET_HEX_MAX];
    int64_t expires;
};

static int token_run(struct db_conn *txn, void *arg)
{
    struct token_request *t = arg;

    return db_enroll_token_add(txn, t->hash, t->expires);
}

static void token_done(void *arg, int result)
{
    struct token_request *t = arg;
    char when[CLOCK_ISO_MAX];

    if (result != 0) {
        fail_store(t->call, result);
        return;
    }
    clock_format_iso(t->expires, 0, when);
    arm_reply(t->call, 200, json_pack("{s:s, s:s}", "token", t->token, "expiresAt", when));
}

void agents_admin_token(struct arm_call *call)
{
    const char *key = json_object_iter_key(json_object_iter(call->body));

    if (key != NULL) {
        arm_fail(call, 400, "InvalidRequestContent", key,
                 "The call takes no members; '%.64s' is unknown.", key);
        return;
    }
    struct token_request *t = xcalloc(1, sizeof *t);
    t->call = call;
    t->expires = clock_wall_ns() + TOKEN_LIFE_NS;
    secret_make(t->token);
    secret_hash(t->token, t->hash);
    call->state = t;
    call->free_state = free;
    db_submit(call->api->db,
              &(struct db_request){
                  .name = "enrolment token", .run = token_run, .done = token_done, .arg = t});
}

/* ---- list, show ---- */

static json_t *describe(struct agent_registry *r, const struct db_agent *a, uint64_t now)
{
    struct agent_entry e = {.contact_wall = a->last_contact,
                            .load = {.store_size = a->store_size, .store_free = a->store_free}};
    char when[CLOCK_ISO_MAX] = "";

    registry_copy(r, a->id, &e);
    if (e.contact_wall > 0) {
        clock_format_iso(e.contact_wall, 3, when);
    }
    json_t *addresses = json_loads(a->addresses, 0, NULL);
    return json_pack(
        "{s:s, s:I, s:b, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:f, "
        "s:b}",
        "name", a->name, "id", (json_int_t)a->id, "live", (int)agents_is_live(r, a->id, now),
        "lastContact", when, "version", e.load.version[0] == '\0' ? a->version : e.load.version,
        "region", a->region, "zone", a->zone, "backend", a->backend, "storeUuid", a->store_uuid,
        "addresses", addresses == NULL ? json_array() : addresses, "nfsPort",
        (json_int_t)a->nfs_port, "storeSize", (json_int_t)e.load.store_size, "storeFree",
        (json_int_t)e.load.store_free, "volumes", (json_int_t)e.load.volumes, "connections",
        (json_int_t)e.load.connections, "opsPerSecond", e.load.ops_per_second, "bytesPerSecond",
        e.load.bytes_per_second, "draining", (int)a->draining);
}

struct listing {
    struct agent_registry *registry;
    json_t *value;
    uint64_t now;
};

static int list_one(const struct db_agent *a, void *arg)
{
    struct listing *l = arg;

    json_array_append_new(l->value, describe(l->registry, a, l->now));
    return 0;
}

void agents_admin_list(struct arm_call *call)
{
    struct listing l = {
        .registry = call->api->agents, .value = json_array(), .now = clock_mono_ns()};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_agent_each(reader, list_one, &l);

    db_read_end(reader);
    if (rc != 0) {
        json_decref(l.value);
        fail_store(call, rc);
    } else {
        arm_reply(call, 200, json_pack("{s:o}", "value", l.value));
    }
}

static void fail_agent(struct arm_call *call, int rc)
{
    if (rc == -ENOENT) {
        arm_fail(call, 404, "AgentNotFound", NULL, "There is no agent '%.64s'.",
                 call->param[ARM_NAME]);
    } else {
        fail_store(call, rc);
    }
}

void agents_admin_show(struct arm_call *call)
{
    struct db_agent a = {0};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_agent_get_name(reader, call->param[ARM_NAME], &a);

    db_read_end(reader);
    if (rc != 0) {
        fail_agent(call, rc);
    } else {
        arm_reply(call, 200, describe(call->api->agents, &a, clock_mono_ns()));
    }
    db_agent_clear(&a);
}

/* ---- drain, remove ---- */

struct change {
    struct arm_call *call;
    struct db_agent agent;
    bool draining; /* drain: the wish */
    bool force;    /* remove: although deletions are outstanding */
    struct arm_error error;
};

static void change_free(void *state)
{
    struct change *c = state;

    db_agent_clear(&c->agent);
    free(c);
}

static void change_submit(struct arm_call *call, const char *name, struct change *c, db_run_fn *run,
                          db_done_fn *done)
{
    c->call = call;
    call->state = c;
    call->free_state = change_free;
    db_submit(call->api->db,
              &(struct db_request){.name = name, .run = run, .done = done, .arg = c});
}

static int drain_run(struct db_conn *txn, void *arg)
{
    struct change *c = arg;
    int rc = db_agent_get_name(txn, c->call->param[ARM_NAME], &c->agent);

    if (rc != 0) {
        return rc;
    }
    c->agent.draining = c->draining;
    return db_agent_update(txn, &c->agent);
}

static void drain_done(void *arg, int result)
{
    struct change *c = arg;

    if (result != 0) {
        fail_agent(c->call, result);
    } else {
        arm_reply(c->call, 200, describe(c->call->api->agents, &c->agent, clock_mono_ns()));
    }
}

void agents_admin_drain(struct arm_call *call)
{
    const json_t *draining = json_object_get(call->body, "draining");

    if (!json_is_boolean(draining) || json_object_size(call->body) != 1) {
        arm_fail(call, 400, "InvalidValueReceived", "draining",
                 "The body must be {\"draining\": true} or {\"draining\": false}.");
        return;
    }
    struct change *c = xcalloc(1, sizeof *c);
    c->draining = json_is_true(draining);
    change_submit(call, "agent drain", c, drain_run, drain_done);
}

static int count_volume(const struct db_resource *r, void *arg)
{
    (void)r;
    ++*(int64_t *)arg;
    return 0;
}

static int list_tombstone(const char *fs_id, int64_t generation, void *arg)
{
    (void)generation;
    json_array_append_new(arg, json_string(fs_id));
    return 0;
}

/* Gives up the deletions that the agent never confirmed. */
static int forget_deletions(struct db_conn *txn, int64_t agent, const json_t *deletions)
{
    size_t i;
    json_t *fs_id;
    int rc = 0;

    json_array_foreach(deletions, i, fs_id)
    {
        rc = db_tombstone_delete(txn, agent, json_string_value(fs_id));
        if (rc != 0) {
            break;
        }
    }
    return rc;
}

/* An agent may go once it serves nothing. With `force` its outstanding deletions (of volumes
 * deleted by force) are given up: their data stays on its store. */
static int remove_run(struct db_conn *txn, void *arg)
{
    struct change *c = arg;
    int64_t volumes = 0;
    json_t *deletions = json_array();
    int rc = db_agent_get_name(txn, c->call->param[ARM_NAME], &c->agent);

    if (rc == 0) {
        rc = db_resource_each_placed(txn, c->agent.id, count_volume, &volumes);
    }
    if (rc == 0) {
        rc = db_tombstone_each(txn, c->agent.id, list_tombstone, deletions);
    }
    if (rc != 0) {
        goto out;
    }
    if (volumes > 0) {
        arm_error_set(&c->error, 409, "CannotDeleteResource", NULL,
                      "Agent '%s' serves %lld volumes. Delete them first (with forceDelete when "
                      "the agent is gone).",
                      c->agent.name, (long long)volumes);
        rc = -EBUSY;
    } else if (json_array_size(deletions) > 0 && !c->force) {
        arm_error_set(&c->error, 409, "CannotDeleteResource", NULL,
                      "Agent '%s' has not confirmed the deletion of %zu volumes yet. With "
                      "force=true their data is left on its store.",
                      c->agent.name, json_array_size(deletions));
        rc = -EBUSY;
    } else {
        rc = forget_deletions(txn, c->agent.id, deletions);
        rc = rc != 0 ? rc : db_agent_delete(txn, c->agent.id);
    }
out:
    json_decref(deletions);
    return rc;
}

static void remove_done(void *arg, int result)
{
    struct change *c = arg;

    if (result == 0) {
        registry_remove(c->call->api->agents, c->agent.id);
        log_info("agent '%s' removed", c->agent.name);
        arm_reply(c->call, 200, json_object());
    } else if (c->error.status != 0) {
        arm_fail_error(c->call, &c->error);
    } else {
        fail_agent(c->call, result);
    }
}

void agents_admin_remove(struct arm_call *call)
{
    char text[8];
    int found = url_query_get(http_query(call->http), "force", text, sizeof text);
    bool yes = found == 1 && strcmp(text, "true") == 0;

    if (found != 0 && !yes && (found < 0 || strcmp(text, "false") != 0)) {
        arm_fail(call, 400, "InvalidValueReceived", "force", "'force' must be true or false.");
        return;
    }
    struct change *c = xcalloc(1, sizeof *c);
    c->force = yes;
    change_submit(call, "agent remove", c, remove_run, remove_done);
}
