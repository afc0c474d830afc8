/*
 * The property engine on a table of its own: what is read, replaced, merged and shown, and the code
 * and target of each refusal (choices table of the design; anf-api.md D.5, D.7; RFC 7396).
 */
#include "api/property.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_util.h"

static const struct property_value colours[] = {
    {.name = "Red"}, {.name = "Green"}, {.name = "Infrared", .refused = "invisible light"}, {0}};

static const struct property items[] = {
    {.name = "index", .kind = PROPERTY_INTEGER, .flags = PROPERTY_REQUIRED, .min = 1, .max = 5},
    {.name = "open", .kind = PROPERTY_BOOL, .otherwise = "true"},
    {0}};

static const struct property policy[] = {{.name = "rules",
                                          .kind = PROPERTY_LIST,
                                          .flags = PROPERTY_PATCHABLE,
                                          .longest = 2,
                                          .members = items},
                                         {0}};

static const struct property inner[] = {
    {.name = "size",
     .kind = PROPERTY_INTEGER,
     .flags = PROPERTY_REQUIRED | PROPERTY_PATCHABLE,
     .unit = "bytes",
     .min = 100,
     .max = 1000,
     .step = 100},
    {.name = "rate", .kind = PROPERTY_NUMBER, .flags = PROPERTY_PATCHABLE, .min = 1, .max = 10},
    {.name = "colour",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_PATCHABLE,
     .otherwise = "\"Red\"",
     .values = colours},
    {.name = "path",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_CREATE_ONLY,
     .longest = 8,
     .pattern = "^[a-z]+$"},
    {.name = "link", .kind = PROPERTY_TEXT, .flags = PROPERTY_CREATE_ONLY | PROPERTY_NOCASE},
    {.name = "mode", .kind = PROPERTY_TEXT, .flags = PROPERTY_PATCHABLE | PROPERTY_KEEP},
    {.name = "words", .kind = PROPERTY_LIST, .flags = PROPERTY_PATCHABLE, .values = colours},
    {.name = "policy", .kind = PROPERTY_OBJECT, .flags = PROPERTY_PATCHABLE, .members = policy},
    {.name = "newer", .kind = PROPERTY_BOOL, .otherwise = "false", .since = "2025-06-01"},
    {.name = "magic",
     .kind = PROPERTY_TEXT,
     .otherwise = "\"Off\"",
     .refused = "magic",
     .accepts = "\"None\""},
    {.name = "spells", .kind = PROPERTY_OBJECT, .refused = "magic"},
    {.name = "charm", .kind = PROPERTY_BOOL, .refused = "magic", .accepts = "false"},
    {.name = "runes", .kind = PROPERTY_LIST, .refused = "magic"},
    {.name = "mana", .kind = PROPERTY_INTEGER, .refused = "magic"},
    {.name = "state", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "targets", .kind = PROPERTY_ANY, .flags = PROPERTY_READ_ONLY},
    {0}};

static const struct property table[] = {
    {.name = "tags", .kind = PROPERTY_MAP, .flags = PROPERTY_PATCHABLE},
    {.name = "properties", .kind = PROPERTY_OBJECT, .flags = PROPERTY_PATCHABLE, .members = inner},
    {0}};

#define NEW "2026-05-01"
#define OLD "2024-01-01"

static struct arm_error error;

/* 'quoted' instead of "quoted", so that cases can be read. */
static json_t *json(const char *text)
{
    char *copy = strdup(text);

    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    json_t *value = json_loads(copy, JSON_DECODE_ANY, NULL);
    cr_assert_not_null(value, "%s", text);
    free(copy);
    return value;
}

static void expect_same(json_t *got, const char *want)
{
    json_t *wanted = json(want);
    char *text = json_render(got);

    cr_expect(json_equal(got, wanted), "%s is not %s", text, want);
    free(text);
    json_decref(wanted);
    json_decref(got);
}

static json_t *read(const char *body, const char *version)
{
    json_t *input = json(body);

    error = (struct arm_error){0};
    json_t *out = property_read(table, "", input, version, &error);
    json_decref(input);
    return out;
}

/* PUT: on `stored`, or NULL for a creation. */
static json_t *put(const char *body, const char *stored)
{
    json_t *given = read(body, NEW), *old = stored == NULL ? NULL : json(stored), *out;

    cr_assert_not_null(given, "%s: %s", body, error.message);
    out = property_replace(table, "", given, old, &error);
    json_decref(given);
    json_decref(old);
    return out;
}

static json_t *patch(const char *body, const char *stored)
{
    json_t *given = read(body, NEW), *old = json(stored), *out;

    cr_assert_not_null(given, "%s: %s", body, error.message);
    out = property_merge(table, "", given, old, &error);
    json_decref(given);
    json_decref(old);
    return out;
}

