/* Rows: resources, groups, operations, agents, endpoints, leases, quotas. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

TestSuite(rows, .init = open_store, .fini = close_store);

/* ---- resources ---- */

Test(rows, a_resource_reads_back_as_it_was_written)
{
    struct db_resource w = volume_row(add_pool("p"), "Vol1"), r;
    struct db_conn *c;

    w.agent = add_agent("host1");
    w.size = INT64_C(2400) << 40;
    w.throughput = 0.1;
    w.verb = DB_VERB_PATCHING;
    w.failed = 7;
    w.failure = xstrdup("{\"code\":\"X\",\"message\":\"Ä 'quoted'\"}");
    w.cooldown_until = INT64_MAX;
    cr_assert_eq(insert(&w), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_resource_get(c, w.id, &r), 0);
    cr_assert_eq(r.rid, w.rid);
    cr_assert_eq(r.parent, w.parent);
    cr_assert_str_eq(r.type, VOL_TYPE);
    cr_assert_str_eq(r.id, w.id);
    cr_assert_str_eq(r.name, "Vol1");
    cr_assert_str_eq(r.doc, w.doc);
    cr_assert_eq(r.size, INT64_C(2400) << 40);
    cr_assert_eq(r.throughput, 0.1, "the very same double");
    cr_assert_eq(r.verb, DB_VERB_PATCHING);
    cr_assert_eq(r.failed, 7);
    cr_assert_str_eq(r.failure, w.failure);
    cr_assert_eq(r.agent, w.agent);
    cr_assert_eq(r.cooldown_until, INT64_MAX);
    cr_assert_str_eq(r.handle_key, w.handle_key);
    cr_assert_eq(r.etag_ticks, w.etag_ticks);
    db_read_end(c);
    db_resource_clear(&r);
    db_resource_clear(&w);
}

Test(rows, ids_are_found_and_taken_without_case)
{
    struct db_resource w = pool_row("Fast"), again = pool_row("FAST"), r;
    struct db_conn *c;

    cr_assert_eq(insert(&w), 0);
    cr_assert_eq(insert(&again), -EEXIST);
    c = db_read_begin(store);
    cr_assert_eq(db_resource_get(c, again.id, &r), 0);
    cr_assert_str_eq(r.name, "Fast", "in the case of its creation");
    db_resource_clear(&r);
    cr_assert_eq(db_resource_get(c, "/subscriptions/x", &r), -ENOENT);
    cr_assert_eq(db_resource_get_rid(c, 12345, &r), -ENOENT);
    cr_assert_eq(db_resource_get_fs(c, "no such", &r), -ENOENT);
    db_read_end(c);
    db_resource_clear(&w);
    db_resource_clear(&again);
}

Test(rows, a_taken_export_key_is_refused_and_its_owner_named)
{
    int64_t pool = add_pool("p"), owner;
    struct db_resource a = volume_row(pool, "a"), b = volume_row(pool, "b"),
                       c = volume_row(pool, "c");
    struct db_conn *reader;

    cr_assert_eq(insert(&a), 0);
    free(b.export_key);
    b.export_key = xstrdup(a.export_key);
    cr_assert_eq(insert(&b), -EEXIST);
    free(c.fs_id);
    c.fs_id = xstrdup(a.fs_id);
    cr_assert_eq(insert(&c), -EEXIST);
    reader = db_read_begin(store);
    owner = db_export_key_owner(reader, a.export_key);
    cr_assert_eq(owner, a.rid);
    cr_assert_eq(db_export_key_owner(reader, "eastus//vnet/default/free"), 0);
    db_read_end(reader);
    db_resource_clear(&a);
    db_resource_clear(&b);
    db_resource_clear(&c);
}

Test(rows, resources_without_an_export_do_not_collide)
{
    cr_assert_gt(add_pool("p1"), 0);
    cr_assert_gt(add_pool("p2"), 0);
}

