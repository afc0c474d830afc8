/*
 * The quota's arithmetic and the drawing of its journal: see storage.h for the contract, usage.h
 * for the locking. Bounds are drawn a chunk ahead of what is booked, in the background when there
 * is time, by the operation itself when there is none.
 */
#include "agent/storage/usage.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

#define CHARGE_UNIT  4096
#define STAT_BLOCK   512 /* of st_blocks, whatever the file system's own is */
#define CHUNK_BYTES  (INT64_C(64) << 20)
#define CHUNK_INODES INT64_C(1024)
/* Near the quota chunks halve, down to these. */
#define LAST_BYTES  (INT64_C(64) << 10)
#define LAST_INODES INT64_C(16)
/* A bound further above is lowered. */
#define SLACK_CHUNKS 4
/* Keeps sums of several figures within int64_t; 2 EiB. */
#define FIGURE_MAX (INT64_MAX / 4)

static const struct {
    int64_t chunk, last;
    int refusal;
} kinds[USAGE_KINDS] = {
    [USAGE_BYTES] = {CHUNK_BYTES, LAST_BYTES, -EDQUOT},
    [USAGE_INODES] = {CHUNK_INODES, LAST_INODES, -ENOSPC},
};

static int64_t to_figure(uint64_t value)
{
    return value > (uint64_t)FIGURE_MAX ? FIGURE_MAX : (int64_t)value;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

uint64_t usage_charge(const struct stat *st)
{
    uint64_t size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    uint64_t blocks = st->st_blocks > 0 ? (uint64_t)st->st_blocks * STAT_BLOCK : 0;

    size = (size + CHARGE_UNIT - 1) / CHARGE_UNIT * CHARGE_UNIT;
    return size < blocks ? size : blocks;
}

/* ---- the journal's bounds, under u->lock ---- */

static int64_t plan_chunk(int kind, int64_t need, int64_t quota)
{
    int64_t rest = quota - need;

    if (rest <= 0)
        return 0;
    return rest <= kinds[kind].last ? rest : min64(kinds[kind].chunk, rest / 2);
}

static void publish(struct usage_gauge *g, int kind)
{
    int64_t quota = g->quota, chunk = plan_chunk(kind, g->booked, quota);

    g->ceiling = min64(g->bound, quota);
    g->low = g->bound >= quota ? INT64_MAX : g->bound - chunk / 4;
    g->slack = g->bound - SLACK_CHUNKS * kinds[kind].chunk;
}

/* The bound to go to for `need`; the present one as long as it does. */
static int64_t plan_bound(const struct usage_gauge *g, int kind, int64_t need)
{
    int64_t quota = g->quota, chunk = plan_chunk(kind, need, quota);
    int64_t least = need + chunk / 2, most = max64(quota, need);

    if (g->bound >= least && g->bound <= most &&
        g->bound <= need + SLACK_CHUNKS * kinds[kind].chunk)
        return g->bound;
    return need + chunk;
}

/* Lowers at once what may be used; returns what the record has to say, which covers who was faster.
 */
static int64_t lower_bound(struct usage_gauge *g, int64_t bound)
{
    int64_t booked;

    g->ceiling = min64(bound, g->quota);
    booked = g->booked;
    g->bound = max64(bound, booked);
    return g->bound;
}

static int write_record(struct usage *u, const int64_t bounds[USAGE_KINDS])
{
    struct journal_record record = {.root_base = u->root_base, .root_mode = u->root_mode};

    for (int kind = 0; kind < USAGE_KINDS; kind++)
        record.bound[kind] = (uint64_t)bounds[kind];
    /* A clean record that would survive a power cut must not outlive what comes now. */
    return journal_write(&u->journal, &record,
                         u->durability == DURABILITY_POWER || u->journal.clean_synced);
}

/* Opens the journal if it is not, and sees to bounds that leave room above what is booked and
 * `amounts`. */
static int draw(struct usage *u, const int64_t amounts[USAGE_KINDS])
{
    int64_t bounds[USAGE_KINDS];
    bool change = !u->open;
    int rc = 0;

    if (u->abandoned)
        return -ESTALE;
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        struct usage_gauge *g = &u->gauges[kind];

        bounds[kind] = plan_bound(g, kind, max64(g->booked, 0) + amounts[kind]);
        change |= bounds[kind] != g->bound;
        if (u->open && bounds[kind] < g->bound)
            bounds[kind] = lower_bound(g, bounds[kind]);
    }
    if (change)
        rc = write_record(u, bounds);
    if (rc != 0)
        return rc; /* bounds that were lowered stay low in here, which is on the safe side */
    u->open = true;
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        u->gauges[kind].bound = bounds[kind];
        publish(&u->gauges[kind], kind);
    }
    return 0;
}

