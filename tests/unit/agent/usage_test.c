/* The quota's arithmetic: charges, reservations, the journalled bound, what a crash leaves. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/storage/usage.h"
#include "common/mem.h"
#include "tests/unit/agent/store_fixture.h"

static char *dir;
static struct storage *store;
static struct uuid fs_id;

static void set_up(void)
{
    dir = scratch_make();
    store = store_open(dir, DURABILITY_PROCESS);
    fs_id = id_of(1);
}

static void tear_down(void)
{
    storage_close(store);
    scratch_remove(dir);
}

TestSuite(usage, .init = set_up, .fini = tear_down);

static void restart(void)
{
    storage_close(store);
    store = store_open(dir, DURABILITY_PROCESS);
}

Test(usage, file_counts_the_smaller_of_rounded_size_and_blocks)
{
    static const struct {
        off_t size;
        blkcnt_t blocks;
        uint64_t charge;
    } rows[] = {
        {0, 0, 0},
        {0, 8, 0},    /* preallocated past the end */
        {1, 8, 4096}, /* a small file on 4 KiB blocks */
        {1, 0, 0},    /* inline in the inode, or a hole */
        {4096, 8, 4096},
        {4097, 16, 8192},
        {4097, 10, 5120},         /* 1 KiB blocks */
        {1000000, 8, 4096},       /* sparse */
        {1000000, 1960, 1003520}, /* 245 blocks of 4 KiB; with its index block 246 */
        {1000000, 1968, 1003520},
        {(off_t)1 << 50, 8, 4096},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct stat st = {.st_size = rows[i].size, .st_blocks = rows[i].blocks};

        cr_expect_eq(usage_charge(&st), rows[i].charge, "row %zu", i);
    }
}

Test(usage, empty_volume_uses_nothing)
{
    struct usage_stats stats = usage_of(volume_in(store, &fs_id, 10 * MIB, 100));

    cr_assert_eq(stats.used_bytes, 0);
    cr_assert_eq(stats.used_inodes, 0);
    cr_assert_eq(stats.quota_bytes, 10 * MIB);
    cr_assert_eq(stats.max_files, 100);
    cr_assert_not(stats.scanning);
}

Test(usage, quota_may_be_reached_and_not_passed)
{
    struct storage_volume *v = volume_in(store, &fs_id, 10 * MIB, 100);

    cr_assert_eq(usage_reserve(v->usage, 10 * MIB + 1, 0, true), -EDQUOT);
    cr_assert_eq(usage_reserve(v->usage, 10 * MIB, 0, true), 0);
    cr_assert_eq(usage_reserve(v->usage, 1, 0, true), -EDQUOT);
    usage_settle(v->usage, 10 * MIB, 0, 4096, 0);
    cr_assert_eq(usage_of(v).used_bytes, 4096);
    cr_assert_eq(usage_reserve(v->usage, 10 * MIB - 4095, 0, true), -EDQUOT);
    cr_assert_eq(usage_reserve(v->usage, 10 * MIB - 4096, 0, true), 0);
    usage_settle(v->usage, 10 * MIB - 4096, 0, 10 * MIB - 4096, 0);
    cr_assert_eq(usage_of(v).used_bytes, 10 * MIB);
}

Test(usage, number_of_files_may_be_reached_and_not_passed)
{
    struct storage_volume *v = volume_in(store, &fs_id, 10 * MIB, 3);

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(usage_reserve(v->usage, 4096, 1, true), 0);
        usage_settle(v->usage, 4096, 1, 0, 1);
    }
    cr_assert_eq(usage_reserve(v->usage, 4096, 1, true), -ENOSPC);
    cr_assert_eq(usage_reserve(v->usage, 10 * MIB, 0, true), 0,
                 "the refused one gave its bytes back");
    usage_settle(v->usage, 10 * MIB, 0, 0, 0);
    usage_settle(v->usage, 0, 0, 0, -1);
    cr_assert_eq(usage_reserve(v->usage, 4096, 1, true), 0);
}

Test(usage, hostile_amounts_are_refused)
{
    struct storage_volume *v = volume_in(store, &fs_id, INT64_MAX / 4, INT64_MAX / 4);

    cr_assert_eq(usage_reserve(v->usage, 4096, 0, true), 0);
    cr_assert_eq(usage_reserve(v->usage, UINT64_MAX, 0, true), -EDQUOT);
    cr_assert_eq(usage_reserve(v->usage, 0, UINT64_MAX, true), 0);
    usage_settle(v->usage, 0, UINT64_MAX, 0, 0);
    cr_assert_eq(usage_of(v).used_inodes, 0);
}

