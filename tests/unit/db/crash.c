/*
 * kill -9 in the middle of many writes: what was answered is there, everything is there whole or
 * not at all, nothing is there that was not sent. Each transaction makes a group and a change
 * record.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"

#define SENT 20000

struct write {
    uint32_t number;
    int answers; /* the pipe that numbers go into once they are answered */
};

static int put(struct db_conn *txn, void *arg)
{
    struct write *w = arg;
    char name[16];
    int rc;

    snprintf(name, sizeof name, "n%u", w->number);
    rc = db_group_put(txn, SUB, name, "eastus", "{}");
    return rc != 0 ? rc : db_change_add(txn, 1, name);
}

static void answer(void *arg, int result)
{
    struct write *w = arg;

    if (result != 0 || write(w->answers, &w->number, sizeof w->number) != sizeof w->number)
        _exit(1);
}

static _Noreturn void serve(int answers)
{
    struct write *w = xcalloc(SENT, sizeof *w);

    if (db_open(folder, &store) != 0)
        _exit(1);
    for (uint32_t i = 0; i < SENT; i++) {
        w[i] = (struct write){i, answers};
        db_submit(store, &(struct db_request){"put", put, answer, &w[i]});
    }
    db_close(store);
    _exit(0);
}

/* Kills after so many answers; returns how many there were. */
static uint32_t run_and_kill(uint32_t after, bool *answered)
{
    uint32_t number, count = 0;
    int pipes[2], status;
    pid_t child;

    cr_assert_eq(pipe(pipes), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        close(pipes[0]);
        serve(pipes[1]);
    }
    close(pipes[1]);
    while (read(pipes[0], &number, sizeof number) == sizeof number) {
        cr_assert_lt(number, SENT);
        answered[number] = true;
        if (++count == after)
            kill(child, SIGKILL);
    }
    close(pipes[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return count;
}

Test(crash, what_was_answered_survives_kill_9)
{
    static const uint32_t moments[] = {1, 300, 2000, 5000};

    make_folder();
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        bool *answered = xcalloc(SENT, sizeof *answered);
        struct db_conn *c;

        cr_assert_geq(run_and_kill(moments[i], answered), moments[i]);
        open_store();
        c = db_read_begin(store);
        for (uint32_t n = 0; n < SENT; n++) {
            struct db_group g;
            char name[16];
            bool there;

            snprintf(name, sizeof name, "n%u", n);
            there = db_group_get(c, SUB, name, &g) == 0;
            if (there)
                db_group_clear(&g);
            cr_assert(there || !answered[n], "%s was answered and is gone", name);
        }
        db_read_end(c);
        cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM resource_group WHERE "
                                              "name NOT IN (SELECT fs_id FROM change)"),
                     0, "half a transaction");
        cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM change WHERE "
                                              "fs_id NOT IN (SELECT name FROM resource_group)"),
                     0, "half a transaction");
        cr_assert_eq(transact_sql("DELETE FROM change; DELETE FROM resource_group"), 0);
        db_close(store);
        free(answered);
    }
    store = NULL;
    close_store();
}
