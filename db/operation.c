/* Long-running operations. Called inside readers and transactions. */
#include <errno.h>
#include <stdlib.h>

#include "common/mem.h"
#include "db/internal.h"

static void load(sqlite3_stmt *s, struct db_operation *op)
{
    *op = (struct db_operation){
        .id = db_column_text(s, 0),
        .subscription = db_column_text(s, 1),
        .location = db_column_text(s, 2),
        .resource_id = db_column_text(s, 3),
        .rid = sqlite3_column_int64(s, 4),
        .action = db_column_text(s, 5),
        .status = db_column_text(s, 6),
        .error = db_column_text(s, 7),
        .result = db_column_text(s, 8),
        .generation = sqlite3_column_int64(s, 9),
        .started = sqlite3_column_int64(s, 10),
        .ended = sqlite3_column_int64(s, 11),
        .deadline = sqlite3_column_int64(s, 12),
    };
}

void db_operation_clear(struct db_operation *op)
{
    free(op->id);
    free(op->subscription);
    free(op->location);
    free(op->resource_id);
    free(op->action);
    free(op->status);
    free(op->error);
    free(op->result);
    *op = (struct db_operation){0};
}

int db_operation_insert(struct db_conn *txn, const struct db_operation *op)
{
    return db_run(txn,
                  db_stmt(txn, STMT_OPERATION_INSERT, "ttttittttiiii", op->id, op->subscription,
                          op->location, op->resource_id, op->rid, op->action, op->status, op->error,
                          op->result, op->generation, op->started, op->ended, op->deadline));
}

int db_operation_get(struct db_conn *c, const char *id, struct db_operation *out)
{
    char *key = db_lower(id);
    sqlite3_stmt *s = db_stmt(c, STMT_OPERATION_GET, "t", key);
    int rc = db_row(c, s);

    if (rc == 1)
        load(s, out);
    sqlite3_reset(s);
    free(key);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

int db_operation_end(struct db_conn *txn, const char *id, const char *status, const char *error,
                     int64_t now)
{
    return db_run(txn, db_stmt(txn, STMT_OPERATION_END, "ttti", id, status, error, now));
}

/* Reads all rows before it hands out the first: callbacks end operations. */
static int each_row(struct db_conn *c, sqlite3_stmt *s, db_operation_fn *fn, void *arg)
{
    struct db_operation *rows = NULL;
    size_t count = 0;
    int rc, stop = 0;

    while ((rc = db_row(c, s)) == 1) {
        rows = xrealloc(rows, (count + 1) * sizeof *rows);
        load(s, &rows[count++]);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && !stop)
            stop = fn(&rows[i], arg);
        db_operation_clear(&rows[i]);
    }
    free(rows);
    return rc;
}

int db_operation_each_running(struct db_conn *c, int64_t rid, db_operation_fn *fn, void *arg)
{
    return each_row(c, db_stmt(c, STMT_OPERATION_LIST_RUNNING, "i", rid), fn, arg);
}

int db_operation_each_overdue(struct db_conn *c, int64_t now, db_operation_fn *fn, void *arg)
{
    return each_row(c, db_stmt(c, STMT_OPERATION_LIST_OVERDUE, "i", now), fn, arg);
}

int64_t db_operation_next_deadline(struct db_conn *c)
{
    sqlite3_stmt *s = db_stmt(c, STMT_OPERATION_NEXT_DEADLINE, "");
    int64_t deadline = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : 0;

    sqlite3_reset(s);
    return deadline;
}

int db_operation_prune(struct db_conn *txn, int64_t before)
{
    return db_run(txn, db_stmt(txn, STMT_OPERATION_PRUNE, "i", before));
}
