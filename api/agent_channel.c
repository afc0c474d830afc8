/*
 * The agents' side of the channel but for the polls (docs/agent-protocol.md): enrolment,
 * observations, status. Each handler checks its whole message first, then queues one transaction
 * and answers from its `done`: what an agent was told is committed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/address_list.h"
#include "api/agent_fields.h"
#include "api/agents_internal.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/uuid.h"

#define OBSERVATIONS_MAX 4096
#define POINTS_MAX       20000
#define MESSAGE_MAX      400 /* of an agent's reason that is kept; more is cut */
#define CLOCK_SKEW_NS    ((int64_t)(300 * NS_PER_S))
#define HISTORY_NS       ((int64_t)NS_PER_S * 86400 * 93) /* what the metrics file keeps */

static bool refuse_fault(struct arm_call *call, const struct agent_fields *f)
{
    if (f->bad != NULL) {
        arm_fail(call, 400, "InvalidValueReceived", f->bad, "'%s' must be %s.", f->bad, f->wants);
    }
    return f->bad != NULL;
}

/* ---- enrolment ---- */

struct enrolment {
    struct arm_call *call;
    struct db_agent agent;
    char token_hash[SECRET_HEX_MAX]; /* "" when none was sent */
    bool open;                       /* --auth none: no token needed */
    struct arm_error error;
};

static void enrolment_free(void *state)
{
    struct enrolment *e = state;

    db_agent_clear(&e->agent);
    free(e);
}

/* The row of a name that is taken: the same credential may enrol again (a lost answer, new
 * addresses), no other may. */
static int enroll_again(struct db_conn *txn, struct enrolment *e, const struct db_agent *old)
{
    if (!secret_hash_equal(old->credential_hash, e->agent.credential_hash)) {
        arm_error_set(
            &e->error, 409, "AgentNameTaken", "name",
            "The name '%s' belongs to an agent with another credential; remove that agent first.",
            old->name);
        return -EEXIST;
    }
    e->agent.id = old->id;
    e->agent.draining = old->draining;
    return db_agent_update(txn, &e->agent);
}

