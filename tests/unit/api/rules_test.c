/*
 * What each type accepts and refuses: a table of calls with the answer that anf-api.md B to D and
 * the choices table of the design give them. No refused call may change anything.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_util.h"
#include "tests/unit/api/arm_fixture.h"

#define VOLUME  POOL "/volumes/vol"
#define NEW     POOL "/volumes/new"
#define MNEW    MANUAL "/volumes/new"
#define NEWPOOL ACCOUNT "/capacityPools/new"
#define FLEX    ACCOUNT "/capacityPools/flex" /* 10 TiB, 6,400 MiB/s */

#define IN_EAST              "{\"location\":\"eastus\",\"properties\":{"
#define V(more)              IN_EAST "\"creationToken\":\"new\",\"usageThreshold\":" GIB_TEXT_100 more "}}"
#define Q(quota, more)       IN_EAST "\"creationToken\":\"new\",\"usageThreshold\":" quota more "}}"
#define P(size, level, more) IN_EAST "\"size\":" size ",\"serviceLevel\":\"" level "\"" more "}}"
#define RULES(list)          V(",\"exportPolicy\":{\"rules\":[" list "]}")
#define RULE(index, more)    "{\"ruleIndex\":" index ",\"allowedClients\":\"10.0.0.0/8\"" more "}"
#define CLIENT(list)         "{\"ruleIndex\":1,\"allowedClients\":\"" list "\"}"

#define INVALID "InvalidValueReceived"
#define FEATURE "FeatureNotSupported"
#define SHAPE   "InvalidRequestContent"

struct row {
    const char *method, *path, *body;
    int status;
    const char *code, *target, *detail;
};

