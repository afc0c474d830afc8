/*
 * One volume's hour as it is stored: version, minutes a slot covers (1 or 5), then each slot that
 * holds anything as its index, a flag byte and its numbers as LEB128. Pure. Text from the disk is
 * not trusted: a damaged row does not unpack.
 */
#ifndef DB_METRICS_PACK_H
#define DB_METRICS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/metrics_db.h"

#define METRICS_SLOTS    60
#define METRICS_MINUTE   INT64_C(60000000000)   /* ns */
#define METRICS_HOUR     INT64_C(3600000000000) /* ns */
#define METRICS_PACK_MAX (3 + METRICS_SLOTS * (2 + 10 * (METRIC_SUM_COUNT + METRIC_GAUGE_COUNT)))

struct metrics_slot {
    bool used, has_gauge;
    uint64_t sum[METRIC_SUM_COUNT];
    uint64_t gauge[METRIC_GAUGE_COUNT];
};

struct metrics_hour {
    unsigned minutes; /* that a slot covers: 1 (60 slots) or 5 (12 slots) */
    struct metrics_slot slot[METRICS_SLOTS];
};

/* Bytes written; `out` has METRICS_PACK_MAX. */
size_t metrics_pack(const struct metrics_hour *hour, uint8_t *out);
bool metrics_unpack(const void *data, size_t len, struct metrics_hour *out);
/* From one-minute to five-minute slots: sums added, the last gauge kept. */
void metrics_fold(struct metrics_hour *hour);
/* Adds an increment to the slot of a minute of the hour (0 to 59). */
void metrics_add(struct metrics_hour *hour, unsigned minute,
                 const struct metric_increment *increment);
/* The latest gauges of the hour at or before `minute`; false when there are none. */
bool metrics_last_gauge(const struct metrics_hour *hour, unsigned minute,
                        uint64_t gauge[METRIC_GAUGE_COUNT]);

#endif