#define STORED                                                                                     \
    "{'tags':{'a':'1'},'properties':{'size':200,'colour':'Green','path':'abc','link':'/A/b',"      \
    "'mode':'x','words':['Red'],'policy':{'rules':[{'index':1,'open':true}]},'newer':false,"       \
    "'magic':'Off'}}"

/* ---- reading */

Test(property, refuses_with_code_and_target)
{
    static const struct {
        const char *body, *code, *target;
    } cases[] = {
        {"{'properties':{'size':'200'}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':99}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':1100}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':250}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':200.5}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':1e30}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':-9223372036854775808}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'size':true}}", "InvalidValueReceived", "properties.size"},
        {"{'properties':{'rate':0.99}}", "InvalidValueReceived", "properties.rate"},
        {"{'properties':{'rate':'1'}}", "InvalidValueReceived", "properties.rate"},
        {"{'properties':{'colour':'Blue'}}", "InvalidValueReceived", "properties.colour"},
        {"{'properties':{'colour':1}}", "InvalidValueReceived", "properties.colour"},
        {"{'properties':{'colour':'infrared'}}", "FeatureNotSupported", "properties.colour"},
        {"{'properties':{'words':['Red','Infrared']}}", "FeatureNotSupported", "properties.words"},
        {"{'properties':{'words':'Red'}}", "InvalidValueReceived", "properties.words"},
        {"{'properties':{'path':'ABC'}}", "InvalidValueReceived", "properties.path"},
        {"{'properties':{'path':'abcdefghi'}}", "InvalidValueReceived", "properties.path"},
        {"{'properties':{'magic':'On'}}", "FeatureNotSupported", "properties.magic"},
        {"{'properties':{'spells':{'a':{'b':1}}}}", "FeatureNotSupported", "properties.spells"},
        {"{'properties':{'colours':'Red'}}", "InvalidRequestContent", "properties.colours"},
        {"{'property':{}}", "InvalidRequestContent", "property"},
        {"{'properties':{'size':200,'SIZE':200}}", "InvalidRequestContent", "properties.size"},
        {"{'properties':[]}", "InvalidValueReceived", "properties"},
        {"{'properties':{'policy':{'rules':[{'index':1},{'index':2},{'index':3}]}}}",
         "InvalidValueReceived", "properties.policy.rules"},
        {"{'properties':{'policy':{'rules':[{'index':1},{'index':6}]}}}", "InvalidValueReceived",
         "properties.policy.rules[1].index"},
        {"{'properties':{'policy':{'rules':[{'open':true}]}}}", "BadRequest",
         "properties.policy.rules[0].index"},
        {"{'properties':{'policy':{'rules':[7]}}}", "InvalidValueReceived",
         "properties.policy.rules[0]"},
        {"{'tags':{'a':1}}", "InvalidValueReceived", "tags"},
        {"{'tags':{'':'x'}}", "InvalidValueReceived", "tags"},
        {"{'tags':['a']}", "InvalidValueReceived", "tags"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *out = read(cases[i].body, NEW);
        cr_expect_null(out, "%s was accepted", cases[i].body);
        cr_expect_eq(error.status, 400, "%s: %u", cases[i].body, error.status);
        cr_expect_str_eq(error.code == NULL ? "" : error.code, cases[i].code, "%s", cases[i].body);
        cr_expect_str_eq(error.target, cases[i].target, "%s", cases[i].body);
        cr_expect_neq(error.message[0], '\0', "%s", cases[i].body);
        json_decref(out);
    }
}

Test(property, names_the_refused_feature)
{
    cr_expect_null(read("{'properties':{'magic':'On'}}", NEW));
    cr_expect_not_null(strstr(error.message, "magic"));
    cr_expect_null(read("{'properties':{'colour':'Infrared'}}", NEW));
    cr_expect_not_null(strstr(error.message, "invisible light"));
}

Test(property, takes_names_and_values_without_case)
{
    expect_same(read("{'PROPERTIES':{'Colour':'gREEN','words':['red']}}", NEW),
                "{'properties':{'colour':'Green','words':['Red']}}");
}

Test(property, takes_a_whole_double_as_an_integer)
{
    expect_same(read("{'properties':{'size':200.0}}", NEW), "{'properties':{'size':200}}");
}

Test(property, takes_what_asks_for_nothing_of_a_refused_feature)
{
    static const char *const values[] = {"null", "''", "'Off'", "'off'", "'None'"};
    char body[64];

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        snprintf(body, sizeof body, "{'properties':{'magic':%s}}", values[i]);
        json_t *out = read(body, NEW);
        cr_expect_not_null(out, "%s: %s", body, error.message);
        json_decref(out);
    }
    json_t *out = read("{'properties':{'spells':{'a':{'b':null},'c':[]}}}", NEW);
    cr_expect_not_null(out, "%s", error.message);
    json_decref(out);
}

