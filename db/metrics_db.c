/*
 * The metrics file: its writer thread, its readers. See the header for what is kept.
 *
 * Locking: `lock` guards the queue, `read_lock` the reading connection; never both, both leaves.
 * What if it stops right here? A batch and its number are one transaction, so it is applied or will
 * be sent again.
 */
#include "db/metrics_db.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "db/internal.h"
#include "db/metrics_pack.h"

#define MAX_QUEUE   4096
#define MAX_GROUP   256
#define FINE_KEPT   (INT64_C(24) * METRICS_HOUR)
#define KEPT        (INT64_C(93) * 24 * METRICS_HOUR)
#define SOURCE_KEPT (INT64_C(7) * 24 * METRICS_HOUR)

enum {
    BEGIN,
    COMMIT,
    ROLLBACK,
    SOURCE_GET,
    SOURCE_PUT,
    ROW_GET,
    ROW_PUT,
    ROW_OLD,
    ROW_DROP,
    SOURCE_DROP,
    FORGET,
    TEXTS
};

static const char *const texts[TEXTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [SOURCE_GET] = "SELECT number FROM source WHERE source = ?1",
    [SOURCE_PUT] =
        "INSERT INTO source VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET number = ?2, seen = ?3",
    [ROW_GET] = "SELECT data FROM point WHERE fs_id = ?1 AND hour = ?2",
    [ROW_PUT] =
        "INSERT INTO point VALUES (?1, ?2, ?4, ?3) ON CONFLICT DO UPDATE SET data = ?3, fine = ?4",
    [ROW_OLD] =
        "SELECT fs_id, hour, data FROM point WHERE fine = 1 AND hour < ?1 ORDER BY hour LIMIT 256",
    /* The newest row of a volume stays: its gauges are carried forward. */
    [ROW_DROP] = ("DELETE FROM point WHERE hour < ?1 AND EXISTS (SELECT 1 FROM point n "
                  "WHERE n.fs_id = point.fs_id AND n.hour > point.hour)"),
    [SOURCE_DROP] = "DELETE FROM source WHERE seen < ?1",
    [FORGET] = "DELETE FROM point WHERE fs_id = ?1",
};

static const char migration_1[] =
    "CREATE TABLE IF NOT EXISTS source (source TEXT PRIMARY KEY, number "
    "INTEGER NOT NULL, seen INTEGER NOT NULL) "
    "STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS point (fs_id TEXT NOT NULL, hour INTEGER "
    "NOT NULL, fine INTEGER NOT NULL, "
    "data BLOB NOT NULL, PRIMARY KEY (fs_id, hour)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS point_hour ON point (fine, hour);"
    "CREATE INDEX IF NOT EXISTS point_age ON point (hour);";

static const char *const migrations[] = {migration_1};

enum job_kind { JOB_APPLY, JOB_ROLL, JOB_FORGET };

struct job {
    enum job_kind kind;
    char *source; /* or the fs_id to forget */
    uint64_t number;
    int64_t now;
    struct metric_increment *increments;
    size_t count;
    void (*done)(void *arg, int result);
    void *arg;
    struct job *next;
};

struct metrics_db {
    char *path;
    sqlite3 *writer, *reader;
    sqlite3_stmt *stmt[TEXTS];
    sqlite3_stmt *read_begin, *read_before, *read_range, *read_end;
    pthread_mutex_t read_lock;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct job *head, **tail;
    size_t queued;
    bool closing;
};

static int open_handle(const char *path, sqlite3 **handle, const char *pragmas)
{
    int code = sqlite3_open_v2(
        path, handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    if (code != SQLITE_OK) {
        log_error("cannot open %s: %s", path, sqlite3_errstr(code));
        return db_error(NULL, code);
    }
    sqlite3_busy_timeout(*handle, 10000);
    return db_exec(*handle, pragmas);
}

static sqlite3_stmt *prepare(sqlite3 *handle, const char *text)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v3(handle, text, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK)
        fatal("metrics: %s in \"%s\"", sqlite3_errmsg(handle), text);
    return s;
}

static int step(sqlite3_stmt *s)
{
    int code = sqlite3_step(s);
    int rc = code == SQLITE_ROW ? 1 : db_error(sqlite3_db_handle(s), code);

    if (rc < 0)
        log_error("metrics: %s in \"%.60s\"", sqlite3_errstr(code), sqlite3_sql(s));
    return rc;
}

