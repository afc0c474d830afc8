/* The writer: groups, failing members, snapshots, a full disk, closing. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

TestSuite(writer, .init = open_store, .fini = close_store);

/* A transaction that makes the writer wait, so that what is queued meanwhile becomes one group. */
struct gate {
    sem_t entered, go;
};

static int wait_at_gate(struct db_conn *txn, void *arg)
{
    struct gate *g = arg;

    (void)txn;
    sem_post(&g->entered);
    sem_wait(&g->go);
    return 0;
}

static void close_gate(struct gate *g)
{
    sem_init(&g->entered, 0, 0);
    sem_init(&g->go, 0, 0);
    db_submit(store, &(struct db_request){"gate", wait_at_gate, NULL, g});
    sem_wait(&g->entered);
}

/* A member of a group: makes the group (the ARM one) of its number. */
struct member {
    int number, answer; /* answer: what `run` returns */
    int result;
    atomic_int *dones;
    sem_t *all;
    bool overlook; /* a database error */
};

static int put_member(struct db_conn *txn, void *arg)
{
    struct member *m = arg;
    char name[16];
    int rc;

    snprintf(name, sizeof name, "g%d", m->number);
    rc = db_group_put(txn, SUB, name, "eastus", "{}");
    if (m->overlook) /* a subscription that is none: the foreign key fails */
        (void)db_group_put(txn, "no such", name, "eastus", "{}");
    return rc != 0 ? rc : m->answer;
}

static void member_done(void *arg, int result)
{
    struct member *m = arg;

    m->result = result;
    atomic_fetch_add(m->dones, 1);
    sem_post(m->all);
}

static void submit_members(struct member *m, int count, atomic_int *dones, sem_t *all)
{
    for (int i = 0; i < count; i++) {
        m[i].number = i;
        m[i].dones = dones;
        m[i].all = all;
        m[i].result = 12345;
        db_submit(store, &(struct db_request){"member", put_member, member_done, &m[i]});
    }
}

static bool group_exists(int number)
{
    struct db_conn *c = db_read_begin(store);
    struct db_group g;
    char name[16];
    int rc;

    snprintf(name, sizeof name, "g%d", number);
    rc = db_group_get(c, SUB, name, &g);
    db_read_end(c);
    if (rc == 0)
        db_group_clear(&g);
    return rc == 0;
}

Test(writer, what_waits_is_committed_at_once)
{
    struct member m[64] = {0};
    struct db_stats before, after;
    atomic_int dones = 0;
    struct gate gate;
    sem_t all;

    sem_init(&all, 0, 0);
    close_gate(&gate);
    db_get_stats(store, &before);
    submit_members(m, 64, &dones, &all);
    db_get_stats(store, &after);
    cr_assert_eq(after.queued, 64);
    cr_assert_eq(dones, 0, "nobody is told before the commit");
    sem_post(&gate.go);
    for (int i = 0; i < 64; i++)
        sem_wait(&all);
    /* The counter of a commit is raised before its `done`s. */
    db_get_stats(store, &after);
    cr_assert_eq(after.commits - before.commits, 2, "the gate's, and one for all 64");
    cr_assert_eq(after.queued, 0);
    for (int i = 0; i < 64; i++) {
        cr_assert_eq(m[i].result, 0);
        cr_assert(group_exists(i));
    }
}

Test(writer, a_group_is_bounded)
{
    enum { COUNT = 1000 };
    struct member *m = xcalloc(COUNT, sizeof *m);
    struct db_stats before, after;
    atomic_int dones = 0;
    struct gate gate;
    sem_t all;

    sem_init(&all, 0, 0);
    close_gate(&gate);
    db_get_stats(store, &before);
    submit_members(m, COUNT, &dones, &all);
    sem_post(&gate.go);
    for (int i = 0; i < COUNT; i++)
        sem_wait(&all);
    db_get_stats(store, &after);
    cr_assert_eq(after.commits - before.commits, 1 + 4, "256 at most in one");
    free(m);
}

Test(writer, a_member_that_fails_is_undone_alone)
{
    struct member m[5] = {{0}, {.answer = -ECANCELED}, {.overlook = true}, {.answer = 409}, {0}};
    atomic_int dones = 0;
    struct gate gate;
    sem_t all;

    sem_init(&all, 0, 0);
    close_gate(&gate);
    submit_members(m, 5, &dones, &all);
    sem_post(&gate.go);
    for (int i = 0; i < 5; i++)
        sem_wait(&all);
    cr_assert_eq(m[0].result, 0);
    cr_assert_eq(m[1].result, -ECANCELED);
    cr_assert_eq(m[2].result, -EINVAL, "also when run overlooked the database's error");
    cr_assert_eq(m[3].result, 409, "run's own value reaches done");
    cr_assert_eq(m[4].result, 0);
    cr_assert(group_exists(0));
    cr_assert_not(group_exists(1));
    cr_assert_not(group_exists(2));
    cr_assert_not(group_exists(3));
    cr_assert(group_exists(4));
}

