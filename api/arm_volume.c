/*
 * Volumes: the description of the type, and the rules that depend on its pool and on other volumes
 * (anf-api.md B.3, C.5, C.9, C.10; the choices of the design). The arithmetic is
 * api/throughput.c's, export rules are api/export_policy.c's, the place on an agent is
 * api/placement.c's.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/arm_types.h"
#include "api/export_policy.h"
#include "api/placement.h"
#include "api/resource.h"
#include "api/throughput.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"

#define HANDLE_KEY     16 /* bytes */
#define MOUNT_TARGETS  6  /* of a breakthrough volume */
#define USED_LOOK_BACK ((int64_t)(120 * NS_PER_S))

/* ---- the description ---- */

static const struct property_value levels[] = {
    {.name = "Standard"}, {.name = "Premium"},
    {.name = "Ultra"},    {.name = "StandardZRS", .refused = "zone-redundant storage"},
    {.name = "Flexible"}, {0},
};

static const struct property_value protocols[] = {
    {.name = "NFSv3"},
    {.name = "NFSv4.1", .refused = "NFSv4.1"},
    {.name = "CIFS", .refused = "SMB"},
    {0},
};

static const struct property_value styles[] = {
    {.name = "unix"},
    {.name = "ntfs", .refused = "SMB"},
    {0},
};

static const struct property_value network_features[] = {
    {.name = "Basic"},
    {.name = "Standard"},
    {.name = "Basic_Standard", .refused = "changing network features"},
    {.name = "Standard_Basic", .refused = "changing network features"},
    {0},
};

static const struct property_value toggles[] = {{.name = "Enabled"}, {.name = "Disabled"}, {0}};
static const struct property_value zones[] = {{.name = "1"}, {.name = "2"}, {.name = "3"}, {0}};

#define READ_ONLY(property, type)                                                                  \
    {                                                                                              \
        .name = (property), .kind = (type), .flags = PROPERTY_READ_ONLY                            \
    }
#define READ_ONLY_SINCE(property, type, version)                                                   \
    {                                                                                              \
        .name = (property), .kind = (type), .flags = PROPERTY_READ_ONLY, .since = (version)        \
    }
#define REFUSES(property, type, feature)                                                           \
    {                                                                                              \
        .name = (property), .kind = (type), .refused = (feature)                                   \
    }
#define REFUSES_BUT(property, type, only, feature)                                                 \
    {                                                                                              \
        .name = (property), .kind = (type), .otherwise = (only), .refused = (feature)              \
    }

