/* Metrics history: exactly once, gaps, carried gauges, the running point, folding, forgetting. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "db/metrics_pack.h"
#include "fixture.h"

#define MINUTE METRICS_MINUTE
#define HOUR   METRICS_HOUR
#define DAY    (24 * METRICS_HOUR)
#define SECOND INT64_C(1000000000)
/* A whole hour: 2026-05-29T00:00:00Z. */
#define T0 (INT64_C(1780012800) * SECOND)
#define FS "00000000-0000-4000-8000-000000000001"

static struct metrics_db *metrics;

static void open_metrics(void)
{
    make_folder();
    cr_assert_eq(metrics_db_open(folder, &metrics), 0);
}

static void close_metrics(void)
{
    metrics_db_close(metrics);
    close_store();
}

TestSuite(metrics, .init = open_metrics, .fini = close_metrics);

struct told {
    sem_t ready;
    int result;
};

static void tell(void *arg, int result)
{
    struct told *t = arg;

    t->result = result;
    sem_post(&t->ready);
}

static int apply(const char *source, uint64_t number, const struct metric_increment *list,
                 size_t count)
{
    struct told t;

    sem_init(&t.ready, 0, 0);
    metrics_db_apply(metrics, source, number, list, count, tell, &t);
    sem_wait(&t.ready);
    return t.result;
}

static struct metric_increment increment(int64_t minute, uint64_t read_bytes, uint64_t used)
{
    struct metric_increment i = {.minute = minute};

    strcpy(i.fs_id, FS);
    i.sum[METRIC_SUM_READ_BYTES] = read_bytes;
    i.gauge[METRIC_GAUGE_LOGICAL_BYTES] = used;
    return i;
}

static void put(int64_t minute, uint64_t read_bytes, uint64_t used)
{
    static uint64_t number;
    struct metric_increment i = increment(minute, read_bytes, used);

    cr_assert_eq(apply("fixture", ++number, &i, 1), 0);
}

#define MAX_POINTS 2000
static struct metric_point points[MAX_POINTS];
static size_t count;

static int collect(const struct metric_point *p, void *arg)
{
    (void)arg;
    cr_assert_lt(count, MAX_POINTS);
    points[count++] = *p;
    return 0;
}

static void get(int64_t from, int64_t to, int64_t step, int64_t now)
{
    count = 0;
    cr_assert_eq(metrics_db_read(metrics, FS, from, to, step, now, collect, NULL), 0);
}

#define READ(i) points[i].sum[METRIC_SUM_READ_BYTES]
#define USED(i) points[i].gauge[METRIC_GAUGE_LOGICAL_BYTES]

Test(metrics, gaps_are_filled_and_gauges_carried)
{
    put(T0 + 2 * MINUTE, 100, 7);
    put(T0 + 4 * MINUTE, 50, 9);
    get(T0, T0 + 6 * MINUTE, MINUTE, T0 + HOUR);
    cr_assert_eq(count, 6);
    for (size_t i = 0; i < 6; i++) {
        static const uint64_t read[] = {0, 0, 100, 0, 50, 0}, used[] = {0, 0, 7, 7, 9, 9};

        cr_expect_eq(points[i].start, T0 + (int64_t)i * MINUTE);
        cr_expect_eq(points[i].seconds, 60);
        cr_expect_eq(READ(i), read[i]);
        cr_expect_eq(points[i].has_gauge, i >= 2);
        cr_expect_eq(USED(i), used[i]);
    }
}

Test(metrics, gauges_are_carried_over_hours_and_months)
{
    put(T0 + 59 * MINUTE, 1, 42);
    get(T0 + HOUR, T0 + HOUR + MINUTE, MINUTE, T0 + 2 * HOUR);
    cr_assert(points[0].has_gauge);
    cr_assert_eq(USED(0), 42);
    cr_assert_eq(READ(0), 0);
    /* Not known before it was told. */
    get(T0 + 58 * MINUTE, T0 + 59 * MINUTE, MINUTE, T0 + 2 * HOUR);
    cr_assert_not(points[0].has_gauge);
    cr_assert_eq(metrics_db_roll(metrics, T0 + 200 * DAY), 0);
    get(T0 + 200 * DAY, T0 + 200 * DAY + 5 * MINUTE, 5 * MINUTE, T0 + 201 * DAY);
    cr_assert(points[0].has_gauge, "an idle volume keeps its size for ever");
    cr_assert_eq(USED(0), 42);
}

