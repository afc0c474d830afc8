/*
 * Metrics history, in a SQLite file of its own (DIR/metrics.db, synchronous=NORMAL): one packed row
 * per volume and hour. One-minute points for a day, then five-minute points for 93 days. An idle
 * volume writes nothing: gauges carry their last value forward when read, rates read 0.
 *
 * Agents send increments in numbered batches; a batch is applied exactly once, its number is kept
 * in the same transaction. One writer thread of its own; readers have their own connections.
 */
#ifndef DB_METRICS_DB_H
#define DB_METRICS_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics_db;

/* Sums over a point's time (added up) … */
enum metric_sum {
    METRIC_SUM_READ_BYTES,
    METRIC_SUM_WRITE_BYTES,
    METRIC_SUM_OTHER_BYTES,
    METRIC_SUM_READ_OPS,
    METRIC_SUM_WRITE_OPS,
    METRIC_SUM_OTHER_OPS,
    METRIC_SUM_READ_NS, /* latencies, from the call's arrival to its reply */
    METRIC_SUM_WRITE_NS,
    METRIC_SUM_THROTTLE_NS, /* time that reads and writes waited for the limit */
    METRIC_SUM_LIMITED_NS,  /* time in which at least one request waited for the limit */
    METRIC_SUM_COUNT
};
/* … and values at its end (the last one stays). */
enum metric_gauge {
    METRIC_GAUGE_LOGICAL_BYTES,   /* used */
    METRIC_GAUGE_ALLOCATED_BYTES, /* quota */
    METRIC_GAUGE_INODES_USED,
    METRIC_GAUGE_INODES_QUOTA,
    METRIC_GAUGE_COUNT
};

struct metric_point {
    int64_t start;    /* ns since the epoch, on a minute */
    uint32_t seconds; /* that the point covers: 60 or 300; less for the running one */
    uint64_t sum[METRIC_SUM_COUNT];
    uint64_t gauge[METRIC_GAUGE_COUNT];
    bool has_gauge; /* false before the first one ever */
};

int metrics_db_open(const char *dir, struct metrics_db **out);
void metrics_db_close(struct metrics_db *db);

/* One volume's increments in one minute. */
struct metric_increment {
    char fs_id[37];
    int64_t minute; /* ns since the epoch, a whole minute */
    uint64_t sum[METRIC_SUM_COUNT];
    uint64_t gauge[METRIC_GAUGE_COUNT];
};
/* Queues a batch and calls `done` (0 or -errno) on the writer thread once it is committed. `source`
 * names the sender's run (agent id and its start); `number` grows by one a batch; one already
 * applied answers 0. The increments are copied. -EINVAL (a minute that is none) and -EAGAIN (too
 * many batches wait) are told at once, on the calling thread. */
void metrics_db_apply(struct metrics_db *db, const char *source, uint64_t number,
                      const struct metric_increment *increments, size_t count,
                      void (*done)(void *arg, int result), void *arg);

/* Points of [from, to) (ns), each `step` ns long (whole minutes; points older than a day exist at
 * five minutes only) and starting at from + k × step, in order, gaps filled (rates 0, gauges
 * carried). `to` (raised to a whole minute) and `now` cut the last point: its `seconds` say so. A
 * minute belongs to the point in which it starts. Calls `fn` for each, which must not read metrics
 * itself; non-zero stops. Returns 0 or -errno. */
typedef int metric_point_fn(const struct metric_point *point, void *arg);
int metrics_db_read(struct metrics_db *db, const char *fs_id, int64_t from, int64_t to,
                    int64_t step, int64_t now, metric_point_fn *fn, void *arg);
/* Folds minutes older than a day, drops what is older than 93 days; runs by itself each hour, here
 * for tests. */
int metrics_db_roll(struct metrics_db *db, int64_t now);
/* Forgets a volume. */
void metrics_db_forget(struct metrics_db *db, const char *fs_id);

#endif