static const struct property properties[] = {
    READ_ONLY("fileSystemId", PROPERTY_TEXT),
    {.name = "creationToken",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_REQUIRED | PROPERTY_CREATE_ONLY,
     .longest = 80,
     .pattern = "^[a-zA-Z][-a-zA-Z0-9_]{0,79}$"},
    {.name = "serviceLevel",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_PATCHABLE | PROPERTY_KEEP,
     .values = levels},
    {.name = "usageThreshold",
     .kind = PROPERTY_INTEGER,
     .flags = PROPERTY_REQUIRED | PROPERTY_PATCHABLE,
     .unit = "bytes",
     .otherwise = "107374182400",
     .min = 50 * GIB,
     .max = 2400 * TIB,
     .step = VOLUME_SIZE_STEP},
    {.name = "exportPolicy",
     .kind = PROPERTY_OBJECT,
     .flags = PROPERTY_PATCHABLE,
     .members = export_policy_members},
    {.name = "protocolTypes",
     .kind = PROPERTY_LIST,
     .flags = PROPERTY_PATCHABLE,
     .otherwise = "[\"NFSv3\"]",
     .values = protocols},
    READ_ONLY("provisioningState", PROPERTY_TEXT),
    {.name = "subnetId",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY | PROPERTY_NOCASE,
     .longest = 1024,
     .pattern = "^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\\.Network/"
                "virtualNetworks/[^/]+/subnets/[^/]+$"},
    {.name = "throughputMibps",
     .kind = PROPERTY_NUMBER,
     .flags = PROPERTY_PATCHABLE,
     .unit = "MiB/s",
     .min = 0, /* at least 1 in a pool of manual QoS: settle_manual */
     .max = 81920},
    READ_ONLY_SINCE("actualThroughputMibps", PROPERTY_NUMBER, "2022-11-01"),
    READ_ONLY("mountTargets", PROPERTY_ANY),
    {.name = "securityStyle",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY,
     .otherwise = "\"unix\"",
     .values = styles},
    {.name = "unixPermissions",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_PATCHABLE,
     .otherwise = "\"0770\"",
     .longest = 4,
     .pattern = "^[0-7]{4}$"},
    {.name = "snapshotDirectoryVisible",
     .kind = PROPERTY_BOOL,
     .flags = PROPERTY_PATCHABLE,
     .otherwise = "true"},
    {.name = "networkFeatures",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY,
     .otherwise = "\"Basic\"",
     .values = network_features},
    READ_ONLY_SINCE("effectiveNetworkFeatures", PROPERTY_TEXT, "2024-07-01"),
    {.name = "isLargeVolume",
     .kind = PROPERTY_BOOL,
     .flags = PROPERTY_CREATE_ONLY,
     .otherwise = "false",
     .since = "2022-09-01"},
    {.name = "breakthroughMode",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY,
     .otherwise = "\"Disabled\"",
     .values = toggles,
     .since = "2026-05-01"},
    READ_ONLY("maximumNumberOfFiles", PROPERTY_INTEGER),
    READ_ONLY_SINCE("provisionedAvailabilityZone", PROPERTY_TEXT, "2022-09-01"),
    READ_ONLY_SINCE("fileAccessLogs", PROPERTY_TEXT, "2022-09-01"),
    READ_ONLY("networkSiblingSetId", PROPERTY_TEXT),
    READ_ONLY("storageToNetworkProximity", PROPERTY_TEXT),
    READ_ONLY("isRestoring", PROPERTY_BOOL),
    READ_ONLY("cloneProgress", PROPERTY_INTEGER),
    READ_ONLY_SINCE("inheritedSizeInBytes", PROPERTY_INTEGER, "2025-06-01"),
    READ_ONLY_SINCE("originatingResourceId", PROPERTY_TEXT, "2022-11-01"),
    READ_ONLY_SINCE("dataStoreResourceId", PROPERTY_ANY, "2022-09-01"),
    READ_ONLY_SINCE("encrypted", PROPERTY_BOOL, "2022-01-01"),
    READ_ONLY("volumeGroupName", PROPERTY_TEXT),
    READ_ONLY("baremetalTenantId", PROPERTY_TEXT),
    READ_ONLY("t2Network", PROPERTY_TEXT),
    REFUSES_BUT("kerberosEnabled", PROPERTY_BOOL, "false", "Kerberos"),
    REFUSES_BUT("ldapEnabled", PROPERTY_BOOL, "false", "LDAP"),
    REFUSES("ldapServerType", PROPERTY_TEXT, "LDAP"),
    REFUSES_BUT("smbEncryption", PROPERTY_BOOL, "false", "SMB"),
    REFUSES_BUT("smbContinuouslyAvailable", PROPERTY_BOOL, "false", "SMB"),
    {.name = "smbAccessBasedEnumeration",
     .kind = PROPERTY_TEXT,
     .since = "2022-05-01",
     .refused = "SMB",
     .accepts = "\"Disabled\""},
    {.name = "smbNonBrowsable",
     .kind = PROPERTY_TEXT,
     .since = "2022-05-01",
     .refused = "SMB",
     .accepts = "\"Disabled\""},
    REFUSES("snapshotId", PROPERTY_TEXT, "volumes from snapshots"),
    REFUSES("backupId", PROPERTY_TEXT, "backups"),
    {.name = "deleteBaseSnapshot",
     .kind = PROPERTY_BOOL,
     .since = "2022-05-01",
     .refused = "volumes from snapshots",
     .accepts = "false"},
    REFUSES("volumeType", PROPERTY_TEXT, "replication and short-term clones"),
    {.name = "acceptGrowCapacityPoolForShortTermCloneSplit",
     .kind = PROPERTY_TEXT,
     .since = "2025-06-01",
     .refused = "short-term clones"},
    REFUSES("dataProtection", PROPERTY_OBJECT, "snapshot policies, backups and replication"),
    REFUSES_BUT("isDefaultQuotaEnabled", PROPERTY_BOOL, "false", "user and group quotas"),
    REFUSES_BUT("defaultUserQuotaInKiBs", PROPERTY_INTEGER, "0", "user and group quotas"),
    REFUSES_BUT("defaultGroupQuotaInKiBs", PROPERTY_INTEGER, "0", "user and group quotas"),
    REFUSES_BUT("coolAccess", PROPERTY_BOOL, "false", "cool access"),
    REFUSES("coolnessPeriod", PROPERTY_INTEGER, "cool access"),
    {.name = "coolAccessRetrievalPolicy",
     .kind = PROPERTY_TEXT,
     .since = "2023-05-01",
     .refused = "cool access",
     .accepts = "\"Default\""},
    {.name = "coolAccessTieringPolicy",
     .kind = PROPERTY_TEXT,
     .since = "2025-03-01",
     .refused = "cool access",
     .accepts = "\"Auto\""},
    REFUSES_BUT("encryptionKeySource", PROPERTY_TEXT, "\"Microsoft.NetApp\"",
                "customer-managed encryption keys"),
    {.name = "keyVaultPrivateEndpointResourceId",
     .kind = PROPERTY_TEXT,
     .since = "2022-03-01",
     .refused = "customer-managed encryption keys"},
    REFUSES_BUT("avsDataStore", PROPERTY_TEXT, "\"Disabled\"", "Azure VMware Solution data stores"),
    REFUSES_BUT("enableSubvolumes", PROPERTY_TEXT, "\"Disabled\"", "subvolumes"),
    REFUSES("capacityPoolResourceId", PROPERTY_TEXT, "volume groups"),
    REFUSES("proximityPlacementGroup", PROPERTY_TEXT, "volume groups"),
    REFUSES("volumeSpecName", PROPERTY_TEXT, "volume groups"),
    REFUSES("placementRules", PROPERTY_LIST, "volume groups"),
    {0},
};

