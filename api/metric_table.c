/* The table of metrics and what each makes of a sample. No state, no locks. */
#include "api/metric_table.h"

#include <math.h>
#include <strings.h>

#define NS_PER_MILLISECOND 1e6

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static double sum_of(const struct metric_sample *s, enum metric_sum which)
{
    return (double)s->point.sum[which];
}

static double rate(const struct metric_sample *s, enum metric_sum which)
{
    return ratio(sum_of(s, which), s->point.seconds);
}

static double gauge(const struct metric_sample *s, enum metric_gauge which)
{
    return s->point.has_gauge ? (double)s->point.gauge[which] : NAN;
}

/* ---- volumes ---- */

static double read_iops(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_READ_OPS);
}

static double write_iops(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_WRITE_OPS);
}

static double other_iops(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_OTHER_OPS);
}

static double total_iops(const struct metric_sample *s)
{
    return read_iops(s) + write_iops(s) + other_iops(s);
}

static double read_throughput(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_READ_BYTES);
}

static double write_throughput(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_WRITE_BYTES);
}

static double other_throughput(const struct metric_sample *s)
{
    return rate(s, METRIC_SUM_OTHER_BYTES);
}

static double total_throughput(const struct metric_sample *s)
{
    return read_throughput(s) + write_throughput(s) + other_throughput(s);
}

static double read_latency(const struct metric_sample *s)
{
    return ratio(sum_of(s, METRIC_SUM_READ_NS), sum_of(s, METRIC_SUM_READ_OPS)) /
           NS_PER_MILLISECOND;
}

static double write_latency(const struct metric_sample *s)
{
    return ratio(sum_of(s, METRIC_SUM_WRITE_NS), sum_of(s, METRIC_SUM_WRITE_OPS)) /
           NS_PER_MILLISECOND;
}

static double qos_latency(const struct metric_sample *s)
{
    double ops = sum_of(s, METRIC_SUM_READ_OPS) + sum_of(s, METRIC_SUM_WRITE_OPS);

    return ratio(sum_of(s, METRIC_SUM_THROTTLE_NS), ops) / NS_PER_MILLISECOND;
}

static double limit_reached(const struct metric_sample *s)
{
    return s->point.sum[METRIC_SUM_LIMITED_NS] > 0 ? 1 : 0;
}

static double logical_size(const struct metric_sample *s)
{
    return gauge(s, METRIC_GAUGE_LOGICAL_BYTES);
}

static double allocated_size(const struct metric_sample *s)
{
    return gauge(s, METRIC_GAUGE_ALLOCATED_BYTES);
}

static double consumed_percentage(const struct metric_sample *s)
{
    return 100 * ratio(logical_size(s), allocated_size(s));
}

static double inodes_used(const struct metric_sample *s)
{
    return gauge(s, METRIC_GAUGE_INODES_USED);
}

static double inodes_quota(const struct metric_sample *s)
{
    return gauge(s, METRIC_GAUGE_INODES_QUOTA);
}

static double inodes_percentage(const struct metric_sample *s)
{
    return 100 * ratio(inodes_used(s), inodes_quota(s));
}