Test(rows, a_parent_must_exist_and_stays_while_it_has_children)
{
    struct db_resource orphan = volume_row(4711, "x");
    int64_t pool = add_pool("p"), vol = add_volume(pool, "v");
    struct db_conn *c;
    char sql[80];

    cr_assert_eq(insert(&orphan), -EINVAL);
    db_resource_clear(&orphan);
    snprintf(sql, sizeof sql, "DELETE FROM resource WHERE rid = %lld", (long long)pool);
    cr_assert_neq(transact_sql(sql), 0);
    c = db_read_begin(store);
    cr_assert(db_resource_has_children(c, pool));
    cr_assert_not(db_resource_has_children(c, vol));
    db_read_end(c);
}

Test(rows, etags_grow_also_when_the_clock_went_back)
{
    struct db_resource r = pool_row("p");
    int64_t before = clock_wall_ns() / 100, last;

    cr_assert_eq(insert(&r), 0);
    cr_assert_geq(r.etag_ticks, before, "100 ns since the Unix epoch");
    cr_assert_leq(r.etag_ticks, clock_wall_ns() / 100);
    last = r.etag_ticks;
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(update(&r), 0);
        cr_assert_gt(r.etag_ticks, last);
        last = r.etag_ticks;
    }
    /* Stored from a clock that was a year ahead: the next one is one tick more. */
    last += INT64_C(365) * 86400 * 10000000;
    {
        char sql[100];

        snprintf(sql, sizeof sql, "UPDATE resource SET etag_ticks = %lld", (long long)last);
        cr_assert_eq(transact_sql(sql), 0);
    }
    cr_assert_eq(update(&r), 0);
    cr_assert_eq(r.etag_ticks, last + 1);
    r.rid = 999;
    cr_assert_eq(update(&r), -ENOENT);
    db_resource_clear(&r);
}

struct names {
    char text[1024];
    int stop_after;
};

static int collect(const struct db_resource *r, void *arg)
{
    struct names *n = arg;

    strcat(strcat(n->text, n->text[0] ? " " : ""), r->name);
    return --n->stop_after == 0;
}

static const char *listed(const struct db_list *list, struct names *n)
{
    struct db_conn *c = db_read_begin(store);

    n->text[0] = '\0';
    cr_assert_eq(db_resource_each(c, list, collect, n), 0);
    db_read_end(c);
    return n->text;
}

Test(rows, children_are_paged_in_the_order_of_their_lower_case_ids)
{
    int64_t pool = add_pool("p"), other = add_pool("q");
    struct names n = {"", 0};
    struct db_resource b = volume_row(pool, "b");

    add_volume(pool, "C");
    add_volume(pool, "a10");
    add_volume(other, "z");
    add_volume(pool, "a2");
    add_volume(pool, "D");
    cr_assert_eq(insert(&b), 0);
    cr_assert_str_eq(listed(&(struct db_list){.parent = pool}, &n), "a10 a2 b C D");
    cr_assert_str_eq(listed(&(struct db_list){.parent = pool, .limit = 2}, &n), "a10 a2");
    cr_assert_str_eq(listed(&(struct db_list){.parent = pool, .after = b.id, .limit = 2}, &n),
                     "C D");
    n.stop_after = 1;
    cr_assert_str_eq(listed(&(struct db_list){.parent = pool}, &n), "a10");
    cr_assert_str_eq(listed(&(struct db_list){.parent = 999}, &n), "");
    db_resource_clear(&b);
}

Test(rows, a_page_goes_on_where_it_stood_when_rows_come_and_go)
{
    int64_t pool = add_pool("p"), first = add_volume(pool, "b");
    struct names n = {"", 0};
    struct db_resource c = volume_row(pool, "c");
    char sql[80];

    cr_assert_eq(insert(&c), 0);
    add_volume(pool, "e");
    /* The page ended with c; then b and c went, a and d came: a is before, d and e are the rest. */
    snprintf(sql, sizeof sql, "DELETE FROM resource WHERE rid IN (%lld, %lld)", (long long)first,
             (long long)c.rid);
    cr_assert_eq(transact_sql(sql), 0);
    add_volume(pool, "a");
    add_volume(pool, "d");
    cr_assert_str_eq(listed(&(struct db_list){.parent = pool, .after = c.id}, &n), "d e");
    db_resource_clear(&c);
}

