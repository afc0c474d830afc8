/*
 * Capacity pools: the description of the type, and the rules of service levels, QoS types and sizes
 * (anf-api.md C.1 to C.4). The arithmetic is api/throughput.c's.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/arm_types.h"
#include "api/operation.h"
#include "api/resource.h"
#include "api/throughput.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"

static const struct property_value levels[] = {
    {.name = "Standard"}, {.name = "Premium"},
    {.name = "Ultra"},    {.name = "StandardZRS", .refused = "zone-redundant storage"},
    {.name = "Flexible"}, {0},
};

static const struct property_value qos_types[] = {{.name = "Auto"}, {.name = "Manual"}, {0}};

static const struct property_value encryption_types[] = {
    {.name = "Single"},
    {.name = "Double", .refused = "double encryption"},
    {0},
};

static const struct property properties[] = {
    {.name = "poolId", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "size",
     .kind = PROPERTY_INTEGER,
     .flags = PROPERTY_REQUIRED | PROPERTY_PATCHABLE,
     .unit = "bytes",
     .otherwise = "4398046511104",
     .min = POOL_SIZE_MIN,
     .max = POOL_SIZE_MAX,
     .step = POOL_SIZE_STEP},
    {.name = "serviceLevel",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_REQUIRED,
     .otherwise = "\"Premium\"",
     .values = levels},
    {.name = "qosType",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_PATCHABLE | PROPERTY_KEEP,
     .values = qos_types},
    {.name = "customThroughputMibps",
     .kind = PROPERTY_INTEGER,
     .flags = PROPERTY_PATCHABLE | PROPERTY_KEEP,
     .unit = "MiB/s",
     .since = "2025-06-01"},
    {.name = "totalThroughputMibps",
     .kind = PROPERTY_NUMBER,
     .flags = PROPERTY_READ_ONLY,
     .unit = "MiB/s"},
    {.name = "utilizedThroughputMibps",
     .kind = PROPERTY_NUMBER,
     .flags = PROPERTY_READ_ONLY,
     .unit = "MiB/s"},
    {.name = "coolAccess", .kind = PROPERTY_BOOL, .otherwise = "false", .refused = "cool access"},
    {.name = "encryptionType",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY,
     .otherwise = "\"Single\"",
     .values = encryption_types},
    {.name = "provisioningState", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {0},
};

static const struct property table[] = {
    RESOURCE_ENVELOPE,
    {.name = "properties",
     .kind = PROPERTY_OBJECT,
     .flags = PROPERTY_PATCHABLE,
     .members = properties},
    {0},
};

/* ---- rules ---- */

/* A pool as it was and as it is to be. */
struct change {
    struct resource_write *w;
    json_t *p; /* the new properties */
    const char *level, *old_level, *old_qos;
    int64_t size;
    double custom, old_custom; /* 0 for a pool that is not Flexible */
    bool manual, flexible, converts;
    struct db_sums sums;
};

static int refuse(struct change *c, const char *name, const char *message)
{
    char target[64];

    snprintf(target, sizeof target, "properties.%s", name);
    arm_error_set(&c->w->error, 400, "InvalidValueReceived", target, "%s", message);
    return REFUSED;
}

static int check_level(struct change *c)
{
    if (!c->w->exists || strcmp(c->level, c->old_level) == 0) {
        return 0;
    }
    if (c->sums.count > 0) {
        return refuse(c, "serviceLevel",
                      "The service level of a pool that has volumes cannot be changed.");
    }
    if (c->flexible || service_level_is_flexible(c->old_level)) {
        return refuse(c, "serviceLevel",
                      "A pool cannot be converted to or from the Flexible service level.");
    }
    return 0;
}

static int check_qos(struct change *c)
{
    const char *qos = json_get_text(c->p, "qosType", NULL);

    if (qos == NULL) {
        qos = c->flexible ? "Manual" : "Auto";
        json_object_set_new(c->p, "qosType", json_string(qos));
    }
    c->manual = strcmp(qos, "Manual") == 0;
    if (c->flexible && !c->manual) {
        return refuse(c, "qosType", "A Flexible pool must have the qosType Manual.");
    }
    if (c->w->exists && !c->manual && strcmp(c->old_qos, "Manual") == 0) {
        return refuse(c, "qosType", "A pool of manual QoS cannot be converted to automatic QoS.");
    }
    c->converts = c->w->exists && c->manual && strcmp(c->old_qos, "Auto") == 0;
    return 0;
}