static const struct property table[] = {
    RESOURCE_ENVELOPE,
    {.name = "zones",
     .kind = PROPERTY_LIST,
     .flags = PROPERTY_CREATE_ONLY,
     .since = "2022-01-01",
     .longest = 1,
     .values = zones},
    {.name = "properties",
     .kind = PROPERTY_OBJECT,
     .flags = PROPERTY_PATCHABLE,
     .members = properties},
    {0},
};

/* ---- rules ---- */

struct change {
    struct resource_write *w;
    json_t *p;           /* the new properties */
    const json_t *given; /* the request's */
    json_t *pool;        /* the pool's properties */
    const char *level;
    bool manual;
    enum volume_kind kind;
    int64_t quota;
    struct db_sums others; /* the pool's other volumes */
};

__attribute__((format(printf, 3, 4))) static int refuse(struct change *c, const char *name,
                                                        const char *fmt, ...)
{
    char target[64], message[300];
    va_list ap;

    snprintf(target, sizeof target, "properties.%s", name);
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    arm_error_set(&c->w->error, 400, "InvalidValueReceived", target, "%s", message);
    return REFUSED;
}

static int check_level(struct change *c)
{
    const char *level = json_get_text(c->p, "serviceLevel", c->level);

    if (strcmp(level, c->level) != 0) {
        return refuse(c, "serviceLevel",
                      "The volume's service level '%s' must be that of its pool, '%s'.", level,
                      c->level);
    }
    json_object_set_new(c->p, "serviceLevel", json_string(c->level));
    return 0;
}

static int check_kind(struct change *c)
{
    const json_t *large = json_object_get(c->given, "isLargeVolume");
    bool breakthrough = strcmp(json_get_text(c->p, "breakthroughMode", ""), "Enabled") == 0;

    if (breakthrough && json_is_false(large)) {
        return refuse(c, "isLargeVolume",
                      "A volume in breakthrough mode is a large volume: isLargeVolume cannot be "
                      "false.");
    }
    if (breakthrough) {
        json_object_set_new(c->p, "isLargeVolume", json_true());
    }
    c->kind = volume_kind_of(json_get_bool(c->p, "isLargeVolume", false), breakthrough);
    return 0;
}