static int run(sqlite3_stmt *s)
{
    int rc = step(s);

    sqlite3_reset(s);
    return rc > 0 ? 0 : rc;
}

/* Loads a volume's hour; an absent or damaged one is an empty hour of one-minute slots. */
static int load_hour(sqlite3_stmt *s, const char *fs_id, int64_t hour, struct metrics_hour *out)
{
    int rc;

    sqlite3_reset(s);
    sqlite3_bind_text(s, 1, fs_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, hour);
    rc = step(s);
    if (rc == 1 &&
        !metrics_unpack(sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0), out)) {
        log_warn("metrics of %s in hour %lld are damaged and left out", fs_id, (long long)hour);
        rc = 0;
    }
    if (rc == 0)
        *out = (struct metrics_hour){.minutes = 1};
    sqlite3_reset(s);
    return rc < 0 ? rc : 0;
}

static int save_hour(struct metrics_db *db, const char *fs_id, int64_t hour,
                     const struct metrics_hour *data)
{
    uint8_t packed[METRICS_PACK_MAX];
    size_t len = metrics_pack(data, packed);
    sqlite3_stmt *s = db->stmt[ROW_PUT];

    sqlite3_reset(s);
    sqlite3_bind_text(s, 1, fs_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, hour);
    sqlite3_bind_blob(s, 3, packed, (int)len, SQLITE_STATIC);
    sqlite3_bind_int(s, 4, data->minutes == 1);
    return run(s);
}

static int apply_increment(struct metrics_db *db, const struct metric_increment *increment)
{
    int64_t hour = increment->minute / METRICS_HOUR;
    struct metrics_hour data;
    int rc = load_hour(db->stmt[ROW_GET], increment->fs_id, hour, &data);

    if (rc != 0)
        return rc;
    metrics_add(&data, (unsigned)(increment->minute % METRICS_HOUR / METRICS_MINUTE), increment);
    return save_hour(db, increment->fs_id, hour, &data);
}

static int apply_batch(struct metrics_db *db, const struct job *job)
{
    sqlite3_stmt *s = db->stmt[SOURCE_GET];
    bool known;
    int rc;

    sqlite3_bind_text(s, 1, job->source, -1, SQLITE_STATIC);
    rc = step(s);
    known = rc == 1 && (uint64_t)sqlite3_column_int64(s, 0) >= job->number;
    sqlite3_reset(s);
    if (rc < 0 || known)
        return rc < 0 ? rc : 0;
    rc = 0;
    for (size_t i = 0; rc == 0 && i < job->count; i++)
        rc = apply_increment(db, &job->increments[i]);
    if (rc != 0)
        return rc;
    s = db->stmt[SOURCE_PUT];
    sqlite3_bind_text(s, 1, job->source, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (int64_t)job->number);
    sqlite3_bind_int64(s, 3, clock_wall_ns());
    return run(s);
}

/* Folds up to 256 hours that are older than a day; 1 when there may be more. */
static int fold_some(struct metrics_db *db, int64_t now)
{
    struct old_row {
        char *fs_id;
        int64_t hour;
        struct metrics_hour data;
    } *rows = xcalloc(256, sizeof *rows);
    sqlite3_stmt *s = db->stmt[ROW_OLD];
    size_t count = 0;
    int rc;

    /* An hour is folded once all of it is older than a day. */
    sqlite3_bind_int64(s, 1, (now - FINE_KEPT) / METRICS_HOUR);
    while ((rc = step(s)) == 1 && count < 256) {
        rows[count].fs_id = db_column_text(s, 0);
        rows[count].hour = sqlite3_column_int64(s, 1);
        if (!metrics_unpack(sqlite3_column_blob(s, 2), (size_t)sqlite3_column_bytes(s, 2),
                            &rows[count].data))
            rows[count].data = (struct metrics_hour){.minutes = 1};
        count++;
    }
    sqlite3_reset(s);
    for (size_t i = 0; i < count; i++) {
        metrics_fold(&rows[i].data);
        if (rc >= 0)
            rc = save_hour(db, rows[i].fs_id, rows[i].hour, &rows[i].data);
        free(rows[i].fs_id);
    }
    free(rows);
    return rc < 0 ? rc : count == 256;
}

static int drop_before(sqlite3_stmt *s, int64_t value)
{
    sqlite3_bind_int64(s, 1, value);
    return run(s);
}