static const struct metric_def volume_metrics[] = {
    {"VolumeLogicalSize", "Volume Consumed Size", "Logical size of the volume (used bytes)",
     "Bytes", logical_size, false},
    {"VolumeAllocatedSize", "Volume allocated size", "The provisioned size (quota) of the volume",
     "Bytes", allocated_size, false},
    {"VolumeConsumedSizePercentage", "Percentage Volume Consumed Size",
     "The used part of the volume's quota", "Percent", consumed_percentage, false},
    {"VolumeInodesUsed", "Volume Inodes Used", "Files and folders in the volume", "Count",
     inodes_used, false},
    {"VolumeInodesQuota", "Volume Inodes Quota", "Files and folders that the volume may have",
     "Count", inodes_quota, false},
    {"VolumeInodesTotal", "Volume Inodes Total", "Files and folders that the volume has room for",
     "Count", inodes_quota, false},
    {"VolumeInodesPercentage", "Volume Inodes Percentage", "The used part of the volume's inodes",
     "Percent", inodes_percentage, false},
    {"ReadIops", "Read IOPS", "Read operations per second", "CountPerSecond", read_iops, true},
    {"WriteIops", "Write IOPS", "Write operations per second", "CountPerSecond", write_iops, true},
    {"OtherIops", "Other IOPS", "Operations per second that are neither reads nor writes",
     "CountPerSecond", other_iops, true},
    {"TotalIops", "Total IOPS", "All operations per second", "CountPerSecond", total_iops, true},
    {"ReadThroughput", "Read throughput", "Bytes read per second", "BytesPerSecond",
     read_throughput, true},
    {"WriteThroughput", "Write throughput", "Bytes written per second", "BytesPerSecond",
     write_throughput, true},
    {"OtherThroughput", "Other throughput",
     "Bytes per second of operations that are neither reads nor writes", "BytesPerSecond",
     other_throughput, true},
    {"TotalThroughput", "Total throughput", "Bytes per second of all operations", "BytesPerSecond",
     total_throughput, true},
    {"AverageReadLatency", "Average read latency",
     "Average time of a read, from its arrival to its reply", "MilliSeconds", read_latency, true},
    {"AverageWriteLatency", "Average write latency",
     "Average time of a write, from its arrival to its reply", "MilliSeconds", write_latency, true},
    {"QosLatencyDelta", "QoS latency delta",
     "Average time that a read or write waited for the throughput limit", "MilliSeconds",
     qos_latency, true},
    {"ThroughputLimitReached", "Throughput limit reached",
     "1 when operations waited for the throughput limit, else 0", "Count", limit_reached, false},
};

/* ---- pools ---- */

static double pool_size(const struct metric_sample *s)
{
    return s->has_size ? s->pool_size : NAN;
}

static double pool_throughput(const struct metric_sample *s)
{
    return s->has_size ? s->pool_throughput : NAN;
}

static double pool_volumes_throughput(const struct metric_sample *s)
{
    return s->has_throughput ? s->volumes_throughput : NAN;
}

static const struct metric_def pool_metrics[] = {
    {"VolumePoolAllocatedSize", "Pool Allocated Size", "Provisioned size of the pool", "Bytes",
     pool_size, false},
    {"VolumePoolAllocatedUsed", "Pool Allocated To Volume Size",
     "Sum of the quotas of the pool's volumes", "Bytes", allocated_size, false},
    {"VolumePoolTotalLogicalSize", "Pool Consumed Size",
     "Sum of the used bytes of the pool's volumes", "Bytes", logical_size, false},
    {"VolumePoolProvisionedThroughput", "Provisioned throughput for the pool",
     "Throughput that the pool gives", "BytesPerSecond", pool_throughput, false},
    {"VolumePoolAllocatedToVolumeThroughput", "Pool allocated throughput",
     "Sum of the throughput of the pool's volumes", "BytesPerSecond", pool_volumes_throughput,
     false},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct metric_set sets[] = {
    {"Microsoft.NetApp/netAppAccounts/capacityPools/volumes", volume_metrics,
     COUNT(volume_metrics)},
    {"Microsoft.NetApp/netAppAccounts/capacityPools", pool_metrics, COUNT(pool_metrics)},
};

const struct metric_set *metric_set_find(const char *type)
{
    for (size_t i = 0; i < COUNT(sets); i++) {
        if (strcasecmp(sets[i].type, type) == 0) {
            return &sets[i];
        }
    }
    return NULL;
}

const struct metric_def *metric_find(const struct metric_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcasecmp(set->defs[i].name, name) == 0) {
            return &set->defs[i];
        }
    }
    return NULL;
}

/* ---- points of an answer ---- */

void metric_bucket_add(const struct metric_def *def, struct metric_bucket *b,
                       const struct metric_sample *s)
{
    double value = def->value(s);

    if (isnan(value)) {
        return;
    }
    b->minimum = b->count == 0 ? value : fmin(b->minimum, value);
    b->maximum = b->count == 0 ? value : fmax(b->maximum, value);
    b->total += value;
    b->count++;
    b->merged.point.seconds += s->point.seconds;
    for (int i = 0; i < METRIC_SUM_COUNT; i++) {
        b->merged.point.sum[i] += s->point.sum[i];
    }
}

double metric_bucket_average(const struct metric_def *def, const struct metric_bucket *b)
{
    if (b->count == 0) {
        return NAN;
    }
    return def->from_sums ? def->value(&b->merged) : b->total / (double)b->count;
}
