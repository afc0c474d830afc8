/*
 * Azure Monitor's metrics and metricDefinitions calls. The query is read into a struct whole, then
 * the samples of the resource, then the answer is built: one pass over the samples for each metric.
 * Called on server threads; reads only.
 *
 * Samples are minutes within the last day, five minutes before that. A point of the answer gathers
 * the samples of its grain; points start at the (aligned) start of the time span, and none starts
 * in the future. A point before the first report of a volume, or a latency without operations,
 * holds its time stamp only, as Azure's do.
 */
#include "api/insights.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/metric_table.h"
#include "api/resource.h"
#include "api/timespan.h"
#include "api/volume_spec.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/url.h"

#define SECOND      ((int64_t)NS_PER_S)
#define MINUTE      (60 * SECOND)
#define DAY         (86400 * SECOND)
#define KEPT        (93 * DAY)
#define METRICS_MAX 20    /* names in one call (Azure's limit) */
#define POINTS_MAX  50000 /* points of all metrics in one answer */
#define POOL_VOLUMES_MAX                                                                           \
    5000 /* volumes that a pool's sums are read over; Azure has 500 in a pool */
#define BYTES_PER_MIB    1048576.0
#define NS_PER_ETAG_TICK 100

enum aggregation { AVERAGE, MINIMUM, MAXIMUM, TOTAL, COUNT_OF, AGGREGATIONS };

static const struct {
    const char *name, *member;
} aggregations[AGGREGATIONS] = {
    {"Average", "average"}, {"Minimum", "minimum"}, {"Maximum", "maximum"},
    {"Total", "total"},     {"Count", "count"},
};

struct query {
    struct arm_call *call;
    struct arm_error error;
    char *valid_names; /* in the error of an unknown metric: too long for `error` */
    char *id;          /* of the volume or pool */
    struct db_resource resource;
    const struct metric_set *set;
    const struct metric_def *metrics[METRICS_MAX];
    size_t metric_count;
    bool wanted[AGGREGATIONS];
    int64_t now, start, end; /* the time span as asked */
    int64_t from, step;      /* where samples begin, and how long one is */
    int64_t grain;           /* of a point */
    char interval[32];
    bool metadata_only;
    size_t points;
};

static void query_clear(struct query *q)
{
    free(q->id);
    free(q->valid_names);
    db_resource_clear(&q->resource);
}

