/* Minute accounting on a simulated clock (docs/agent-protocol.md, status). Expected values are
 * arithmetic. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/control/minutes.h"
#include "common/clock.h"
#include "db/metrics_db.h"

#define START INT64_C(1800000000) /* a whole minute, Unix seconds */

_Static_assert((int)MINUTES_SUM_COUNT == (int)METRIC_SUM_COUNT, "sums as the history has them");
_Static_assert((int)MINUTES_GAUGE_COUNT == (int)METRIC_GAUGE_COUNT,
               "gauges as the history has them");

static int64_t at(double seconds)
{
    return (int64_t)((double)NS_PER_S * seconds) + START * (int64_t)NS_PER_S;
}

static struct minutes_sample sample(uint8_t id, uint64_t read_bytes, uint64_t used)
{
    struct minutes_sample s = {0};

    s.fs_id.b[0] = id;
    s.sum[MINUTES_READ_BYTES] = read_bytes;
    s.gauge[MINUTES_LOGICAL_BYTES] = used;
    return s;
}

static struct minutes_batch take(struct minutes *m)
{
    struct minutes_batch b = {0};

    cr_assert(minutes_batch(m, &b), "there is a batch");
    return b;
}

Test(minutes, the_order_on_the_wire_is_that_of_the_history)
{
    static const int pairs[][2] = {
        {MINUTES_READ_BYTES, METRIC_SUM_READ_BYTES},
        {MINUTES_WRITE_BYTES, METRIC_SUM_WRITE_BYTES},
        {MINUTES_OTHER_BYTES, METRIC_SUM_OTHER_BYTES},
        {MINUTES_READ_OPS, METRIC_SUM_READ_OPS},
        {MINUTES_WRITE_OPS, METRIC_SUM_WRITE_OPS},
        {MINUTES_OTHER_OPS, METRIC_SUM_OTHER_OPS},
        {MINUTES_READ_NS, METRIC_SUM_READ_NS},
        {MINUTES_WRITE_NS, METRIC_SUM_WRITE_NS},
        {MINUTES_THROTTLE_NS, METRIC_SUM_THROTTLE_NS},
        {MINUTES_LIMITED_NS, METRIC_SUM_LIMITED_NS},
        {MINUTES_LOGICAL_BYTES, METRIC_GAUGE_LOGICAL_BYTES},
        {MINUTES_ALLOCATED_BYTES, METRIC_GAUGE_ALLOCATED_BYTES},
        {MINUTES_INODES_USED, METRIC_GAUGE_INODES_USED},
        {MINUTES_INODES_QUOTA, METRIC_GAUGE_INODES_QUOTA},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        cr_expect_eq(pairs[i][0], pairs[i][1], "pair %zu", i);
}

Test(minutes, increments_belong_to_the_minute_in_which_their_interval_began)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample s;
    struct minutes_batch b;

    s = sample(1, 100, 7);
    minutes_snapshot(m, at(55), &s, 1);
    s = sample(1, 160, 7); /* 55 s to 60.0002 s: still the first minute */
    minutes_snapshot(m, at(60.0002), &s, 1);
    s = sample(1, 1160, 8);
    minutes_snapshot(m, at(65), &s, 1);

    b = take(m);
    cr_assert_eq(b.count, 2);
    cr_expect_eq(b.points[0].minute, START);
    cr_expect_eq(b.points[0].sum[MINUTES_READ_BYTES], 160);
    cr_expect_eq(b.points[1].minute, START + 60);
    cr_expect_eq(b.points[1].sum[MINUTES_READ_BYTES], 1000);
    cr_expect_eq(b.points[1].gauge[MINUTES_LOGICAL_BYTES], 8);
    minutes_free(m);
}

Test(minutes, an_idle_volume_sends_nothing_after_its_first_gauges)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample s = sample(1, 0, 5);
    struct minutes_batch b;

    minutes_snapshot(m, at(5), &s, 1);
    b = take(m);
    cr_expect_eq(b.count, 1);
    minutes_ack(m, b.number);
    for (int i = 2; i < 100; i++)
        minutes_snapshot(m, at(5 * i), &s, 1);
    cr_expect_not(minutes_batch(m, &b));
    s.gauge[MINUTES_LOGICAL_BYTES] =
        6; /* used space that changes without a call: a scan's result */
    minutes_snapshot(m, at(500), &s, 1);
    b = take(m);
    cr_expect_eq(b.count, 1);
    cr_expect_eq(b.points[0].sum[MINUTES_READ_BYTES], 0);
    minutes_free(m);
}

