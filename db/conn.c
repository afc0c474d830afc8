/*
 * Connections: opening, prepared statements, the readers' pool, opening and closing the store.
 * Called by everything in db/ and, for db_open, db_read_begin and so on, by the control plane's
 * threads.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "db/internal.h"

/* Enough for every server thread to read at once; more wait. */
#define MAX_READERS 16

static bool is_no_space(int system_errno)
{
    return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG;
}

/* A write that failed for want of room: SQLite says SQLITE_FULL for ENOSPC only; the quota of a
 * user and the size limit of a process look like broken disks. sqlite3_system_errno() is not set by
 * a COMMIT, so the files are asked. */
static bool failed_for_space(sqlite3 *handle)
{
    sqlite3_file *log = NULL;
    int error = 0;

    sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
    if (is_no_space(error))
        return true;
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
    return is_no_space(error);
}

int db_error(sqlite3 *handle, int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return 0;
    case SQLITE_CONSTRAINT:
        return -EEXIST;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_IOERR:
        return handle && failed_for_space(handle) ? -ENOSPC : -EIO;
    default:
        return -EIO;
    }
}

int db_exec(sqlite3 *handle, const char *sql)
{
    char *message = NULL;
    int code = sqlite3_exec(handle, sql, NULL, NULL, &message);

    if (code != SQLITE_OK)
        log_error("database: %s (%.60s)", message ? message : sqlite3_errstr(code), sql);
    sqlite3_free(message);
    return db_error(handle, code);
}

