/*
 * Walks the property tables and the route table for docs/refused.md. Called by the unit test that
 * compares the page with the program, and by `make docs`, which is the same test told to write.
 */
#include "api/refused.h"

#include <stdio.h>
#include <string.h>

#include "api/resource.h"
#include "api/route.h"
#include "common/buf.h"

#define PATH_LONGEST 160

static const char introduction[] =
    "# What is refused\n"
    "\n"
    "This page is written from the program's tables by `make docs`; a test fails when it is out of "
    "date.\n"
    "\n"
    "A value below is answered with 400 `FeatureNotSupported`, the property as its target and the "
    "feature in its\n"
    "message. Nothing is stored. A property that is listed with an exception accepts that value, "
    "null and nothing at\n"
    "all, so that what a client reads can be sent back. Properties and values that the API does "
    "not "
    "know either are\n"
    "400 `InvalidRequestContent` and 400 `InvalidValueReceived`; resource types and actions that "
    "are not in\n"
    "[the contract](../openapi/spillway.yaml) are 404 `InvalidResourceType`.\n";

static void row(struct buf *out, const char *path, const char *value, const char *feature)
{
    buf_printf(out, "| `%s` | %s | %s |\n", path, value, feature);
}

static void add_property(struct buf *out, const struct property *p, const char *path)
{
    const char *but[] = {p->otherwise, p->accepts};
    struct buf value = {0};

    buf_str(&value, "any");
    for (size_t i = 0; i < sizeof but / sizeof but[0]; i++) {
        if (but[i] != NULL) {
            buf_printf(&value, "%s `%s`", value.len == strlen("any") ? " but" : ",", but[i]);
        }
    }
    row(out, path, value.data, p->refused);
    buf_free(&value);
}

static void add_table(struct buf *out, const struct property *table, const char *path)
{
    for (const struct property *p = table; p->name != NULL; p++) {
        char at[PATH_LONGEST], value[64];
        snprintf(at, sizeof at, "%s%s%s%s", path, *path == '\0' ? "" : ".", p->name,
                 p->kind == PROPERTY_LIST && p->members != NULL ? "[]" : "");
        if (p->refused != NULL) {
            add_property(out, p, at);
            continue;
        }
        for (const struct property_value *v = p->values; v != NULL && v->name != NULL; v++) {
            if (v->refused != NULL) {
                snprintf(value, sizeof value, "`%s`", v->name);
                row(out, at, value, v->refused);
            }
        }
        if (p->members != NULL) {
            add_table(out, p->members, at);
        }
    }
}

static void add_routes(struct buf *out)
{
    size_t count;
    const struct arm_route *routes = route_table(&count);
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (routes[i].run != NULL) {
            continue;
        }
        if (!any) {
            buf_str(out, "\n## Calls\n\n| call | feature |\n| --- | --- |\n");
        }
        any = true;
        buf_printf(out, "| `%s %s` | %s |\n", routes[i].method, routes[i].path, routes[i].refused);
    }
}

char *refused_document(void)
{
    static const struct resource_type *const types[] = {&account_type, &pool_type, &volume_type};
    struct buf out = {0};

    buf_str(&out, introduction);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        buf_printf(&out, "\n## %s\n\n| property | value | feature |\n| --- | --- | --- |\n",
                   types[i]->name);
        add_table(&out, types[i]->table, "");
    }
    add_routes(&out);
    return buf_take(&out);
}