static const struct row refused[] = {
    /* the envelope */
    {"PUT", ACCOUNTS "/n", "{}", 400, "LocationRequired", "location", ""},
    {"PUT", ACCOUNTS "/n", "{\"location\":\"east/us\"}", 400, INVALID, "location", ""},
    {"PUT", ACCOUNTS "/n", "{\"location\":7}", 400, INVALID, "location", ""},
    {"PUT", ACCOUNT, "{\"location\":\"westus\"}", 409, "InvalidResourceLocation", "location", ""},
    {"PATCH", ACCOUNT, "{\"location\":\"westus\"}", 409, "InvalidResourceLocation", "location", ""},
    {"PUT", NEWPOOL,
     "{\"location\":\"westus\",\"properties\":{\"size\":" TIB_TEXT_4
     ",\"serviceLevel\":\"Premium\"}}",
     409, "InvalidResourceLocation", "location", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"name\":\"other\"}", 400, INVALID, "name", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"etag\":\"x\"}", 400, INVALID, "etag", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"kind\":\"x\"}", 400, SHAPE, "kind", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"Location\":\"eastus\"}", 400, SHAPE, "location",
     ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"tags\":[]}", 400, INVALID, "tags", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"tags\":{\"\":\"x\"}}", 400, INVALID, "tags", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"properties\":[]}", 400, INVALID, "properties", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"identity\":{\"type\":\"SystemAssigned\"}}", 400,
     FEATURE, "identity", ""},
    {"PUT", ACCOUNT, IN_EAST "\"encryption\":{\"keySource\":\"Microsoft.KeyVault\"}}}", 400,
     FEATURE, "properties.encryption.keySource", ""},
    {"PUT", ACCOUNT, IN_EAST "\"activeDirectories\":[{\"domain\":\"d\"}]}}", 400, FEATURE,
     "properties.activeDirectories", ""},
    /* pools */
    {"PUT", NEWPOOL, IN_EAST "\"serviceLevel\":\"Premium\"}}", 400, "BadRequest", "properties.size",
     "MissingValue"},
    {"PUT", NEWPOOL, P("549755813888", "Premium", ""), 400, INVALID, "properties.size", ""},
    {"PUT", NEWPOOL, P("2252899325313024", "Premium", ""), 400, INVALID, "properties.size", ""},
    {"PUT", NEWPOOL, P("4398046511105", "Premium", ""), 400, INVALID, "properties.size", ""},
    {"PUT", NEWPOOL, P("4398046511104.5", "Premium", ""), 400, INVALID, "properties.size", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_4, "StandardZRS", ""), 400, FEATURE, "properties.serviceLevel", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_4, "Premium", ",\"coolAccess\":true"), 400, FEATURE,
     "properties.coolAccess", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_4, "Premium", ",\"encryptionType\":\"Double\""), 400, FEATURE,
     "properties.encryptionType", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_4, "Flexible", ",\"customThroughputMibps\":128.5"), 400, INVALID,
     "properties.customThroughputMibps", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_4, "Flexible", ",\"customThroughputMibps\":2561"), 400, INVALID,
     "properties.customThroughputMibps", ""},
    {"PUT", NEWPOOL "?api-version=2025-03-01",
     P(TIB_TEXT_4, "Flexible", ",\"customThroughputMibps\":200"), 400, SHAPE,
     "properties.customThroughputMibps", ""},
    {"PATCH", FLEX, "{\"properties\":{\"size\":" TIB_TEXT_4 "}}", 400, INVALID,
     "properties.customThroughputMibps", ""},
    {"PATCH", FLEX, "{\"properties\":{\"serviceLevel\":\"Ultra\"}}", 400, INVALID,
     "properties.serviceLevel", ""},
    {"PUT", FLEX, P(TIB_TEXT_4, "Ultra", ""), 400, INVALID, "properties.serviceLevel", ""},
    {"PATCH", POOL, "{\"properties\":{\"size\":null}}", 400, "BadRequest", "properties.size",
     "MissingValue"},
    {"PATCH", POOL, "{\"properties\":{\"size\":" TIB_TEXT_1 "}}", 400, "BadRequest",
     "properties.size", "PoolSizeTooSmall"},
    /* 2 TiB of Premium are 128 MiB/s; the volume in the manual pool has 200. */
    {"PATCH", MANUAL, "{\"properties\":{\"size\":" TIB_TEXT_2 "}}", 400, INVALID, "properties.size",
     ""},
    /* volumes: names, sizes, kinds */
    {"PUT", POOL "/volumes/bin", V(""), 400, "InvalidResourceName", "", ""},
    {"PUT", NEW,
     "{\"location\":\"westus\",\"properties\":{\"creationToken\":\"new\","
     "\"usageThreshold\":" GIB_TEXT_100 "}}",
     409, "InvalidResourceLocation", "location", ""},
    {"PUT", NEW, IN_EAST "\"creationToken\":\"Default\",\"usageThreshold\":" GIB_TEXT_100 "}}", 400,
     INVALID, "properties.creationToken", ""},
    {"PUT", NEW, IN_EAST "\"creationToken\":\"VOL\",\"usageThreshold\":" GIB_TEXT_100 "}}", 400,
     INVALID, "properties.creationToken", ""},
    {"PUT", NEW, Q("52613349376", ""), 400, INVALID, "properties.usageThreshold", ""}, /* 49 GiB */
    {"PUT", NEW, Q(TIB_TEXT_2, ",\"isLargeVolume\":true"), 400, INVALID,
     "properties.usageThreshold", ""},
    {"PUT", NEW, Q(GIB_TEXT_2400, ",\"breakthroughMode\":\"Enabled\",\"isLargeVolume\":false"), 400,
     INVALID, "properties.isLargeVolume", ""},
    {"PUT", NEW, Q("2575906635776", ",\"breakthroughMode\":\"Enabled\""), 400, INVALID,
     "properties.usageThreshold", ""}, /* 2,399 GiB */
    {"PUT", NEW "?api-version=2026-04-01", Q(GIB_TEXT_2400, ",\"breakthroughMode\":\"Enabled\""),
     400, SHAPE, "properties.breakthroughMode", ""},
    {"PUT", NEW, Q(TIB_TEXT_4, ""), 400, "BadRequest", "properties.usageThreshold",
     "PoolSizeTooSmall"},
    {"PATCH", VOLUME, "{\"properties\":{\"usageThreshold\":5497558138880}}", 400, "BadRequest",
     "properties.usageThreshold", "PoolSizeTooSmall"},
    {"PATCH", VOLUME, "{\"properties\":{\"isLargeVolume\":true}}", 400, INVALID,
     "properties.isLargeVolume", ""},
    {"PUT", VOLUME,
     IN_EAST "\"creationToken\":\"vol\",\"usageThreshold\":" TIB_TEXT_2 ",\"subnetId\":\"" GROUP
             "/providers/Microsoft.Network/virtualNetworks/v/subnets/other\"}}",
     400, INVALID, "properties.subnetId", ""},
    {"PUT", NEW, V(",\"subnetId\":\"default\""), 400, INVALID, "properties.subnetId", ""},
    {"PUT", VOLUME,
     "{\"location\":\"eastus\",\"zones\":[\"2\"],\"properties\":{\"creationToken\":"
     "\"vol\",\"usageThreshold\":" TIB_TEXT_2 "}}",
     400, INVALID, "zones", ""},
    {"PUT", NEW "?api-version=2021-10-01",
     "{\"location\":\"eastus\",\"zones\":[\"1\"],\"properties\":{}}", 400, SHAPE, "zones", ""},
    /* volumes: throughput */
    {"PUT", NEW, V(",\"throughputMibps\":7"), 400, INVALID, "properties.throughputMibps", ""},
    {"PUT", MNEW, V(""), 400, "BadRequest", "properties.throughputMibps", "MissingValue"},
    {"PUT", MNEW, V(",\"throughputMibps\":0.999"), 400, INVALID, "properties.throughputMibps", ""},
    {"PUT", MNEW, V(",\"throughputMibps\":56.001"), 400, INVALID, "properties.throughputMibps", ""},
    {"PUT", FLEX "/volumes/new", V(",\"throughputMibps\":4500.5"), 400, INVALID,
     "properties.throughputMibps", ""},
    {"PUT", MNEW, V(",\"throughputMibps\":\"10\""), 400, INVALID, "properties.throughputMibps", ""},
    {"PATCH", MANUAL "/volumes/kept", "{\"properties\":{\"throughputMibps\":null}}", 400,
     "BadRequest", "properties.throughputMibps", "MissingValue"},
    /* volumes: protocols, modes */
    {"PUT", NEW, V(",\"protocolTypes\":[]"), 400, INVALID, "properties.protocolTypes", ""},
    {"PUT", NEW, V(",\"protocolTypes\":[\"NFSv3\",\"CIFS\"]"), 400, FEATURE,
     "properties.protocolTypes", ""},
    {"PUT", NEW, V(",\"protocolTypes\":[\"nfsv4.1\"]"), 400, FEATURE, "properties.protocolTypes",
     ""},
    {"PUT", NEW, V(",\"protocolTypes\":\"NFSv3\""), 400, INVALID, "properties.protocolTypes", ""},
    {"PUT", NEW, V(",\"securityStyle\":\"ntfs\""), 400, FEATURE, "properties.securityStyle", ""},
    {"PUT", NEW, V(",\"unixPermissions\":\"755\""), 400, INVALID, "properties.unixPermissions", ""},
    {"PUT", NEW, V(",\"unixPermissions\":\"07 5\""), 400, INVALID, "properties.unixPermissions",
     ""},
    {"PUT", NEW, V(",\"snapshotDirectoryVisible\":\"yes\""), 400, INVALID,
     "properties.snapshotDirectoryVisible", ""},
    {"PUT", NEW, V(",\"networkFeatures\":\"Basic_Standard\""), 400, FEATURE,
     "properties.networkFeatures", ""},
    {"PATCH", VOLUME, "{\"properties\":{\"networkFeatures\":\"Standard\"}}", 400, INVALID,
     "properties.networkFeatures", ""},
    /* volumes: what is not there yet */
    {"PUT", NEW, V(",\"kerberosEnabled\":true"), 400, FEATURE, "properties.kerberosEnabled", ""},
    {"PUT", NEW, V(",\"ldapEnabled\":true"), 400, FEATURE, "properties.ldapEnabled", ""},
    {"PUT", NEW, V(",\"smbEncryption\":true"), 400, FEATURE, "properties.smbEncryption", ""},
    {"PUT", NEW, V(",\"snapshotId\":\"/subscriptions/x\""), 400, FEATURE, "properties.snapshotId",
     ""},
    {"PUT", NEW, V(",\"backupId\":\"/subscriptions/x\""), 400, FEATURE, "properties.backupId", ""},
    {"PUT", NEW, V(",\"volumeType\":\"DataProtection\""), 400, FEATURE, "properties.volumeType",
     ""},
    {"PUT", NEW, V(",\"dataProtection\":{\"snapshot\":{\"snapshotPolicyId\":\"/x\"}}"), 400,
     FEATURE, "properties.dataProtection", ""},
    {"PUT", NEW, V(",\"coolAccess\":true"), 400, FEATURE, "properties.coolAccess", ""},
    {"PUT", NEW, V(",\"avsDataStore\":\"Enabled\""), 400, FEATURE, "properties.avsDataStore", ""},
    {"PUT", NEW, V(",\"encryptionKeySource\":\"Microsoft.KeyVault\""), 400, FEATURE,
     "properties.encryptionKeySource", ""},
    {"PATCH", VOLUME, "{\"properties\":{\"defaultUserQuotaInKiBs\":4}}", 400, FEATURE,
     "properties.defaultUserQuotaInKiBs", ""},
    /* export rules */
    {"PUT", NEW, RULES(CLIENT("")), 400, INVALID, "properties.exportPolicy.rules[0].allowedClients",
     ""},
    {"PUT", NEW, RULES("{\"ruleIndex\":1}"), 400, "BadRequest",
     "properties.exportPolicy.rules[0].allowedClients", "MissingValue"},
    {"PUT", NEW, RULES("{\"allowedClients\":\"10.0.0.1\"}"), 400, "BadRequest",
     "properties.exportPolicy.rules[0].ruleIndex", "MissingValue"},
    {"PUT", NEW, RULES(RULE("1", "") "," RULE("6", "")), 400, INVALID,
     "properties.exportPolicy.rules[1].ruleIndex", ""},
    {"PUT", NEW, RULES(RULE("2", "") "," RULE("2", "")), 400, INVALID,
     "properties.exportPolicy.rules[1].ruleIndex", ""},
    {"PUT", NEW, RULES(RULE("1", ",\"nfsv3\":false")), 400, INVALID,
     "properties.exportPolicy.rules[0].nfsv3", ""},
    {"PUT", NEW, RULES(RULE("1", ",\"nfsv41\":true")), 400, FEATURE,
     "properties.exportPolicy.rules[0].nfsv41", ""},
    {"PUT", NEW, RULES(RULE("1", ",\"cifs\":true")), 400, FEATURE,
     "properties.exportPolicy.rules[0].cifs", ""},
    {"PUT", NEW, RULES(RULE("1", ",\"chownMode\":\"Anybody\"")), 400, INVALID,
     "properties.exportPolicy.rules[0].chownMode", ""},
    {"PUT", NEW, RULES(RULE("1", ",\"squash\":true")), 400, SHAPE,
     "properties.exportPolicy.rules[0].squash", ""},
    {"PUT", NEW, RULES(CLIENT("::1")), 400, FEATURE,
     "properties.exportPolicy.rules[0].allowedClients", ""},
    {"PUT", NEW, RULES(CLIENT("@group")), 400, FEATURE,
     "properties.exportPolicy.rules[0].allowedClients", ""},
    {"PUT", NEW, RULES(CLIENT("10.0.0.1,10.0.0.0/33")), 400, INVALID,
     "properties.exportPolicy.rules[0].allowedClients", ""},
    {"PUT", NEW, RULES(CLIENT("10.0.0.256")), 400, INVALID,
     "properties.exportPolicy.rules[0].allowedClients", ""},
    {"PATCH", VOLUME, "{\"properties\":{\"exportPolicy\":{\"rules\":[1]}}}", 400, INVALID,
     "properties.exportPolicy.rules[0]", ""},
    /* queries */
    {"DELETE", VOLUME "?forceDelete=maybe", NULL, 400, INVALID, "forceDelete", ""},
    {"GET", ACCOUNTS "?$filter=x", NULL, 400, FEATURE, "$filter", ""},
    {"GET", VOLUME "/snapshots", NULL, 404, "InvalidResourceType", "", ""},
    {"GET", ACCOUNT "/capacityPools/a%2Fb", NULL, 400, "InvalidRequestUri", "", ""},
    {"GET", "/subscriptions/x/resourceGroups/rg/providers/Microsoft.NetApp/netAppAccounts", NULL,
     400, "InvalidSubscriptionId", "", ""},
};

