/* Resource rows. Called inside readers and transactions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "db/internal.h"

static void load(sqlite3_stmt *s, struct db_resource *r)
{
    *r = (struct db_resource){
        .rid = sqlite3_column_int64(s, 0),
        .parent = sqlite3_column_int64(s, 1),
        .type = db_column_text(s, 2),
        .subscription = db_column_text(s, 3),
        .group = db_column_text(s, 4),
        .id = db_column_text(s, 5),
        .name = db_column_text(s, 6),
        .location = db_column_text(s, 7),
        .doc = db_column_text(s, 8),
        .generation = sqlite3_column_int64(s, 9),
        .observed = sqlite3_column_int64(s, 10),
        .failed = sqlite3_column_int64(s, 11),
        .failure = db_column_text(s, 12),
        .verb = (enum db_verb)sqlite3_column_int(s, 13),
        .etag_ticks = sqlite3_column_int64(s, 14),
        .size = sqlite3_column_int64(s, 15),
        .throughput = sqlite3_column_double(s, 16),
        .fs_id = db_column_text(s, 17),
        .export_key = db_column_text(s, 18),
        .handle_key = db_column_text(s, 19),
        .agent = sqlite3_column_int64(s, 20),
        .cooldown_until = sqlite3_column_int64(s, 21),
    };
}

/* The texts of a row that are its own. */
static char **texts_of(struct db_resource *r, size_t i)
{
    char **texts[] = {&r->type,  &r->subscription, &r->group,     &r->id,
                      &r->name,  &r->location,     &r->doc,       &r->failure,
                      &r->fs_id, &r->export_key,   &r->handle_key};

    return i < sizeof texts / sizeof *texts ? texts[i] : NULL;
}

void db_resource_clear(struct db_resource *r)
{
    char **text;

    for (size_t i = 0; (text = texts_of(r, i)); i++)
        free(*text);
    *r = (struct db_resource){0};
}

void db_resource_copy(struct db_resource *to, const struct db_resource *from)
{
    char **text;

    *to = *from;
    for (size_t i = 0; (text = texts_of(to, i)); i++)
        *text = *text ? xstrdup(*text) : NULL;
}