Test(rows, a_subscription_and_a_group_list_their_own_only)
{
    static const char *const ids[] = {
        "/subscriptions/S1/resourceGroups/rg/providers/x/t/one",
        "/subscriptions/s1/resourceGroups/RG/providers/x/t/two",
        "/subscriptions/s1/resourceGroups/rg2/providers/x/t/three",
        "/subscriptions/s10/resourceGroups/rg/providers/x/t/four",
    };
    static const char *const groups[] = {"rg", "RG", "rg2", "rg"};
    struct names n = {"", 0};
    struct db_list list = {.type = POOL_TYPE, .subscription = "S1"};

    for (size_t i = 0; i < 4; i++) {
        struct db_resource r = pool_row(strrchr(ids[i], '/') + 1);

        free(r.id);
        free(r.group);
        r.id = xstrdup(ids[i]);
        r.group = xstrdup(groups[i]);
        cr_assert_eq(insert(&r), 0);
        db_resource_clear(&r);
    }
    cr_assert_str_eq(listed(&list, &n), "one two three");
    list.group = "Rg";
    cr_assert_str_eq(listed(&list, &n), "one two");
    list.type = VOL_TYPE;
    cr_assert_str_eq(listed(&list, &n), "");
}

Test(rows, sums_are_of_the_children_but_one)
{
    int64_t pool = add_pool("p"), v = 0;
    struct db_sums sums;
    struct db_conn *c;

    for (int i = 0; i < 10; i++) {
        char name[8];

        snprintf(name, sizeof name, "v%d", i);
        v = add_volume(pool, name);
    }
    c = db_read_begin(store);
    cr_assert_eq(db_resource_sums(c, pool, 0, &sums), 0);
    cr_assert_eq(sums.count, 10);
    cr_assert_eq(sums.size, 1000 * GIB);
    cr_assert_eq(sums.throughput, 160);
    cr_assert_eq(db_resource_sums(c, pool, v, &sums), 0);
    cr_assert_eq(sums.count, 9);
    cr_assert_eq(sums.size, 900 * GIB);
    cr_assert_eq(sums.throughput, 144);
    cr_assert_eq(db_resource_sums(c, v, 0, &sums), 0);
    cr_assert_eq(sums.count, 0);
    cr_assert_eq(db_resource_count(c, VOL_TYPE), 10);
    cr_assert_eq(db_resource_count(c, POOL_TYPE), 1);
    cr_assert_eq(db_resource_count(c, "Microsoft.NetApp/unknown"), 0);
    db_read_end(c);
}

/* A callback lists the children of each pool while the pools are being listed. */
static struct db_conn *nested;

static int list_children(const struct db_resource *r, void *arg)
{
    return db_resource_each(nested, &(struct db_list){.parent = r->rid}, collect, arg);
}

Test(rows, a_callback_may_list_again)
{
    int64_t top = add_pool("top");
    struct names n = {"", 0};

    for (int i = 0; i < 2; i++) {
        struct db_resource r = pool_row(i ? "p2" : "p1");
        char name[8];

        r.parent = top;
        cr_assert_eq(insert(&r), 0);
        snprintf(name, sizeof name, "v%d", i);
        add_volume(r.rid, name);
        db_resource_clear(&r);
    }
    nested = db_read_begin(store);
    cr_assert_eq(db_resource_each(nested, &(struct db_list){.parent = top}, list_children, &n), 0);
    db_read_end(nested);
    cr_assert_str_eq(n.text, "v0 v1");
}

/* ---- groups ---- */

static int put_group(struct db_conn *txn, void *arg)
{
    return db_group_put(txn, SUB, arg, "eastus", "{\"tags\":{}}");
}

static int delete_group(struct db_conn *txn, void *arg)
{
    return db_group_delete(txn, SUB, arg);
}

static int collect_group(const struct db_group *g, void *arg)
{
    strcat(strcat(arg, g->name), " ");
    return 0;
}