Test(usage, what_is_reserved_does_not_show_as_used)
{
    struct storage_volume *v = volume_in(store, &fs_id, 10 * MIB, 100);

    cr_assert_eq(usage_reserve(v->usage, MIB, 1, true), 0);
    cr_assert_eq(usage_of(v).used_bytes, 0);
    cr_assert_eq(usage_of(v).used_inodes, 0);
    usage_settle(v->usage, MIB, 1, 8192, 1);
    cr_assert_eq(usage_of(v).used_bytes, 8192);
    cr_assert_eq(usage_of(v).used_inodes, 1);
}

Test(usage, drawing_is_left_to_those_that_may_block)
{
    struct storage_volume *v = volume_in(store, &fs_id, GIB, 100);

    cr_assert_eq(usage_reserve(v->usage, 4096, 0, false), -EAGAIN);
    cr_assert_eq(usage_reserve(v->usage, 2 * GIB, 0, false), -EDQUOT, "known without drawing");
    cr_assert_eq(usage_reserve(v->usage, 4096, 0, true), 0);
    cr_assert_eq(usage_reserve(v->usage, 4096, 0, false), 0);
}

static bool has_room(void *arg)
{
    struct storage_volume *v = arg;
    int rc = usage_reserve(v->usage, 8 * MIB, 0, false);

    if (rc == 0)
        usage_settle(v->usage, 8 * MIB, 0, 0, 0);
    return rc == 0;
}

/* The last quarter of a chunk, 16 MiB, starts the next draw: 8 MiB ahead there always is room,
 * without blocking, as soon as the background has had its turn. */
Test(usage, next_chunk_is_drawn_before_it_is_needed)
{
    struct storage_volume *v = volume_in(store, &fs_id, 4 * GIB, 100);

    cr_assert_eq(usage_reserve(v->usage, 0, 0, true), 0);
    usage_settle(v->usage, 0, 0, 0, 0);
    for (int i = 0; i < 1024; i++) {
        await(has_room, v, 5);
        cr_assert_eq(usage_reserve(v->usage, MIB, 0, false), 0, "step %d", i);
        usage_settle(v->usage, MIB, 0, MIB, 0);
    }
    cr_assert_eq(usage_of(v).used_bytes, GIB);
}

Test(usage, lowered_quota_is_live_and_lets_only_shrink)
{
    struct storage_volume *v = volume_in(store, &fs_id, 10 * MIB, 100);

    cr_assert_eq(usage_reserve(v->usage, 8 * MIB, 10, true), 0);
    usage_settle(v->usage, 8 * MIB, 10, 8 * MIB, 10);
    cr_assert_eq(storage_volume_resize(v, 4 * MIB, 5), 0);
    cr_assert_eq(usage_reserve(v->usage, 1, 0, true), -EDQUOT);
    cr_assert_eq(usage_reserve(v->usage, 0, 1, true), -ENOSPC);
    cr_assert_eq(usage_reserve(v->usage, 0, 0, true), 0, "a change that does not grow");
    usage_settle(v->usage, 0, 0, -5 * (int64_t)MIB, -6);
    cr_assert_eq(usage_reserve(v->usage, MIB, 1, true), 0);
    cr_assert_eq(usage_reserve(v->usage, 1, 0, true), -EDQUOT);
    cr_assert_eq(storage_volume_resize(v, 20 * MIB, 100), 0);
    cr_assert_eq(usage_reserve(v->usage, 16 * MIB, 0, true), 0);
    cr_assert_eq(usage_reserve(v->usage, 1, 0, true), -EDQUOT);
}

/* ---- threads ---- */

#define RACERS 6

struct race {
    struct storage_volume *volume;
    uint64_t quota;
    _Atomic int64_t
        truth; /* what the "disk" holds: raised after reserving, lowered before settling */
    atomic_bool passed, stop;
};

static void *race_one(void *arg)
{
    struct race *race = arg;
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    int64_t mine = 0;

    for (int i = 0; i < 20000; i++) {
        int64_t want = (int64_t)(rand_r(&seed) % 256 + 1) * 4096, real;

        if (usage_reserve(race->volume->usage, (uint64_t)want, 0, true) != 0) {
            race->truth -= mine; /* remove all of it, before it is settled */
            usage_settle(race->volume->usage, 0, 0, -mine, 0);
            mine = 0;
            continue;
        }
        real = rand_r(&seed) % 2 ? want : want / 2;
        if (atomic_fetch_add(&race->truth, real) + real > (int64_t)race->quota)
            race->passed = true;
        usage_settle(race->volume->usage, (uint64_t)want, 0, real, 0);
        mine += real;
    }
    return NULL;
}

