/* Online backup: consistent while a server writes, complete or absent, restorable. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <signal.h>

#include "common/mem.h"
#include "db/metrics_db.h"

TestSuite(backup, .init = open_store, .fini = close_store);

static atomic_bool stop;

/* Writes a group and a change in each transaction. */
static int put_pair(struct db_conn *txn, void *arg)
{
    char name[16];
    int rc;

    snprintf(name, sizeof name, "n%d", (*(int *)arg)++);
    rc = db_group_put(txn, SUB, name, "eastus", "{}");
    return rc != 0 ? rc : db_change_add(txn, 1, name);
}

static void *keep_writing(void *arg)
{
    int n = 0;

    (void)arg;
    while (!stop)
        cr_assert_eq(transact(put_pair, &n), 0);
    return NULL;
}

static bool exists(const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    bool found = access(path, F_OK) == 0;

    free(path);
    return found;
}

static int backup_to(const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    int rc = db_backup(folder, path);

    free(path);
    return rc;
}

Test(backup, a_copy_taken_while_writing_is_whole)
{
    pthread_t thread;
    int n = 100000;

    for (int i = 0; i < 50; i++)
        cr_assert_eq(transact(put_pair, &n), 0);
    pthread_create(&thread, NULL, keep_writing, NULL);
    for (int i = 0; i < 5; i++) {
        char name[16];

        snprintf(name, sizeof name, "copy%d", i);
        cr_assert_eq(backup_to(name), 0);
        cr_assert_eq(number_of(name, "SELECT (SELECT count(*) FROM change) = "
                                     "(SELECT count(*) FROM resource_group)"),
                     1, "a moment between two transactions");
        cr_assert_geq(number_of(name, "SELECT count(*) FROM change"), 50);
        cr_assert_eq(number_of(name, "SELECT count(*) FROM pragma_integrity_check "
                                     "WHERE integrity_check <> 'ok'"),
                     0);
    }
    stop = true;
    pthread_join(thread, NULL);
    cr_assert_not(exists("copy0.partial"));
}

Test(backup, the_copy_is_private_and_replaces_nothing)
{
    struct stat st;
    char *path = xasprintf("%s/copy", folder);

    umask(0);
    cr_assert_eq(backup_to("copy"), 0);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0600);
    cr_assert_eq(backup_to("copy"), -EEXIST);
    free(path);
}

Test(backup, a_copy_that_failed_is_absent)
{
    struct metrics_db *m;

    cr_assert_eq(backup_to("no/such/folder"), -EIO);
    cr_assert_eq(db_backup("/tmp/spillway-unit-db-none", "/tmp/spillway-unit-db-copy"), -EIO);
    cr_assert_neq(access("/tmp/spillway-unit-db-copy", F_OK), 0);

    cr_assert_eq(metrics_db_open(folder, &m), 0);
    metrics_db_close(m);
    {
        struct rlimit limit, small;

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit);
        small = limit;
        small.rlim_cur = 40000; /* enough for the metrics, not for the database */
        setrlimit(RLIMIT_FSIZE, &small);
        cr_assert_lt(backup_to("copy"), 0);
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    cr_assert_not(exists("copy"));
    cr_assert_not(exists("copy.partial"));
    cr_assert_not(exists("copy.metrics"));
    cr_assert_eq(backup_to("copy"), 0);
    cr_assert(exists("copy.metrics"));
}

static int nothing(const char *fs_id, void *arg)
{
    (void)fs_id;
    (void)arg;
    return 0;
}

/* The agent's cursor is from after the backup; the restored store then went the same distance. */
Test(backup, cursors_of_the_original_do_not_fit_a_restored_copy)
{
    char *from, *to, *cursor = NULL, *next = NULL;
    struct db_conn *c;
    int n = 0;

    cr_assert_eq(backup_to("copy"), 0);
    cr_assert_eq(transact(put_pair, &n), 0);
    c = db_read_begin(store);
    db_change_each(c, 1, "", nothing, NULL, &cursor);
    cr_assert_eq(db_change_each(c, 1, cursor, nothing, NULL, &next), 0);
    db_read_end(c);
    free(next);
    db_close(store);

    from = xasprintf("%s/copy", folder);
    to = xasprintf("%s/spillway.db", folder);
    cr_assert_eq(rename(from, to), 0);
    cr_assert_eq(db_open(folder, &store), 0);
    cr_assert_eq(transact(put_pair, &n), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_change_each(c, 1, cursor, nothing, NULL, &next), -ESTALE);
    db_read_end(c);
    free(next);
    free(cursor);
    free(from);
    free(to);
}