/* "23 hours and 59 minutes", rounded up to a minute. */
static void format_wait(int64_t wait_ns, char *out, size_t size)
{
    int64_t minute = (int64_t)NS_PER_S * 60, minutes = (wait_ns + minute - 1) / minute;

    snprintf(out, size, "%" PRId64 " hours and %" PRId64 " minutes", minutes / 60, minutes % 60);
}

static int check_cooldown(struct change *c)
{
    struct db_resource *r = &c->w->row;
    int64_t wait;

    if (!flexible_change_allowed(c->old_custom, c->custom, r->cooldown_until, c->w->now, &wait)) {
        char left[64];
        format_wait(wait, left, sizeof left);
        arm_error_set(
            &c->w->error, 400, "PoolCustomThroughputCanNotBeDecreasedDuringCoolDownPeriod",
            "properties.customThroughputMibps",
            "The throughput of a Flexible pool cannot be lowered within 24 hours after it "
            "was raised. Time left: %s.",
            left);
        return REFUSED;
    }
    r->cooldown_until =
        flexible_cooldown_after(c->old_custom, c->custom, r->cooldown_until, c->w->now);
    return 0;
}

static int check_custom(struct change *c)
{
    json_t *custom = json_object_get(c->p, "customThroughputMibps");
    char message[160];

    if (!c->flexible) {
        return custom == NULL ? 0
                              : refuse(c, "customThroughputMibps",
                                       "customThroughputMibps is for pools of the Flexible service "
                                       "level only.");
    }
    if (custom == NULL) {
        custom = json_integer((json_int_t)FLEXIBLE_MIN_MIBPS);
        json_object_set_new(c->p, "customThroughputMibps", custom);
    }
    c->custom = json_number_value(custom);
    if (c->custom < FLEXIBLE_MIN_MIBPS || c->custom > flexible_max_mibps(c->size)) {
        snprintf(message, sizeof message,
                 "customThroughputMibps must be from %.0f to %.0f MiB/s in a Flexible pool of this "
                 "size (%.0f MiB/s per TiB).",
                 FLEXIBLE_MIN_MIBPS, flexible_max_mibps(c->size), FLEXIBLE_MIBPS_PER_TIB);
        return refuse(c, "customThroughputMibps", message);
    }
    return c->w->exists ? check_cooldown(c) : 0;
}

/* What is in the pool must fit into what it becomes. */
static int check_sums(struct change *c)
{
    double total = pool_total_mibps(c->level, c->size, c->custom);
    char message[160];

    if (c->size < c->sums.size) {
        arm_error_set(&c->w->error, 400, "BadRequest", "properties.size",
                      "The pool's size of %" PRId64 " bytes is too small for its volumes' quotas, "
                      "%" PRId64 " bytes together.",
                      c->size, c->sums.size);
        c->w->error.detail_code = "PoolSizeTooSmall";
        return REFUSED;
    }
    if (c->manual && !c->converts && !throughput_fits(c->sums.throughput, total)) {
        snprintf(message, sizeof message,
                 "The pool would have %.10g MiB/s, but its volumes have %.10g MiB/s together.",
                 total, c->sums.throughput);
        return refuse(c, c->flexible ? "customThroughputMibps" : "size", message);
    }
    c->w->row.size = c->size;
    c->w->row.throughput = total;
    return 0;
}

/* ---- automatic to manual QoS ---- */

/* Every volume keeps its throughput as its manual value (C.4). Below the least manual value of
 * 1 MiB/s it is raised to that, unless all of them raised do not fit: then they stay as they are.
 */
struct conversion {
    struct change *c;
    bool raise;
    double raised_sum;
    int rc;
};

static double kept_mibps(const struct db_resource *volume)
{
    /* The ceiling of its kind bounds it already. */
    return converted_mibps(volume->throughput, volume_kind_of_row(volume));
}