Test(minutes, a_batch_keeps_number_and_content_until_it_is_acknowledged)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample s = sample(1, 10, 1);
    struct minutes_batch first, again, next;

    minutes_snapshot(m, at(5), &s, 1);
    first = take(m);
    s.sum[MINUTES_READ_BYTES] = 25; /* same minute, after the batch was formed */
    minutes_snapshot(m, at(10), &s, 1);
    again = take(m);
    cr_expect_eq(again.number, first.number);
    cr_expect_eq(again.count, 1);
    cr_expect_eq(again.points[0].sum[MINUTES_READ_BYTES], 10);
    minutes_ack(m, first.number + 1); /* of nothing that was sent */
    cr_expect_eq(take(m).number, first.number);
    minutes_ack(m, first.number);
    next = take(m);
    cr_expect_eq(next.number, first.number + 1);
    cr_expect_eq(next.points[0].minute, START);
    cr_expect_eq(next.points[0].sum[MINUTES_READ_BYTES], 15);
    minutes_ack(m, first.number); /* a late answer to the old one */
    cr_expect_eq(take(m).number, first.number + 1);
    minutes_free(m);
}

Test(minutes, setting_the_clock_neither_loses_nor_doubles)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample s = sample(1, 100, 1);
    struct minutes_batch b;
    uint64_t total = 0;

    minutes_snapshot(m, at(30), &s, 1);
    s.sum[MINUTES_READ_BYTES] = 150;
    minutes_snapshot(m, at(-7200), &s, 1); /* set back by two hours */
    s.sum[MINUTES_READ_BYTES] = 175;
    minutes_snapshot(m, at(-7195), &s, 1);
    s.sum[MINUTES_READ_BYTES] = 200;
    minutes_snapshot(m, at(86400), &s, 1); /* and far ahead */
    b = take(m);
    for (size_t i = 0; i < b.count; i++)
        total += b.points[i].sum[MINUTES_READ_BYTES];
    cr_expect_eq(total, 200);
    cr_expect_eq(b.points[0].sum[MINUTES_READ_BYTES], 150,
                 "up to the setting it was the old minute");
    cr_expect_eq(b.points[1].minute, START - 7200);
    minutes_free(m);
}

Test(minutes, a_volume_that_comes_back_counts_from_zero)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample s = sample(1, 1000, 1);
    struct minutes_batch b;

    minutes_snapshot(m, at(5), &s, 1);
    minutes_ack(m, take(m).number);
    minutes_snapshot(m, at(10), NULL, 0); /* gone */
    s.sum[MINUTES_READ_BYTES] = 30;
    minutes_snapshot(m, at(15), &s, 1);
    b = take(m);
    cr_expect_eq(b.points[0].sum[MINUTES_READ_BYTES], 30);
    minutes_ack(m, b.number);
    s.sum[MINUTES_READ_BYTES] = 20; /* replaced between two snapshots */
    minutes_snapshot(m, at(20), &s, 1);
    cr_expect_eq(take(m).points[0].sum[MINUTES_READ_BYTES], 20);
    minutes_free(m);
}

Test(minutes, volumes_are_told_apart_while_others_come_and_go)
{
    struct minutes *m = minutes_new(at(0));
    struct minutes_sample two[] = {sample(1, 10, 1), sample(3, 30, 1)};
    struct minutes_sample three[] = {sample(1, 11, 1), sample(2, 5, 1), sample(3, 33, 1)};
    struct minutes_batch b;

    minutes_snapshot(m, at(5), two, 2);
    minutes_ack(m, take(m).number);
    minutes_snapshot(m, at(10), three, 3);
    b = take(m);
    cr_assert_eq(b.count, 3);
    cr_expect_eq(b.points[0].sum[MINUTES_READ_BYTES], 1);
    cr_expect_eq(b.points[1].sum[MINUTES_READ_BYTES], 5);
    cr_expect_eq(b.points[2].sum[MINUTES_READ_BYTES], 3);
    minutes_free(m);
}