static int roll(struct metrics_db *db, int64_t now)
{
    int rc;

    do
        rc = fold_some(db, now);
    while (rc == 1);
    if (rc == 0)
        rc = drop_before(db->stmt[ROW_DROP], (now - KEPT) / METRICS_HOUR);
    if (rc == 0)
        rc = drop_before(db->stmt[SOURCE_DROP], now - SOURCE_KEPT);
    return rc;
}

static int run_job(struct metrics_db *db, const struct job *job)
{
    sqlite3_stmt *s = db->stmt[FORGET];

    switch (job->kind) {
    case JOB_APPLY:
        return apply_batch(db, job);
    case JOB_ROLL:
        return roll(db, job->now);
    default:
        sqlite3_bind_text(s, 1, job->source, -1, SQLITE_STATIC);
        return run(s);
    }
}

/* Runs the jobs in one transaction. One that fails fails all of them: they are sent again. */
static int run_jobs(struct metrics_db *db, const struct job *jobs)
{
    int rc = run(db->stmt[BEGIN]);

    if (rc != 0)
        return rc;
    for (const struct job *job = jobs; rc == 0 && job; job = job->next)
        rc = run_job(db, job);
    if (rc == 0)
        rc = run(db->stmt[COMMIT]);
    if (!sqlite3_get_autocommit(db->writer))
        run(db->stmt[ROLLBACK]);
    return rc;
}

/* Waits for work until the next hourly roll; false when the file closes and nothing is left. */
static bool take_jobs(struct metrics_db *db, int64_t next_roll, struct job **out)
{
    struct timespec until = {next_roll / (int64_t)NS_PER_S, next_roll % (int64_t)NS_PER_S};
    struct job *last;
    size_t count = 1;
    bool more;

    pthread_mutex_lock(&db->lock);
    while (!db->head && !db->closing)
        if (pthread_cond_timedwait(&db->ready, &db->lock, &until) == ETIMEDOUT)
            break;
    *out = last = db->head;
    while (last && last->next && count < MAX_GROUP) {
        last = last->next;
        count++;
    }
    if (last) {
        db->head = last->next;
        last->next = NULL;
        db->queued -= count;
        if (!db->head)
            db->tail = &db->head;
    }
    more = *out != NULL || !db->closing;
    pthread_mutex_unlock(&db->lock);
    return more;
}

static void *writer_main(void *arg)
{
    struct metrics_db *db = arg;
    int64_t next_roll = clock_wall_ns() + METRICS_HOUR;
    struct job *jobs;

    while (take_jobs(db, next_roll, &jobs)) {
        struct job hourly = {.kind = JOB_ROLL, .now = clock_wall_ns()};
        int rc = jobs ? run_jobs(db, jobs) : 0;

        while (jobs) {
            struct job *job = jobs;

            jobs = job->next;
            if (job->done)
                job->done(job->arg, rc);
            free(job->source);
            free(job->increments);
            free(job);
        }
        if (hourly.now >= next_roll) {
            run_jobs(db, &hourly);
            next_roll = hourly.now + METRICS_HOUR;
        }
    }
    return NULL;
}

static void submit(struct metrics_db *db, struct job *job)
{
    bool full;

    pthread_mutex_lock(&db->lock);
    full = db->queued >= MAX_QUEUE && job->kind == JOB_APPLY;
    if (!full) {
        *db->tail = job;
        db->tail = &job->next;
        db->queued++;
        pthread_cond_signal(&db->ready);
    }
    pthread_mutex_unlock(&db->lock);
    if (!full)
        return;
    job->done(job->arg, -EAGAIN);
    free(job->source);
    free(job->increments);
    free(job);
}

static bool is_valid(const struct metric_increment *increment)
{
    return increment->minute > 0 && increment->minute % METRICS_MINUTE == 0 &&
           memchr(increment->fs_id, '\0', sizeof increment->fs_id);
}

void metrics_db_apply(struct metrics_db *db, const char *source, uint64_t number,
                      const struct metric_increment *increments, size_t count,
                      void (*done)(void *arg, int result), void *arg)
{
    struct job *job;

    for (size_t i = 0; i < count; i++)
        if (!is_valid(&increments[i])) {
            done(arg, -EINVAL);
            return;
        }
    job = xcalloc(1, sizeof *job);
    *job = (struct job){.kind = JOB_APPLY,
                        .source = xstrdup(source),
                        .number = number,
                        .count = count,
                        .done = done,
                        .arg = arg};
    job->increments = xcalloc(count ? count : 1, sizeof *increments);
    if (count > 0)
        memcpy(job->increments, increments, count * sizeof *increments);
    submit(db, job);
}

