/*
 * Online backup by SQLite's own interface: a consistent copy while a server writes. The copy gets
 * its name only when it is complete and on disk. Called by spillwayd --backup.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "db/internal.h"

static int copy_pages(const char *from, const char *to, const char *afterwards)
{
    sqlite3 *source = NULL, *target = NULL;
    sqlite3_backup *backup = NULL;
    int code = sqlite3_open_v2(from, &source, SQLITE_OPEN_READONLY, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_open_v2(to, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(source, 10000);
        backup = sqlite3_backup_init(target, "main", source, "main");
        code = backup ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(target);
        sqlite3_backup_finish(backup);
    }
    /* One file that needs no journal beside it. */
    if (code == SQLITE_DONE || code == SQLITE_OK)
        code = sqlite3_exec(target, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(target, afterwards, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        log_error("cannot copy %s: %s", from, sqlite3_errstr(code));
    sqlite3_close(source);
    sqlite3_close(target);
    return db_error(NULL, code);
}

static int sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC), rc = 0;

    if (fd < 0 || fsync(fd) != 0)
        rc = -errno;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int backup_file(const char *from, const char *to, const char *afterwards)
{
    char *partial = xasprintf("%s.partial", to), *copy = xstrdup(to);
    int rc;

    if (access(to, F_OK) == 0) {
        log_error("%s exists already; a backup does not replace it", to);
        rc = -EEXIST;
        goto out;
    }
    unlink(partial);
    rc = copy_pages(from, partial, afterwards);
    if (rc == 0)
        rc = sync_path(partial, O_RDONLY);
    if (rc == 0 && rename(partial, to) != 0)
        rc = -errno;
    if (rc == 0)
        rc = sync_path(dirname(copy), O_RDONLY | O_DIRECTORY);
    if (rc != 0) {
        log_error("no backup in %s: %s", to, strerror(-rc));
        unlink(partial);
    }
out:
    free(partial);
    free(copy);
    return rc;
}

/* A database restored from a copy lives on from an earlier moment: the agents' cursors, made after
 * it, must not fit. */
static const char new_feed[] =
    "UPDATE setting SET value = lower(hex(randomblob(8))) WHERE name = 'feed'";

int db_backup(const char *dir, const char *file)
{
    char *from = xasprintf("%s/spillway.db", dir), *metrics = xasprintf("%s/metrics.db", dir);
    char *to = xasprintf("%s.metrics", file);
    mode_t mask = umask(0077);
    bool has_metrics = access(metrics, F_OK) == 0; /* not before a server ran */
    int rc = 0;

    /* The database last: where it is, its metrics are too. */
    if (has_metrics)
        rc = backup_file(metrics, to, "");
    if (rc == 0) {
        rc = backup_file(from, file, new_feed);
        if (rc != 0 && has_metrics)
            unlink(to);
    }
    umask(mask);
    free(from);
    free(metrics);
    free(to);
    return rc;
}