/* A batch must stay below the control plane's 1 MiB a body; what is over goes into the next. */
Test(minutes, many_volumes_go_out_in_several_batches)
{
    enum { VOLUMES = MINUTES_BATCH_POINTS + 10 };
    static struct minutes_sample all[VOLUMES];
    struct minutes *m = minutes_new(at(0));
    struct minutes_batch b;

    for (int i = 0; i < VOLUMES; i++) {
        all[i] = sample(0, 1, 1);
        all[i].fs_id.b[0] = (uint8_t)(i >> 8);
        all[i].fs_id.b[1] = (uint8_t)i;
    }
    minutes_snapshot(m, at(5), all, VOLUMES);
    b = take(m);
    cr_expect_eq(b.count, MINUTES_BATCH_POINTS);
    minutes_ack(m, b.number);
    b = take(m);
    cr_expect_eq(b.count, 10);
    cr_expect_eq(b.points[9].fs_id.b[1], (uint8_t)(VOLUMES - 1));
    minutes_free(m);
}

/* 200 volumes with a changed gauge in each of 2,000 minutes: 400,000 points, more than may wait. */
Test(minutes, a_long_outage_folds_to_five_minutes_and_keeps_the_sums)
{
    enum { VOLUMES = 200, MINUTES = 2000 };
    static struct minutes_sample all[VOLUMES];
    struct minutes *m = minutes_new(at(0));
    struct minutes_stats stats;
    struct minutes_batch b;
    uint64_t total = 0;

    for (int i = 0; i < VOLUMES; i++)
        all[i] = sample((uint8_t)i, 0, 0);
    for (int minute = 0; minute < MINUTES; minute++) {
        for (int i = 0; i < VOLUMES; i++)
            all[i].sum[MINUTES_READ_BYTES] += 3;
        minutes_snapshot(m, at(60 * minute + 60), all, VOLUMES);
    }
    minutes_get_stats(m, &stats);
    cr_expect_eq(stats.dropped, 0);
    cr_expect_leq(stats.waiting, MINUTES_MAX_POINTS);
    while (minutes_batch(m, &b)) {
        for (size_t i = 0; i < b.count; i++)
            total += b.points[i].sum[MINUTES_READ_BYTES];
        minutes_ack(m, b.number);
    }
    cr_expect_eq(total, 3ull * VOLUMES * MINUTES);
    minutes_free(m);
}

Test(minutes, what_cannot_be_folded_is_dropped_oldest_first_and_counted)
{
    enum { VOLUMES = 10000, STEPS = 30 };
    static struct minutes_sample all[VOLUMES];
    struct minutes *m = minutes_new(at(0));
    struct minutes_stats stats;
    struct minutes_batch b;
    uint64_t kept = 0, points = 0;
    int64_t oldest = INT64_MAX;

    for (int i = 0; i < VOLUMES; i++) {
        all[i] = sample(0, 0, 0);
        all[i].fs_id.b[0] = (uint8_t)(i >> 8);
        all[i].fs_id.b[1] = (uint8_t)i;
    }
    for (int step = 0; step < STEPS; step++) { /* five minutes apart: nothing folds */
        for (int i = 0; i < VOLUMES; i++)
            all[i].sum[MINUTES_READ_BYTES] += 1;
        minutes_snapshot(m, at(300 * step + 300), all, VOLUMES);
    }
    minutes_get_stats(m, &stats);
    cr_expect_gt(stats.dropped, 0);
    while (minutes_batch(m, &b)) {
        for (size_t i = 0; i < b.count; i++) {
            kept += b.points[i].sum[MINUTES_READ_BYTES];
            oldest = b.points[i].minute < oldest ? b.points[i].minute : oldest;
        }
        points += b.count;
        minutes_ack(m, b.number);
    }
    cr_expect_eq(points + stats.dropped, (uint64_t)VOLUMES * STEPS);
    cr_expect_eq(kept, points);
    cr_expect_gt(oldest, START, "the oldest went first");
    minutes_free(m);
}