Test(metrics, an_idle_volume_writes_nothing)
{
    put(T0, 1, 42);
    get(T0, T0 + 5 * HOUR, HOUR, T0 + 5 * HOUR);
    cr_assert_eq(number_of("metrics.db", "SELECT count(*) FROM point"), 1);
}

Test(metrics, steps_add_sums_up_exactly_and_keep_the_last_gauge)
{
    uint64_t total = 0;

    for (int m = 0; m < 120; m++) {
        put(T0 + m * MINUTE, (UINT64_C(1) << 53) + (uint64_t)m, (uint64_t)m + 1);
        total += (UINT64_C(1) << 53) + (uint64_t)m;
    }
    get(T0, T0 + 2 * HOUR, 2 * HOUR, T0 + DAY);
    cr_assert_eq(count, 1);
    cr_assert_eq(READ(0), total, "no rounding past 53 bits");
    cr_assert_eq(USED(0), 120);
    cr_assert_eq(points[0].seconds, 7200);
    get(T0 + 30 * MINUTE, T0 + 90 * MINUTE, 7 * MINUTE, T0 + DAY);
    cr_assert_eq(count, 9);
    cr_assert_eq(points[8].start, T0 + 86 * MINUTE);
    cr_assert_eq(points[8].seconds, 240, "cut by `to`");
    cr_assert_eq(READ(8), 4 * (UINT64_C(1) << 53) + 86 + 87 + 88 + 89);
}

Test(metrics, the_running_point_is_cut_by_now)
{
    put(T0, 60, 1);
    put(T0 + MINUTE, 15, 2);
    get(T0, T0 + 10 * MINUTE, MINUTE, T0 + MINUTE + 15 * SECOND);
    cr_assert_eq(count, 2, "nothing of the future");
    cr_assert_eq(points[0].seconds, 60);
    cr_assert_eq(points[1].seconds, 15);
    cr_assert_eq(READ(1), 15);
    get(T0, T0 + HOUR, HOUR, T0 + MINUTE + 15 * SECOND);
    cr_assert_eq(count, 1);
    cr_assert_eq(points[0].seconds, 75);
    cr_assert_eq(READ(0), 75);
    get(T0 + HOUR, T0 + 2 * HOUR, MINUTE, T0 + HOUR);
    cr_assert_eq(count, 0);
}

Test(metrics, a_minute_belongs_to_the_point_it_starts_in)
{
    put(T0 + MINUTE, 10, 1);
    put(T0 + 2 * MINUTE, 20, 2);
    get(T0 + 30 * SECOND, T0 + 3 * MINUTE, MINUTE, T0 + HOUR);
    cr_assert_eq(points[0].start, T0 + 30 * SECOND);
    cr_assert_eq(READ(0), 10);
    cr_assert_eq(READ(1), 20);
    cr_assert_eq(READ(2), 0);
    cr_assert_eq(count, 3);
}

static int stop_at_second(const struct metric_point *p, void *arg)
{
    (void)p;
    return ++*(int *)arg == 2;
}

Test(metrics, a_reader_may_stop)
{
    int seen = 0;

    cr_assert_eq(
        metrics_db_read(metrics, FS, T0, T0 + HOUR, MINUTE, T0 + HOUR, stop_at_second, &seen), 0);
    cr_assert_eq(seen, 2);
}

Test(metrics, odd_steps_are_refused)
{
    cr_assert_eq(metrics_db_read(metrics, FS, T0, T0 + HOUR, 0, T0, collect, NULL), -EINVAL);
    cr_assert_eq(metrics_db_read(metrics, FS, T0, T0 + HOUR, -MINUTE, T0, collect, NULL), -EINVAL);
    cr_assert_eq(metrics_db_read(metrics, FS, T0, T0 + HOUR, MINUTE + 1, T0, collect, NULL),
                 -EINVAL);
}

/* ---- batches ---- */

