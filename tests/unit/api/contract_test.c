/*
 * The contract (openapi/spillway.yaml) and the program say the same, both ways: paths, methods and
 * operationIds against the route table, schemas against the property tables (design D3). The file
 * is read by lines; it keeps one property on a line.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/export_policy.h"
#include "api/resource.h"
#include "api/route.h"
#include "common/fsutil.h"

#define CONTRACT   "openapi/spillway.yaml"
#define LINES_MAX  4000
#define CALLS_MAX  200
#define PATH_WIDTH 256

static char *text;
static char *lines[LINES_MAX];
static size_t line_count;

static void load(void)
{
    size_t len;
    char *save = NULL;

    cr_assert_eq(fs_read_file(CONTRACT, 1 << 20, &text, &len), 0,
                 "no " CONTRACT ": run the tests in the root of the tree");
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        cr_assert_lt(line_count, LINES_MAX);
        lines[line_count++] = line;
    }
}

static void unload(void)
{
    free(text);
}

TestSuite(contract, .init = load, .fini = unload);

static size_t indent(const char *line)
{
    return strspn(line, " ");
}

/* The line index of a key at a depth at or after `from`, within the block that it starts in. */
static size_t find_key(size_t from, size_t depth, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = from; i < line_count && (i == from || indent(lines[i]) >= depth); i++) {
        const char *at = lines[i] + depth;
        if (indent(lines[i]) == depth && strncmp(at, key, len) == 0 && at[len] == ':') {
            return i;
        }
    }
    return SIZE_MAX;
}

/* ---- calls ---- */

struct call {
    char path[PATH_WIDTH], method[8], operation[80];
};

static size_t read_calls(struct call *calls)
{
    char path[PATH_WIDTH] = "", method[8] = "";
    size_t count = 0;

    for (size_t i = find_key(0, 0, "paths") + 1; i < line_count && indent(lines[i]) > 0; i++) {
        const char *at = lines[i] + indent(lines[i]);
        size_t len = strcspn(at, ":");
        if (indent(lines[i]) == 2 && *at == '/') {
            snprintf(path, sizeof path, "%.*s", (int)len, at);
        } else if (indent(lines[i]) == 4 && strcmp(at, "parameters:") != 0) {
            snprintf(method, sizeof method, "%.*s", (int)len, at);
        } else if (indent(lines[i]) == 6 && strncmp(at, "operationId: ", 13) == 0) {
            struct call *c = &calls[count++];
            cr_assert_lt(count, CALLS_MAX);
            snprintf(c->path, sizeof c->path, "%s", path);
            snprintf(c->method, sizeof c->method, "%s", method);
            snprintf(c->operation, sizeof c->operation, "%s", at + 13);
        }
    }
    return count;
}

Test(contract, has_every_route_and_no_other)
{
    struct call *calls = calloc(CALLS_MAX, sizeof *calls);
    size_t routes, count = read_calls(calls);
    const struct arm_route *table = route_table(&routes);

    for (size_t r = 0; r < routes; r++) {
        size_t found = 0;
        for (size_t i = 0; i < count; i++) {
            found += strcmp(calls[i].path, table[r].path) == 0 &&
                     strcasecmp(calls[i].method, table[r].method) == 0 &&
                     strcmp(calls[i].operation, table[r].operation) == 0;
        }
        cr_expect_eq(found, 1, "%s %s (%s) stands %zu times in " CONTRACT, table[r].method,
                     table[r].path, table[r].operation, found);
    }
    cr_expect_eq(count, routes, "%zu calls in " CONTRACT ", %zu routes", count, routes);
    free(calls);
}

/* ---- schemas ---- */

/* The first line of a schema's properties. */
static size_t find_properties(const char *schema)
{
    size_t at = find_key(find_key(0, 0, "components") + 1, 2, "schemas");

    cr_assert_neq(at, SIZE_MAX);
    at = find_key(at + 1, 4, schema);
    cr_assert_neq(at, SIZE_MAX, "no schema %s", schema);
    at = find_key(at + 1, 6, "properties");
    cr_assert_neq(at, SIZE_MAX, "no properties in the schema %s", schema);
    return at + 1;
}

