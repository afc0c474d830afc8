/* The change feed: cursors, each volume once, pruning; tombstones. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

TestSuite(feed, .init = open_store, .fini = close_store);

struct change {
    int64_t agent;
    const char *fs_id;
};

static int add_change(struct db_conn *txn, void *arg)
{
    struct change *c = arg;

    return db_change_add(txn, c->agent, c->fs_id);
}

static void change(int64_t agent, const char *fs_id)
{
    cr_assert_eq(transact(add_change, &(struct change){agent, fs_id}), 0);
}

static int prune(struct db_conn *txn, void *arg)
{
    return db_change_prune(txn, *(int64_t *)arg);
}

static char seen[256];
static char *cursor; /* the last one given out */

static int collect(const char *fs_id, void *arg)
{
    (void)arg;
    strcat(strcat(seen, fs_id), " ");
    return 0;
}

static int poll(int64_t agent, const char *from)
{
    struct db_conn *c = db_read_begin(store);
    char *next = NULL;
    int rc;

    seen[0] = '\0';
    rc = db_change_each(c, agent, from, collect, NULL, &next);
    db_read_end(c);
    cr_assert_not_null(next, "a cursor is given also with -ESTALE");
    free(cursor);
    cursor = next;
    return rc;
}

Test(feed, what_is_no_cursor_of_this_database_is_stale)
{
    static const char *const bad[] = {"", ":", ":0", "0", "x:0", NULL, "0123456789abcdef:0"};
    char *good;

    change(1, "a");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(poll(1, bad[i]), -ESTALE);
    good = xstrdup(cursor);
    cr_assert_eq(poll(1, good), 0);
    {
        static const char *const tails[] = {"x", " ", ":", "99", "9999999999999999999"};

        for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
            char *text = xasprintf("%s%s", good, tails[i]);

            cr_assert_eq(poll(1, text), -ESTALE, "%s", text);
            free(text);
        }
    }
    free(good);
}

Test(feed, a_cursor_gets_what_changed_since_each_once)
{
    poll(1, "");
    change(1, "a");
    change(1, "b");
    change(2, "x");
    change(1, "a");
    cr_assert_eq(poll(1, cursor), 0);
    cr_assert(strcmp(seen, "a b ") == 0 || strcmp(seen, "b a ") == 0, "%s", seen);
    cr_assert_eq(poll(1, cursor), 0);
    cr_assert_str_eq(seen, "");
    change(1, "c");
    cr_assert_eq(poll(1, cursor), 0);
    cr_assert_str_eq(seen, "c ");
}

Test(feed, cursors_survive_a_restart)
{
    poll(1, "");
    change(1, "a");
    reopen_store();
    cr_assert_eq(poll(1, cursor), 0);
    cr_assert_str_eq(seen, "a ");
}

Test(feed, a_change_is_seen_only_with_its_commit)
{
    struct db_conn *c = db_read_begin(store);
    char *first = NULL, *again = NULL;

    cr_assert_eq(db_change_each(c, 1, "", collect, NULL, &first), -ESTALE);
    change(1, "a");
    seen[0] = '\0';
    cr_assert_eq(db_change_each(c, 1, first, collect, NULL, &again), 0);
    cr_assert_str_eq(seen, "");
    cr_assert_str_eq(again, first, "the cursor belongs to the same snapshot as the list");
    db_read_end(c);
    cr_assert_eq(poll(1, again), 0);
    cr_assert_str_eq(seen, "a ");
    free(first);
    free(again);
}

Test(feed, pruning_makes_only_older_cursors_stale)
{
    char *old, *between, *middle, *other;
    int64_t keep = 2;

    poll(2, "");
    other = xstrdup(cursor);
    change(2, "x");
    poll(1, "");
    old = xstrdup(cursor);
    change(1, "a");
    poll(1, "");
    between = xstrdup(cursor);
    change(1, "b");
    poll(1, cursor);
    middle = xstrdup(cursor);
    change(1, "c");
    change(1, "d");
    cr_assert_eq(transact(prune, &keep), 0);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM change"), 3);
    cr_assert_eq(poll(1, old), -ESTALE, "a and b are gone");
    cr_assert_eq(poll(1, between), -ESTALE, "b is gone");
    cr_assert_eq(poll(1, middle), 0);
    cr_assert_str_eq(seen, "c d ");
    cr_assert_eq(poll(2, other), 0, "the other agent had fewer");
    cr_assert_str_eq(seen, "x ");
    keep = 0;
    cr_assert_eq(transact(prune, &keep), 0);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM change"), 0);
    cr_assert_eq(poll(1, middle), -ESTALE);
    cr_assert_eq(poll(1, cursor), 0, "who has seen all misses nothing");
    free(old);
    free(between);
    free(middle);
    free(other);
}

Test(feed, sequence_numbers_go_on_after_everything_was_pruned)
{
    int64_t keep = 0;

    change(1, "a");
    poll(1, "");
    cr_assert_eq(transact(prune, &keep), 0);
    reopen_store();
    change(1, "b");
    cr_assert_eq(poll(1, cursor), 0);
    cr_assert_str_eq(seen, "b ");
}

static int add_tombstone(struct db_conn *txn, void *arg)
{
    struct change *c = arg;
    int rc = db_tombstone_add(txn, c->agent, c->fs_id, 3);

    return rc != 0 ? rc : db_tombstone_add(txn, c->agent, c->fs_id, 4);
}

static int delete_tombstone(struct db_conn *txn, void *arg)
{
    struct change *c = arg;

    return db_tombstone_delete(txn, c->agent, c->fs_id);
}

static int collect_tombstone(const char *fs_id, int64_t generation, void *arg)
{
    char text[32];

    (void)arg;
    snprintf(text, sizeof text, "%s=%d ", fs_id, (int)generation);
    strcat(seen, text);
    return 0;
}

static const char *tombstones(int64_t agent)
{
    struct db_conn *c = db_read_begin(store);

    seen[0] = '\0';
    cr_assert_eq(db_tombstone_each(c, agent, collect_tombstone, NULL), 0);
    db_read_end(c);
    return seen;
}

Test(feed, a_tombstone_stays_until_its_agent_confirmed)
{
    cr_assert_eq(transact(add_tombstone, &(struct change){1, "b"}), 0);
    cr_assert_eq(transact(add_tombstone, &(struct change){1, "a"}), 0);
    cr_assert_str_eq(tombstones(1), "a=4 b=4 ");
    cr_assert_str_eq(tombstones(2), "");
    cr_assert_eq(transact(delete_tombstone, &(struct change){1, "a"}), 0);
    cr_assert_str_eq(tombstones(1), "b=4 ");
}

static int delete_agent(struct db_conn *txn, void *arg)
{
    return db_agent_delete(txn, *(int64_t *)arg);
}

Test(feed, a_removed_agent_leaves_no_changes_and_tombstones)
{
    int64_t gone = add_agent("gone"), stays = add_agent("stays");

    change(gone, "a");
    change(stays, "b");
    cr_assert_eq(transact(add_tombstone, &(struct change){gone, "a"}), 0);
    cr_assert_eq(transact(delete_agent, &gone), 0);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM change"), 1);
    cr_assert_str_eq(tombstones(gone), "");
}