static void draw_job(struct job *job)
{
    struct usage *u = (struct usage *)((char *)job - offsetof(struct usage, draw_job));
    static const int64_t nothing[USAGE_KINDS];
    int rc;

    u->draw_wanted = false;
    pthread_mutex_lock(&u->lock);
    rc = draw(u, nothing);
    pthread_mutex_unlock(&u->lock);
    if (rc != 0 && rc != -ESTALE)
        log_warn("usage journal: %s; the next operation that grows tries again", strerror(-rc));
}

static void want_draw(struct usage *u)
{
    if (!atomic_exchange(&u->draw_wanted, true))
        job_queue(u->keeper, &u->draw_job);
}

/* ---- reserving and settling ---- */

/* Books `amount` when the ceiling allows. */
static bool take(struct usage *u, int kind, int64_t amount)
{
    struct usage_gauge *g = &u->gauges[kind];
    int64_t booked;

    if (amount == 0)
        return g->ceiling >= 0;
    booked = atomic_load_explicit(&g->booked, memory_order_relaxed);
    do {
        if (booked + amount > atomic_load_explicit(&g->ceiling, memory_order_relaxed))
            return false;
    } while (!atomic_compare_exchange_weak(&g->booked, &booked, booked + amount));
    if (booked + amount > g->ceiling) { /* lowered meanwhile: see usage.h */
        g->booked -= amount;
        return false;
    }
    atomic_fetch_add_explicit(&g->reserved, amount, memory_order_relaxed);
    if (booked + amount > atomic_load_explicit(&g->low, memory_order_relaxed)) {
        atomic_store_explicit(&g->low, INT64_MAX, memory_order_relaxed);
        want_draw(u);
    }
    return true;
}

static void give_back(struct usage *u, int kind, int64_t amount)
{
    u->gauges[kind].reserved -= amount;
    u->gauges[kind].booked -= amount;
}

static int check_quota(const struct usage *u, const int64_t amounts[USAGE_KINDS])
{
    for (int kind = 0; kind < USAGE_KINDS; kind++)
        if (amounts[kind] > 0 && u->gauges[kind].booked + amounts[kind] > u->gauges[kind].quota)
            return kinds[kind].refusal;
    return 0;
}

static bool has_room(const struct usage *u, const int64_t amounts[USAGE_KINDS])
{
    for (int kind = 0; kind < USAGE_KINDS; kind++)
        if (u->gauges[kind].ceiling < 0 ||
            (amounts[kind] > 0 && u->gauges[kind].booked + amounts[kind] > u->gauges[kind].ceiling))
            return false;
    return true;
}

static int make_room(struct usage *u, const int64_t amounts[USAGE_KINDS], bool may_block)
{
    int rc = check_quota(u, amounts);

    if (rc != 0)
        return rc;
    if (!may_block)
        return -EAGAIN;
    pthread_mutex_lock(&u->lock);
    /* Somebody else may have drawn while we waited. */
    if (!has_room(u, amounts) && (rc = check_quota(u, amounts)) == 0)
        rc = draw(u, amounts);
    pthread_mutex_unlock(&u->lock);
    return rc;
}

int usage_reserve(struct usage *u, uint64_t bytes, uint64_t inodes, bool may_block)
{
    const int64_t amounts[USAGE_KINDS] = {to_figure(bytes), to_figure(inodes)};

    for (;;) {
        int rc;

        if (take(u, USAGE_BYTES, amounts[USAGE_BYTES])) {
            if (take(u, USAGE_INODES, amounts[USAGE_INODES]))
                break;
            give_back(u, USAGE_BYTES, amounts[USAGE_BYTES]);
        }
        rc = make_room(u, amounts, may_block);
        if (rc != 0)
            return rc;
    }
    if (atomic_load_explicit(&u->scanning, memory_order_acquire))
        scan_enter(u->scan);
    return 0;
}

