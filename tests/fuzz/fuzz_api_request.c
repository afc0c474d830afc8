/*
 * What a client of the API controls: the path against the route table, condition headers against
 * an ETag, the body against the tables of the resource types. The input is lines: method, path,
 * condition header, api-version; the rest is the body.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/etag.h"
#include "api/export_policy.h"
#include "api/resource.h"
#include "api/route.h"
#include "api/versions.h"
#include "common/json_util.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool held)
{
    if (!held) {
        abort();
    }
}

static const struct resource_type *const types[] = {&account_type, &pool_type, &volume_type};

/* What a PUT stores is what a GET shows, and that can be put again and is the same. */
static void put_twice(const struct resource_type *type, const json_t *doc, const char *version)
{
    struct arm_error error = {0};
    json_t *shown = property_show(type->table, doc, NULL, version);
    json_t *given = property_read(type->table, "", shown, version, &error);

    require(given != NULL);
    require(property_drop_fixed(type->table, "", given, shown, &error));
    json_t *again = property_replace(type->table, "", given, doc, &error);
    require(again != NULL);
    json_t *shown_again = property_show(type->table, again, NULL, version);
    require(property_same(shown, shown_again, true));
    json_decref(shown_again);
    json_decref(again);
    json_decref(given);
    json_decref(shown);
}

static void body(const struct resource_type *type, const json_t *input, const char *version)
{
    struct arm_error error = {0};
    json_t *given = property_read(type->table, "", input, version, &error);

    require(given != NULL || error.status == 400);
    if (given == NULL) {
        return;
    }
    if (property_drop_fixed(type->table, "", given, NULL, &error)) {
        json_t *doc = property_replace(type->table, "", given, NULL, &error);
        json_t *merged = property_merge(type->table, "", given, doc, &error);
        require(doc != NULL || error.status == 400);
        if (doc != NULL) {
            const json_t *p = json_object_get(doc, "properties");
            const json_t *rules = json_object_get(json_object_get(p, "exportPolicy"), "rules");
            put_twice(type, doc, version);
            if (type == &volume_type && export_policy_check(rules, &error)) {
                json_decref(export_policy_spec(rules));
            }
        }
        json_decref(merged);
        json_decref(doc);
    }
    json_decref(given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size), *line[4], *rest = text, why[64];
    struct route_match match;

    for (size_t i = 0; i < 4; i++) {
        line[i] = rest;
        rest += strcspn(rest, "\n");
        if (*rest != '\0') {
            *rest++ = '\0';
        }
    }
    if (route_find(line[0], line[1], &match)) {
        for (size_t i = 0; i < ARM_PARAM_COUNT; i++) {
            require(match.param[i] == NULL || strchr(match.param[i], '/') == NULL);
        }
    }
    route_match_clear(&match);
    etag_allows(line[2], line[2], "W/\"datetime'2026-05-13T14%3A48%3A52.4566679Z'\"");
    free(location_normalise(line[1]));
    free(resource_full_name(line[1]));

    bool accepted = version_is_well_formed(line[3]) && version_accepted("netapp", line[3]);
    json_t *json = json_parse(rest, strlen(rest), why, sizeof why);
    for (size_t i = 0; json_is_object(json) && i < sizeof types / sizeof types[0]; i++) {
        body(types[i], json, accepted ? line[3] : version_newest("netapp"));
    }
    json_decref(json);
    free(text);
    return 0;
}
