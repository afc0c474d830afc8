/* The arithmetic of metric points (anf-api.md E.1, E.2): expected values are worked out by hand. */
#include "api/metric_table.h"

#include <criterion/criterion.h>
#include <math.h>

#define MIB INT64_C(1048576)

static const struct metric_set *volumes(void)
{
    return metric_set_find("microsoft.netapp/netappaccounts/capacitypools/volumes");
}

/* A minute: 60 MiB read in 60 reads, 30 MiB written in 120 writes. */
static const struct metric_sample minute = {
    .point = {.seconds = 60,
              .sum = {[METRIC_SUM_READ_BYTES] = 60 * MIB,
                      [METRIC_SUM_WRITE_BYTES] = 30 * MIB,
                      [METRIC_SUM_OTHER_BYTES] = 6000,
                      [METRIC_SUM_READ_OPS] = 60,
                      [METRIC_SUM_WRITE_OPS] = 120,
                      [METRIC_SUM_OTHER_OPS] = 30,
                      [METRIC_SUM_READ_NS] = 300000000,    /* 60 × 5 ms */
                      [METRIC_SUM_WRITE_NS] = 240000000,   /* 120 × 2 ms */
                      [METRIC_SUM_THROTTLE_NS] = 90000000, /* 180 × 0.5 ms */
                      [METRIC_SUM_LIMITED_NS] = 1},
              .gauge = {[METRIC_GAUGE_LOGICAL_BYTES] = 25,
                        [METRIC_GAUGE_ALLOCATED_BYTES] = 200,
                        [METRIC_GAUGE_INODES_USED] = 3,
                        [METRIC_GAUGE_INODES_QUOTA] = 12},
              .has_gauge = true}};

static double value(const char *name, const struct metric_sample *s)
{
    const struct metric_def *def = metric_find(volumes(), name);

    cr_assert_not_null(def, "%s is missing", name);
    return def->value(s);
}

Test(metrics, a_points_values)
{
    static const struct {
        const char *name;
        double want;
    } cases[] = {
        {"ReadIops", 1},
        {"WriteIops", 2},
        {"OtherIops", 0.5},
        {"TotalIops", 3.5},
        {"ReadThroughput", 1.0 * MIB},
        {"WriteThroughput", 0.5 * MIB},
        {"OtherThroughput", 100},
        {"TotalThroughput", 1.5 * MIB + 100},
        {"AverageReadLatency", 5},
        {"AverageWriteLatency", 2},
        {"QosLatencyDelta", 0.5},
        {"ThroughputLimitReached", 1},
        {"VolumeLogicalSize", 25},
        {"VolumeAllocatedSize", 200},
        {"VolumeConsumedSizePercentage", 12.5},
        {"VolumeInodesUsed", 3},
        {"VolumeInodesQuota", 12},
        {"VolumeInodesTotal", 12},
        {"VolumeInodesPercentage", 25},
    };

    cr_assert_eq(sizeof cases / sizeof cases[0], volumes()->count,
                 "every metric of the table is tested here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = value(cases[i].name, &minute);
        cr_assert(fabs(got - cases[i].want) < 1e-9, "%s is %g, not %g", cases[i].name, got,
                  cases[i].want);
    }
}

Test(metrics, an_idle_point_has_rates_of_zero_and_no_latency)
{
    const struct metric_sample idle = {.point = {.seconds = 60, .has_gauge = true}};

    cr_assert_eq(value("TotalThroughput", &idle), 0);
    cr_assert_eq(value("TotalIops", &idle), 0);
    cr_assert_eq(value("ThroughputLimitReached", &idle), 0);
    cr_assert(isnan(value("AverageReadLatency", &idle)));
    cr_assert(isnan(value("QosLatencyDelta", &idle)));
    cr_assert(isnan(value("VolumeConsumedSizePercentage", &idle)),
              "a quota of 0 has no percentage");
}

Test(metrics, a_point_of_no_time_has_no_rates)
{
    const struct metric_sample none = {.point = {.has_gauge = true}};

    cr_assert(isnan(value("ReadThroughput", &none)));
}

Test(metrics, what_the_system_does_not_have_is_not_there)
{
    static const char *const absent[] = {"VolumeSnapshotSize", "VolumeCoolTierSize",
                                         "CbsVolumeProtected", "XregionReplicationHealthy", ""};

    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        cr_assert_null(metric_find(volumes(), absent[i]));
    }
    cr_assert_null(metric_set_find("Microsoft.NetApp/netAppAccounts"));
}