static void settle(struct usage *u, int kind, int64_t reserved, int64_t change)
{
    struct usage_gauge *g = &u->gauges[kind];
    int64_t booked;

    if (reserved != 0)
        atomic_fetch_sub_explicit(&g->reserved, reserved, memory_order_relaxed);
    if (change == reserved)
        return;
    booked = atomic_fetch_add(&g->booked, change - reserved) + change - reserved;
    if (booked < atomic_load_explicit(&g->slack, memory_order_relaxed) ||
        (booked > atomic_load_explicit(&g->ceiling, memory_order_relaxed) && change > reserved))
        want_draw(u);
}

void usage_settle(struct usage *u, uint64_t reserved_bytes, uint64_t reserved_inodes, int64_t bytes,
                  int64_t inodes)
{
    settle(u, USAGE_BYTES, to_figure(reserved_bytes), bytes);
    settle(u, USAGE_INODES, to_figure(reserved_inodes), inodes);
    if (scan_tokens > 0)
        scan_leave(u->scan);
}

void usage_touch(struct usage *u, uint64_t ino, uint64_t charged)
{
    if (atomic_load_explicit(&u->scanning, memory_order_acquire))
        scan_touch(u->scan, SCAN_CHANGED, ino, charged);
}

void usage_touch_new(struct usage *u, uint64_t ino)
{
    if (atomic_load_explicit(&u->scanning, memory_order_acquire))
        scan_touch(u->scan, SCAN_NEW, ino, 0);
}

void usage_renamed(struct usage *u, int dir_fd, const char *name)
{
    if (atomic_load_explicit(&u->scanning, memory_order_acquire))
        scan_renamed(u->scan, dir_fd, name);
}

/* Reservations that end between the loads would make the difference too small: read until nothing
 * moved. */
static uint64_t read_used(const struct usage_gauge *g)
{
    int64_t booked = g->booked, reserved, again;

    for (int tries = 0; tries < 4; tries++) {
        reserved = g->reserved;
        again = g->booked;
        if (again == booked)
            break;
        booked = again;
    }
    return (uint64_t)max64(booked - reserved, 0);
}

void usage_get(const struct usage *u, struct usage_stats *out)
{
    out->used_bytes = read_used(&u->gauges[USAGE_BYTES]);
    out->used_inodes = read_used(&u->gauges[USAGE_INODES]);
    out->quota_bytes = (uint64_t)u->gauges[USAGE_BYTES].quota;
    out->max_files = (uint64_t)u->gauges[USAGE_INODES].quota;
    out->scanning = u->estimated;
}

/* ---- opening, closing, changing ---- */

void usage_resize(struct usage *u, uint64_t quota_bytes, uint64_t max_files)
{
    const int64_t quotas[USAGE_KINDS] = {to_figure(quota_bytes), to_figure(max_files)};

    pthread_mutex_lock(&u->lock);
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        struct usage_gauge *g = &u->gauges[kind];

        g->quota = quotas[kind];
        if (u->open)
            publish(g, kind);
    }
    /* After a crash the bound counts as used, so it should not stay above a lowered quota. */
    if (u->open)
        want_draw(u);
    pthread_mutex_unlock(&u->lock);
}

void usage_scanned(struct usage *u, const int64_t found[USAGE_KINDS],
                   const int64_t start[USAGE_KINDS])
{
    for (int kind = 0; kind < USAGE_KINDS; kind++)
        u->gauges[kind].booked += found[kind] - start[kind];
    u->estimated = false;
    want_draw(u);
}

/* What is believed to be used, by what the journal is worth. */
static void load_figures(struct usage *u, const struct journal_record *r, enum journal_trust trust)
{
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        struct usage_gauge *g = &u->gauges[kind];
        int64_t bound = to_figure(r->bound[kind]);

        g->booked = trust == JOURNAL_CLEAN  ? to_figure(r->used[kind])
                    : trust == JOURNAL_OPEN ? bound
                                            : max64(bound, g->quota);
        g->bound = g->booked;
        g->ceiling = -1;
        g->low = INT64_MAX;
        g->slack = INT64_MIN;
    }
    /* An open record stands for its bounds, a first operation needs no new one to be safe. */
    u->open = trust == JOURNAL_OPEN;
    if (u->open)
        for (int kind = 0; kind < USAGE_KINDS; kind++)
            publish(&u->gauges[kind], kind);
}

