/* Azure Monitor's calls (anf-api.md E.3) on a volume whose points are given: what comes back is
 * worked out by hand. */
#include "api/insights.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/api/control_plane.h"

#define GROUP   "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg"
#define ACCOUNT GROUP "/providers/Microsoft.NetApp/netAppAccounts/eda"
#define POOL    ACCOUNT "/capacityPools/fast"
#define VOLUME  POOL "/volumes/vol1"
#define METRICS "/providers/microsoft.insights/metrics?api-version=2018-01-01"
#define FS_ID   "01234567-89ab-4cde-8f01-23456789abcd"
#define MIB     1048576

static int64_t begin; /* ns: a whole five minutes, some minutes ago */

struct row {
    const char *type, *id, *name, *fs_id, *doc;
    int64_t parent, size;
    double throughput;
    int64_t rid;
};

static int insert(struct db_conn *txn, void *arg)
{
    struct row *row = arg;
    char type[100], id[300], name[40], location[] = "eastus", group[] = "rg", fs[40] = "", doc[400];
    char subscription[] = "00000000-0000-0000-0000-000000000001", key[] = "eastus//default/vol1",
         handle[33];

    snprintf(type, sizeof type, "%s", row->type);
    snprintf(id, sizeof id, "%s", row->id);
    snprintf(name, sizeof name, "%s", row->name);
    snprintf(doc, sizeof doc, "%s", row->doc);
    snprintf(handle, sizeof handle, "%032d", 0);
    struct db_resource r = {.parent = row->parent,
                            .type = type,
                            .subscription = subscription,
                            .group = group,
                            .id = id,
                            .name = name,
                            .location = location,
                            .doc = doc,
                            .generation = 1,
                            .observed = 1,
                            .size = row->size,
                            .throughput = row->throughput};
    if (row->fs_id != NULL) {
        snprintf(fs, sizeof fs, "%s", row->fs_id);
        r.fs_id = fs;
        r.export_key = key;
        r.handle_key = handle;
    }
    int rc = db_resource_insert(txn, &r);
    row->rid = r.rid;
    return rc;
}

static int64_t put(struct row row)
{
    cr_assert_eq(
        db_submit_wait(plane->db, &(struct db_request){.name = "test", .run = insert, .arg = &row}),
        0);
    return row.rid;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool applied;

static void on_applied(void *arg, int result)
{
    (void)arg;
    cr_assert_eq(result, 0);
    pthread_mutex_lock(&lock);
    applied = true;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&lock);
}

/* Minutes 0, 1 and 3 of five: 60, 120 and 300 MiB read; used bytes 100, 300, 500. */
static void setup(void)
{
    struct metric_increment points[3] = {0};
    static const int minutes[] = {0, 1, 3}, mib[] = {60, 120, 300}, used[] = {100, 300, 500};

    plane_start(AUTH_NONE);
    int64_t account = put((struct row){.type = "Microsoft.NetApp/netAppAccounts",
                                       .id = ACCOUNT,
                                       .name = "eda",
                                       .doc = "{\"properties\":{}}"});
    int64_t pool = put(
        (struct row){.type = "Microsoft.NetApp/netAppAccounts/capacityPools",
                     .id = POOL,
                     .name = "fast",
                     .parent = account,
                     .size = INT64_C(4) << 40,
                     .throughput = 64,
                     .doc = "{\"properties\":{\"serviceLevel\":\"Premium\",\"qosType\":\"Manual\","
                            "\"size\":4398046511104}}"});
    put((struct row){
        .type = "Microsoft.NetApp/netAppAccounts/capacityPools/volumes",
        .id = VOLUME,
        .name = "vol1",
        .parent = pool,
        .size = INT64_C(1) << 40,
        .throughput = 16,
        .fs_id = FS_ID,
        .doc = "{\"properties\":{\"serviceLevel\":\"Premium\",\"usageThreshold\":1099511627776,"
               "\"throughputMibps\":16}}"});

    begin = (clock_wall_ns() / (int64_t)(300 * NS_PER_S) - 3) * (int64_t)(300 * NS_PER_S);
    for (int i = 0; i < 3; i++) {
        snprintf(points[i].fs_id, sizeof points[i].fs_id, "%s", FS_ID);
        points[i].minute = begin + minutes[i] * (int64_t)(60 * NS_PER_S);
        points[i].sum[METRIC_SUM_READ_BYTES] = (uint64_t)mib[i] * MIB;
        points[i].sum[METRIC_SUM_READ_OPS] = (uint64_t)mib[i];
        points[i].sum[METRIC_SUM_READ_NS] = (uint64_t)mib[i] * 2000000;
        points[i].gauge[METRIC_GAUGE_LOGICAL_BYTES] = (uint64_t)used[i];
        points[i].gauge[METRIC_GAUGE_ALLOCATED_BYTES] = 1000;
    }
    metrics_db_apply(plane->metrics, "1:test", 1, points, 3, on_applied, NULL);
    pthread_mutex_lock(&lock);
    while (!applied) {
        pthread_cond_wait(&came, &lock);
    }
    pthread_mutex_unlock(&lock);
}