static bool bad(struct query *q, const char *target, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Always false, for `return bad(…)`. */
static bool bad(struct query *q, const char *target, const char *fmt, ...)
{
    char message[sizeof q->error.message];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    arm_error_set(&q->error, 400, "BadRequest", target, "%s", message);
    return false;
}

/* ---- the resource ---- */

/* The id of the resource whose metrics the path asks for: what stands before
 * "/providers/Microsoft.Insights/…". */
static char *monitored_id(const char *path)
{
    static const char mark[] = "/providers/microsoft.insights/";
    const char *found = NULL;

    for (const char *p = path; *p != '\0'; p++) {
        if (strncasecmp(p, mark, sizeof mark - 1) == 0) {
            found = p;
        }
    }
    return found == NULL ? xstrdup(path) : xstrndup(path, (size_t)(found - path));
}

static bool find_resource(struct query *q)
{
    struct db_conn *reader = db_read_begin(q->call->api->db);
    int rc;

    q->id = monitored_id(q->call->resource_id);
    rc = db_resource_get(reader, q->id, &q->resource);
    db_read_end(reader);
    if (rc == -ENOENT) {
        arm_error_set(&q->error, 404, "ResourceNotFound", NULL,
                      "The Resource '%.300s' under resource group '%.90s' was not found.",
                      resource_path_of(q->id),
                      q->call->param[ARM_GROUP] == NULL ? "" : q->call->param[ARM_GROUP]);
        return false;
    }
    if (rc != 0) {
        store_error(rc, &q->error);
        return false;
    }
    q->set = metric_set_find(q->resource.type);
    if (q->set == NULL) {
        return bad(q, NULL, "Resources of the type '%s' have no metrics.", q->resource.type);
    }
    return true;
}

/* ---- the query ---- */

/* A query argument; "" when it is absent. */
static bool argument(struct query *q, const char *name, char *out, size_t size)
{
    int found = url_query_get(http_query(q->call->http), name, out, size);

    if (found < 0) {
        return bad(q, name, "'%s' is malformed or longer than %zu characters.", name, size - 1);
    }
    if (found == 0) {
        out[0] = '\0';
    }
    return true;
}

static bool unknown_metric(struct query *q, const char *name)
{
    struct buf valid = {0};

    for (size_t i = 0; i < q->set->count; i++) {
        buf_printf(&valid, "%s%s", i == 0 ? "" : ",", q->set->defs[i].name);
    }
    q->valid_names = buf_take(&valid);
    return bad(q, "metricnames",
               "Failed to find metric configuration for provider: Microsoft.NetApp, resource Type: "
               "%s, metric: %.64s",
               strchr(q->set->type, '/') + 1, name);
}

static bool add_metric(struct query *q, const char *name)
{
    const struct metric_def *def = metric_find(q->set, name);

    if (def == NULL) {
        return unknown_metric(q, name);
    }
    for (size_t i = 0; i < q->metric_count; i++) {
        if (q->metrics[i] == def) {
            return true;
        }
    }
    if (q->metric_count == METRICS_MAX) {
        return bad(q, "metricnames", "At most %d metrics can be asked for in one call.",
                   METRICS_MAX);
    }
    q->metrics[q->metric_count++] = def;
    return true;
}

/* Without names the answer holds the first metric of the table. */
static bool read_names(struct query *q)
{
    char text[2048], *save = NULL;

    if (!argument(q, "metricnames", text, sizeof text)) {
        return false;
    }
    for (char *name = strtok_r(text, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        if (!add_metric(q, name)) {
            return false;
        }
    }
    if (q->metric_count == 0) {
        q->metrics[q->metric_count++] = &q->set->defs[0];
    }
    return true;
}

static bool read_aggregation(struct query *q)
{
    char text[128], *save = NULL;
    bool any = false;

    if (!argument(q, "aggregation", text, sizeof text)) {
        return false;
    }
    for (char *name = strtok_r(text, ", ", &save); name != NULL;
         name = strtok_r(NULL, ", ", &save)) {
        int i = 0;
        while (i < AGGREGATIONS && strcasecmp(name, aggregations[i].name) != 0) {
            i++;
        }
        if (i == AGGREGATIONS) {
            return bad(q, "aggregation",
                       "The aggregation '%.32s' is unknown; it is Average, Minimum, Maximum, Total "
                       "or Count.",
                       name);
        }
        any = q->wanted[i] = true;
    }
    q->wanted[AVERAGE] = q->wanted[AVERAGE] || !any;
    return true;
}

static bool read_boolean(struct query *q, const char *name, bool *out)
{
    char text[8];

    if (!argument(q, name, text, sizeof text)) {
        return false;
    }
    *out = strcasecmp(text, "true") == 0;
    return *out || text[0] == '\0' || strcasecmp(text, "false") == 0 ||
           bad(q, name, "'%s' must be true or false.", name);
}

/* Sets the grain; "" takes the shortest that the time span has. */
static bool choose_grain(struct query *q, const char *text, bool adjust)
{
    int64_t shortest = q->start < q->now - DAY - MINUTE ? 5 * MINUTE : MINUTE;
    int64_t asked = shortest;

    if (strcasecmp(text, "FULL") == 0) {
        q->step = shortest;
        q->grain = 0; /* set once the span is aligned */
        return true;
    }
    if (text[0] != '\0' && !duration_parse(text, &asked)) {
        return bad(q, "interval", "The interval '%.32s' is not an ISO 8601 duration or FULL.",
                   text);
    }
    if (adjust && asked < shortest) {
        asked = shortest;
    }
    const struct grain *grain = grain_find(asked, adjust);
    if (grain == NULL) {
        return bad(q, "interval",
                   "The interval '%.32s' is not one of PT1M, PT5M, PT15M, PT30M, PT1H, PT6H, "
                   "PT12H, P1D and FULL.",
                   text);
    }
    if (grain->ns < shortest) {
        return bad(q, "interval", "Points of PT1M are kept for one day; ask for PT5M or longer.");
    }
    q->step = shortest;
    q->grain = grain->ns;
    snprintf(q->interval, sizeof q->interval, "%s", grain->name);
    return true;
}

static bool read_time(struct query *q)
{
    char span[160], interval[32];
    bool adjust;

    if (!argument(q, "timespan", span, sizeof span) ||
        !argument(q, "interval", interval, sizeof interval) ||
        !read_boolean(q, "AutoAdjustTimegrain", &adjust)) {
        return false;
    }
    if (!timespan_parse(span[0] == '\0' ? "PT1H" : span, q->now, &q->start, &q->end)) {
        return bad(q, "timespan",
                   "The timespan '%.120s' is not START/END in ISO 8601 (either may be a duration) "
                   "with START before END.",
                   span);
    }
    if (q->end - q->start > KEPT) {
        return bad(q, "timespan", "The timespan is longer than the 93 days that points are kept.");
    }
    if (!choose_grain(q, interval, adjust)) {
        return false;
    }
    q->from = q->start - q->start % q->step;
    int64_t last = q->end < q->now ? q->end : q->now;
    if (q->grain == 0) {
        int64_t length = q->end - q->from;
        q->grain = (length + q->step - 1) / q->step * q->step;
        snprintf(q->interval, sizeof q->interval, "PT%lldM", (long long)(q->grain / MINUTE));
    }
    q->points = last <= q->from ? 0 : (size_t)((last - q->from + q->grain - 1) / q->grain);
    if (q->points * q->metric_count > POINTS_MAX) {
        return bad(q, "interval",
                   "The answer would hold %zu points, more than %d; ask for a longer interval.",
                   q->points * q->metric_count, POINTS_MAX);
    }
    return true;
}

/* What sorts and cuts the series that a dimension makes. There are no dimensions, so there is one
 * series a metric and every valid order gives the same answer; what names a dimension is refused.
 */
static bool read_series(struct query *q)
{
    char text[256], *end;
    bool ignored;

    static const char *const dimensional[] = {"$filter", "rollupby"};
    for (size_t i = 0; i < sizeof dimensional / sizeof dimensional[0]; i++) {
        if (!argument(q, dimensional[i], text, sizeof text)) {
            return false;
        }
        if (text[0] != '\0') {
            return bad(q, dimensional[i], "'%s' is not supported: the metrics have no dimensions.",
                       dimensional[i]);
        }
    }
    if (!argument(q, "top", text, sizeof text)) {
        return false;
    }
    if (text[0] != '\0' && (strtol(text, &end, 10) < 1 || *end != '\0')) {
        return bad(q, "top", "'top' must be a number, 1 or more.");
    }
    if (!argument(q, "orderby", text, sizeof text)) {
        return false;
    }
    if (text[0] != '\0') {
        char *order = strchr(text, ' ');
        bool known = order == NULL || strcasecmp(order + 1, "asc") == 0 ||
                     strcasecmp(order + 1, "desc") == 0;
        if (order != NULL) {
            *order = '\0';
        }
        int i = 0;
        while (i < AGGREGATIONS && strcasecmp(text, aggregations[i].name) != 0) {
            i++;
        }
        if (!known || i == AGGREGATIONS) {
            return bad(q, "orderby", "'orderby' must be an aggregation, then 'asc' or 'desc'.");
        }
    }
    return read_boolean(q, "ValidateDimensions", &ignored);
}

static bool read_namespace(struct query *q)
{
    char text[128];

    if (!argument(q, "metricnamespace", text, sizeof text)) {
        return false;
    }
    return text[0] == '\0' || strcasecmp(text, q->set->type) == 0 ||
           bad(q, "metricnamespace",
               "The metric namespace '%.100s' is unknown; the resource's is '%s'.", text,
               q->set->type);
}

static bool read_query(struct query *q)
{
    char text[16];

    if (!argument(q, "resultType", text, sizeof text)) {
        return false;
    }
    q->metadata_only = strcasecmp(text, "Metadata") == 0;
    if (!q->metadata_only && text[0] != '\0' && strcasecmp(text, "Data") != 0) {
        return bad(q, "resultType", "'resultType' must be Data or Metadata.");
    }
    return read_namespace(q) && read_names(q) && read_aggregation(q) && read_series(q) &&
           read_time(q);
}

/* ---- samples ---- */

struct samples {
    struct metric_sample *list;
    size_t count, room;
    int64_t from, step;
};

/* Adds a volume's point to the sample of its time: a volume has one each, a pool one for all its
 * volumes. */
static int add_sample(const struct metric_point *p, void *arg)
{
    struct samples *s = arg;
    int64_t i = (p->start - s->from) / s->step;

    if (p->start < s->from || (size_t)i >= s->room) {
        return 0;
    }
    struct metric_point *to = &s->list[i].point;
    to->start = p->start;
    to->seconds = p->seconds > to->seconds ? p->seconds : to->seconds;
    to->has_gauge = to->has_gauge || p->has_gauge;
    for (int k = 0; k < METRIC_SUM_COUNT; k++) {
        to->sum[k] += p->sum[k];
    }
    for (int k = 0; k < METRIC_GAUGE_COUNT && p->has_gauge; k++) {
        to->gauge[k] += p->gauge[k];
    }
    if ((size_t)i >= s->count) {
        s->count = (size_t)i + 1;
    }
    return 0;
}

/* What a pool's samples need besides its volumes' points. */
struct pool_volumes {
    char **fs_id;
    size_t count;
    double throughput; /* bytes per second */
    int64_t changed;   /* ns: the last change of any of them */
};

static int add_volume(const struct db_resource *volume, void *arg)
{
    struct pool_volumes *v = arg;
    int64_t changed = volume->etag_ticks * NS_PER_ETAG_TICK;

    v->fs_id = xrealloc(v->fs_id, (v->count + 1) * sizeof *v->fs_id);
    v->fs_id[v->count++] = xstrdup(volume->fs_id);
    v->throughput += volume->throughput * BYTES_PER_MIB;
    v->changed = changed > v->changed ? changed : v->changed;
    return v->count > POOL_VOLUMES_MAX;
}

static int read_points(struct query *q, const char *fs_id, struct samples *s)
{
    int64_t to = q->from + (int64_t)s->room * q->step;

    return metrics_db_read(q->call->api->metrics, fs_id, q->from, to, q->step, q->now, add_sample,
                           s);
}

/* The pool's own size and throughput are known from its last change on (a value at a sample's end
 * is the sample's). */
static void add_pool_figures(const struct query *q, const struct pool_volumes *v, struct samples *s)
{
    int64_t changed = q->resource.etag_ticks * NS_PER_ETAG_TICK;
    int64_t all = changed > v->changed ? changed : v->changed;

    for (size_t i = 0; i < s->room; i++) {
        int64_t end = q->from + (int64_t)(i + 1) * q->step;
        s->list[i].has_size = changed < end;
        s->list[i].has_throughput = all < end;
        s->list[i].pool_size = (double)q->resource.size;
        s->list[i].pool_throughput = q->resource.throughput * BYTES_PER_MIB;
        s->list[i].volumes_throughput = v->throughput;
        if (v->count == 0) {
            s->list[i].point.has_gauge =
                s->list[i].has_size; /* nothing used and nothing allocated: 0, not unknown */
        }
    }
    s->count = s->room;
}

static bool read_pool(struct query *q, struct samples *s)
{
    struct pool_volumes v = {0};
    struct db_list list = {.parent = q->resource.rid, .after = "", .limit = POOL_VOLUMES_MAX + 1};
    struct db_conn *reader = db_read_begin(q->call->api->db);
    int rc = db_resource_each(reader, &list, add_volume, &v);

    db_read_end(reader);
    bool ok = rc >= 0;
    if (!ok) {
        store_error(rc, &q->error);
    } else if (v.count > POOL_VOLUMES_MAX) {
        ok = bad(q, NULL, "The metrics of a pool of more than %d volumes are not supported.",
                 POOL_VOLUMES_MAX);
    }
    for (size_t i = 0; i < v.count; i++) {
        rc = ok ? read_points(q, v.fs_id[i], s) : 0;
        if (rc < 0) {
            store_error(rc, &q->error);
            ok = false;
        }
        free(v.fs_id[i]);
    }
    free(v.fs_id);
    if (ok) {
        add_pool_figures(q, &v, s);
    }
    return ok;
}

/* Fills `s->list`, which the caller frees. */
static bool read_samples(struct query *q, struct samples *s)
{
    int64_t last = q->end < q->now ? q->end : q->now;

    *s = (struct samples){.from = q->from, .step = q->step};
    if (last > q->from) {
        s->room = (size_t)((last - q->from + q->step - 1) / q->step);
    }
    s->list = xcalloc(s->room + 1, sizeof *s->list);
    if (s->room == 0) {
        return true;
    }
    if (q->resource.fs_id == NULL) {
        return read_pool(q, s);
    }
    int rc = read_points(q, q->resource.fs_id, s);
    if (rc < 0) {
        store_error(rc, &q->error);
    }
    return rc >= 0;
}

/* ---- the answer ---- */

static json_t *localized(const char *value, const char *display)
{
    return json_pack("{s:s, s:s}", "value", value, "localizedValue", display);
}

static void set_values(const struct query *q, const struct metric_def *def,
                       const struct metric_bucket *b, json_t *point)
{
    const double value[AGGREGATIONS] = {
        [AVERAGE] = metric_bucket_average(def, b),
        [MINIMUM] = b->minimum,
        [MAXIMUM] = b->maximum,
        [TOTAL] = b->total,
        [COUNT_OF] = (double)b->count,
    };

    for (int i = 0; i < AGGREGATIONS && b->count > 0; i++) {
        if (q->wanted[i] && isfinite(value[i])) {
            json_object_set_new(point, aggregations[i].member, json_real(value[i]));
        }
    }
}

static json_t *series(const struct query *q, const struct metric_def *def, const struct samples *s)
{
    json_t *data = json_array();
    size_t per_point = (size_t)(q->grain / q->step);
    char when[CLOCK_ISO_MAX];

    for (size_t k = 0; k < q->points; k++) {
        struct metric_bucket b = {0};
        size_t end = (k + 1) * per_point < s->count ? (k + 1) * per_point : s->count;
        for (size_t i = k * per_point; i < end; i++) {
            /* Nothing is known of a volume before its first report. */
            if (s->list[i].point.has_gauge || s->list[i].has_size) {
                metric_bucket_add(def, &b, &s->list[i]);
            }
        }
        clock_format_iso(q->from + (int64_t)k * q->grain, 0, when);
        json_t *point = json_pack("{s:s}", "timeStamp", when);
        set_values(q, def, &b, point);
        json_array_append_new(data, point);
    }
    return data;
}

static json_t *metric_answer(const struct query *q, const struct metric_def *def,
                             const struct samples *s)
{
    char *id = xasprintf("%s/providers/Microsoft.Insights/metrics/%s", q->id, def->name);
    json_t *one = json_pack("{s:[]}", "metadatavalues");

    if (!q->metadata_only) {
        json_object_set_new(one, "data", series(q, def, s));
    }
    json_t *out = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:s, s:[o]}", "id", id, "type", "Microsoft.Insights/metrics",
        "name", localized(def->name, def->display), "displayDescription", def->description, "unit",
        def->unit, "errorCode", "Success", "timeseries", one);
    free(id);
    return out;
}