static const struct row accepted[] = {
    {"PUT", ACCOUNT,
     "{\"LOCATION\":\"East US\",\"identity\":{\"type\":\"none\"},\"properties\":"
     "{\"encryption\":{\"keysource\":\"microsoft.netapp\"}}}",
     200, "", "", ""},
    {"PUT", ACCOUNT, "{\"location\":\"eastus\",\"tags\":null,\"properties\":null}", 200, "", "",
     ""},
    {"PUT", NEWPOOL, P("1.099511627776e12", "ultra", ",\"qosType\":\"manual\""), 201, "", "", ""},
    {"PUT", NEWPOOL, P(TIB_TEXT_1, "Premium", ",\"qosType\":\"Manual\""), 200, "", "",
     ""}, /* another level while it is empty */
    {"PUT", NEW,
     V(",\"exportPolicy\":null,\"dataProtection\":{\"snapshot\":null},"
       "\"smbNonBrowsable\":\"Disabled\",\"serviceLevel\":\"PREMIUM\""),
     201, "", "", ""},
    {"PUT", FLEX "/volumes/large",
     IN_EAST "\"creationToken\":\"large\",\"usageThreshold\":" GIB_TEXT_2400
             ",\"breakthroughMode\":\"enabled\",\"throughputMibps\":4600.25}}",
     201, "", "", ""},
    {"PUT", FLEX "/volumes/rules",
     IN_EAST
     "\"creationToken\":\"rules\",\"usageThreshold\":" GIB_TEXT_50
     ",\"throughputMibps\":1,\"exportPolicy\":{\"rules\":["
     "{\"ruleIndex\":5,\"allowedClients\":\" 10.0.0.1 , 10.1.0.0/16,host-1.example.com,0.0.0.0/0\","
     "\"unixReadOnly\":true,\"unixReadWrite\":true}]}}}",
     201, "", "", ""},
    {"PUT", FLEX "/volumes/closed",
     IN_EAST "\"creationToken\":\"closed\",\"usageThreshold\":" GIB_TEXT_50
             ",\"throughputMibps\":1,\"exportPolicy\":{\"rules\":[]}}}",
     201, "", "", ""},
};