void metrics_db_forget(struct metrics_db *db, const char *fs_id)
{
    struct job *job = xcalloc(1, sizeof *job);

    *job = (struct job){.kind = JOB_FORGET, .source = xstrdup(fs_id)};
    submit(db, job);
}

struct roll_wait {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    bool ended;
    int result;
};

static void roll_done(void *arg, int result)
{
    struct roll_wait *w = arg;

    pthread_mutex_lock(&w->lock);
    w->ended = true;
    w->result = result;
    pthread_cond_signal(&w->ready);
    pthread_mutex_unlock(&w->lock);
}

int metrics_db_roll(struct metrics_db *db, int64_t now)
{
    struct roll_wait w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};
    struct job *job = xcalloc(1, sizeof *job);

    *job = (struct job){.kind = JOB_ROLL, .now = now, .done = roll_done, .arg = &w};
    submit(db, job);
    pthread_mutex_lock(&w.lock);
    while (!w.ended)
        pthread_cond_wait(&w.ready, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.result;
}

/* ---- reading ---- */

/* A volume's hours in order, one in hand. */
struct cursor {
    sqlite3_stmt *rows;
    int64_t hour; /* of `data`; INT64_MAX past the end */
    struct metrics_hour data;
    uint64_t gauge[METRIC_GAUGE_COUNT];
    bool has_gauge;
};

static int next_hour(struct cursor *c)
{
    int rc = step(c->rows);

    c->hour = rc == 1 ? sqlite3_column_int64(c->rows, 0) : INT64_MAX;
    if (rc == 1 && !metrics_unpack(sqlite3_column_blob(c->rows, 1),
                                   (size_t)sqlite3_column_bytes(c->rows, 1), &c->data)) {
        log_warn("metrics of hour %lld are damaged and left out", (long long)c->hour);
        c->data = (struct metrics_hour){.minutes = 1};
    }
    return rc < 0 ? rc : 0;
}

/* Share number `part` of five of a five-minute sum, so that the five shares add up to it exactly.
 */
static uint64_t share(uint64_t sum, unsigned part)
{
    return (uint64_t)((unsigned __int128)sum * (part + 1) / 5 - (unsigned __int128)sum * part / 5);
}

/* Adds what is known of one minute to a point. */
static int add_minute(struct cursor *c, int64_t minute, struct metric_point *point)
{
    int64_t hour = minute / METRICS_HOUR;
    unsigned index = (unsigned)(minute % METRICS_HOUR / METRICS_MINUTE);
    const struct metrics_slot *slot;
    int rc = 0;

    while (rc == 0 && c->hour < hour)
        rc = next_hour(c);
    if (rc != 0 || c->hour != hour)
        return rc;
    slot = &c->data.slot[index / c->data.minutes];
    if (!slot->used)
        return 0;
    for (size_t k = 0; k < METRIC_SUM_COUNT; k++)
        point->sum[k] += c->data.minutes == 1 ? slot->sum[k] : share(slot->sum[k], index % 5);
    if (slot->has_gauge) {
        c->has_gauge = true;
        memcpy(c->gauge, slot->gauge, sizeof c->gauge);
    }
    return 0;
}

/* The gauges as they stood right before `from`. */
static int gauges_before(struct metrics_db *db, const char *fs_id, int64_t from, struct cursor *c)
{
    sqlite3_stmt *s = db->read_before;
    int64_t last = from - 1; /* a moment inside the last minute before */
    int rc;

    sqlite3_bind_text(s, 1, fs_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, last / METRICS_HOUR);
    while (!c->has_gauge && (rc = step(s)) == 1) {
        int64_t hour = sqlite3_column_int64(s, 0);
        struct metrics_hour data;
        unsigned minute =
            hour == last / METRICS_HOUR ? (unsigned)(last % METRICS_HOUR / METRICS_MINUTE) : 59;

        if (metrics_unpack(sqlite3_column_blob(s, 1), (size_t)sqlite3_column_bytes(s, 1), &data))
            c->has_gauge = metrics_last_gauge(&data, minute, c->gauge);
    }
    rc = c->has_gauge ? 0 : rc;
    sqlite3_reset(s);
    return rc;
}