static int check_quota(struct change *c)
{
    static const char *const names[] = {[VOLUME_REGULAR] = "regular volume",
                                        [VOLUME_LARGE] = "large volume",
                                        [VOLUME_BREAKTHROUGH] = "volume in breakthrough mode"};
    struct resource_write *w = c->w;

    if (c->quota < volume_size_min(c->kind) || c->quota > volume_size_max(c->kind)) {
        return refuse(c, "usageThreshold",
                      "The usageThreshold of a %s must be from %" PRId64 " to %" PRId64
                      " bytes; it is %" PRId64 ".",
                      names[c->kind], volume_size_min(c->kind), volume_size_max(c->kind), c->quota);
    }
    if (w->exists && c->quota < w->row.size && c->quota < w->used) {
        return refuse(c, "usageThreshold",
                      "The usageThreshold cannot go below what the volume holds, %" PRId64
                      " bytes.",
                      w->used);
    }
    bool grows = !w->exists || c->quota > w->row.size;
    if (grows && c->others.size + c->quota > w->parent.size) {
        arm_error_set(&w->error, 400, "BadRequest", "properties.usageThreshold",
                      "The pool '%.64s' of %" PRId64 " bytes is too small: its other volumes have "
                      "%" PRId64 " bytes, this one would have %" PRId64 ".",
                      w->parent.name, w->parent.size, c->others.size, c->quota);
        w->error.detail_code = "PoolSizeTooSmall";
        return REFUSED;
    }
    return 0;
}

/* In an Auto pool the limit follows from the quota. What a GET showed may be sent back. */
static int settle_auto(struct change *c)
{
    const json_t *given = json_object_get(c->p, "throughputMibps");
    double limit = auto_throughput_mibps(c->level, c->quota, c->kind);
    double value = json_number_value(given);
    bool repeated = c->w->exists && value == c->w->row.throughput;

    if (given != NULL && !repeated && value != limit) {
        return refuse(
            c, "throughputMibps",
            "throughputMibps is for volumes in pools of manual QoS; in the pool '%.64s' it "
            "follows from the quota.",
            c->w->parent.name);
    }
    json_object_del(c->p, "throughputMibps");
    c->w->row.throughput = limit;
    return 0;
}

static int settle_manual(struct change *c)
{
    struct resource_write *w = c->w;
    const json_t *given = json_object_get(c->p, "throughputMibps");
    double value = json_number_value(given), ceiling = volume_ceiling_mibps(c->kind);

    if (given == NULL) {
        arm_error_set(
            &w->error, 400, "BadRequest", "properties.throughputMibps",
            "The required value 'properties.throughputMibps' is missing: the pool '%.64s' "
            "has manual QoS.",
            w->parent.name);
        w->error.detail_code = "MissingValue";
        return REFUSED;
    }
    bool repeated = w->exists && value == w->row.throughput;
    if (!repeated && (value < MANUAL_MIN_MIBPS || value > ceiling)) {
        return refuse(c, "throughputMibps",
                      "The throughputMibps of this kind of volume must be from %.0f to %.0f MiB/s.",
                      MANUAL_MIN_MIBPS, ceiling);
    }
    bool grows = !w->exists || value > w->row.throughput;
    if (grows && !throughput_fits(c->others.throughput + value, w->parent.throughput)) {
        return refuse(
            c, "throughputMibps",
            "The pool '%.64s' has %.10g MiB/s, of which its other volumes take %.10g; this "
            "one cannot have %.10g.",
            w->parent.name, w->parent.throughput, c->others.throughput, value);
    }
    w->row.throughput = value;
    return 0;
}

static int check_throughput(struct change *c)
{
    return c->manual ? settle_manual(c) : settle_auto(c);
}

static int check_protocols(struct change *c)
{
    if (json_array_size(json_object_get(c->p, "protocolTypes")) != 1) {
        return refuse(c, "protocolTypes", "protocolTypes must be [\"NFSv3\"].");
    }
    return 0;
}

