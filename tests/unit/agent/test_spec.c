/* Reading a SPEC from hostile JSON: every member's type and range, by docs/agent-protocol.md. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "agent/control/spec.h"
#include "common/json_util.h"

static const char good[] =
    "{\"fileSystemId\":\"01234567-89ab-cdef-0123-456789abcdef\",\"generation\":3,"
    "\"id\":\"/subscriptions/s/resourceGroups/rg/providers/Microsoft.NetApp/netAppAccounts/eda/"
    "capacityPools/"
    "fast/volumes/vol1\",\"deleted\":false,\"exportPath\":\"/"
    "vol1\",\"endpoints\":[\"127.77.0.2\",\"127.77.0.3\"],"
    "\"breakthrough\":true,\"quotaBytes\":54975581388800,\"maxFiles\":1593835519,"
    "\"limitBytesPerSecond\":22548578304,\"handleKey\":\"000102030405060708090a0b0c0d0eFF\","
    "\"unixPermissions\":\"0770\",\"snapshotDirectoryVisible\":true,"
    "\"rules\":[{\"ruleIndex\":1,\"clients\":\"0.0.0.0/0\",\"readOnly\":false,\"readWrite\":true,"
    "\"rootAccess\":true,\"chownRestricted\":true,\"nfsv3\":true}]}";

static json_t *parse(const char *text)
{
    char why[160];
    json_t *json = json_parse(text, strlen(text), why, sizeof(why));

    cr_assert(json, "%s: %s", text, why);
    return json;
}

Test(spec, a_good_one_is_read_whole)
{
    struct volume_spec s;
    char why[200], address[INET_ADDRSTRLEN];
    json_t *json = parse(good);

    cr_assert(spec_parse(json, &s, why, sizeof(why)), "%s", why);
    cr_expect_eq(s.generation, 3);
    cr_expect_str_eq(s.export_path, "/vol1");
    cr_expect_eq(s.nendpoints, 2);
    cr_expect_str_eq(inet_ntop(AF_INET, &s.endpoints[1], address, sizeof(address)), "127.77.0.3");
    cr_expect_eq(s.quota_bytes, UINT64_C(54975581388800));
    cr_expect_eq(s.max_files, 1593835519);
    cr_expect_eq(s.limit, UINT64_C(21504) * 1048576);
    cr_expect_eq(s.handle_key[1], 1);
    cr_expect_eq(s.handle_key[15], 0xff);
    cr_expect_eq(s.root_mode, 0770);
    cr_expect(s.breakthrough && s.snapshot_dir_visible && !s.deleted);
    cr_expect_eq(s.nrules, 1);
    cr_expect(s.rules[0].read_write && s.rules[0].root_access && !s.rules[0].read_only);
    volume_spec_clear(&s);
    json_decref(json);
}

/* One member replaced; `names` must stand in the message. */
static void refuse(const char *member, const char *value, const char *names)
{
    struct volume_spec s;
    char why[200] = "";
    json_t *json = parse(good), *wrong = json_loads(value, JSON_DECODE_ANY, NULL);

    cr_assert(wrong, "%s", value);
    json_object_set_new(json, member, wrong);
    cr_expect_not(spec_parse(json, &s, why, sizeof(why)), "%s: %s was taken", member, value);
    cr_expect(strstr(why, names), "\"%s\" names %s", why, names);
    json_decref(json);
}