Test(usage, quota_is_not_passed_by_racing_threads, .timeout = 60)
{
    struct race race = {.quota = 16 * MIB};
    pthread_t threads[RACERS];

    race.volume = volume_in(store, &fs_id, race.quota, 100);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race_one, &race);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_not(race.passed);
    cr_assert_eq(usage_of(race.volume).used_bytes, (uint64_t)race.truth);
}

static void *change_quota(void *arg)
{
    struct race *race = arg;
    struct usage *u = race->volume->usage;

    while (!race->stop) {
        storage_volume_resize(race->volume, 4 * MIB, 100);
        storage_volume_resize(race->volume, race->quota, 100);
        /* Bounds move under the lock only, and what is on the disk never passes the one in force.
         */
        pthread_mutex_lock(&u->lock);
        if (u->open && race->truth > u->gauges[USAGE_BYTES].bound)
            race->passed = true;
        pthread_mutex_unlock(&u->lock);
    }
    return NULL;
}

/* The bound and the ceiling move up and down beneath the reservations; the higher quota is never
 * passed. */
Test(usage, quota_is_not_passed_while_it_changes, .timeout = 60)
{
    struct race race = {.quota = 16 * MIB};
    pthread_t threads[RACERS], changer;

    race.volume = volume_in(store, &fs_id, race.quota, 100);
    pthread_create(&changer, NULL, change_quota, &race);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race_one, &race);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    race.stop = true;
    pthread_join(changer, NULL);
    cr_assert_not(race.passed);
    cr_assert_eq(usage_of(race.volume).used_bytes, (uint64_t)race.truth);
}

/* ---- restarts ---- */

Test(usage, clean_close_keeps_the_exact_figures)
{
    struct storage_volume *v = volume_in(store, &fs_id, GIB, 1000);
    struct usage_stats stats;

    cr_assert_eq(usage_reserve(v->usage, 12345678, 7, true), 0);
    usage_settle(v->usage, 12345678, 7, 12345344, 7);
    storage_volume_close(v);
    restart();
    stats = usage_of(volume_in(store, &fs_id, GIB, 1000));
    cr_assert_eq(stats.used_bytes, 12345344);
    cr_assert_eq(stats.used_inodes, 7);
    cr_assert_not(stats.scanning);
}

/* A child that is killed in the middle of reserving; it reports in shared memory what its disk
 * holds. */
struct report {
    _Atomic uint64_t truth;
    _Atomic uint64_t files;
};

static void work_until_killed(struct report *report, uint64_t quota)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);
    struct storage_volume *v = volume_in(s, &fs_id, quota, 100000);
    unsigned seed = (unsigned)getpid();

    for (;;) {
        uint64_t want = (uint64_t)(rand_r(&seed) % 64 + 1) * 64 * KIB;

        if (usage_reserve(v->usage, want, 1, true) == 0) {
            report->truth += want;
            report->files++;
            usage_settle(v->usage, want, 1, (int64_t)want, 1);
        } else {
            uint64_t all = report->truth, files = report->files;

            report->truth = 0;
            report->files = 0;
            usage_settle(v->usage, 0, 0, -(int64_t)all, -(int64_t)files);
        }
    }
}

/* Reads what the journal says without starting a scan, which would find an empty tree here. */
static enum journal_trust read_journal(struct journal_record *record)
{
    char text[UUID_TEXT_MAX], *path = xasprintf("%s/volumes/%s", dir, uuid_format(&fs_id, text));
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    enum journal_trust trust;
    struct journal j;

    cr_assert_eq(journal_open(&j, folder, "usage", &fs_id, record, &trust), 0);
    journal_close(&j);
    close(folder);
    free(path);
    return trust;
}