Test(metrics, names_and_types_compare_without_case)
{
    cr_assert_str_eq(metric_find(volumes(), "volumelogicalsize")->name, "VolumeLogicalSize");
    cr_assert_str_eq(volumes()->type, "Microsoft.NetApp/netAppAccounts/capacityPools/volumes");
}

/* Two points, the second of 20 seconds only: the average throughput is bytes ÷ all seconds, not the
 * mean of two rates. */
Test(buckets, rates_average_over_all_seconds)
{
    const struct metric_def *def = metric_find(volumes(), "ReadThroughput");
    struct metric_sample shorter = {
        .point = {.seconds = 20, .sum = {[METRIC_SUM_READ_BYTES] = 100 * MIB}}};
    struct metric_bucket b = {0};

    metric_bucket_add(def, &b, &minute);
    metric_bucket_add(def, &b, &shorter);
    cr_assert_float_eq(metric_bucket_average(def, &b), 2.0 * MIB, 1e-6); /* 160 MiB in 80 s */
    cr_assert_eq(b.minimum, 1.0 * MIB);
    cr_assert_eq(b.maximum, 5.0 * MIB);
    cr_assert_eq(b.total, 6.0 * MIB);
    cr_assert_eq(b.count, 2);
}

Test(buckets, latencies_average_over_all_operations)
{
    const struct metric_def *def = metric_find(volumes(), "AverageReadLatency");
    struct metric_sample slow = {
        .point = {.seconds = 60,
                  .sum = {[METRIC_SUM_READ_OPS] = 20, [METRIC_SUM_READ_NS] = 500000000}}};
    struct metric_sample idle = {.point = {.seconds = 60}};
    struct metric_bucket b = {0};

    metric_bucket_add(def, &b, &minute);
    metric_bucket_add(def, &b, &slow);
    metric_bucket_add(def, &b, &idle);
    cr_assert_float_eq(metric_bucket_average(def, &b), 10.0, 1e-9); /* 800 ms in 80 reads */
    cr_assert_float_eq(b.maximum, 25.0, 1e-9);
    cr_assert_eq(b.count, 2, "a point without reads has no latency");
}

Test(buckets, sizes_average_over_points)
{
    const struct metric_def *def = metric_find(volumes(), "VolumeLogicalSize");
    struct metric_sample later = {
        .point = {.seconds = 60, .gauge = {[METRIC_GAUGE_LOGICAL_BYTES] = 75}, .has_gauge = true}};
    struct metric_sample unknown = {.point = {.seconds = 60}};
    struct metric_bucket b = {0};

    metric_bucket_add(def, &b, &minute);
    metric_bucket_add(def, &b, &later);
    metric_bucket_add(def, &b, &unknown);
    cr_assert_eq(metric_bucket_average(def, &b), 50);
    cr_assert_eq(b.total, 100);
}

Test(buckets, an_empty_one_has_no_average)
{
    const struct metric_def *def = metric_find(volumes(), "ReadIops");
    struct metric_bucket b = {0};

    cr_assert(isnan(metric_bucket_average(def, &b)));
}

Test(pools, sums_over_volumes_and_the_pools_own_figures)
{
    const struct metric_set *pools =
        metric_set_find("Microsoft.NetApp/netAppAccounts/capacityPools");
    struct metric_sample s = minute; /* of its volumes, added up */

    s.has_size = s.has_throughput = true;
    s.pool_size = 1000;
    s.pool_throughput = 64.0 * MIB;
    s.volumes_throughput = 16.0 * MIB;
    cr_assert_eq(metric_find(pools, "VolumePoolAllocatedSize")->value(&s), 1000);
    cr_assert_eq(metric_find(pools, "VolumePoolAllocatedUsed")->value(&s), 200);
    cr_assert_eq(metric_find(pools, "VolumePoolTotalLogicalSize")->value(&s), 25);
    cr_assert_eq(metric_find(pools, "VolumePoolProvisionedThroughput")->value(&s), 64.0 * MIB);
    cr_assert_eq(metric_find(pools, "VolumePoolAllocatedToVolumeThroughput")->value(&s),
                 16.0 * MIB);

    s.has_size = s.has_throughput = false;
    cr_assert(isnan(metric_find(pools, "VolumePoolAllocatedSize")->value(&s)),
              "not known before its last change");
}