Test(rows, groups_keep_the_case_they_were_first_put_in)
{
    static char first[] = "Rg", again[] = "RG", other[] = "a", names[64];
    struct db_group g;
    struct db_conn *c;

    cr_assert_eq(transact(put_group, first), 0);
    cr_assert_eq(transact(put_group, again), 0);
    cr_assert_eq(transact(put_group, other), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_group_get(c, SUB, "rg", &g), 0);
    cr_assert_str_eq(g.name, "Rg");
    db_group_clear(&g);
    cr_assert_eq(db_group_each(c, SUB, "", collect_group, names), 0);
    cr_assert_str_eq(names, "a Rg ");
    names[0] = '\0';
    cr_assert_eq(db_group_each(c, SUB, "A", collect_group, names), 0);
    cr_assert_str_eq(names, "Rg ");
    db_read_end(c);
    cr_assert_eq(transact(delete_group, again), 0);
    cr_assert_eq(transact(delete_group, again), -ENOENT);
}

/* ---- operations ---- */

static int insert_operation(struct db_conn *txn, void *arg)
{
    return db_operation_insert(txn, arg);
}

static void add_operation(const char *id, int64_t rid, int64_t started, int64_t deadline)
{
    char copy[40], sub[] = SUB, text[] = "eastus", action[] = "CREATE", status[] = "Creating";
    struct db_operation op = {.id = copy,
                              .subscription = sub,
                              .location = text,
                              .resource_id = text,
                              .rid = rid,
                              .action = action,
                              .status = status,
                              .generation = 1,
                              .started = started,
                              .deadline = deadline};

    snprintf(copy, sizeof copy, "%s", id);
    cr_assert_eq(transact(insert_operation, &op), 0);
}

struct ending {
    const char *id, *status, *error;
    int64_t now;
};

static int end_operation(struct db_conn *txn, void *arg)
{
    struct ending *e = arg;

    return db_operation_end(txn, e->id, e->status, e->error, e->now);
}

static int collect_operation(const struct db_operation *op, void *arg)
{
    strcat(strcat(arg, op->id), " ");
    return 0;
}

Test(rows, an_ended_operation_stays_as_it_ended)
{
    struct db_operation op;
    struct db_conn *c;

    add_operation("op-1", add_pool("p"), 5, 100);
    cr_assert_eq(
        transact(end_operation, &(struct ending){"op-1", "Failed", "{\"code\":\"Late\"}", 7}), 0);
    transact(end_operation, &(struct ending){"op-1", "Succeeded", NULL, 9});
    c = db_read_begin(store);
    cr_assert_eq(db_operation_get(c, "OP-1", &op), 0);
    cr_assert_str_eq(op.status, "Failed");
    cr_assert_str_eq(op.error, "{\"code\":\"Late\"}");
    cr_assert_eq(op.ended, 7);
    db_read_end(c);
    db_operation_clear(&op);
}

Test(rows, running_operations_are_listed_by_start_and_by_deadline)
{
    char text[64] = "";
    struct db_conn *c;

    add_operation("b", 0, 20, 100);
    add_operation("a", 0, 10, 300);
    add_operation("c", 0, 5, 200);
    cr_assert_eq(transact(end_operation, &(struct ending){"c", "Canceled", NULL, 6}), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_operation_each_running(c, 0, collect_operation, text), 0);
    cr_assert_str_eq(text, "a b ");
    text[0] = '\0';
    cr_assert_eq(db_operation_each_overdue(c, 100, collect_operation, text), 0);
    cr_assert_str_eq(text, "", "a deadline is not passed at its own moment");
    cr_assert_eq(db_operation_each_overdue(c, 101, collect_operation, text), 0);
    cr_assert_str_eq(text, "b ");
    cr_assert_eq(db_operation_next_deadline(c), 100);
    db_read_end(c);
}

static int prune_operations(struct db_conn *txn, void *arg)
{
    return db_operation_prune(txn, *(int64_t *)arg);
}

Test(rows, pruning_forgets_old_ended_operations_only)
{
    int64_t before = 50;

    add_operation("running", 0, 1, 10);
    add_operation("old", 0, 1, 10);
    add_operation("new", 0, 1, 10);
    transact(end_operation, &(struct ending){"old", "Succeeded", NULL, 49});
    transact(end_operation, &(struct ending){"new", "Succeeded", NULL, 50});
    cr_assert_eq(transact(prune_operations, &before), 0);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM operation"), 2);
    cr_assert_eq(number_of("spillway.db", "SELECT count(*) FROM operation WHERE id = 'old'"), 0);
}

static int delete_resource(struct db_conn *txn, void *arg)
{
    return db_resource_delete(txn, *(int64_t *)arg);
}