static int check_exports(struct change *c)
{
    json_t *rules = json_object_get(json_object_get(c->p, "exportPolicy"), "rules");

    if (rules == NULL || json_is_null(rules)) {
        json_object_set_new(c->p, "exportPolicy", export_policy_default());
        return 0;
    }
    return export_policy_check(rules, &c->w->error) ? 0 : REFUSED;
}

static int settle_subnet(struct change *c)
{
    if (json_object_get(c->p, "subnetId") == NULL) {
        char *id = xasprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Network/"
                             "virtualNetworks/default/subnets/default",
                             c->w->row.subscription, c->w->row.group);
        json_object_set_new(c->p, "subnetId", json_string(id));
        free(id);
    }
    return 0;
}

static int check_path(struct change *c)
{
    const char *token = json_get_text(c->p, "creationToken", "");

    if (strcasecmp(token, "default") == 0 || strcasecmp(token, "none") == 0) {
        return refuse(c, "creationToken", "The creationToken '%s' is reserved.", token);
    }
    return 0;
}

static int rules(struct resource_write *w)
{
    static int (*const checks[])(struct change * c) = {
        check_path,    check_level,     check_kind,    check_quota,
        settle_subnet, check_protocols, check_exports, check_throughput};
    json_t *pool = json_loads(w->parent.doc, 0, NULL);
    struct change c = {.w = w,
                       .p = json_object_get(w->doc, "properties"),
                       .given = json_object_get(w->given, "properties"),
                       .pool = json_object_get(pool, "properties")};
    int rc = db_resource_sums(w->txn, w->parent.rid, w->row.rid, &c.others);

    c.level = json_get_text(c.pool, "serviceLevel", "");
    c.manual = strcmp(json_get_text(c.pool, "qosType", ""), "Manual") == 0;
    c.quota = json_get_int(c.p, "usageThreshold", 0);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && rc == 0; i++) {
        rc = checks[i](&c);
    }
    w->row.size = c.quota;
    json_decref(pool);
    return rc;
}

/* ---- a new one ---- */

static const char *zone_of(const json_t *doc)
{
    const char *zone = json_string_value(json_array_get(json_object_get(doc, "zones"), 0));

    return zone == NULL ? "" : zone;
}

/* "location/zone/subnet/path", lower case: what must be unique (C.9). */
static char *make_export_key(const struct resource_write *w)
{
    const json_t *p = json_object_get(w->doc, "properties");
    char *key = xasprintf("%s/%s%s/%s", w->row.location, zone_of(w->doc),
                          json_get_text(p, "subnetId", ""), json_get_text(p, "creationToken", ""));

    for (char *c = key; *c != '\0'; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    }
    return key;
}

static void make_handle_key(struct db_resource *r)
{
    unsigned char key[HANDLE_KEY];

    randombytes_buf(key, sizeof key);
    r->handle_key = xcalloc(1, 2 * HANDLE_KEY + 1);
    sodium_bin2hex(r->handle_key, 2 * HANDLE_KEY + 1, key, sizeof key);
    sodium_memzero(key, sizeof key);
}

static int create(struct resource_write *w)
{
    struct uuid id = uuid_random();
    const json_t *p = json_object_get(w->doc, "properties");
    struct db_resource *r = &w->row;

    r->export_key = make_export_key(w);
    if (db_export_key_owner(w->txn, r->export_key) != 0) {
        arm_error_set(&w->error, 400, "InvalidValueReceived", "properties.creationToken",
                      "The creationToken '%s' is in use already in this subnet, region and zone.",
                      json_get_text(p, "creationToken", ""));
        return REFUSED;
    }
    r->fs_id = xcalloc(1, UUID_TEXT_MAX);
    uuid_format(&id, r->fs_id);
    make_handle_key(r);
    bool breakthrough = strcmp(json_get_text(p, "breakthroughMode", ""), "Enabled") == 0;
    char *subnet = volume_subnet_key(r);
    bool placed =
        placement_claim(w->call->api, w->txn, r, zone_of(w->doc), subnet, breakthrough, &w->error);
    free(subnet);
    return placed ? 0 : REFUSED;
}

/* ---- what a GET shows ---- */

