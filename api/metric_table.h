/*
 * The metrics that Azure Monitor's calls offer, and the arithmetic of a point (anf-api.md E). A
 * metric that this system has nothing to measure for (snapshots, replication, backup, cool tier) is
 * not in the table, so it is refused by name instead of read as 0. Pure.
 */
#ifndef API_METRIC_TABLE_H
#define API_METRIC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/metrics_db.h"

/* One stored point of a volume, or of all volumes of a pool added up. */
struct metric_sample {
    struct metric_point point;
    /* The pool's own figures; unknown before its, or its volumes', last change, since their history
     * is not kept. */
    bool has_size, has_throughput;
    double pool_size;          /* bytes */
    double pool_throughput;    /* bytes per second that the pool gives */
    double volumes_throughput; /* bytes per second that its volumes have of it */
};

struct metric_def {
    const char *name; /* REST id */
    const char *display, *description;
    const char *unit; /* Azure Monitor's: "Bytes", "BytesPerSecond", … */
    /* The value of a sample; NAN when it has none (a latency without operations). */
    double (*value)(const struct metric_sample *s);
    /* The average over several samples: of their sums (rates, latencies: bytes ÷ all seconds), else
     * of their values. */
    bool from_sums;
};

struct metric_set {
    const char *type; /* resource type, which is also the namespace */
    const struct metric_def *defs;
    size_t count;
};

/* The metrics of a resource type (compared without case), or NULL. */
const struct metric_set *metric_set_find(const char *type);
const struct metric_def *metric_find(const struct metric_set *set, const char *name);

/* What a point of an answer gathers of the samples in its time. Zero it before the first. */
struct metric_bucket {
    struct metric_sample merged;
    uint64_t count; /* of samples with a value */
    double total, minimum, maximum;
};
void metric_bucket_add(const struct metric_def *def, struct metric_bucket *b,
                       const struct metric_sample *s);
/* NAN when no sample had a value; `total`, `minimum`, `maximum`, `count` are read from the bucket.
 */
double metric_bucket_average(const struct metric_def *def, const struct metric_bucket *b);

#endif