TestSuite(insights, .init = setup, .fini = plane_stop, .timeout = 60);

/* Asks for the five minutes from `begin`. */
static int ask(const char *id, const char *more)
{
    char path[1024], start[CLOCK_ISO_MAX], end[CLOCK_ISO_MAX];

    clock_format_iso(begin, 0, start);
    clock_format_iso(begin + (int64_t)(300 * NS_PER_S), 0, end);
    snprintf(path, sizeof path, "%s" METRICS "&timespan=%s/%s&%s", id, start, end, more);
    return plane_call("GET", path, NULL, NULL);
}

static json_t *data_of(size_t metric)
{
    const json_t *value = json_array_get(json_object_get(answer, "value"), metric);

    return json_object_get(json_array_get(json_object_get(value, "timeseries"), 0), "data");
}

static double at(size_t metric, size_t point, const char *member)
{
    const json_t *value = json_object_get(json_array_get(data_of(metric), point), member);

    return value == NULL ? -1 : json_number_value(value);
}

Test(insights, minutes_as_they_were)
{
    cr_assert_eq(ask(VOLUME, "interval=PT1M&metricnames=ReadThroughput,VolumeLogicalSize"), 200);
    cr_assert_eq(json_array_size(data_of(0)), 5);
    const double rates[] = {1 * MIB, 2 * MIB, 0, 5 * MIB, 0}, sizes[] = {100, 300, 300, 500, 500};
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(at(0, i, "average"), rates[i], "minute %zu is %g", i, at(0, i, "average"));
        cr_assert_eq(at(1, i, "average"), sizes[i], "minute %zu is %g", i, at(1, i, "average"));
    }
    char start[CLOCK_ISO_MAX];
    clock_format_iso(begin, 0, start);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(data_of(0), 0), "timeStamp")),
                     start);
}

Test(insights, five_minutes_in_one)
{
    cr_assert_eq(ask(VOLUME, "interval=PT5M&metricnames=ReadThroughput&aggregation=Average,Minimum,"
                             "Maximum,Total,Count"),
                 200);
    cr_assert_eq(json_array_size(data_of(0)), 1);
    cr_assert_eq(at(0, 0, "average"), 480.0 * MIB / 300);
    cr_assert_eq(at(0, 0, "minimum"), 0);
    cr_assert_eq(at(0, 0, "maximum"), 5.0 * MIB);
    cr_assert_eq(at(0, 0, "total"), 8.0 * MIB);
    cr_assert_eq(at(0, 0, "count"), 5);
}

Test(insights, the_whole_span_in_one)
{
    cr_assert_eq(ask(VOLUME, "interval=FULL&metricnames=AverageReadLatency"), 200);
    cr_assert_eq(json_array_size(data_of(0)), 1);
    cr_assert_eq(at(0, 0, "average"), 2);
    cr_assert_str_eq(answer_text("interval"), "PT5M");
}