static int take_id_twice(struct db_conn *txn, void *arg)
{
    int rc = db_resource_insert(txn, arg);

    /* The handler sees the conflict, and may go on. */
    return rc == -EEXIST ? db_group_put(txn, SUB, "went-on", "eastus", "{}") : rc;
}

Test(writer, a_taken_key_does_not_end_the_transaction)
{
    struct db_resource r = pool_row("p");
    struct db_conn *c;
    struct db_group g;

    cr_assert_eq(insert(&r), 0);
    cr_assert_eq(transact(take_id_twice, &r), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_group_get(c, SUB, "went-on", &g), 0);
    db_group_clear(&g);
    db_read_end(c);
    db_resource_clear(&r);
}

static int sees_own_writes(struct db_conn *txn, void *arg)
{
    struct db_group g;
    int rc = db_group_put(txn, SUB, arg, "eastus", "{}");

    if (rc == 0 && (rc = db_group_get(txn, SUB, arg, &g)) == 0)
        db_group_clear(&g);
    return rc;
}

Test(writer, a_transaction_sees_what_it_wrote)
{
    static char name[] = "rg";

    cr_assert_eq(transact(sees_own_writes, name), 0);
}

Test(writer, a_reader_keeps_its_snapshot)
{
    struct db_conn *old = db_read_begin(store), *fresh;
    struct db_resource r;

    int64_t rid = add_pool("p");

    fresh = db_read_begin(store);
    cr_assert_eq(db_resource_get_rid(old, rid, &r), -ENOENT);
    cr_assert_eq(db_resource_get_rid(fresh, rid, &r), 0);
    db_resource_clear(&r);
    db_read_end(fresh);
    db_read_end(old);
    old = db_read_begin(store);
    cr_assert_eq(db_resource_get_rid(old, rid, &r), 0, "a reader given back forgets it");
    db_resource_clear(&r);
    db_read_end(old);
}

static void *take_reader(void *arg)
{
    struct db_conn *c = db_read_begin(store);

    sem_post(arg);
    db_read_end(c);
    return NULL;
}

Test(writer, who_finds_no_reader_waits_for_one)
{
    struct db_conn *taken[16];
    pthread_t thread;
    sem_t got;

    sem_init(&got, 0, 0);
    for (size_t i = 0; i < 16; i++)
        taken[i] = db_read_begin(store);
    pthread_create(&thread, NULL, take_reader, &got);
    cr_assert_neq(sem_trywait(&got), 0);
    db_read_end(taken[0]);
    pthread_join(thread, NULL);
    cr_assert_eq(sem_trywait(&got), 0);
    for (size_t i = 1; i < 16; i++)
        db_read_end(taken[i]);
}

Test(writer, without_descriptors_the_readers_that_are_there_serve_all)
{
    struct rlimit limit, none;

    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    for (int i = 0; i < 20; i++) {
        struct db_conn *first = db_read_begin(store);
        pthread_t thread;
        sem_t got;

        sem_init(&got, 0, 0);
        setrlimit(RLIMIT_NOFILE, &none);
        pthread_create(&thread, NULL, take_reader, &got);
        usleep(1000); /* to try in vain; nothing tells when */
        cr_assert_neq(sem_trywait(&got), 0);
        db_read_end(first);
        pthread_join(thread, NULL);
        setrlimit(RLIMIT_NOFILE, &limit);
        cr_assert_eq(sem_trywait(&got), 0);
    }
    cr_assert_eq(store->readers, 1, "those that could not be opened do not count");
}

/* ---- a full disk ---- */

static int put_big(struct db_conn *txn, void *arg)
{
    char *doc = xcalloc(1, 200001);
    int rc;

    memset(doc, 'x', 200000);
    rc = db_group_put(txn, SUB, arg, "eastus", doc);
    free(doc);
    return rc;
}

static void put_until_full(void)
{
    char name[16];
    int rc = 0;

    for (int i = 0; rc == 0 && i < 100; i++) {
        snprintf(name, sizeof name, "big%d", i);
        rc = transact(put_big, name);
    }
    cr_assert_eq(rc, -ENOSPC);
}