static void setup(void)
{
    arm_setup();
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_patch(VOLUME, "{\"properties\":{\"usageThreshold\":" TIB_TEXT_2 "}}"), 202);
    agent_apply("ready");
    make_volume(MANUAL "/volumes/kept", "kept", ",\"throughputMibps\":200");
    cr_assert_eq(arm_put(FLEX, P("10995116277760", "Flexible", ",\"customThroughputMibps\":6400")),
                 201);
}

TestSuite(rules, .init = setup, .fini = plane_stop, .timeout = 120);

/* All resources as they are. */
static char *everything(void)
{
    static const char *const paths[] = {ACCOUNTS, ACCOUNT "/capacityPools", POOL "/volumes",
                                        MANUAL "/volumes", FLEX "/volumes"};
    json_t *all = json_array();

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        cr_assert_eq(arm_get(paths[i]), 200);
        json_array_append(all, answer);
    }
    char *text = json_render(all);
    json_decref(all);
    return text;
}

Test(rules, what_is_refused_is_named_and_changes_nothing)
{
    char *before = everything();

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct row *r = &refused[i];
        int status = arm_call_json(r->method, r->path, r->body);
        const json_t *detail =
            json_array_get(json_object_get(json_object_get(answer, "error"), "details"), 0);
        cr_expect_eq(status, r->status, "%s %s %s: %d %s", r->method, r->path, r->body, status,
                     answer_text("error.message"));
        cr_expect_str_eq(answer_text("error.code"), r->code, "%s %s %s: %s", r->method, r->path,
                         r->body, answer_text("error.message"));
        cr_expect_str_eq(answer_text("error.target"), r->target, "%s %s %s", r->method, r->path,
                         r->body);
        cr_expect_str_eq(json_get_text(detail, "code", ""), r->detail, "%s %s", r->path, r->body);
        cr_expect_neq(answer_text("error.message")[0], '\0');
    }
    char *after = everything();
    cr_assert_str_eq(after, before);
    free(before);
    free(after);
}

