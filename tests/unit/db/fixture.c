/* See fixture.h. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

char folder[64];
struct db *store;

void make_folder(void)
{
    strcpy(folder, "/tmp/spillway-unit-db-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

void open_store(void)
{
    if (!folder[0])
        make_folder();
    cr_assert_eq(db_open(folder, &store), 0);
}

void reopen_store(void)
{
    db_close(store);
    cr_assert_eq(db_open(folder, &store), 0);
}

void close_store(void)
{
    char command[96];

    db_close(store);
    store = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

int transact(db_run_fn *run, void *arg)
{
    return db_submit_wait(store, &(struct db_request){.name = "test", .run = run, .arg = arg});
}

static int run_sql(struct db_conn *txn, void *arg)
{
    return db_exec(txn->handle, *(const char **)arg);
}

int transact_sql(const char *sql)
{
    return transact(run_sql, &sql);
}

int64_t number_of(const char *file, const char *sql)
{
    char *path = xasprintf("%s/%s", folder, file);
    sqlite3 *handle = NULL;
    sqlite3_stmt *s = NULL;
    int64_t number;

    cr_assert_eq(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(handle, sql, -1, &s, NULL), SQLITE_OK, "%s: %s", sql,
                 sqlite3_errmsg(handle));
    cr_assert_eq(sqlite3_step(s), SQLITE_ROW);
    number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(handle);
    free(path);
    return number;
}

struct db_resource pool_row(const char *name)
{
    return (struct db_resource){
        .type = xstrdup(POOL_TYPE),
        .subscription = xstrdup(SUB),
        .group = xstrdup("rg"),
        .id = xasprintf("/subscriptions/" SUB "/resourceGroups/rg/providers/Microsoft.NetApp/"
                        "netAppAccounts/a/capacityPools/%s",
                        name),
        .name = xstrdup(name),
        .location = xstrdup("eastus"),
        .doc = xstrdup("{}"),
        .generation = 1,
        .observed = 1,
        .size = 4 * TIB,
        .throughput = 256,
    };
}

struct db_resource volume_row(int64_t pool, const char *name)
{
    static unsigned made;

    return (struct db_resource){
        .parent = pool,
        .type = xstrdup(VOL_TYPE),
        .subscription = xstrdup(SUB),
        .group = xstrdup("rg"),
        .id = xasprintf("/subscriptions/" SUB "/resourceGroups/rg/providers/Microsoft.NetApp/"
                        "netAppAccounts/a/capacityPools/p%lld/volumes/%s",
                        (long long)pool, name),
        .name = xstrdup(name),
        .location = xstrdup("eastus"),
        .doc = xstrdup("{\"properties\":{}}"),
        .generation = 1,
        .size = 100 * GIB,
        .throughput = 16,
        .fs_id = xasprintf("00000000-0000-4000-8000-%012x", ++made),
        .export_key = xasprintf("eastus//vnet/default/%s", name),
        .handle_key = xstrdup("000102030405060708090a0b0c0d0e0f"),
    };
}

static int insert_in(struct db_conn *txn, void *arg)
{
    return db_resource_insert(txn, arg);
}

int insert(struct db_resource *r)
{
    return transact(insert_in, r);
}

static int update_in(struct db_conn *txn, void *arg)
{
    return db_resource_update(txn, arg);
}

int update(struct db_resource *r)
{
    return transact(update_in, r);
}

static int64_t add(struct db_resource r)
{
    int64_t rid;

    cr_assert_eq(insert(&r), 0);
    rid = r.rid;
    db_resource_clear(&r);
    return rid;
}

int64_t add_pool(const char *name)
{
    return add(pool_row(name));
}

int64_t add_volume(int64_t pool, const char *name)
{
    return add(volume_row(pool, name));
}

static int insert_agent(struct db_conn *txn, void *arg)
{
    return db_agent_insert(txn, arg);
}

int64_t add_agent(const char *name)
{
    char text[2] = "", backend[] = "dir", addresses[] = "[\"127.77.0.0/24\"]", copy[64];
    struct db_agent a = {.name = copy,
                         .region = text,
                         .zone = text,
                         .store_uuid = text,
                         .backend = backend,
                         .version = text,
                         .addresses = addresses,
                         .credential_hash = text,
                         .nfs_port = 2049};

    snprintf(copy, sizeof copy, "%s", name);
    cr_assert_eq(transact(insert_agent, &a), 0);
    cr_assert_gt(a.id, 0);
    return a.id;
}