static int get_one(struct db_conn *c, sqlite3_stmt *s, struct db_resource *out)
{
    int rc = db_row(c, s);

    if (rc == 1)
        load(s, out);
    sqlite3_reset(s);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

int db_resource_get(struct db_conn *c, const char *id, struct db_resource *out)
{
    char *key = db_lower(id);
    int rc = get_one(c, db_stmt(c, STMT_RESOURCE_GET, "t", key), out);

    free(key);
    return rc;
}

int db_resource_get_rid(struct db_conn *c, int64_t rid, struct db_resource *out)
{
    return get_one(c, db_stmt(c, STMT_RESOURCE_GET_RID, "i", rid), out);
}

int db_resource_get_fs(struct db_conn *c, const char *fs_id, struct db_resource *out)
{
    return get_one(c, db_stmt(c, STMT_RESOURCE_GET_FS, "t", fs_id), out);
}

/* A type's number; made when `add`, else 0 when there is none. */
static int64_t type_number(struct db_conn *c, const char *type, bool add)
{
    sqlite3_stmt *s = db_stmt(c, STMT_RESOURCE_TYPE_GET, "t", type);
    int64_t number = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : 0;

    sqlite3_reset(s);
    if (number == 0 && add && db_run(c, db_stmt(c, STMT_RESOURCE_TYPE_ADD, "t", type)) == 0)
        return type_number(c, type, false);
    return number;
}

static int64_t ticks_now(void)
{
    return clock_wall_ns() / 100;
}

int db_resource_insert(struct db_conn *txn, struct db_resource *r)
{
    int64_t type = type_number(txn, r->type, true);
    char *key = db_lower(r->id);
    int rc;

    r->etag_ticks = ticks_now();
    rc = db_run(txn, db_stmt(txn, STMT_RESOURCE_INSERT, "iitttttttiiitiiidtttii", r->parent, type,
                             r->subscription, r->group, r->id, key, r->name, r->location, r->doc,
                             r->generation, r->observed, r->failed, r->failure, (int64_t)r->verb,
                             r->etag_ticks, r->size, r->throughput, r->fs_id, r->export_key,
                             r->handle_key, r->agent, r->cooldown_until));
    if (rc == 0)
        r->rid = sqlite3_last_insert_rowid(txn->handle);
    free(key);
    return rc;
}

int db_resource_update(struct db_conn *txn, struct db_resource *r)
{
    char *key = db_lower(r->id);
    sqlite3_stmt *s =
        db_stmt(txn, STMT_RESOURCE_UPDATE, "itttttttiiitiiidtttii", r->rid, r->subscription,
                r->group, r->id, key, r->name, r->location, r->doc, r->generation, r->observed,
                r->failed, r->failure, (int64_t)r->verb, ticks_now(), r->size, r->throughput,
                r->fs_id, r->export_key, r->handle_key, r->agent, r->cooldown_until);
    int rc = db_row(txn, s);

    if (rc == 1)
        r->etag_ticks = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    free(key);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

int db_resource_delete(struct db_conn *txn, int64_t rid)
{
    int rc = db_run(txn, db_stmt(txn, STMT_RESOURCE_DELETE, "i", rid));

    return rc == 0 && sqlite3_changes(txn->handle) == 0 ? -ENOENT : rc;
}

bool db_resource_has_children(struct db_conn *c, int64_t rid)
{
    sqlite3_stmt *s = db_stmt(c, STMT_RESOURCE_CHILD, "i", rid);
    bool found = db_row(c, s) == 1;

    sqlite3_reset(s);
    return found;
}

int64_t db_export_key_owner(struct db_conn *c, const char *export_key)
{
    sqlite3_stmt *s = db_stmt(c, STMT_RESOURCE_EXPORT_KEY, "t", export_key);
    int64_t rid = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : 0;

    sqlite3_reset(s);
    return rid;
}

/* SQLite's one writer holds every row; a store with several locks the row here. */
int db_lock_resource(struct db_conn *txn, int64_t rid)
{
    (void)txn;
    (void)rid;
    return 0;
}

/* Hands out the rows of a statement. A callback may call the store again, also this very statement,
 * so all rows are read before the first is handed out. */
static int each_row(struct db_conn *c, sqlite3_stmt *s, db_resource_fn *fn, void *arg)
{
    struct db_resource *rows = NULL;
    size_t count = 0, cap = 0;
    int rc, stop = 0;

    while ((rc = db_row(c, s)) == 1) {
        if (count == cap) {
            cap = cap ? cap * 2 : 64;
            rows = xrealloc(rows, cap * sizeof *rows);
        }
        load(s, &rows[count++]);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && !stop)
            stop = fn(&rows[i], arg);
        db_resource_clear(&rows[i]);
    }
    free(rows);
    return rc;
}

int db_resource_each(struct db_conn *c, const struct db_list *list, db_resource_fn *fn, void *arg)
{
    char *after = db_lower(list->after ? list->after : ""), *prefix, *end;
    int64_t limit = list->limit > 0 ? list->limit : -1, type;
    int rc = 0;

    if (list->parent != 0) {
        rc = each_row(c, db_stmt(c, STMT_RESOURCE_LIST_CHILDREN, "iti", list->parent, after, limit),
                      fn, arg);
        free(after);
        return rc;
    }
    /* All ids below a subscription or group share its prefix; '0' is the character behind '/'. */
    prefix = list->group ? xasprintf("/subscriptions/%s/resourcegroups/%s/", list->subscription,
                                     list->group)
                         : xasprintf("/subscriptions/%s/", list->subscription);
    end = db_lower(prefix);
    free(prefix);
    prefix = xstrdup(end);
    end[strlen(end) - 1] = '0';
    type = type_number(c, list->type, false);
    if (type != 0)
        rc = each_row(c,
                      db_stmt(c, STMT_RESOURCE_LIST_TYPE, "ittti", type, after, prefix, end, limit),
                      fn, arg);
    free(after);
    free(prefix);
    free(end);
    return rc;
}

int db_resource_each_placed(struct db_conn *c, int64_t agent, db_resource_fn *fn, void *arg)
{
    return each_row(c, db_stmt(c, STMT_RESOURCE_LIST_PLACED, "i", agent), fn, arg);
}

int db_resource_sums(struct db_conn *c, int64_t parent, int64_t except, struct db_sums *out)
{
    sqlite3_stmt *s = db_stmt(c, STMT_RESOURCE_SUMS, "ii", parent, except);
    int rc = db_row(c, s);

    *out = (struct db_sums){0};
    if (rc == 1)
        *out = (struct db_sums){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                sqlite3_column_double(s, 2)};
    sqlite3_reset(s);
    return rc < 0 ? rc : 0;
}

int64_t db_resource_count(struct db_conn *c, const char *type)
{
    int64_t number = type_number(c, type, false), count = 0;

    if (number != 0) {
        sqlite3_stmt *s = db_stmt(c, STMT_RESOURCE_COUNT, "i", number);

        if (db_row(c, s) == 1)
            count = sqlite3_column_int64(s, 0);
        sqlite3_reset(s);
    }
    return count;
}