static uint64_t guess_root_base(int root)
{
    struct stat st;
    uint64_t charge = fstat(root, &st) == 0 ? usage_charge(&st) : 0;

    return charge < CHARGE_UNIT ? charge : CHARGE_UNIT;
}

static void forget(struct usage *u)
{
    if (u->scan)
        scan_free(u->scan);
    journal_close(&u->journal);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

int usage_open(int dir, int root, const struct uuid *fs_id, uint64_t quota_bytes,
               uint64_t max_files, enum durability durability, struct job_thread *keeper,
               struct job_thread *scanner, struct usage **out)
{
    struct usage *u = aligned_alloc(_Alignof(struct usage), sizeof(*u));
    char text[UUID_TEXT_MAX];
    struct journal_record record;
    enum journal_trust trust;
    int rc;

    if (!u)
        return -ENOMEM;
    memset(u, 0, sizeof(*u));
    rc = journal_open(&u->journal, dir, "usage", fs_id, &record, &trust);
    if (rc != 0) {
        free(u);
        return rc;
    }
    pthread_mutex_init(&u->lock, NULL);
    u->durability = durability;
    u->keeper = keeper;
    u->scanner = scanner;
    u->draw_job.run = draw_job;
    u->gauges[USAGE_BYTES].quota = to_figure(quota_bytes);
    u->gauges[USAGE_INODES].quota = to_figure(max_files);
    u->root_base = trust == JOURNAL_DAMAGED ? guess_root_base(root) : record.root_base;
    u->root_mode = record.root_mode;
    load_figures(u, &record, trust);
    if (trust == JOURNAL_DAMAGED)
        log_warn("volume %s: its usage journal is damaged; it counts as full until a scan has run",
                 uuid_format(fs_id, text));
    if (trust != JOURNAL_CLEAN) {
        u->estimated = true;
        rc = scan_start(u, root);
    }
    if (rc != 0)
        forget(u);
    else
        *out = u;
    return rc;
}

/* Under the lock, nothing running any more. */
static int write_clean(struct usage *u, int root)
{
    struct journal_record record = {
        .clean = !u->estimated, .root_base = u->root_base, .root_mode = u->root_mode};
    bool power = u->durability == DURABILITY_POWER;

    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        int64_t booked = max64(u->gauges[kind].booked, 0);

        record.used[kind] = record.bound[kind] = (uint64_t)booked;
    }
    /* Exact figures must not be on disk before the data that they count. */
    if (power && record.clean && syncfs(root) != 0)
        return -errno;
    return journal_write(&u->journal, &record, power || u->journal.clean_synced);
}

void usage_abandon(struct usage *u)
{
    pthread_mutex_lock(&u->lock);
    u->abandoned = true;
    pthread_mutex_unlock(&u->lock);
    if (u->scan)
        scan_stop(u->scan);
}

void usage_close(struct usage *u, int root)
{
    int rc = 0;

    if (u->scan)
        scan_stop(u->scan);
    job_cancel(u->keeper, &u->draw_job);
    pthread_mutex_lock(&u->lock);
    if (u->open && !u->abandoned)
        rc = write_clean(u, root);
    pthread_mutex_unlock(&u->lock);
    if (rc != 0)
        log_warn("usage journal: %s; the volume is scanned when it opens again", strerror(-rc));
    forget(u);
}

int usage_keep_root_mode(struct usage *u, uint32_t mode)
{
    struct journal_record record;
    int rc;

    pthread_mutex_lock(&u->lock);
    record = (struct journal_record){
        .clean = !u->open && !u->estimated, .root_base = u->root_base, .root_mode = mode};
    for (int kind = 0; kind < USAGE_KINDS; kind++) {
        const struct usage_gauge *g = &u->gauges[kind];

        record.used[kind] = (uint64_t)max64(g->booked, 0);
        record.bound[kind] = (uint64_t)max64(max64(g->bound, g->booked), 0);
    }
    rc = journal_write(&u->journal, &record, true);
    if (rc == 0)
        u->root_mode = mode;
    pthread_mutex_unlock(&u->lock);
    return rc;
}