Test(metrics, a_batch_is_applied_once_however_often_it_is_sent)
{
    struct metric_increment i = increment(T0, 5, 1);

    cr_assert_eq(apply("1:run-a", 1, &i, 1), 0);
    cr_assert_eq(apply("1:run-a", 1, &i, 1), 0);
    cr_assert_eq(apply("1:run-a", 2, &i, 1), 0);
    cr_assert_eq(apply("1:run-a", 1, &i, 1), 0, "a late duplicate");
    metrics_db_close(metrics);
    cr_assert_eq(metrics_db_open(folder, &metrics), 0);
    cr_assert_eq(apply("1:run-a", 2, &i, 1), 0, "also after a restart");
    cr_assert_eq(apply("1:run-b", 1, &i, 1), 0, "another run counts anew");
    get(T0, T0 + MINUTE, MINUTE, T0 + HOUR);
    cr_assert_eq(READ(0), 15);
}

Test(metrics, agents_of_one_volume_add_up)
{
    struct metric_increment list[3] = {increment(T0, 5, 1), increment(T0, 6, 2),
                                       increment(T0 + MINUTE, 7, 3)};

    cr_assert_eq(apply("1:a", 1, list, 3), 0);
    cr_assert_eq(apply("2:a", 1, list, 1), 0);
    get(T0, T0 + 2 * MINUTE, MINUTE, T0 + HOUR);
    cr_assert_eq(READ(0), 16);
    cr_assert_eq(READ(1), 7);
}

Test(metrics, a_minute_that_is_none_is_refused_whole)
{
    static const int64_t bad[] = {0, -MINUTE, -HOUR + MINUTE, INT64_MIN, T0 + 1, INT64_MAX};
    struct metric_increment list[2] = {increment(T0, 5, 1), increment(T0, 5, 1)};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        list[1].minute = bad[i];
        cr_assert_eq(apply("1:a", i + 1, list, 2), -EINVAL);
    }
    list[1].minute = T0;
    memset(list[1].fs_id, 'x', sizeof list[1].fs_id);
    cr_assert_eq(apply("1:a", 9, list, 2), -EINVAL);
    cr_assert_eq(number_of("metrics.db", "SELECT count(*) FROM point"), 0);
}

Test(metrics, an_empty_batch_is_acknowledged)
{
    cr_assert_eq(apply("1:a", 1, NULL, 0), 0);
}

/* Holds the writer inside a `done` while more batches come than may wait. */
static sem_t entered, go;

static void hold(void *arg, int result)
{
    (void)arg;
    (void)result;
    sem_post(&entered);
    sem_wait(&go);
}

static int refused, accepted;

static void count_result(void *arg, int result)
{
    (void)arg;
    if (result == -EAGAIN)
        refused++; /* on this thread */
    else
        __atomic_fetch_add(&accepted, 1, __ATOMIC_RELAXED);
}

Test(metrics, too_many_waiting_batches_are_turned_away)
{
    struct metric_increment i = increment(T0, 1, 1);

    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    metrics_db_apply(metrics, "hold", 1, NULL, 0, hold, NULL);
    sem_wait(&entered);
    for (uint64_t n = 1; n <= 5000; n++)
        metrics_db_apply(metrics, "1:a", n, &i, 1, count_result, NULL);
    cr_assert_eq(refused, 5000 - 4096);
    sem_post(&go);
    metrics_db_close(metrics);
    cr_assert_eq(accepted, 4096, "closing runs what waits");
    cr_assert_eq(metrics_db_open(folder, &metrics), 0);
    get(T0, T0 + MINUTE, MINUTE, T0 + HOUR);
    cr_assert_eq(READ(0), 4096);
}

/* ---- folding ---- */

static uint64_t sum_of_points(void)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += READ(i);
    return total;
}