static void fail_query(struct query *q)
{
    if (q->valid_names != NULL) {
        arm_fail(q->call, q->error.status, q->error.code, q->error.target, "%s, Valid metrics: %s",
                 q->error.message, q->valid_names);
    } else {
        arm_fail_error(q->call, &q->error);
    }
}

void insights_metrics(struct arm_call *call)
{
    struct query q = {.call = call, .now = clock_wall_ns()};
    struct samples s = {0};
    char start[CLOCK_ISO_MAX], end[CLOCK_ISO_MAX];

    if (!find_resource(&q) || !read_query(&q) || !read_samples(&q, &s)) {
        fail_query(&q);
        goto out;
    }
    json_t *value = json_array();
    for (size_t i = 0; i < q.metric_count; i++) {
        json_array_append_new(value, metric_answer(&q, q.metrics[i], &s));
    }
    clock_format_iso(q.start, 0, start);
    clock_format_iso(q.end, 0, end);
    char *span = xasprintf("%s/%s", start, end);
    arm_reply(call, 200,
              json_pack("{s:I, s:s, s:s, s:s, s:s, s:o}", "cost",
                        (json_int_t)q.points * (json_int_t)q.metric_count, "timespan", span,
                        "interval", q.interval, "namespace", q.set->type, "resourceregion",
                        q.resource.location, "value", value));
    free(span);
out:
    free(s.list);
    query_clear(&q);
}