static json_t *mount_target(const struct db_resource *r, const char *address, int64_t ordinal)
{
    char id[UUID_TEXT_MAX];
    struct uuid fs, target;

    /* The first is the file system's own id, as the service that this follows has it. */
    snprintf(id, sizeof id, "%s", r->fs_id);
    if (ordinal > 0 && uuid_parse(r->fs_id, &fs)) {
        char name[32];
        snprintf(name, sizeof name, "mountTarget/%" PRId64, ordinal);
        target = uuid_derive(&fs, name);
        uuid_format(&target, id);
    }
    return json_pack("{s:s, s:s, s:s}", "mountTargetId", id, "fileSystemId", r->fs_id, "ipAddress",
                     address);
}

static json_t *mount_targets(struct db_conn *c, const struct db_resource *r)
{
    json_t *addresses = volume_addresses(c, r), *out = json_array();

    for (size_t i = 0; i < json_array_size(addresses); i++) {
        json_array_append_new(
            out, mount_target(r, json_string_value(json_array_get(addresses, i)), (int64_t)i));
    }
    json_decref(addresses);
    return out;
}

static json_t *computed(struct db_conn *c, const struct db_resource *r, const json_t *doc)
{
    const json_t *stored = json_object_get(doc, "properties");
    json_t *p = json_object();

    if (r->observed > 0) { /* not before an agent serves it */
        json_object_set_new(p, "fileSystemId", json_string(r->fs_id));
        json_object_set_new(p, "mountTargets", mount_targets(c, r));
    }
    if (json_object_get(stored, "throughputMibps") == NULL) {
        json_object_set_new(p, "throughputMibps", json_real(r->throughput));
    }
    json_object_set_new(p, "actualThroughputMibps", json_real(r->throughput));
    json_object_set_new(p, "effectiveNetworkFeatures",
                        json_string(json_get_text(stored, "networkFeatures", "Basic")));
    json_object_set_new(p, "maximumNumberOfFiles",
                        json_integer(volume_max_files(r->size, volume_kind_of_row(r))));
    json_object_set_new(p, "fileAccessLogs", json_string("Disabled"));
    if (zone_of(doc)[0] != '\0') {
        json_object_set_new(p, "provisionedAvailabilityZone", json_string(zone_of(doc)));
    }
    return json_pack("{s:o}", "properties", p);
}

/* ---- what it holds ---- */

static int take_used(const struct metric_point *point, void *arg)
{
    if (point->has_gauge) {
        *(int64_t *)arg = (int64_t)point->gauge[METRIC_GAUGE_LOGICAL_BYTES];
    }
    return 0;
}

/* A smaller quota is compared with what the volume last held, where that is known. */
static void look(struct resource_write *w, const struct db_resource *r)
{
    const json_t *p = json_object_get(w->given, "properties");
    const int64_t minute = (int64_t)(60 * NS_PER_S);
    int64_t now = clock_wall_ns(), from = (now - USED_LOOK_BACK) / minute * minute;

    if (json_get_int(p, "usageThreshold", r->size) < r->size) {
        metrics_db_read(w->call->api->metrics, r->fs_id, from, now, minute, now, take_used,
                        &w->used);
    }
}

static json_t *spec(struct db_conn *c, const struct db_resource *r)
{
    json_t *out = volume_agent_spec(c, r);

    json_object_del(out, "generation");
    return out;
}

static const char *const reserved[] = {"default", "bin", NULL};

const struct resource_type volume_type = {
    .name = TYPE_VOLUME,
    .parent = &pool_type,
    .param = ARM_VOLUME,
    .name_pattern = "^[a-zA-Z][-a-zA-Z0-9_]{0,63}$",
    .reserved = reserved,
    .table = table,
    .served = true,
    .rules = rules,
    .create = create,
    .computed = computed,
    .spec = spec,
    .look = look,
};

void volume_put(struct arm_call *call)
{
    resource_put(call, &volume_type);
}

void volume_get(struct arm_call *call)
{
    resource_get(call, &volume_type);
}

void volume_patch(struct arm_call *call)
{
    resource_patch(call, &volume_type);
}

void volume_delete(struct arm_call *call)
{
    resource_delete(call, &volume_type);
}

void volume_list(struct arm_call *call)
{
    resource_list(call, &volume_type);
}
