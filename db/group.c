/* Subscriptions and resource groups; named quotas, duties. Called inside readers and transactions.
 */
#include <errno.h>
#include <stdlib.h>

#include "db/internal.h"

bool db_subscription_exists(struct db_conn *c, const char *subscription)
{
    char *key = db_lower(subscription);
    sqlite3_stmt *s = db_stmt(c, STMT_SUBSCRIPTION_GET, "t", key);
    bool found = db_row(c, s) == 1;

    sqlite3_reset(s);
    free(key);
    return found;
}

int db_subscription_add(struct db_conn *txn, const char *subscription, const char *display_name)
{
    char *key = db_lower(subscription);
    int rc = db_run(txn, db_stmt(txn, STMT_SUBSCRIPTION_ADD, "tt", key, display_name));

    free(key);
    return rc;
}

int db_subscription_each(struct db_conn *c, db_subscription_fn *fn, void *arg)
{
    sqlite3_stmt *s = db_stmt(c, STMT_SUBSCRIPTION_LIST, "");
    int rc;

    while ((rc = db_row(c, s)) == 1) {
        char *id = db_column_text(s, 0), *name = db_column_text(s, 1);
        int stop = fn(id, name, arg);

        free(id);
        free(name);
        if (stop)
            break;
    }
    sqlite3_reset(s);
    return rc < 0 ? rc : 0;
}

static void load_group(sqlite3_stmt *s, struct db_group *g)
{
    g->name = db_column_text(s, 0);
    g->location = db_column_text(s, 1);
    g->doc = db_column_text(s, 2);
}

void db_group_clear(struct db_group *g)
{
    free(g->name);
    free(g->location);
    free(g->doc);
    *g = (struct db_group){0};
}

int db_group_get(struct db_conn *c, const char *subscription, const char *name,
                 struct db_group *out)
{
    char *sub = db_lower(subscription), *key = db_lower(name);
    sqlite3_stmt *s = db_stmt(c, STMT_GROUP_GET, "tt", sub, key);
    int rc = db_row(c, s);

    if (rc == 1)
        load_group(s, out);
    sqlite3_reset(s);
    free(sub);
    free(key);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

int db_group_put(struct db_conn *txn, const char *subscription, const char *name,
                 const char *location, const char *doc)
{
    char *sub = db_lower(subscription), *key = db_lower(name);
    int rc = db_run(txn, db_stmt(txn, STMT_GROUP_PUT, "ttttt", sub, key, name, location, doc));

    free(sub);
    free(key);
    return rc;
}

int db_group_delete(struct db_conn *txn, const char *subscription, const char *name)
{
    char *sub = db_lower(subscription), *key = db_lower(name);
    int rc = db_run(txn, db_stmt(txn, STMT_GROUP_DELETE, "tt", sub, key));

    if (rc == 0 && sqlite3_changes(txn->handle) == 0)
        rc = -ENOENT;
    free(sub);
    free(key);
    return rc;
}

int db_group_each(struct db_conn *c, const char *subscription, const char *after, db_group_fn *fn,
                  void *arg)
{
    char *sub = db_lower(subscription), *key = db_lower(after);
    sqlite3_stmt *s = db_stmt(c, STMT_GROUP_LIST, "tt", sub, key);
    int rc;

    while ((rc = db_row(c, s)) == 1) {
        struct db_group g;
        int stop;

        load_group(s, &g);
        stop = fn(&g, arg);
        db_group_clear(&g);
        if (stop)
            break;
    }
    sqlite3_reset(s);
    free(sub);
    free(key);
    return rc < 0 ? rc : 0;
}

bool db_lease_take(struct db_conn *txn, const char *duty, const char *holder, int64_t now,
                   int64_t ttl)
{
    sqlite3_stmt *s = db_stmt(txn, STMT_LEASE_TAKE, "ttii", duty, holder, now, now + ttl);
    bool taken = db_row(txn, s) == 1;

    sqlite3_reset(s);
    return taken;
}

int64_t db_quota_get(struct db_conn *c, const char *subscription, const char *name)
{
    char *sub = db_lower(subscription);
    sqlite3_stmt *s = db_stmt(c, STMT_QUOTA_GET, "tt", sub, name);
    int64_t value = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : -1;

    sqlite3_reset(s);
    free(sub);
    return value;
}

int db_quota_set(struct db_conn *txn, const char *subscription, const char *name, int64_t limit)
{
    char *sub = db_lower(subscription);
    int rc = db_run(txn, db_stmt(txn, STMT_QUOTA_SET, "tti", sub, name, limit));

    free(sub);
    return rc;
}