Test(rules, what_clients_send_is_accepted)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        const struct row *r = &accepted[i];
        int status = arm_call_json(r->method, r->path, r->body);
        cr_expect_eq(status, r->status, "%s %s %s: %d %s", r->method, r->path, r->body, status,
                     answer_text("error.message"));
    }
}

Test(rules, a_version_error_names_the_first_version_that_has_it)
{
    arm_put(NEW "?api-version=2025-06-01", Q(GIB_TEXT_2400, ",\"breakthroughMode\":\"Enabled\""));
    cr_assert_not_null(strstr(answer_text("error.message"), "2026-05-01"));
}

Test(rules, a_breakthrough_volume_has_six_mount_targets_of_its_own)
{
    arm_put(FLEX "/volumes/six",
            Q(GIB_TEXT_2400, ",\"breakthroughMode\":\"Enabled\",\"throughputMibps\":6400"));
    const json_t *spec = agent_spec("/new");
    cr_assert(json_get_bool(spec, "breakthrough", false));
    cr_assert_eq(json_array_size(json_object_get(spec, "endpoints")), 6);
    cr_assert_eq(json_get_int(spec, "limitBytesPerSecond", 0), 6400 * INT64_C(1048576));
    cr_assert_eq(json_get_int(spec, "quotaBytes", 0), INT64_C(2576980377600));
    agent_apply("ready");
    arm_get(FLEX "/volumes/six");
    const json_t *p = json_object_get(answer, "properties");
    const json_t *targets = json_object_get(p, "mountTargets");
    cr_assert_eq(json_array_size(targets), 6);
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < i; k++) {
            cr_assert_str_neq(json_get_text(json_array_get(targets, i), "ipAddress", ""),
                              json_get_text(json_array_get(targets, k), "ipAddress", ""));
            cr_assert_str_neq(json_get_text(json_array_get(targets, i), "mountTargetId", ""),
                              json_get_text(json_array_get(targets, k), "mountTargetId", ""));
        }
    }
    cr_assert(json_get_bool(p, "isLargeVolume", false));
    cr_assert_eq(json_get_int(p, "maximumNumberOfFiles", 0),
                 INT64_C(2576980377600) / 32768 * 95 / 100);
}