Test(metrics, minutes_become_five_after_a_day)
{
    for (int m = 0; m < 60; m++)
        put(T0 + m * MINUTE, 1000 + (uint64_t)m, (uint64_t)m + 1);
    cr_assert_eq(metrics_db_roll(metrics, T0 + DAY + HOUR - 1), 0);
    get(T0, T0 + HOUR, MINUTE, T0 + 2 * DAY);
    cr_assert_eq(READ(5), 1005, "not before the whole hour is older than a day");

    cr_assert_eq(metrics_db_roll(metrics, T0 + DAY + HOUR), 0);
    get(T0, T0 + HOUR, 5 * MINUTE, T0 + 2 * DAY);
    cr_assert_eq(count, 12);
    for (size_t i = 0; i < 12; i++) {
        cr_expect_eq(READ(i), 5 * 1000 + 25 * i + 10, "0+1+2+3+4 and 25 more each time");
        cr_expect_eq(USED(i), 5 * i + 5, "the last of the five");
    }
    get(T0, T0 + HOUR, MINUTE, T0 + 2 * DAY);
    cr_assert_eq(count, 60);
    cr_assert_eq(sum_of_points(), 60 * 1000 + 59 * 60 / 2, "shares of five minutes add up");
    cr_assert_eq(metrics_db_roll(metrics, T0 + DAY + 2 * HOUR), 0);
    get(T0, T0 + HOUR, HOUR, T0 + 2 * DAY);
    cr_assert_eq(READ(0), 60 * 1000 + 59 * 60 / 2, "folding twice changes nothing");
}

Test(metrics, a_late_increment_reaches_a_folded_hour)
{
    put(T0, 10, 1);
    cr_assert_eq(metrics_db_roll(metrics, T0 + 2 * DAY), 0);
    put(T0 + 3 * MINUTE, 7, 2);
    put(T0 + 6 * MINUTE, 1, 3);
    get(T0, T0 + 10 * MINUTE, 5 * MINUTE, T0 + 2 * DAY);
    cr_assert_eq(READ(0), 17);
    cr_assert_eq(USED(0), 2);
    cr_assert_eq(READ(1), 1);
}

Test(metrics, folding_goes_on_past_one_portion)
{
    for (int h = 0; h < 300; h++)
        put(T0 + h * HOUR + 8 * MINUTE, 1, 1);
    cr_assert_eq(metrics_db_roll(metrics, T0 + 302 * HOUR + DAY), 0);
    cr_assert_eq(number_of("metrics.db", "SELECT count(*) FROM point WHERE fine = 1"), 0);
    cr_assert_eq(number_of("metrics.db", "SELECT count(*) FROM point"), 300);
}

Test(metrics, points_go_after_93_days)
{
    put(T0, 10, 1);
    put(T0 + HOUR, 20, 2);
    cr_assert_eq(metrics_db_roll(metrics, T0 + 93 * DAY), 0);
    get(T0, T0 + 2 * HOUR, HOUR, T0 + 94 * DAY);
    cr_assert_eq(READ(0), 10);
    cr_assert_eq(metrics_db_roll(metrics, T0 + 93 * DAY + HOUR), 0);
    get(T0, T0 + 2 * HOUR, HOUR, T0 + 94 * DAY);
    cr_assert_eq(READ(0), 0);
    cr_assert_eq(READ(1), 20);
}

Test(metrics, a_forgotten_volume_leaves_nothing)
{
    put(T0, 10, 1);
    metrics_db_forget(metrics, FS);
    cr_assert_eq(apply("fence", 1, NULL, 0), 0);
    cr_assert_eq(number_of("metrics.db", "SELECT count(*) FROM point"), 0);
    get(T0, T0 + MINUTE, MINUTE, T0 + HOUR);
    cr_assert_not(points[0].has_gauge);
}

/* ---- damage ---- */

static void damage(const char *sql)
{
    char *path = xasprintf("%s/metrics.db", folder);
    sqlite3 *handle;

    cr_assert_eq(sqlite3_open(path, &handle), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
    free(path);
}

Test(metrics, a_damaged_row_is_left_out)
{
    put(T0, 10, 1);
    put(T0 + HOUR, 20, 2);
    damage("UPDATE point SET data = x'09ff' WHERE hour = (SELECT max(hour) FROM point)");
    get(T0, T0 + 2 * HOUR, HOUR, T0 + 2 * HOUR);
    cr_assert_eq(READ(0), 10);
    cr_assert_eq(READ(1), 0);
    cr_assert_eq(USED(1), 1);
    put(T0 + HOUR + MINUTE, 5, 3);
    get(T0, T0 + 2 * HOUR, HOUR, T0 + 2 * HOUR);
    cr_assert_eq(READ(1), 5, "what comes later is kept");
    damage("UPDATE point SET data = x''");
    cr_assert_eq(metrics_db_roll(metrics, T0 + 2 * DAY), 0);
    get(T0, T0 + 2 * HOUR, HOUR, T0 + 2 * HOUR);
    cr_assert_eq(sum_of_points(), 0);
}
