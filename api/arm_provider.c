/*
 * The provider's operations: what the route table can do, and the metrics of the types that have
 * some. Needs no database.
 */
#include <stdlib.h>
#include <string.h>

#include "api/arm_types.h"
#include "api/metric_table.h"
#include "api/resource.h"
#include "common/mem.h"

static const struct {
    const char *type, *noun;
} described[] = {
    {TYPE_ACCOUNT, "NetApp account"},
    {TYPE_POOL, "capacity pool"},
    {TYPE_VOLUME, "volume"},
};

static const struct {
    const char *verb, *what;
} actions[] = {
    {"read", "Reads a"},
    {"write", "Creates or changes a"},
    {"delete", "Deletes a"},
};

static json_t *metric_specification(const struct metric_def *def)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s], s:[s,s,s,s,s,s,s,s], s:[], s:b}", "name",
                     def->name, "displayName", def->display, "displayDescription", def->description,
                     "unit", def->unit, "aggregationType", "Average", "supportedAggregationTypes",
                     "Average", "supportedTimeGrainTypes", "PT1M", "PT5M", "PT15M", "PT30M", "PT1H",
                     "PT6H", "PT12H", "P1D", "dimensions", "fillGapWithZero", 0);
}

static json_t *service_specification(const struct metric_set *set)
{
    json_t *metrics = json_array();

    for (size_t i = 0; i < set->count; i++) {
        json_array_append_new(metrics, metric_specification(&set->defs[i]));
    }
    return json_pack("{s:{s:o}}", "serviceSpecification", "metricSpecifications", metrics);
}

static json_t *operation(size_t type, size_t action)
{
    const struct metric_set *set = metric_set_find(described[type].type);
    char *name = xasprintf("%s/%s", described[type].type, actions[action].verb);
    char *text = xasprintf("%s %s.", actions[action].what, described[type].noun);
    json_t *out = json_pack("{s:s, s:{s:s, s:s, s:s, s:s}, s:s}", "name", name, "display",
                            "provider", "Microsoft.NetApp", "resource", described[type].noun,
                            "operation", text, "description", text, "origin", "user,system");

    if (action == 0 && set != NULL) {
        json_object_set_new(out, "properties", service_specification(set));
    }
    free(name);
    free(text);
    return out;
}

void provider_operations(struct arm_call *call)
{
    json_t *value = json_array();

    for (size_t t = 0; t < sizeof described / sizeof described[0]; t++) {
        for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
            json_array_append_new(value, operation(t, a));
        }
    }
    arm_reply(call, 200, json_pack("{s:o}", "value", value));
}