static bool has(const char *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool has(const char *line, const char *fmt, ...)
{
    char want[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(want, sizeof want, fmt, ap);
    va_end(ap);
    const char *at = strstr(line, want);
    return at != NULL && strchr(",}] ", at[strlen(want)]) != NULL;
}

/* A default in the table is JSON, in the contract YAML: quotes may be others or none. */
static bool has_default(const char *line, const char *json)
{
    char plain[128];
    size_t n = 0;

    for (; *json != '\0' && n + 1 < sizeof plain; json++) {
        if (*json != '"') {
            plain[n++] = *json;
        }
    }
    plain[n] = '\0';
    return has(line, "default: %s", plain) || has(line, "default: '%s'", plain);
}

static void compare_property(const char *schema, const struct property *p, const char *line)
{
    bool elsewhere = strstr(line, "$ref") != NULL; /* the other schema says it */
    bool required = (p->flags & PROPERTY_REQUIRED) != 0;

    if (!elsewhere) {
        cr_expect_eq(strstr(line, "readOnly: true") != NULL, (p->flags & PROPERTY_READ_ONLY) != 0,
                     "%s.%s: readOnly", schema, p->name);
    }
    cr_expect_eq(strstr(line, "x-since") != NULL, p->since != NULL, "%s.%s: x-since", schema,
                 p->name);
    if (p->since != NULL) {
        cr_expect(has(line, "x-since: '%s'", p->since), "%s.%s: x-since", schema, p->name);
    }
    cr_expect_eq(strstr(line, "default: ") != NULL, p->otherwise != NULL && !required,
                 "%s.%s: default", schema, p->name);
    if (p->otherwise != NULL && !required) {
        cr_expect(has_default(line, p->otherwise), "%s.%s: default", schema, p->name);
    }
    if (p->max != 0) {
        cr_expect(has(line, "minimum: %" PRId64, p->min), "%s.%s: minimum", schema, p->name);
        cr_expect(has(line, "maximum: %" PRId64, p->max), "%s.%s: maximum", schema, p->name);
    }
    if (p->step != 0) {
        cr_expect(has(line, "multipleOf: %" PRId64, p->step), "%s.%s: multipleOf", schema, p->name);
    }
    const char *listed = strstr(line, "enum: [");
    char values[256] = "";
    if (listed != NULL) {
        snprintf(values, sizeof values, "%.*s]", (int)strcspn(listed, "]"), listed);
    }
    for (const struct property_value *v = p->values; v != NULL && v->name != NULL; v++) {
        bool there = has(values, "[%s", v->name) || has(values, " %s", v->name) ||
                     has(values, "'%s'", v->name);
        cr_expect_eq(there, v->refused == NULL, "%s.%s: the value %s", schema, p->name, v->name);
    }
}

static void compare(const char *schema, const struct property *table)
{
    size_t first = find_properties(schema), known = 0, there = 0;

    for (size_t i = first; i < line_count && indent(lines[i]) == 8; i++) {
        there++;
    }
    for (const struct property *p = table; p->name != NULL; p++) {
        size_t at = SIZE_MAX;
        for (size_t i = first; i < first + there; i++) {
            size_t len = strlen(p->name);
            if (strncmp(lines[i] + 8, p->name, len) == 0 && lines[i][8 + len] == ':') {
                at = i;
            }
        }
        if (p->refused != NULL) {
            cr_expect_eq(at, SIZE_MAX, "%s.%s is refused, but in the contract", schema, p->name);
            continue;
        }
        cr_expect_neq(at, SIZE_MAX, "%s.%s is not in the contract", schema, p->name);
        known++;
        if (at != SIZE_MAX) {
            compare_property(schema, p, lines[at]);
        }
    }
    cr_expect_eq(there, known, "%s has %zu properties in the contract, %zu in the table", schema,
                 there, known);
}

static const struct property *members_of(const struct property *table, const char *name)
{
    for (; table->name != NULL; table++) {
        if (strcmp(table->name, name) == 0) {
            return table->members;
        }
    }
    cr_assert_fail("no property %s", name);
    return NULL;
}

Test(contract, accounts_are_as_their_table)
{
    const struct property *properties = members_of(account_type.table, "properties");

    compare("Account", account_type.table);
    compare("AccountProperties", properties);
    compare("AccountEncryption", members_of(properties, "encryption"));
}

Test(contract, pools_are_as_their_table)
{
    compare("CapacityPool", pool_type.table);
    compare("CapacityPoolProperties", members_of(pool_type.table, "properties"));
}

Test(contract, volumes_are_as_their_table)
{
    compare("Volume", volume_type.table);
    compare("VolumeProperties", members_of(volume_type.table, "properties"));
    compare("ExportPolicy", export_policy_members);
    compare("ExportRule", members_of(export_policy_members, "rules"));
}
