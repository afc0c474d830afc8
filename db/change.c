/* The agents' change feed and tombstones. Called inside readers and transactions. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "db/internal.h"

int db_change_add(struct db_conn *txn, int64_t agent, const char *fs_id)
{
    return db_run(txn, db_stmt(txn, STMT_CHANGE_ADD, "it", agent, fs_id));
}

static int64_t single_number(struct db_conn *c, sqlite3_stmt *s, int64_t otherwise)
{
    int64_t value = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : otherwise;

    sqlite3_reset(s);
    return value;
}

/* The sequence number of a cursor of this database, or -1. */
static int64_t parse_cursor(const char *cursor, const char *feed, int64_t head)
{
    size_t len = strlen(feed);
    char *end;
    int64_t seq;

    if (!cursor || strncmp(cursor, feed, len) != 0 || cursor[len] != ':' || cursor[len + 1] < '0' ||
        cursor[len + 1] > '9')
        return -1;
    errno = 0;
    seq = strtoll(cursor + len + 1, &end, 10);
    return errno != 0 || *end != '\0' || seq > head ? -1 : seq;
}

int db_change_each(struct db_conn *c, int64_t agent, const char *cursor, db_change_fn *fn,
                   void *arg, char **cursor_out)
{
    int64_t head = single_number(c, db_stmt(c, STMT_CHANGE_HEAD, ""), 0);
    int64_t floor = single_number(c, db_stmt(c, STMT_CHANGE_FLOOR, "i", agent), 0), seq;
    sqlite3_stmt *s = db_stmt(c, STMT_FEED_GET, "");
    char *feed = db_row(c, s) == 1 ? db_column_text(s, 0) : xstrdup("");
    int rc, stop = 0;

    sqlite3_reset(s);
    *cursor_out = xasprintf("%s:%" PRId64, feed, head);
    seq = parse_cursor(cursor, feed, head);
    free(feed);
    if (seq < floor)
        return -ESTALE;
    s = db_stmt(c, STMT_CHANGE_LIST, "ii", agent, seq);
    while (!stop && (rc = db_row(c, s)) == 1) {
        char *fs_id = db_column_text(s, 0);

        stop = fn(fs_id, arg);
        free(fs_id);
    }
    sqlite3_reset(s);
    return !stop && rc < 0 ? rc : 0;
}

/* Deletes an agent's changes up to `seq` and remembers that older cursors miss some. */
static int prune_agent(struct db_conn *txn, int64_t agent, int64_t seq)
{
    int rc = db_run(txn, db_stmt(txn, STMT_CHANGE_FLOOR_SET, "ii", agent, seq));

    return rc != 0 ? rc : db_run(txn, db_stmt(txn, STMT_CHANGE_PRUNE, "ii", agent, seq));
}

int db_change_prune(struct db_conn *txn, int64_t keep_per_agent)
{
    int64_t agent = 0;
    int rc = 0;

    /* Agent by agent through the index: what is kept is walked, never the table. */
    while (rc == 0 &&
           (agent = single_number(txn, db_stmt(txn, STMT_CHANGE_NEXT_AGENT, "i", agent), 0)) != 0) {
        int64_t seq =
            single_number(txn, db_stmt(txn, STMT_CHANGE_PLACE, "ii", agent, keep_per_agent), 0);

        if (seq != 0)
            rc = prune_agent(txn, agent, seq);
    }
    return rc != 0 ? rc : txn->failure;
}

int db_change_forget_agent(struct db_conn *txn, int64_t agent)
{
    int rc = db_run(txn, db_stmt(txn, STMT_CHANGE_PRUNE, "ii", agent, INT64_MAX));

    if (rc == 0)
        rc = db_run(txn, db_stmt(txn, STMT_CHANGE_FORGET_FLOOR, "i", agent));
    return rc != 0 ? rc : db_run(txn, db_stmt(txn, STMT_TOMBSTONE_FORGET, "i", agent));
}

int db_tombstone_add(struct db_conn *txn, int64_t agent, const char *fs_id, int64_t generation)
{
    return db_run(txn, db_stmt(txn, STMT_TOMBSTONE_ADD, "iti", agent, fs_id, generation));
}

int db_tombstone_delete(struct db_conn *txn, int64_t agent, const char *fs_id)
{
    return db_run(txn, db_stmt(txn, STMT_TOMBSTONE_DELETE, "it", agent, fs_id));
}

int db_tombstone_each(struct db_conn *c, int64_t agent, db_tombstone_fn *fn, void *arg)
{
    sqlite3_stmt *s = db_stmt(c, STMT_TOMBSTONE_LIST, "i", agent);
    int rc, stop = 0;

    while (!stop && (rc = db_row(c, s)) == 1) {
        char *fs_id = db_column_text(s, 0);

        stop = fn(fs_id, sqlite3_column_int64(s, 1), arg);
        free(fs_id);
    }
    sqlite3_reset(s);
    return !stop && rc < 0 ? rc : 0;
}