Test(writer, a_full_database_fails_the_writes_and_heals)
{
    static char big[] = "another";
    int64_t kept = add_pool("kept");
    struct db_resource r;
    struct db_conn *c;

    cr_assert_eq(transact_sql("PRAGMA max_page_count = 200"), 0);
    put_until_full();
    cr_assert_eq(transact(put_big, big), -ENOSPC);
    cr_assert_eq(transact_sql("PRAGMA max_page_count = 4294967294"), 0);
    cr_assert_eq(transact(put_big, big), 0);
    reopen_store();
    c = db_read_begin(store);
    cr_assert_eq(db_resource_get_rid(c, kept, &r), 0);
    db_resource_clear(&r);
    db_read_end(c);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM pragma_integrity_check "
                                          "WHERE integrity_check <> 'ok'"),
                 0);
}

/* The write-ahead log cannot grow: the error comes from COMMIT, of the whole group. */
Test(writer, a_commit_that_fails_fails_its_whole_group)
{
    struct member m[3] = {0};
    struct rlimit limit, small;
    struct db_stats before, after;
    atomic_int dones = 0;
    struct gate gate;
    struct stat st;
    sem_t all;
    char *log = xasprintf("%s/spillway.db-wal", folder);

    signal(SIGXFSZ, SIG_IGN);
    sem_init(&all, 0, 0);
    add_pool("p");
    cr_assert_eq(stat(log, &st), 0);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = (rlim_t)st.st_size + 100;
    close_gate(&gate);
    db_get_stats(store, &before);
    submit_members(m, 3, &dones, &all);
    setrlimit(RLIMIT_FSIZE, &small);
    sem_post(&gate.go);
    for (int i = 0; i < 3; i++)
        sem_wait(&all);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(m[i].result, -ENOSPC);
    for (int i = 0; i < 3; i++)
        cr_assert_not(group_exists(i));
    db_get_stats(store, &after);
    cr_assert_eq(after.failed - before.failed, 3);

    setrlimit(RLIMIT_FSIZE, &limit);
    submit_members(m, 3, &dones, &all);
    for (int i = 0; i < 3; i++)
        sem_wait(&all);
    for (int i = 0; i < 3; i++)
        cr_assert(m[i].result == 0 && group_exists(i));
    cr_assert_eq(dones, 6);
    free(log);
}

/* ---- closing ---- */

static void submit_again(void *arg, int result)
{
    struct member *m = arg;

    cr_assert_eq(result, 0);
    /* Queued by a `done` while the store closes. */
    db_submit(store, &(struct db_request){"late", put_member, member_done, m});
}

Test(writer, closing_runs_what_is_queued_and_calls_each_done_once)
{
    struct member m[300] = {0}, late = {.number = 1000};
    atomic_int dones = 0;
    sem_t all;

    sem_init(&all, 0, 0);
    late.dones = &dones;
    late.all = &all;
    submit_members(m, 300, &dones, &all);
    db_submit(store, &(struct db_request){"first", put_member, submit_again, &late});
    db_close(store);
    cr_assert_eq(dones, 301);
    cr_assert_eq(db_open(folder, &store), 0);
    cr_assert(group_exists(299));
    cr_assert(group_exists(1000));
}

/* ---- many threads ---- */

struct worker {
    pthread_t thread;
    int number;
};

static int put_own(struct db_conn *txn, void *arg)
{
    return db_group_put(txn, SUB, arg, "eastus", "{}");
}

static void *write_and_read(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 25; i++) {
        char name[32];
        struct db_group g;
        struct db_conn *c;

        snprintf(name, sizeof name, "w%d-%d", w->number, i);
        cr_assert_eq(transact(put_own, name), 0);
        c = db_read_begin(store);
        cr_assert_eq(db_group_get(c, SUB, name, &g), 0, "what was answered is read by all");
        db_group_clear(&g);
        db_read_end(c);
    }
    return NULL;
}

Test(writer, threads_share_commits)
{
    struct worker w[32];
    struct db_stats stats;

    for (int i = 0; i < 32; i++) {
        w[i].number = i;
        cr_assert_eq(pthread_create(&w[i].thread, NULL, write_and_read, &w[i]), 0);
    }
    for (int i = 0; i < 32; i++)
        pthread_join(w[i].thread, NULL);
    db_get_stats(store, &stats);
    cr_assert_eq(stats.transactions, 800);
    cr_assert_lt(stats.commits, 800);
    cr_assert_eq(stats.failed, 0);
}