static int enroll_new(struct db_conn *txn, struct enrolment *e)
{
    if (e->token_hash[0] != '\0' || !e->open) {
        int rc = e->token_hash[0] == '\0'
                     ? -ENOENT
                     : db_enroll_token_use(txn, e->token_hash, e->agent.credential_hash,
                                           e->agent.last_contact);
        if (rc == -ENOENT || rc == -EEXIST) {
            auth_refuse(
                e->call->http,
                rc == -EEXIST
                    ? "Authentication failed. The enrolment token was used by another agent."
                    : "Authentication failed. The enrolment token is missing, unknown or expired.",
                &e->error);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return db_agent_insert(txn, &e->agent);
}

struct credential_search {
    const char *hash;
    char name[AGENT_NAME_MAX]; /* of the agent that has it; "" for none */
};

static int match_credential(const struct db_agent *a, void *arg)
{
    struct credential_search *s = arg;

    if (secret_hash_equal(a->credential_hash, s->hash)) {
        snprintf(s->name, sizeof s->name, "%s", a->name);
        return 1;
    }
    return 0;
}

static int enroll_run(struct db_conn *txn, void *arg)
{
    struct enrolment *e = arg;
    struct db_agent old = {0};
    struct credential_search other = {.hash = e->agent.credential_hash};
    int rc = db_agent_get_name(txn, e->agent.name, &old);

    if (rc == 0) {
        rc = enroll_again(txn, e, &old);
        db_agent_clear(&old);
        return rc;
    }
    if (rc != -ENOENT) {
        return rc;
    }
    /* An agent is its credential: a second one under the same would take its calls. */
    rc = db_agent_each(txn, match_credential, &other);
    if (other.name[0] != '\0') {
        arm_error_set(&e->error, 409, "AgentNameTaken", "credential",
                      "The credential belongs to the agent '%s' already; remove that agent first.",
                      other.name);
        return -EEXIST;
    }
    return rc < 0 ? rc : enroll_new(txn, e);
}

static void enroll_done(void *arg, int result)
{
    struct enrolment *e = arg;

    if (result != 0 && e->error.status != 0) {
        arm_fail_error(e->call, &e->error);
    } else if (result != 0) {
        fail_store(e->call, result);
    } else {
        registry_put(e->call->api->agents, &e->agent);
        log_info("agent '%s' enrolled with the id %lld", e->agent.name, (long long)e->agent.id);
        arm_reply(e->call, 200, json_pack("{s:I}", "agentId", (json_int_t)e->agent.id));
    }
}

void agents_enroll(struct arm_call *call)
{
    struct agent_fields f = {.object = call->body};
    const char *credential = fields_secret(&f, "credential");
    const char *name = fields_text(&f, "name", 1, AGENT_NAME_MAX - 1, "._-");
    const char *version = fields_text(&f, "version", 1, AGENT_VERSION_MAX - 1, "._+~-");
    const char *region = fields_text(&f, "region", 0, 64, " -");
    const char *zone = fields_text(&f, "zone", 0, 16, "-");
    const char *backend = fields_text(&f, "backend", 1, 16, "");
    const char *store = fields_uuid(&f, "storeUuid");
    int64_t size = fields_int(&f, "storeSize", 0, INT64_MAX);
    int64_t space = fields_int(&f, "storeFree", 0, INT64_MAX);
    int64_t port = fields_int(&f, "nfsPort", 1, 65535);
    const json_t *addresses = fields_array(&f, "addresses", ADDRESS_RANGES_MAX);
    const char *token =
        json_object_get(call->body, "token") == NULL ? "" : fields_secret(&f, "token");
    struct address_list list;
    char why[96];

    if (refuse_fault(call, &f)) {
        return;
    }
    /* "East US" and "eastus" are one region (ARM); none at all serves every region. */
    char *normal = region[0] == '\0' ? xstrdup("") : location_normalise(region);
    if (normal == NULL) {
        arm_fail(call, 400, "InvalidValueReceived", "region",
                 "'region' must be the name of a region, or empty.");
        return;
    }
    if (!address_list_parse(addresses, &list, why, sizeof why)) {
        arm_fail(call, 400, "InvalidValueReceived", "addresses",
                 "'addresses' must hold IPv4 addresses, ranges (10.0.0.1-10.0.0.9) or prefixes "
                 "(10.0.0.0/24): %s.",
                 why);
        free(normal);
        return;
    }

    struct enrolment *e = xcalloc(1, sizeof *e);
    e->call = call;
    e->open = auth_mode(call->api->auth) == AUTH_NONE;
    if (token[0] != '\0') {
        secret_hash(token, e->token_hash);
    }
    e->agent = (struct db_agent){
        .name = xstrdup(name),
        .region = normal,
        .zone = xstrdup(zone),
        .store_uuid = xstrdup(store),
        .backend = xstrdup(backend),
        .version = xstrdup(version),
        .addresses = json_render(addresses),
        .credential_hash = xcalloc(1, SECRET_HEX_MAX),
        .nfs_port = port,
        .store_size = size,
        .store_free = space,
        .last_contact = clock_wall_ns(),
    };
    secret_hash(credential, e->agent.credential_hash);
    call->state = e;
    call->free_state = enrolment_free;
    db_submit(call->api->db,
              &(struct db_request){
                  .name = "agent enroll", .run = enroll_run, .done = enroll_done, .arg = e});
}

/* ---- observations ---- */

struct observation {
    char fs_id[UUID_TEXT_MAX];
    int64_t generation;
    const char *state; /* a literal */
    char message[MESSAGE_MAX + 1];
};

struct observed {
    struct arm_call *call;
    int64_t agent;
    size_t count;
    struct observation list[];
};

/* The texts of the protocol; NULL for another. */
static const char *known_state(const char *text)
{
    static const char *const states[] = {"ready", "deleted", "failed"};

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (text != NULL && strcmp(text, states[i]) == 0) {
            return states[i];
        }
    }
    return NULL;
}

static void read_observation(struct agent_fields *f, const json_t *object, struct observation *out)
{
    f->object = object;
    snprintf(out->fs_id, sizeof out->fs_id, "%s", fields_uuid(f, "fileSystemId"));
    out->generation = fields_int(f, "generation", 1, INT64_MAX);
    out->state = known_state(json_string_value(json_object_get(object, "state")));
    if (out->state == NULL && f->bad == NULL) {
        f->bad = "state";
        f->wants = "'ready', 'deleted' or 'failed'";
    }
    const json_t *message = json_object_get(object, "message");
    if (message != NULL && !json_is_string(message) && f->bad == NULL) {
        f->bad = "message";
        f->wants = "a text";
    }
    snprintf(out->message, sizeof out->message, "%s", json_get_text(object, "message", ""));
    /* What was cut off must still be UTF-8: drop a last character that is not whole. */
    size_t len = strlen(out->message);
    if (len == MESSAGE_MAX) {
        while (len > 0 && (out->message[len - 1] & 0xc0) == 0x80) {
            len--;
        }
        if (len > 0 && (out->message[len - 1] & 0x80) != 0) {
            len--;
        }
        out->message[len] = '\0';
    }
}

static int observed_run(struct db_conn *txn, void *arg)
{
    struct observed *all = arg;
    int64_t now = clock_wall_ns();
    int rc = 0;

    for (size_t i = 0; i < all->count && rc == 0; i++) {
        const struct observation *o = &all->list[i];
        rc = volume_observed(txn, all->agent, o->fs_id, o->generation, o->state, o->message, now);
        if (rc == 0 && strcmp(o->state, "deleted") == 0) {
            rc = db_tombstone_delete(txn, all->agent, o->fs_id);
        }
        rc = rc == -ENOENT ? 0 : rc; /* gone already: the agent says so for the second time */
    }
    return rc;
}

/* The metrics of the volumes that went. After the commit and before the answer: if the program
 * stops in between, the agent says so again. */
static void forget_metrics(const struct observed *all)
{
    struct api *api = all->call->api;
    struct db_conn *reader = db_read_begin(api->db);

    for (size_t i = 0; i < all->count; i++) {
        const struct observation *o = &all->list[i];
        struct db_resource row = {0};
        if (strcmp(o->state, "deleted") == 0 &&
            db_resource_get_fs(reader, o->fs_id, &row) == -ENOENT) {
            metrics_db_forget(api->metrics, o->fs_id);
        }
        db_resource_clear(&row);
    }
    db_read_end(reader);
}

static void observed_done(void *arg, int result)
{
    struct observed *all = arg;

    if (result != 0) {
        fail_store(all->call, result);
    } else {
        forget_metrics(all);
        arm_reply(all->call, 200, json_object());
    }
}

void agents_observed(struct arm_call *call)
{
    int64_t agent = agent_of_call(call);

    if (agent == 0) {
        return;
    }
    struct agent_fields f = {.object = call->body};
    const json_t *list = fields_array(&f, "observations", OBSERVATIONS_MAX);
    size_t count = json_array_size(list);
    struct observed *all = xcalloc(1, sizeof *all + count * sizeof all->list[0]);
    all->call = call;
    all->agent = agent;
    all->count = count;
    call->state = all;
    call->free_state = free;
    for (size_t i = 0; i < count && f.bad == NULL; i++) {
        read_observation(&f, json_array_get(list, i), &all->list[i]);
    }
    if (refuse_fault(call, &f)) {
        return;
    }
    db_submit(call->api->db, &(struct db_request){.name = "agent observed",
                                                  .run = observed_run,
                                                  .done = observed_done,
                                                  .arg = all});
}

/* ---- status ---- */

struct batch {
    struct arm_call *call;
    int64_t number;
    size_t count;
    struct metric_increment list[];
};

/* Takes one point, unless it is of a volume that is not (or no longer) this agent's or of a minute
 * that no reader could ask for: such a one would be refused for ever, and the agent's later points
 * with it. */
static void take_point(struct agent_fields *f, const json_t *point, struct db_conn *reader,
                       int64_t agent, struct batch *batch, uint64_t *dropped)
{
    struct metric_increment *m = &batch->list[batch->count];
    struct db_resource row = {0};
    int64_t now = clock_wall_ns();

    f->object = point;
    snprintf(m->fs_id, sizeof m->fs_id, "%s", fields_uuid(f, "fileSystemId"));
    m->minute = fields_int(f, "minute", 0, INT64_MAX / (int64_t)NS_PER_S) * (int64_t)NS_PER_S;
    fields_counts(f, "sums", m->sum, METRIC_SUM_COUNT);
    fields_counts(f, "gauges", m->gauge, METRIC_GAUGE_COUNT);
    if (f->bad == NULL && m->minute % (int64_t)(60 * NS_PER_S) != 0) {
        f->bad = "minute";
        f->wants = "the start of a whole minute, in Unix seconds";
    }
    if (f->bad != NULL) {
        return;
    }
    bool ours = db_resource_get_fs(reader, m->fs_id, &row) == 0 && row.agent == agent;
    db_resource_clear(&row);
    if (ours && m->minute <= now + CLOCK_SKEW_NS && m->minute >= now - HISTORY_NS) {
        batch->count++;
    } else {
        (*dropped)++;
    }
}

static void batch_done(void *arg, int result)
{
    struct batch *b = arg;

    if (result != 0) {
        fail_store(b->call, result);
    } else {
        arm_reply(b->call, 200, json_pack("{s:I}", "batch", (json_int_t)b->number));
    }
}

static void read_load(struct agent_fields *f, struct agent_load *load)
{
    load->store_size = fields_int(f, "storeSize", 0, INT64_MAX);
    load->store_free = fields_int(f, "storeFree", 0, INT64_MAX);
    load->volumes = fields_int(f, "volumes", 0, INT32_MAX);
    load->connections = fields_int(f, "connections", 0, INT32_MAX);
    load->ops_per_second = fields_number(f, "opsPerSecond");
    load->bytes_per_second = fields_number(f, "bytesPerSecond");
    snprintf(load->version, sizeof load->version, "%s",
             fields_text(f, "version", 1, AGENT_VERSION_MAX - 1, "._+~-"));
}

static void store_load(struct agent_registry *r, int64_t agent, const struct agent_load *load,
                       size_t points, uint64_t dropped)
{
    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = registry_find(r, agent);
    if (e != NULL) {
        e->load = *load;
        e->claimed = 0;
        registry_touch(r, e);
    }
    r->counters.points_taken += points;
    r->counters.points_dropped += dropped;
    pthread_mutex_unlock(&r->lock);
}

/* Reads and queues a batch; answers once it is committed. */
static void take_batch(struct arm_call *call, int64_t agent, const struct agent_load *load,
                       const json_t *object)
{
    struct agent_registry *r = call->api->agents;
    struct agent_fields f = {.object = object};
    const char *run = fields_uuid(&f, "run");
    int64_t number = fields_int(&f, "number", 1, INT64_MAX);
    const json_t *points = fields_array(&f, "points", POINTS_MAX);
    size_t count = json_array_size(points);
    uint64_t dropped = 0;
    struct batch *b = xcalloc(1, sizeof *b + (count + 1) * sizeof b->list[0]);

    b->call = call;
    b->number = number;
    call->state = b;
    call->free_state = free;
    struct db_conn *reader = db_read_begin(call->api->db);
    for (size_t i = 0; i < count && f.bad == NULL; i++) {
        take_point(&f, json_array_get(points, i), reader, agent, b, &dropped);
    }
    db_read_end(reader);
    if (refuse_fault(call, &f)) {
        return;
    }
    if (dropped > 0) {
        log_warn("%s: %llu of %zu metric points dropped: of volumes that it does not serve, or of "
                 "a time that is not "
                 "kept (is its clock right?)",
                 call->principal, (unsigned long long)dropped, count);
    }
    store_load(r, agent, load, b->count, dropped);
    char *source = xasprintf("%lld:%s", (long long)agent, run);
    metrics_db_apply(call->api->metrics, source, (uint64_t)number, b->list, b->count, batch_done,
                     b);
    free(source);
}

void agents_status(struct arm_call *call)
{
    int64_t agent = agent_of_call(call);

    if (agent == 0) {
        return;
    }
    struct agent_fields f = {.object = call->body};
    struct agent_load load = {0};
    const json_t *batch = json_object_get(call->body, "batch");
    read_load(&f, &load);
    if (refuse_fault(call, &f)) {
        return;
    }
    if (batch == NULL) {
        store_load(call->api->agents, agent, &load, 0, 0);
        arm_reply(call, 200, json_object());
    } else {
        take_batch(call, agent, &load, batch);
    }
}