/* An empty value of another type is not nothing: it is what no client means. */
Test(property, refuses_what_is_empty_but_of_another_type)
{
    static const char *const bodies[] = {
        "{'properties':{'magic':{}}}",  "{'properties':{'magic':[]}}",
        "{'properties':{'spells':''}}", "{'properties':{'spells':[]}}",
        "{'properties':{'charm':''}}",  "{'properties':{'charm':{}}}",
        "{'properties':{'runes':''}}",  "{'properties':{'runes':{}}}",
        "{'properties':{'mana':''}}",   "{'properties':{'mana':[]}}"};

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        json_t *out = read(bodies[i], NEW);
        cr_expect_null(out, "%s was accepted", bodies[i]);
        cr_expect_str_eq(error.code == NULL ? "" : error.code, "FeatureNotSupported", "%s",
                         bodies[i]);
        json_decref(out);
    }
}

Test(property, names_the_first_version_of_a_newer_one)
{
    cr_expect_null(read("{'properties':{'newer':true}}", OLD));
    cr_expect_str_eq(error.target, "properties.newer");
    cr_expect_not_null(strstr(error.message, "2025-06-01"), "%s", error.message);
    json_t *out = read("{'properties':{'newer':true}}", "2025-06-01");
    cr_expect_not_null(out);
    json_decref(out);
}

Test(property, counts_tags_and_their_characters)
{
    json_t *tags = json_object(), *body = json_pack("{s:o}", "tags", tags);
    char name[600];

    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%d", i);
        json_object_set_new(tags, name, json_string("v"));
    }
    json_t *out = property_read(table, "", body, NEW, &error);
    cr_expect_not_null(out, "50 tags");
    json_decref(out);
    json_object_set_new(tags, "t50", json_string("v"));
    cr_expect_null(property_read(table, "", body, NEW, &error), "51 tags");
    json_object_clear(tags);

    /* 256 characters of two bytes are a value, 257 are not; 512 a name. */
    memset(name, 'n', 512);
    name[512] = '\0';
    char value[600];
    for (int i = 0; i < 257; i++) {
        memcpy(value + 2 * i, "ü", 2);
    }
    value[512] = '\0';
    json_object_set_new(tags, name, json_string(value));
    out = property_read(table, "", body, NEW, &error);
    cr_expect_not_null(out, "%s", error.message);
    json_decref(out);
    value[512] = "ü"[0];
    value[513] = "ü"[1];
    value[514] = '\0';
    json_object_set_new(tags, name, json_string(value));
    cr_expect_null(property_read(table, "", body, NEW, &error), "257 characters");
    json_decref(body);
}

/* ---- PUT */

Test(property, creation_fills_in_defaults)
{
    expect_same(put("{'properties':{'size':200}}", NULL),
                "{'properties':{'size':200,'colour':'Red','policy':{},'newer':false,"
                "'magic':'Off'}}");
}

Test(property, absent_required_is_a_missing_value)
{
    cr_expect_null(put("{'properties':{'colour':'Red'}}", NULL));
    cr_expect_str_eq(error.code, "BadRequest");
    cr_expect_str_eq(error.detail_code, "MissingValue");
    cr_expect_str_eq(error.target, "properties.size");
    cr_expect_null(put("{'properties':{'size':null}}", NULL));
    cr_expect_str_eq(error.detail_code, "MissingValue");
    cr_expect_null(put("{}", STORED), "a PUT replaces: also of one that is there");
}

Test(property, put_replaces_all_but_what_is_fixed_or_kept)
{
    /* colour, words, policy and tags fall back; path and link are fixed, mode is kept. */
    expect_same(put("{'properties':{'size':300}}", STORED),
                "{'properties':{'size':300,'colour':'Red','path':'abc','link':'/A/b','mode':'x',"
                "'policy':{},'newer':false,'magic':'Off'}}");
}

Test(property, fixed_ones_may_be_repeated_and_not_changed)
{
    json_t *out = put("{'properties':{'size':300,'path':'abc','link':'/a/B'}}", STORED);
    cr_expect_not_null(out, "an id in another case is the same id: %s", error.message);
    json_decref(out);
    cr_expect_null(put("{'properties':{'size':300,'path':'abd'}}", STORED));
    cr_expect_str_eq(error.target, "properties.path");
    cr_expect_null(put("{'properties':{'size':300,'link':'/a/c'}}", STORED));
    cr_expect_str_eq(error.target, "properties.link");
}

Test(property, lists_are_replaced_whole_and_get_their_defaults)
{
    expect_same(put("{'properties':{'size':200,'policy':{'rules':[{'index':2}]}}}", NULL),
                "{'properties':{'size':200,'colour':'Red','policy':{'rules':[{'index':2,"
                "'open':true}]},'newer':false,'magic':'Off'}}");
}