static json_t *definition(const struct query *q, const struct metric_def *def)
{
    char *id = xasprintf("%s/providers/microsoft.insights/metricdefinitions/%s", q->id, def->name);
    json_t *supported = json_array(), *available = json_array();

    for (int i = 0; i < AGGREGATIONS; i++) {
        json_array_append_new(supported, json_string(aggregations[i].name));
    }
    for (size_t i = 0; i < grain_count; i++) {
        json_array_append_new(available,
                              json_pack("{s:s, s:s}", "timeGrain", grains[i].name, "retention",
                                        grains[i].ns < 5 * MINUTE ? "P1D" : "P93D"));
    }
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:b, s:o}", "id", id, "resourceId",
                  q->id, "namespace", q->set->type, "name", localized(def->name, def->display),
                  "displayDescription", def->description, "unit", def->unit,
                  "primaryAggregationType", "Average", "supportedAggregationTypes", supported,
                  "isDimensionRequired", 0, "metricAvailabilities", available);
    free(id);
    return out;
}

void insights_definitions(struct arm_call *call)
{
    struct query q = {.call = call};

    if (!find_resource(&q) || !read_namespace(&q)) {
        fail_query(&q);
    } else {
        json_t *value = json_array();
        for (size_t i = 0; i < q.set->count; i++) {
            json_array_append_new(value, definition(&q, &q.set->defs[i]));
        }
        arm_reply(call, 200, json_pack("{s:o}", "value", value));
    }
    query_clear(&q);
}