char *db_lower(const char *text)
{
    char *lower = text ? xstrdup(text) : NULL;

    for (char *p = lower; p && *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return lower;
}

/* The journal mode is kept in the file; the rest is the connection's. A log that a long reader let
 * grow is cut back. Savepoints keep the pages they may have to restore in memory: past 64 KiB they
 * would go through a temporary file. */
static const char writer_pragmas[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
    "PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864;";

/* Nothing is mapped: a disk error on a mapped page is a SIGBUS, here it fails one request. */
static const char reader_pragmas[] = "PRAGMA query_only = ON; PRAGMA cache_size = -8192;";

int db_conn_open(struct db *db, struct db_conn *c, bool writer)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
    int code;

    memset(c, 0, sizeof *c);
    c->db = db;
    code = sqlite3_open_v2(db->path, &c->handle, flags, NULL);
    if (code != SQLITE_OK) {
        int rc = db_error(c->handle, code);

        log_error("cannot open %s: %s", db->path, sqlite3_errmsg(c->handle));
        db_conn_close(c);
        return rc;
    }
    sqlite3_busy_timeout(c->handle, 10000);
    sqlite3_extended_result_codes(c->handle, 1);
    code = db_exec(c->handle, writer ? writer_pragmas : reader_pragmas);
    if (code != 0)
        db_conn_close(c);
    return code;
}

int db_conn_prepare(struct db_conn *c)
{
    for (enum stmt_id id = 0; id < STMT_COUNT; id++) {
        int code = sqlite3_prepare_v3(c->handle, stmt_text(id), -1, SQLITE_PREPARE_PERSISTENT,
                                      &c->stmt[id], NULL);

        if (code != SQLITE_OK) {
            log_error("database: %s in \"%s\"", sqlite3_errmsg(c->handle), stmt_text(id));
            return db_error(c->handle, code);
        }
    }
    return 0;
}

void db_conn_close(struct db_conn *c)
{
    for (size_t i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(c->stmt[i]);
    sqlite3_close(c->handle);
    memset(c->stmt, 0, sizeof c->stmt);
    c->handle = NULL;
}

sqlite3_stmt *db_stmt(struct db_conn *c, enum stmt_id id, const char *format, ...)
{
    sqlite3_stmt *s = c->stmt[id];
    int index = 1;
    va_list ap;

    sqlite3_reset(s);
    va_start(ap, format);
    for (; *format; format++, index++) {
        const char *text;

        if (*format == 'i')
            sqlite3_bind_int64(s, index, va_arg(ap, int64_t));
        else if (*format == 'd')
            sqlite3_bind_double(s, index, va_arg(ap, double));
        else if ((text = va_arg(ap, const char *)))
            sqlite3_bind_text(s, index, text, -1, SQLITE_TRANSIENT);
        else
            sqlite3_bind_null(s, index);
    }
    va_end(ap);
    return s;
}

static int step_failed(struct db_conn *c, sqlite3_stmt *s, int code)
{
    int rc = db_error(c->handle, code);

    if (rc == -EEXIST && code != SQLITE_CONSTRAINT_UNIQUE && code != SQLITE_CONSTRAINT_PRIMARYKEY)
        rc = -EINVAL; /* a foreign key or a type: the caller's mistake */
    if (rc != -EEXIST)
        log_error("database: %s in \"%.60s\"", sqlite3_errmsg(c->handle), sqlite3_sql(s));
    if (rc != -EEXIST && c->failure == 0)
        c->failure = rc;
    sqlite3_reset(s);
    return rc;
}

int db_run(struct db_conn *c, sqlite3_stmt *s)
{
    int code = sqlite3_step(s);

    if (code != SQLITE_DONE && code != SQLITE_ROW)
        return step_failed(c, s, code);
    sqlite3_reset(s);
    return 0;
}

int db_row(struct db_conn *c, sqlite3_stmt *s)
{
    int code = sqlite3_step(s);

    if (code == SQLITE_ROW)
        return 1;
    if (code != SQLITE_DONE)
        return step_failed(c, s, code);
    sqlite3_reset(s);
    return 0;
}

char *db_column_text(sqlite3_stmt *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s, column);

    return text ? xstrdup((const char *)text) : NULL;
}

/* ---- the readers' pool ---- */

static struct db_conn *open_reader(struct db *db)
{
    struct db_conn *c = xcalloc(1, sizeof *c);

    if (db_conn_open(db, c, false) == 0) {
        if (db_conn_prepare(c) == 0)
            return c;
        db_conn_close(c);
    }
    free(c);
    return NULL;
}

static void give_back(struct db *db, struct db_conn *c)
{
    pthread_mutex_lock(&db->pool_lock);
    c->next = db->idle;
    db->idle = c;
    pthread_cond_signal(&db->pool_ready);
    pthread_mutex_unlock(&db->pool_lock);
}

/* The pool grows while all its readers are busy. Where it cannot (no descriptor, no memory) those
 * that are there serve everybody in turn: db_open made the first. */
static struct db_conn *take_reader(struct db *db)
{
    struct db_conn *c;

    pthread_mutex_lock(&db->pool_lock);
    while (!(c = db->idle)) {
        if (db->readers < MAX_READERS) {
            db->readers++;
            pthread_mutex_unlock(&db->pool_lock);
            if ((c = open_reader(db)))
                return c;
            pthread_mutex_lock(&db->pool_lock);
            db->readers--;
            if (db->idle)
                continue;
        }
        pthread_cond_wait(&db->pool_ready, &db->pool_lock);
    }
    db->idle = c->next;
    pthread_mutex_unlock(&db->pool_lock);
    return c;
}

struct db_conn *db_read_begin(struct db *db)
{
    struct db_conn *c = take_reader(db);

    /* A deferred transaction has its snapshot from its first read on. */
    c->failure = 0;
    db_run(c, db_stmt(c, STMT_BEGIN_READ, ""));
    db_run(c, db_stmt(c, STMT_SNAPSHOT, ""));
    return c;
}

void db_read_end(struct db_conn *c)
{
    struct db *db = c->db;

    /* Ends also where a callback stopped a statement before its end. */
    for (size_t i = 0; i < STMT_COUNT; i++)
        sqlite3_reset(c->stmt[i]);
    if (!sqlite3_get_autocommit(c->handle))
        db_run(c, db_stmt(c, STMT_COMMIT, ""));
    give_back(db, c);
}

/* ---- opening and closing ---- */

static void free_all(struct db *db)
{
    while (db->idle) {
        struct db_conn *c = db->idle;

        db->idle = c->next;
        db_conn_close(c);
        free(c);
    }
    db_conn_close(&db->writer);
    pthread_mutex_destroy(&db->queue_lock);
    pthread_cond_destroy(&db->queue_ready);
    pthread_mutex_destroy(&db->pool_lock);
    pthread_cond_destroy(&db->pool_ready);
    free(db->path);
    free(db);
}

static int open_first_reader(struct db *db)
{
    struct db_conn *c = open_reader(db);

    if (!c)
        return -EIO;
    db->readers = 1;
    give_back(db, c);
    return 0;
}

int db_open(const char *dir, struct db **out)
{
    struct db *db = xcalloc(1, sizeof *db);
    mode_t mask;
    int rc = fs_mkdir_p(dir, 0700);

    if (rc != 0) {
        log_error("cannot make the folder %s: %s", dir, strerror(-rc));
        free(db);
        return rc;
    }
    db->path = xasprintf("%s/spillway.db", dir);
    pthread_mutex_init(&db->queue_lock, NULL);
    pthread_cond_init(&db->queue_ready, NULL);
    pthread_mutex_init(&db->pool_lock, NULL);
    pthread_cond_init(&db->pool_ready, NULL);
    db->tail = &db->head;

    mask = umask(0077);
    rc = db_conn_open(db, &db->writer, true);
    if (rc == 0)
        rc = db_migrate(db->writer.handle, db->path, schema_migrations, schema_version);
    umask(mask);
    if (rc == 0)
        rc = db_conn_prepare(&db->writer);
    if (rc == 0)
        rc = open_first_reader(db);
    if (rc == 0)
        rc = db_writer_start(db);
    if (rc != 0)
        free_all(db);
    else
        *out = db;
    return rc;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    db_writer_stop(db);
    free_all(db);
}