Test(usage, killed_process_leaves_an_upper_bound_within_the_quota, .timeout = 60)
{
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    storage_close(store);
    for (int round = 0; round < 30; round++) {
        const uint64_t quota = round % 2 ? 100 * MIB : 64 * GIB;
        struct journal_record record;
        enum journal_trust trust;
        uint64_t truth, files;
        pid_t child;

        report->truth = report->files = 0;
        child = fork();
        if (child == 0)
            work_until_killed(report, quota);
        while (report->files < 10u + (unsigned)round * 50u && report->truth < 50 * MIB)
            usleep(100);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        truth = report->truth;
        files = report->files;
        trust = read_journal(&record);
        cr_assert_eq(trust, JOURNAL_OPEN, "round %d", round);
        cr_assert_geq(record.bound[USAGE_BYTES], truth);
        cr_assert_geq(record.bound[USAGE_INODES], files);
        cr_assert_leq(record.bound[USAGE_BYTES], quota);
        /* The next round starts from nothing. */
        store = store_open(dir, DURABILITY_PROCESS);
        cr_assert_eq(storage_volume_delete(store, &fs_id, NULL), 0);
        storage_close(store);
    }
    munmap(report, sizeof(*report));
    store = store_open(dir, DURABILITY_PROCESS);
}

/* Opened clean, then only shrunk: that is a change too. */
Test(usage, removing_alone_makes_the_journal_open_too)
{
    struct storage_volume *v = volume_in(store, &fs_id, GIB, 1000);
    struct journal_record record;
    pid_t child;

    cr_assert_eq(usage_reserve(v->usage, MIB, 1, true), 0);
    usage_settle(v->usage, MIB, 1, MIB, 1);
    storage_close(store);
    cr_assert_eq(read_journal(&record), JOURNAL_CLEAN);
    child = fork();
    if (child == 0) {
        v = volume_in(store_open(dir, DURABILITY_PROCESS), &fs_id, GIB, 1000);
        if (usage_reserve(v->usage, 0, 0, true) != 0)
            _exit(1);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    cr_assert_eq(read_journal(&record), JOURNAL_OPEN);
    cr_assert_geq(record.bound[USAGE_BYTES], MIB);
    store = store_open(dir, DURABILITY_PROCESS);
}

Test(usage, bound_comes_down_after_much_was_removed)
{
    struct storage_volume *v = volume_in(store, &fs_id, 64 * GIB, 100);
    uint64_t bound;

    cr_assert_eq(usage_reserve(v->usage, 32 * GIB, 0, true), 0);
    usage_settle(v->usage, 32 * GIB, 0, 32 * GIB, 0);
    usage_settle(v->usage, 0, 0, -32 * (int64_t)GIB, 0);
    /* Whoever holds the lock next comes after the background's draw, or makes it. */
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&v->usage->lock);
        bound = (uint64_t)v->usage->gauges[USAGE_BYTES].bound;
        pthread_mutex_unlock(&v->usage->lock);
        if (bound <= 64 * MIB)
            break;
        usleep(1000);
    }
    cr_assert_leq(bound, 64 * MIB);
}

/* One draw holds 64 MiB, and half of what is left near the quota, so that little is lost to a crash
 * there. */
Test(usage, chunks_halve_near_the_quota)
{
    struct storage_volume *v = volume_in(store, &fs_id, 128 * MIB, 100);
    const struct usage_gauge *g = &v->usage->gauges[USAGE_BYTES];

    cr_assert_eq(usage_reserve(v->usage, 0, 0, true), 0);
    cr_assert_eq((uint64_t)g->bound, 64 * MIB);
    cr_assert_eq(usage_reserve(v->usage, 64 * MIB + 4096, 0, true), 0);
    cr_assert_leq((uint64_t)g->bound, 96 * MIB + 4096);
    cr_assert_eq(usage_reserve(v->usage, 64 * MIB - 4096, 0, true), 0);
    cr_assert_eq((uint64_t)g->bound, 128 * MIB);
}

Test(usage, damaged_journal_counts_as_full_until_the_scan_has_run)
{
    struct storage_volume *v = volume_in(store, &fs_id, GIB, 1000);
    char text[UUID_TEXT_MAX], *path;

    cr_assert_not_null(v);
    storage_close(store);
    path = xasprintf("%s/volumes/%s/usage", dir, uuid_format(&fs_id, text));
    cr_assert_eq(truncate(path, 100), 0);
    free(path);
    store = store_open(dir, DURABILITY_PROCESS);
    v = volume_in(store, &fs_id, GIB, 1000);
    await_scan(v);
    cr_assert_eq(usage_of(v).used_bytes, 0);
    cr_assert_eq(usage_of(v).used_inodes, 0);
    cr_assert_eq(usage_reserve(v->usage, GIB, 1000, true), 0);
}