int metrics_db_read(struct metrics_db *db, const char *fs_id, int64_t from, int64_t to,
                    int64_t step_ns, int64_t now, metric_point_fn *fn, void *arg)
{
    struct cursor c = {.rows = db->read_range, .hour = -1};
    int rc, stop = 0;

    if (from <= 0 || to > INT64_MAX - METRICS_HOUR || step_ns < METRICS_MINUTE ||
        step_ns % METRICS_MINUTE != 0)
        return -EINVAL;
    /* A stored minute cannot be divided; the running one has only what was so far. */
    to = (to + METRICS_MINUTE - 1) / METRICS_MINUTE * METRICS_MINUTE;
    if (to > now)
        to = now;
    pthread_mutex_lock(&db->read_lock);
    rc = run(db->read_begin);
    if (rc == 0)
        rc = gauges_before(db, fs_id, from, &c);
    sqlite3_bind_text(c.rows, 1, fs_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(c.rows, 2, from / METRICS_HOUR);
    sqlite3_bind_int64(c.rows, 3, to / METRICS_HOUR);
    for (int64_t start = from; rc == 0 && !stop && start < to; start += step_ns) {
        struct metric_point point = {.start = start};
        int64_t end = start + step_ns < to ? start + step_ns : to;
        /* A minute belongs to the point in which it starts. */
        int64_t minute = (start + METRICS_MINUTE - 1) / METRICS_MINUTE * METRICS_MINUTE;

        for (; rc == 0 && minute < end; minute += METRICS_MINUTE)
            rc = add_minute(&c, minute, &point);
        point.seconds = (uint32_t)((end - start) / (int64_t)NS_PER_S);
        point.has_gauge = c.has_gauge;
        memcpy(point.gauge, c.gauge, sizeof point.gauge);
        if (rc == 0)
            stop = fn(&point, arg);
    }
    sqlite3_reset(c.rows);
    if (!sqlite3_get_autocommit(db->reader))
        run(db->read_end);
    pthread_mutex_unlock(&db->read_lock);
    return rc;
}

/* ---- opening and closing ---- */

static void free_all(struct metrics_db *db)
{
    for (size_t i = 0; i < TEXTS; i++)
        sqlite3_finalize(db->stmt[i]);
    sqlite3_finalize(db->read_begin);
    sqlite3_finalize(db->read_before);
    sqlite3_finalize(db->read_range);
    sqlite3_finalize(db->read_end);
    sqlite3_close(db->writer);
    sqlite3_close(db->reader);
    pthread_mutex_destroy(&db->lock);
    pthread_mutex_destroy(&db->read_lock);
    pthread_cond_destroy(&db->ready);
    free(db->path);
    free(db);
}

int metrics_db_open(const char *dir, struct metrics_db **out)
{
    struct metrics_db *db = xcalloc(1, sizeof *db);
    mode_t mask = umask(0077);
    int rc = fs_mkdir_p(dir, 0700);

    db->path = xasprintf("%s/metrics.db", dir);
    db->tail = &db->head;
    pthread_mutex_init(&db->lock, NULL);
    pthread_mutex_init(&db->read_lock, NULL);
    pthread_cond_init(&db->ready, NULL);
    if (rc == 0)
        rc = open_handle(db->path, &db->writer,
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    if (rc == 0)
        rc = db_migrate(db->writer, db->path, migrations, sizeof migrations / sizeof *migrations);
    if (rc == 0)
        rc = open_handle(db->path, &db->reader, "PRAGMA query_only = ON;");
    umask(mask);
    if (rc != 0) {
        free_all(db);
        return rc;
    }
    for (size_t i = 0; i < TEXTS; i++)
        db->stmt[i] = prepare(db->writer, texts[i]);
    db->read_begin = prepare(db->reader, "BEGIN DEFERRED");
    db->read_end = prepare(db->reader, "COMMIT");
    db->read_before =
        prepare(db->reader,
                "SELECT hour, data FROM point WHERE fs_id = ?1 AND hour <= ?2 ORDER BY hour DESC");
    db->read_range = prepare(
        db->reader, "SELECT hour, data FROM point WHERE fs_id = ?1 AND hour BETWEEN ?2 AND ?3 "
                    "ORDER BY hour");
    rc = -pthread_create(&db->thread, NULL, writer_main, db);
    if (rc != 0) {
        free_all(db);
        return rc;
    }
    *out = db;
    return 0;
}

void metrics_db_close(struct metrics_db *db)
{
    if (!db)
        return;
    pthread_mutex_lock(&db->lock);
    db->closing = true;
    pthread_cond_signal(&db->ready);
    pthread_mutex_unlock(&db->lock);
    pthread_join(db->thread, NULL);
    free_all(db);
}
