/* Opening: migrations, refusal of what is newer, file modes, pragmas; every statement has an index.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "db/metrics_db.h"

static mode_t mode_of(const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    struct stat st;

    cr_assert_eq(stat(path, &st), 0);
    free(path);
    return st.st_mode & 07777;
}

Test(open, an_empty_folder_gets_the_schema_and_the_first_subscription)
{
    struct db_conn *c;

    open_store();
    c = db_read_begin(store);
    cr_assert(db_subscription_exists(c, SUB));
    cr_assert_not(db_subscription_exists(c, "00000000-0000-0000-0000-000000000002"));
    db_read_end(c);
    cr_assert_eq(number_of("spillway.db", "PRAGMA user_version"), schema_version);
    close_store();
}

Test(open, a_current_file_keeps_what_is_in_it)
{
    int64_t pool;
    struct db_conn *c;
    struct db_resource r;

    open_store();
    pool = add_pool("p");
    reopen_store();
    c = db_read_begin(store);
    cr_assert_eq(db_resource_get_rid(c, pool, &r), 0);
    cr_assert_str_eq(r.name, "p");
    db_resource_clear(&r);
    db_read_end(c);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM subscription"), 1);
    close_store();
}

Test(open, a_newer_file_is_refused_and_left_alone)
{
    struct db *db = NULL;
    char sql[64];

    open_store();
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", schema_version + 1);
    cr_assert_eq(transact_sql(sql), 0);
    db_close(store);
    cr_assert_eq(db_open(folder, &db), -EPROTO);
    cr_assert_null(db);
    cr_assert_eq(number_of("spillway.db", "PRAGMA user_version"), schema_version + 1);
    store = NULL;
    close_store();
}

Test(open, a_newer_metrics_file_is_refused)
{
    struct metrics_db *m = NULL;
    sqlite3 *handle;
    char *path;

    make_folder();
    path = xasprintf("%s/metrics.db", folder);
    cr_assert_eq(sqlite3_open(path, &handle), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(handle, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
    cr_assert_eq(metrics_db_open(folder, &m), -EPROTO);
    free(path);
    close_store();
}

Test(open, a_file_that_is_no_database_is_refused)
{
    struct db *db = NULL;
    char *path;
    FILE *f;

    make_folder();
    path = xasprintf("%s/spillway.db", folder);
    f = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("this is no database\n", f);
    fclose(f);
    cr_assert_eq(db_open(folder, &db), -EIO);
    free(path);
    close_store();
}

Test(open, nobody_else_may_read_the_files)
{
    struct metrics_db *m;

    umask(0);
    open_store();
    add_pool("p");
    cr_assert_eq(metrics_db_open(folder, &m), 0);
    cr_assert_eq(mode_of("spillway.db"), 0600);
    cr_assert_eq(mode_of("spillway.db-wal"), 0600);
    cr_assert_eq(mode_of("metrics.db"), 0600);
    metrics_db_close(m);
    close_store();
}

static int check_pragmas(struct db_conn *txn, void *arg)
{
    static const struct {
        const char *sql;
        const char *value;
    } wanted[] = {{"PRAGMA journal_mode", "wal"},
                  {"PRAGMA synchronous", "2"}, /* FULL */
                  {"PRAGMA foreign_keys", "1"}};

    (void)arg;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        sqlite3_stmt *s;

        cr_assert_eq(sqlite3_prepare_v2(txn->handle, wanted[i].sql, -1, &s, NULL), SQLITE_OK);
        cr_assert_eq(sqlite3_step(s), SQLITE_ROW);
        cr_assert_str_eq((const char *)sqlite3_column_text(s, 0), wanted[i].value);
        sqlite3_finalize(s);
    }
    return 0;
}

Test(open, writes_are_synced_and_keys_are_checked)
{
    open_store();
    cr_assert_eq(transact(check_pragmas, NULL), 0);
    cr_assert_eq(number_of("spillway.db",
                           "SELECT count(*) FROM pragma_table_list "
                           "WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' AND NOT strict"),
                 0, "every table is STRICT");
    close_store();
}

/* Tables of a few rows, which their lists may walk. */
static bool may_scan(enum stmt_id id)
{
    return id == STMT_SNAPSHOT || id == STMT_SUBSCRIPTION_LIST || id == STMT_AGENT_LIST ||
           id == STMT_TOKEN_PRUNE || id == STMT_CHANGE_HEAD; /* sqlite_sequence: a row a table */
}

static void check_plan(struct db_conn *c, enum stmt_id id)
{
    char *sql = xasprintf("EXPLAIN QUERY PLAN %s", stmt_text(id));
    sqlite3_stmt *s;

    cr_assert_eq(sqlite3_prepare_v2(c->handle, sql, -1, &s, NULL), SQLITE_OK, "%s", sql);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(s, 3);

        cr_expect(strncmp(detail, "SCAN", 4) != 0 || strstr(detail, "CONSTANT ROW"), "%s: %s",
                  stmt_text(id), detail);
        /* DISTINCT sorts what one agent has not seen; an ORDER BY never sorts. */
        cr_expect(!strstr(detail, "TEMP B-TREE FOR ORDER BY"), "%s: %s", stmt_text(id), detail);
    }
    sqlite3_finalize(s);
    free(sql);
}

Test(open, no_statement_walks_a_table)
{
    struct db_conn *c;

    open_store();
    c = db_read_begin(store);
    for (enum stmt_id id = STMT_SNAPSHOT; id < STMT_COUNT; id++)
        if (!may_scan(id))
            check_plan(c, id);
    db_read_end(c);
    close_store();
}

static bool plan_says(struct db_conn *c, enum stmt_id id, const char *text)
{
    char *sql = xasprintf("EXPLAIN QUERY PLAN %s", stmt_text(id));
    sqlite3_stmt *s;
    bool found = false;

    cr_assert_eq(sqlite3_prepare_v2(c->handle, sql, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        found |= strstr((const char *)sqlite3_column_text(s, 3), text) != NULL;
    sqlite3_finalize(s);
    free(sql);
    return found;
}

Test(open, sums_and_counts_read_the_index_alone)
{
    struct db_conn *c;

    open_store();
    c = db_read_begin(store);
    cr_assert(plan_says(c, STMT_RESOURCE_SUMS, "COVERING INDEX resource_child"));
    cr_assert(plan_says(c, STMT_RESOURCE_COUNT, "COVERING INDEX"));
    db_read_end(c);
    close_store();
}