Test(insights, the_answers_frame)
{
    cr_assert_eq(ask(VOLUME, "interval=PT5M&metricnames=volumelogicalsize"), 200);
    cr_assert_str_eq(answer_text("namespace"),
                     "Microsoft.NetApp/netAppAccounts/capacityPools/volumes");
    cr_assert_str_eq(answer_text("resourceregion"), "eastus");
    const json_t *value = json_array_get(json_object_get(answer, "value"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(value, "id")),
                     VOLUME "/providers/Microsoft.Insights/metrics/VolumeLogicalSize");
    cr_assert_str_eq(json_string_value(json_object_get(value, "type")),
                     "Microsoft.Insights/metrics");
    cr_assert_str_eq(json_string_value(json_object_get(value, "unit")), "Bytes");
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(value, "name"), "value")),
                     "VolumeLogicalSize");
}

Test(insights, before_the_first_report_there_is_no_value)
{
    char path[1024], start[CLOCK_ISO_MAX];

    clock_format_iso(begin - (int64_t)(120 * NS_PER_S), 0, start);
    snprintf(path, sizeof path,
             VOLUME METRICS "&timespan=%s/PT3M&interval=PT1M&metricnames=ReadIops", start);
    cr_assert_eq(plane_call("GET", path, NULL, NULL), 200);
    cr_assert_eq(json_array_size(data_of(0)), 3);
    cr_assert_eq(at(0, 0, "average"), -1);
    cr_assert_eq(at(0, 1, "average"), -1);
    cr_assert_eq(at(0, 2, "average"), 1);
}

Test(insights, nothing_is_said_of_the_future)
{
    cr_assert_eq(
        plane_call("GET", VOLUME METRICS "&timespan=2190-01-01T00:00:00Z/PT1H&metricnames=ReadIops",
                   NULL, NULL),
        200);
    cr_assert_eq(json_array_size(data_of(0)), 0);
}

Test(insights, the_published_call)
{
    cr_assert_eq(plane_call("GET", VOLUME METRICS "&metricnames=VolumeLogicalSize", NULL, NULL),
                 200);
    size_t points = json_array_size(data_of(0));
    cr_assert(points == 60 || points == 61, "an hour of minutes, the running one included: %zu",
              points);
    cr_assert_eq(at(0, points - 1, "average"), 500);
    cr_assert_str_eq(answer_text("interval"), "PT1M");
}

Test(insights, azs_double_encoding)
{
    char path[1024], start[CLOCK_ISO_MAX];

    clock_format_iso(begin, 0, start);
    int hour = 0, minute = 0;
    sscanf(start + 11, "%d:%d", &hour, &minute);
    snprintf(path, sizeof path,
             VOLUME METRICS "&timespan=%.10sT%02d%%253A%02d%%253A00.000000%%252FPT5M&interval=PT5M&"
                            "metricnames=ReadIops&top=10",
             start, hour, minute);
    cr_assert_eq(plane_call("GET", path, NULL, NULL), 200);
    cr_assert_eq(at(0, 0, "average"), 1.6); /* 480 reads in 300 s */
}

Test(insights, pools_add_up_their_volumes)
{
    cr_assert_eq(ask(POOL,
                     "interval=PT1M&metricnames=VolumePoolTotalLogicalSize,VolumePoolAllocatedUsed,"
                     "VolumePoolAllocatedSize"),
                 200);
    cr_assert_eq(at(0, 3, "average"), 500);
    cr_assert_eq(at(1, 3, "average"), 1000);
    cr_assert_eq(at(2, 3, "average"), -1, "the pool's size then is not known");
    cr_assert_eq(plane_call("GET",
                            POOL METRICS
                            "&metricnames=VolumePoolAllocatedSize,VolumePoolProvisionedThroughput",
                            NULL, NULL),
                 200);
    cr_assert_eq(at(0, json_array_size(data_of(0)) - 1, "average"), 4398046511104.0);
    cr_assert_eq(at(1, json_array_size(data_of(1)) - 1, "average"), 64.0 * MIB);
}