Test(spec, members_out_of_their_type_or_range_are_refused_by_name)
{
    static const char *const cases[][2] = {
        {"fileSystemId", "\"../../etc/passwd\""},
        {"fileSystemId", "7"},
        {"generation", "0"},
        {"generation", "-3"},
        {"generation", "3.0"},
        {"generation", "\"3\""},
        {"deleted", "\"true\""},
        {"deleted", "1"},
        {"id", "\"\""},
        {"id", "null"},
        {"id", "\"a\\nb\""},
        {"exportPath", "\"vol1\""},
        {"exportPath", "\"/\""},
        {"exportPath", "\"/a/b\""},
        {"exportPath", "\"/..\""},
        {"exportPath", "\"/vol 1\""},
        {"exportPath",
         "\"/"
         "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234\""},
        {"endpoints", "[]"},
        {"endpoints", "\"127.0.0.1\""},
        {"endpoints", "[\"127.0.0.1\",\"127.0.0.1\"]"},
        {"endpoints", "[\"127.0.0.256\"]"},
        {"endpoints", "[\"::1\"]"},
        {"endpoints", "[7]"},
        {"endpoints",
         "[\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\",\"1.1.1.5\",\"1.1.1.6\",\"1.1.1.7\"]"},
        {"breakthrough", "\"Enabled\""},
        {"quotaBytes", "0"},
        {"quotaBytes", "-1"},
        {"quotaBytes", "1e12"},
        {"maxFiles", "0"},
        {"limitBytesPerSecond", "0"},
        {"limitBytesPerSecond", "-1"},
        {"limitBytesPerSecond", "1.5"},
        {"limitBytesPerSecond", "9223372036854775807"},
        {"handleKey", "\"00\""},
        {"handleKey", "\"zz0102030405060708090a0b0c0d0e0f\""},
        {"unixPermissions", "\"770\""},
        {"unixPermissions", "\"0780\""},
        {"unixPermissions", "504"},
        {"snapshotDirectoryVisible", "null"},
        {"rules", "null"},
        {"rules", "{}"},
        {"rules", "[7]"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuse(cases[i][0], cases[i][1], cases[i][0]);
}

Test(spec, rules_are_checked_one_by_one)
{
    static const char rule[] =
        "{\"ruleIndex\":%d,\"clients\":\"%s\",\"readOnly\":false,\"readWrite\":true,"
        "\"rootAccess\":true,\"chownRestricted\":true,\"nfsv3\":%s}";
    char text[4096], item[512];

    snprintf(item, sizeof(item), rule, 6, "0.0.0.0/0", "true");
    snprintf(text, sizeof(text), "[%s]", item);
    refuse("rules", text, "rules[0]: ruleIndex");
    snprintf(item, sizeof(item), rule, 1, "", "true");
    snprintf(text, sizeof(text), "[%s]", item);
    refuse("rules", text, "rules[0]: clients");
    snprintf(item, sizeof(item), rule, 1, "0.0.0.0/0", "\"yes\"");
    snprintf(text, sizeof(text), "[%s]", item);
    refuse("rules", text, "rules[0]: nfsv3");
    snprintf(item, sizeof(item), rule, 2, "0.0.0.0/0", "true");
    snprintf(text, sizeof(text), "[%s,%s]", item, item);
    refuse("rules", text, "rules[1]: ruleIndex 2 is there twice");
    snprintf(text, sizeof(text), "[%s,%s,%s,%s,%s,%s]", item, item, item, item, item, item);
    refuse("rules", text, "at most 5");
}

/* Forgetting the limit must not free the volume of it; null says so. */
Test(spec, an_absent_limit_is_not_no_limit)
{
    struct volume_spec s;
    char why[200] = "";
    json_t *json = parse(good);

    json_object_del(json, "limitBytesPerSecond");
    cr_expect_not(spec_parse(json, &s, why, sizeof(why)));
    json_object_set_new(json, "limitBytesPerSecond", json_null());
    cr_assert(spec_parse(json, &s, why, sizeof(why)), "%s", why);
    cr_expect_eq(s.limit, 0);
    volume_spec_clear(&s);
    json_decref(json);
}

Test(spec, unknown_members_are_ignored)
{
    struct volume_spec s;
    char why[200] = "";
    json_t *json = parse(good);

    json_object_set_new(json, "ofALaterVersion", json_pack("[{s:i}]", "x", 1));
    cr_assert(spec_parse(json, &s, why, sizeof(why)), "%s", why);
    volume_spec_clear(&s);
    json_decref(json);
}

Test(spec, a_deletion_needs_only_id_and_generation)
{
    struct volume_spec s;
    char why[200] = "";
    json_t *json = parse("{\"fileSystemId\":\"01234567-89ab-cdef-0123-456789abcdef\","
                         "\"generation\":4,\"deleted\":true}");

    cr_assert(spec_parse(json, &s, why, sizeof(why)), "%s", why);
    cr_expect(s.deleted);
    cr_expect_eq(s.generation, 4);
    volume_spec_clear(&s);
    json_decref(json);
}

Test(spec, what_is_no_object_identifies_nothing)
{
    static const char *const texts[] = {
        "[]", "{}", "{\"fileSystemId\":\"01234567-89ab-cdef-0123-456789abcdef\"}",
        "{\"fileSystemId\":{},\"generation\":1}"};
    struct uuid id;
    int64_t generation;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *json = parse(texts[i]);

        cr_expect_not(spec_identify(json, &id, &generation), "%s", texts[i]);
        json_decref(json);
    }
}
