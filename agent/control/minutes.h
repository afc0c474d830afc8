/*
 * From running counters to the numbered batches of docs/agent-protocol.md: which minute an
 * increment belongs to, what is in flight, what still waits. Pure: the caller gives the time and
 * the counters and does the sending.
 *
 * An interval between two snapshots belongs to the minute in which it began. The caller takes a
 * snapshot at each whole minute of the wall clock, so a minute's point holds exactly its minute;
 * when the clock is set, the interval until then still counts for the minute that it began in, and
 * nothing is counted twice or lost.
 *
 * A batch keeps its number and its content until it is acknowledged; what is counted meanwhile goes
 * into the next one. While the control plane is away at most MINUTES_MAX_POINTS wait: beyond it
 * points are folded to five minutes (the history's own coarse step, the sums stay exact), and only
 * then the oldest are dropped, counted.
 *
 * No locks: the caller's (status.c).
 */
#ifndef AGENT_CONTROL_MINUTES_H
#define AGENT_CONTROL_MINUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/uuid.h"

/* The order on the wire: db/metrics_db.h's enum metric_sum and metric_gauge (a unit test holds them
 * together). */
enum minutes_sum {
    MINUTES_READ_BYTES,
    MINUTES_WRITE_BYTES,
    MINUTES_OTHER_BYTES,
    MINUTES_READ_OPS,
    MINUTES_WRITE_OPS,
    MINUTES_OTHER_OPS,
    MINUTES_READ_NS,
    MINUTES_WRITE_NS,
    MINUTES_THROTTLE_NS,
    MINUTES_LIMITED_NS,
    MINUTES_SUM_COUNT
};
enum minutes_gauge {
    MINUTES_LOGICAL_BYTES,
    MINUTES_ALLOCATED_BYTES,
    MINUTES_INODES_USED,
    MINUTES_INODES_QUOTA,
    MINUTES_GAUGE_COUNT
};

#define MINUTES_MAX_POINTS   262144 /* waiting, about 40 MiB */
#define MINUTES_BATCH_POINTS 2000   /* of one batch: below the control plane's 1 MiB a body */

/* A volume's counters since the start, and its present values. */
struct minutes_sample {
    struct uuid fs_id;
    uint64_t sum[MINUTES_SUM_COUNT];
    uint64_t gauge[MINUTES_GAUGE_COUNT];
};

struct minutes_point {
    struct uuid fs_id;
    int64_t minute; /* its start, Unix seconds */
    uint64_t sum[MINUTES_SUM_COUNT];
    uint64_t gauge[MINUTES_GAUGE_COUNT];
};

struct minutes_batch {
    uint64_t number; /* from 1 */
    const struct minutes_point *points;
    size_t count;
};

struct minutes;

struct minutes *minutes_new(int64_t wall_ns);
void minutes_free(struct minutes *m);

/* Takes a snapshot: `samples` in strictly rising order of fs_id. A volume that is absent is
 * forgotten; a counter that went back started anew from zero. */
void minutes_snapshot(struct minutes *m, int64_t wall_ns, const struct minutes_sample *samples,
                      size_t count);

/* The batch to send now: the unacknowledged one again, or else a new one of what waits, oldest
 * first. False when nothing changed. It stays valid until it is acknowledged. */
bool minutes_batch(struct minutes *m, struct minutes_batch *out);
/* Ends the batch in flight if it has this number. */
void minutes_ack(struct minutes *m, uint64_t number);

struct minutes_stats {
    uint64_t waiting, dropped; /* points; the first is a gauge, with those in flight */
    uint64_t acknowledged;     /* batches */
};
void minutes_get_stats(const struct minutes *m, struct minutes_stats *out);

#endif