Test(rows, an_operation_outlives_its_resource_without_its_row)
{
    int64_t rid = add_pool("p"), next;
    struct db_operation op;
    struct db_conn *c;

    add_operation("op", rid, 1, 10);
    cr_assert_eq(transact(delete_resource, &rid), 0);
    cr_assert_eq(transact(delete_resource, &rid), -ENOENT);
    next = add_pool("p");
    cr_assert_neq(next, rid, "a rid is never used again");
    c = db_read_begin(store);
    cr_assert_eq(db_operation_get(c, "op", &op), 0);
    cr_assert_eq(op.rid, 0);
    db_read_end(c);
    db_operation_clear(&op);
}

/* ---- agents and endpoints ---- */

struct token {
    const char *hash, *credential;
    int64_t moment;
};

static int add_token(struct db_conn *txn, void *arg)
{
    struct token *t = arg;

    return db_enroll_token_add(txn, t->hash, t->moment);
}

static int use_token(struct db_conn *txn, void *arg)
{
    struct token *t = arg;

    return db_enroll_token_use(txn, t->hash, t->credential, t->moment);
}

Test(rows, a_token_serves_one_credential_until_it_expires)
{
    cr_assert_eq(transact(add_token, &(struct token){"t", NULL, 100}), 0);
    cr_assert_eq(transact(use_token, &(struct token){"other", "c1", 50}), -ENOENT);
    cr_assert_eq(transact(use_token, &(struct token){"t", "c1", 50}), 0);
    cr_assert_eq(transact(use_token, &(struct token){"t", "c1", 60}), 0, "the answer was lost");
    cr_assert_eq(transact(use_token, &(struct token){"t", "c2", 70}), -EEXIST);
    cr_assert_eq(transact(use_token, &(struct token){"t", "c1", 100}), -ENOENT);
}

static int update_agent(struct db_conn *txn, void *arg)
{
    return db_agent_update(txn, arg);
}

static int delete_agent(struct db_conn *txn, void *arg)
{
    return db_agent_delete(txn, *(int64_t *)arg);
}

Test(rows, agents_are_found_by_id_and_name)
{
    int64_t id = add_agent("host1"), other = add_agent("host2"), none = 99;
    struct db_agent a;
    struct db_conn *c = db_read_begin(store);

    cr_assert_eq(db_agent_get_name(c, "host2", &a), 0);
    cr_assert_eq(a.id, other);
    db_agent_clear(&a);
    cr_assert_eq(db_agent_get(c, id, &a), 0);
    db_read_end(c);
    cr_assert_str_eq(a.name, "host1");
    cr_assert_not(a.draining);
    a.draining = true;
    a.store_free = 12345;
    cr_assert_eq(transact(update_agent, &a), 0);
    db_agent_clear(&a);
    c = db_read_begin(store);
    cr_assert_eq(db_agent_get(c, id, &a), 0);
    cr_assert(a.draining);
    cr_assert_eq(a.store_free, 12345);
    db_agent_clear(&a);
    cr_assert_eq(db_agent_get_name(c, "nobody", &a), -ENOENT);
    db_read_end(c);
    cr_assert_eq(transact(delete_agent, &none), -ENOENT);
    cr_assert_eq(transact(delete_agent, &other), 0);
    cr_assert_gt(add_agent("host2"), other, "an id is never used again");
}

static int add_endpoint(struct db_conn *txn, void *arg)
{
    return db_endpoint_insert(txn, arg);
}

static int collect_endpoint(const struct db_endpoint *e, void *arg)
{
    strcat(strcat(arg, e->address), " ");
    return 0;
}

static int free_endpoints(struct db_conn *txn, void *arg)
{
    return db_endpoint_delete_fs(txn, arg);
}