Test(property, numbers_stay_as_they_were_put)
{
    static const char *const rates[] = {"1", "1.0", "1.1", "9.999"};
    char body[80], *text;

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        snprintf(body, sizeof body, "{'properties':{'size':200,'rate':%s}}", rates[i]);
        json_t *out = put(body, NULL);
        text = json_render(json_object_get(json_object_get(out, "properties"), "rate"));
        cr_expect_str_eq(text, rates[i]);
        free(text);
        json_decref(out);
    }
}

/* ---- PATCH */

Test(property, patch_merges_and_null_removes)
{
    expect_same(patch("{'properties':{'rate':2.5,'colour':null,'words':null}}", STORED),
                "{'tags':{'a':'1'},'properties':{'size':200,'rate':2.5,'colour':'Red','path':'abc',"
                "'link':'/A/b','mode':'x','policy':{'rules':[{'index':1,'open':true}]},"
                "'newer':false,'magic':'Off'}}");
}

Test(property, patch_replaces_tags_as_a_whole)
{
    json_t *out = patch("{'tags':{'b':'2'}}", STORED);

    expect_same(json_incref(json_object_get(out, "tags")), "{'b':'2'}");
    json_decref(out);
}

Test(property, patch_of_nothing_changes_nothing)
{
    static const char *const bodies[] = {
        "{}", "{'properties':{}}", "{'properties':{'policy':{}}}",
        "{'properties':{'size':200,'path':'abc','link':'/a/B','newer':false,'magic':'Off'}}"};

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        expect_same(patch(bodies[i], STORED), STORED);
    }
}

Test(property, patch_cannot_change_what_is_fixed_or_remove_what_is_required)
{
    cr_expect_null(patch("{'properties':{'path':'abd'}}", STORED));
    cr_expect_str_eq(error.target, "properties.path");
    cr_expect_null(patch("{'properties':{'newer':true}}", STORED));
    cr_expect_str_eq(error.target, "properties.newer");
    cr_expect_null(patch("{'properties':{'size':null}}", STORED));
    cr_expect_str_eq(error.target, "properties.size");
}

/* ---- read-only ones */

Test(property, read_only_equal_or_refused)
{
    json_t *shown = json("{'properties':{'state':'Succeeded','targets':[{'ip':'1'}],'size':200}}");
    json_t *given =
        read("{'properties':{'state':'succeeded','targets':[{'ip':'1'}],'size':300}}", NEW);

    cr_expect(property_drop_fixed(table, "", given, shown, &error), "%s", error.message);
    expect_same(given, "{'properties':{'size':300}}");
    given = read("{'properties':{'targets':[{'ip':'2'}]}}", NEW);
    cr_expect_not(property_drop_fixed(table, "", given, shown, &error));
    cr_expect_str_eq(error.target, "properties.targets");
    json_decref(given);
    given = read("{'properties':{'state':'Failed'}}", NEW);
    cr_expect_not(property_drop_fixed(table, "", given, NULL, &error), "nothing is there yet");
    cr_expect_str_eq(error.target, "properties.state");
    json_decref(given);
    given = read("{'properties':{'state':null}}", NEW);
    cr_expect(property_drop_fixed(table, "", given, NULL, &error));
    json_decref(given);
    json_decref(shown);
}

/* ---- GET */

Test(property, shows_what_the_version_knows_in_the_tables_order)
{
    json_t *stored = json(STORED);
    json_t *computed = json("{'properties':{'state':'Succeeded'}}");
    json_t *shown = property_show(table, stored, computed, OLD);
    char *text = json_render(shown);

    cr_expect_str_eq(text, "{\"tags\":{\"a\":\"1\"},\"properties\":{\"size\":200,\"colour\":"
                           "\"Green\",\"path\":\"abc\",\"link\":\"/A/b\",\"mode\":\"x\",\"words\":["
                           "\"Red\"],\"policy\":{\"rules\":[{\"index\":1,\"open\":true}]},"
                           "\"magic\":\"Off\",\"state\":\"Succeeded\"}}");
    free(text);
    json_decref(shown);
    shown = property_show(table, stored, computed, NEW);
    cr_expect(json_is_false(json_object_get(json_object_get(shown, "properties"), "newer")));
    json_decref(shown);
    json_decref(computed);
    json_decref(stored);
}

/* A resource that was made before a property existed. */
Test(property, shows_defaults_of_what_is_not_stored)
{
    json_t *stored = json("{'properties':{'size':200}}");
    json_t *shown = property_show(table, stored, NULL, NEW);

    cr_expect_str_eq(json_get_text(json_object_get(shown, "properties"), "colour", ""), "Red");
    json_decref(shown);
    json_decref(stored);
}