Test(rules, the_default_export_rule_is_the_recorded_one)
{
    arm_put(NEW, V(""));
    const json_t *rules = json_object_get(
        json_object_get(json_object_get(answer, "properties"), "exportPolicy"), "rules");
    json_t *want = json_loads("[{\"ruleIndex\":1,\"unixReadOnly\":false,\"unixReadWrite\":true,"
                              "\"cifs\":false,\"nfsv3\":true,\"nfsv41\":false,\"allowedClients\":"
                              "\"0.0.0.0/0\",\"kerberos5ReadOnly\":false,\"kerberos5ReadWrite\":"
                              "false,\"kerberos5iReadOnly\":false,\"kerberos5iReadWrite\":false,"
                              "\"kerberos5pReadOnly\":false,\"kerberos5pReadWrite\":false,"
                              "\"hasRootAccess\":true,\"chownMode\":\"Restricted\"}]",
                              0, NULL);
    cr_assert(json_equal((json_t *)(uintptr_t)rules, want));
    json_decref(want);
}

Test(rules, a_quota_goes_down_to_the_least_and_frees_the_pool)
{
    cr_assert_eq(arm_put(NEW, Q(TIB_TEXT_4, "")), 400, "2 of the 4 TiB are taken");
    cr_assert_eq(arm_patch(VOLUME, "{\"properties\":{\"usageThreshold\":" GIB_TEXT_50 "}}"), 202);
    agent_apply("ready");
    cr_assert_eq(arm_put(NEW, Q("3298534883328", "")), 201, "3 TiB fit now");
}

Test(rules, a_group_is_not_made_when_it_must_be_there_before)
{
    plane->strict_groups = true;
    cr_assert_eq(arm_put(SUBSCRIPTION "/resourceGroups/no/providers/Microsoft.NetApp/"
                                      "netAppAccounts/a",
                         "{\"location\":\"eastus\"}"),
                 404);
    cr_assert_str_eq(answer_text("error.code"), "ResourceGroupNotFound");
}