Test(rows, an_address_serves_one_volume_or_one_subnet)
{
    int64_t agent = add_agent("host1");
    char six[] = "127.77.0.3", five[] = "127.77.0.9", shared[] = "127.77.0.1", fs[] = "fs-1",
         subnet[] = "eastus//vnet/default", text[64] = "", *address;
    struct db_conn *c;

    cr_assert_eq(transact(add_endpoint, &(struct db_endpoint){six, agent, fs, NULL, 1}), 0);
    cr_assert_eq(transact(add_endpoint, &(struct db_endpoint){five, agent, fs, NULL, 0}), 0);
    cr_assert_eq(transact(add_endpoint, &(struct db_endpoint){six, agent, NULL, subnet, 0}),
                 -EEXIST);
    cr_assert_eq(transact(add_endpoint, &(struct db_endpoint){shared, agent, NULL, subnet, 0}), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_endpoint_each_fs(c, fs, collect_endpoint, text), 0);
    cr_assert_str_eq(text, "127.77.0.9 127.77.0.3 ");
    cr_assert_eq(db_endpoint_of_subnet(c, agent, subnet, &address), 0);
    cr_assert_str_eq(address, shared);
    free(address);
    cr_assert_eq(db_endpoint_of_subnet(c, agent, "other", &address), -ENOENT);
    cr_assert(db_endpoint_taken(c, six));
    db_read_end(c);
    cr_assert_eq(transact(free_endpoints, fs), 0);
    c = db_read_begin(store);
    cr_assert_not(db_endpoint_taken(c, six));
    cr_assert(db_endpoint_taken(c, shared));
    db_read_end(c);
}

Test(rows, users_of_a_subnet_are_its_ordinary_volumes_on_the_agent)
{
    int64_t pool = add_pool("p"), agent = add_agent("h1"), other = add_agent("h2");
    char address[] = "127.77.0.5";
    struct db_conn *c;

    for (int i = 0; i < 5; i++) {
        char name[8];
        struct db_resource r;

        snprintf(name, sizeof name, "v%d", i);
        r = volume_row(pool, name);
        r.agent = i == 3 ? other : agent;
        if (i == 4) { /* of a subnet whose name begins alike */
            free(r.export_key);
            r.export_key = xstrdup("eastus//vnet/default2/v4");
        }
        cr_assert_eq(insert(&r), 0);
        if (i == 2) /* breakthrough: has addresses of its own */
            cr_assert_eq(
                transact(add_endpoint, &(struct db_endpoint){address, agent, r.fs_id, NULL, 0}), 0);
        db_resource_clear(&r);
    }
    c = db_read_begin(store);
    cr_assert_eq(db_endpoint_users(c, agent, "eastus//vnet/default"), 2);
    cr_assert_eq(db_endpoint_users(c, other, "eastus//vnet/default"), 1);
    cr_assert_eq(db_endpoint_users(c, agent, "eastus//vnet"), 3,
                 "a prefix counts what is below it");
    db_read_end(c);
}

/* ---- duties and quotas ---- */

struct lease {
    const char *holder;
    int64_t now;
    bool taken;
};

static int take_lease(struct db_conn *txn, void *arg)
{
    struct lease *l = arg;

    l->taken = db_lease_take(txn, "expire", l->holder, l->now, 10);
    return 0;
}

static bool takes(const char *holder, int64_t now)
{
    struct lease l = {holder, now, false};

    cr_assert_eq(transact(take_lease, &l), 0);
    return l.taken;
}

Test(rows, a_duty_has_one_holder_until_its_lease_ends)
{
    cr_assert(takes("a", 100));
    cr_assert_not(takes("b", 109));
    cr_assert(takes("a", 105), "renewed until 115");
    cr_assert_not(takes("b", 114));
    cr_assert(takes("b", 115));
    cr_assert_not(takes("a", 116));
}

static int set_quota(struct db_conn *txn, void *arg)
{
    return db_quota_set(txn, SUB, "accountsPerSubscription", *(int64_t *)arg);
}

Test(rows, quotas_are_unlimited_as_shipped)
{
    int64_t limit = 10;
    struct db_conn *c = db_read_begin(store);

    cr_assert_eq(db_quota_get(c, SUB, "accountsPerSubscription"), -1);
    db_read_end(c);
    cr_assert_eq(transact(set_quota, &limit), 0);
    limit = 0;
    cr_assert_eq(transact(set_quota, &limit), 0);
    c = db_read_begin(store);
    cr_assert_eq(db_quota_get(c, SUB, "accountsPerSubscription"), 0);
    cr_assert_eq(db_quota_get(c, "other", "accountsPerSubscription"), -1);
    db_read_end(c);
}