static int add_raised(const struct db_resource *volume, void *arg)
{
    struct conversion *v = arg;

    v->raised_sum += kept_mibps(volume);
    return 0;
}

static int convert_one(const struct db_resource *volume, void *arg)
{
    struct conversion *v = arg;
    struct resource_write *w = v->c->w;
    double mibps = v->raise ? kept_mibps(volume) : volume->throughput;
    bool same = mibps == volume->throughput;
    struct db_resource r;
    char operation[UUID_TEXT_MAX];

    db_resource_copy(&r, volume);
    json_t *doc = json_loads(r.doc, 0, NULL);
    json_object_set_new(json_object_get(doc, "properties"), "throughputMibps", json_real(mibps));
    free(r.doc);
    r.doc = json_render(doc);
    r.throughput = mibps;
    bool deleting = r.verb == DB_VERB_DELETING && r.observed < r.generation;
    v->rc = same || deleting ? db_resource_update(w->txn, &r)
                             : resource_advance(w->call->api, w->txn, &r, DB_VERB_UPDATING,
                                                "UPDATE", w->now, &w->wake, operation);
    json_decref(doc);
    db_resource_clear(&r);
    return v->rc;
}

static int convert_volumes(struct change *c)
{
    struct conversion v = {.c = c};
    struct db_list all = {.parent = c->w->row.rid, .after = ""};
    int rc = db_resource_each(c->w->txn, &all, add_raised, &v);

    if (rc >= 0) {
        v.raise = throughput_fits(v.raised_sum, c->w->row.throughput);
        rc = db_resource_each(c->w->txn, &all, convert_one, &v);
    }
    return rc < 0 ? rc : v.rc;
}

static int rules(struct resource_write *w)
{
    const json_t *old = json_object_get(w->old, "properties");
    struct change c = {.w = w, .p = json_object_get(w->doc, "properties")};
    int rc = w->exists ? db_resource_sums(w->txn, w->row.rid, 0, &c.sums) : 0;

    c.level = json_get_text(c.p, "serviceLevel", "");
    c.old_level = json_get_text(old, "serviceLevel", "");
    c.old_qos = json_get_text(old, "qosType", "");
    c.old_custom = json_get_number(old, "customThroughputMibps", 0);
    c.size = json_get_int(c.p, "size", 0);
    c.flexible = service_level_is_flexible(c.level);
    if (rc != 0 || (rc = check_level(&c)) != 0 || (rc = check_qos(&c)) != 0 ||
        (rc = check_custom(&c)) != 0 || (rc = check_sums(&c)) != 0) {
        return rc;
    }
    return c.converts ? convert_volumes(&c) : 0;
}

static int create(struct resource_write *w)
{
    struct uuid id = uuid_random();
    char text[UUID_TEXT_MAX];

    json_object_set_new(w->doc, "_poolId", json_string(uuid_format(&id, text)));
    return 0;
}

static json_t *computed(struct db_conn *c, const struct db_resource *r, const json_t *doc)
{
    struct db_sums sums = {0};

    db_resource_sums(c, r->rid, 0, &sums);
    /* A sum of decimal fractions: its noise is far below the API's thousandths. */
    double used = (double)llround(sums.throughput * 1000) / 1000;
    return json_pack("{s:{s:s, s:f, s:f}}", "properties", "poolId",
                     json_get_text(doc, "_poolId", ""), "totalThroughputMibps", r->throughput,
                     "utilizedThroughputMibps", used);
}

const struct resource_type pool_type = {
    .name = TYPE_POOL,
    .parent = &account_type,
    .param = ARM_POOL,
    .name_pattern = "^[a-zA-Z0-9][-a-zA-Z0-9_]{0,63}$",
    .table = table,
    .rules = rules,
    .create = create,
    .computed = computed,
};

void pool_put(struct arm_call *call)
{
    resource_put(call, &pool_type);
}

void pool_get(struct arm_call *call)
{
    resource_get(call, &pool_type);
}

void pool_patch(struct arm_call *call)
{
    resource_patch(call, &pool_type);
}

void pool_delete(struct arm_call *call)
{
    resource_delete(call, &pool_type);
}

void pool_list(struct arm_call *call)
{
    resource_list(call, &pool_type);
}