Test(insights, definitions_list_what_can_be_asked)
{
    cr_assert_eq(
        plane_call("GET",
                   VOLUME "/providers/microsoft.insights/metricDefinitions?api-version=2018-01-01",
                   NULL, NULL),
        200);
    const json_t *value = json_object_get(answer, "value"), *one;
    size_t i;
    char names[40][80];
    size_t count = json_array_size(value);
    cr_assert_eq(count, 19);
    json_array_foreach(value, i, one)
    {
        snprintf(names[i], sizeof names[i], "metricnames=%s",
                 json_string_value(json_object_get(json_object_get(one, "name"), "value")));
    }
    for (i = 0; i < count; i++) {
        cr_assert_eq(ask(VOLUME, names[i]), 200, "%s", names[i]);
    }
}

Test(insights, bad_calls_name_the_argument)
{
    static const struct {
        const char *query, *target;
    } cases[] = {
        {"metricnames=Nonsense", "metricnames"},
        {"metricnames=VolumeSnapshotSize", "metricnames"},
        {"metricnames=%zz", "metricnames"},
        {"aggregation=Median", "aggregation"},
        {"interval=PT2M", "interval"},
        {"interval=5", "interval"},
        {"timespan=yesterday", "timespan"},
        {"timespan=P94D", "timespan"},
        {"timespan=P2D&interval=PT1M", "interval"},
        {"timespan=P90D&interval=PT5M&metricnames=ReadIops,WriteIops", "interval"},
        {"$filter=a%20eq%20'b'", "$filter"},
        {"rollupby=a", "rollupby"},
        {"top=0", "top"},
        {"top=x", "top"},
        {"orderby=sideways", "orderby"},
        {"orderby=average%20up", "orderby"},
        {"resultType=Picture", "resultType"},
        {"metricnamespace=Microsoft.Compute/virtualMachines", "metricnamespace"},
        {"AutoAdjustTimegrain=maybe", "AutoAdjustTimegrain"},
    };
    char path[1024];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, VOLUME METRICS "&%s", cases[i].query);
        cr_assert_eq(plane_call("GET", path, NULL, NULL), 400, "%s", cases[i].query);
        cr_assert_str_eq(answer_text("error.target"), cases[i].target, "%s", cases[i].query);
    }
}

Test(insights, an_unknown_name_lists_the_valid_ones)
{
    cr_assert_eq(ask(VOLUME, "metricnames=VolumeLogicalSize,Nonsense"), 400);
    cr_assert_str_eq(answer_text("error.code"), "BadRequest");
    cr_assert(strstr(answer_text("error.message"), "metric: Nonsense") != NULL);
    cr_assert(strstr(answer_text("error.message"), "VolumeLogicalSize") != NULL);
    cr_assert(strstr(answer_text("error.message"), "ThroughputLimitReached") != NULL,
              "the list is whole");
}

Test(insights, harmless_arguments_are_taken)
{
    cr_assert_eq(
        ask(VOLUME,
            "top=10&orderby=average%20asc&resultType=Data&ValidateDimensions=false&$filter=&"
            "metricnamespace=microsoft.netapp%2Fnetappaccounts%2Fcapacitypools%2Fvolumes&"
            "AutoAdjustTimegrain=true&interval=PT2M"),
        200);
    cr_assert_str_eq(answer_text("interval"), "PT5M", "the next longer grain");
    cr_assert_eq(ask(VOLUME, "resultType=Metadata"), 200);
    cr_assert_null(data_of(0));
}

Test(insights, a_missing_resource_is_404)
{
    cr_assert_eq(ask(POOL "/volumes/none", "metricnames=ReadIops"), 404);
    cr_assert_str_eq(answer_text("error.code"), "ResourceNotFound");
}
