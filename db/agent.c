/* Agents, their enrolment tokens and endpoint addresses. Called inside readers and transactions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "db/internal.h"

static void load(sqlite3_stmt *s, struct db_agent *a)
{
    *a = (struct db_agent){
        .id = sqlite3_column_int64(s, 0),
        .name = db_column_text(s, 1),
        .region = db_column_text(s, 2),
        .zone = db_column_text(s, 3),
        .store_uuid = db_column_text(s, 4),
        .backend = db_column_text(s, 5),
        .version = db_column_text(s, 6),
        .addresses = db_column_text(s, 7),
        .credential_hash = db_column_text(s, 8),
        .nfs_port = sqlite3_column_int64(s, 9),
        .store_size = sqlite3_column_int64(s, 10),
        .store_free = sqlite3_column_int64(s, 11),
        .last_contact = sqlite3_column_int64(s, 12),
        .draining = sqlite3_column_int(s, 13) != 0,
    };
}

void db_agent_clear(struct db_agent *a)
{
    free(a->name);
    free(a->region);
    free(a->zone);
    free(a->store_uuid);
    free(a->backend);
    free(a->version);
    free(a->addresses);
    free(a->credential_hash);
    *a = (struct db_agent){0};
}

static int get_one(struct db_conn *c, sqlite3_stmt *s, struct db_agent *out)
{
    int rc = db_row(c, s);

    if (rc == 1)
        load(s, out);
    sqlite3_reset(s);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

int db_agent_get(struct db_conn *c, int64_t id, struct db_agent *out)
{
    return get_one(c, db_stmt(c, STMT_AGENT_GET, "i", id), out);
}

int db_agent_get_name(struct db_conn *c, const char *name, struct db_agent *out)
{
    return get_one(c, db_stmt(c, STMT_AGENT_GET_NAME, "t", name), out);
}

int db_agent_insert(struct db_conn *txn, struct db_agent *a)
{
    int rc = db_run(txn, db_stmt(txn, STMT_AGENT_INSERT, "ttttttttiiiii", a->name, a->region,
                                 a->zone, a->store_uuid, a->backend, a->version, a->addresses,
                                 a->credential_hash, a->nfs_port, a->store_size, a->store_free,
                                 a->last_contact, (int64_t)a->draining));

    if (rc == 0)
        a->id = sqlite3_last_insert_rowid(txn->handle);
    return rc;
}

int db_agent_update(struct db_conn *txn, const struct db_agent *a)
{
    int rc = db_run(txn, db_stmt(txn, STMT_AGENT_UPDATE, "ittttttttiiiii", a->id, a->name,
                                 a->region, a->zone, a->store_uuid, a->backend, a->version,
                                 a->addresses, a->credential_hash, a->nfs_port, a->store_size,
                                 a->store_free, a->last_contact, (int64_t)a->draining));

    return rc == 0 && sqlite3_changes(txn->handle) == 0 ? -ENOENT : rc;
}

int db_agent_delete(struct db_conn *txn, int64_t id)
{
    int rc = db_run(txn, db_stmt(txn, STMT_AGENT_DELETE, "i", id));

    if (rc == 0 && sqlite3_changes(txn->handle) == 0)
        rc = -ENOENT;
    return rc != 0 ? rc : db_change_forget_agent(txn, id);
}

int db_agent_each(struct db_conn *c, db_agent_fn *fn, void *arg)
{
    sqlite3_stmt *s = db_stmt(c, STMT_AGENT_LIST, "");
    struct db_agent *rows = NULL;
    size_t count = 0;
    int rc, stop = 0;

    while ((rc = db_row(c, s)) == 1) {
        rows = xrealloc(rows, (count + 1) * sizeof *rows);
        load(s, &rows[count++]);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && !stop)
            stop = fn(&rows[i], arg);
        db_agent_clear(&rows[i]);
    }
    free(rows);
    return rc;
}

/* ---- enrolment tokens ---- */

int db_enroll_token_add(struct db_conn *txn, const char *token_hash, int64_t expires)
{
    return db_run(txn, db_stmt(txn, STMT_TOKEN_ADD, "ti", token_hash, expires));
}

int db_enroll_token_use(struct db_conn *txn, const char *token_hash, const char *credential_hash,
                        int64_t now)
{
    sqlite3_stmt *s;
    char *used;
    int rc = db_run(txn, db_stmt(txn, STMT_TOKEN_PRUNE, "i", now));

    if (rc != 0)
        return rc;
    s = db_stmt(txn, STMT_TOKEN_GET, "t", token_hash);
    rc = db_row(txn, s);
    used = rc == 1 ? db_column_text(s, 0) : NULL;
    sqlite3_reset(s);
    if (rc < 0)
        return rc;
    if (rc == 0)
        rc = -ENOENT;
    else if (used && strcmp(used, credential_hash) != 0)
        rc = -EEXIST;
    else
        rc = db_run(txn, db_stmt(txn, STMT_TOKEN_USE, "tt", token_hash, credential_hash));
    free(used);
    return rc;
}

/* ---- endpoints ---- */

int db_endpoint_insert(struct db_conn *txn, const struct db_endpoint *e)
{
    return db_run(txn, db_stmt(txn, STMT_ENDPOINT_INSERT, "titti", e->address, e->agent, e->fs_id,
                               e->subnet_key, e->ordinal));
}

int db_endpoint_delete_fs(struct db_conn *txn, const char *fs_id)
{
    return db_run(txn, db_stmt(txn, STMT_ENDPOINT_DELETE_FS, "t", fs_id));
}

int db_endpoint_delete_subnet(struct db_conn *txn, int64_t agent, const char *subnet_key)
{
    return db_run(txn, db_stmt(txn, STMT_ENDPOINT_DELETE_SUBNET, "it", agent, subnet_key));
}

int db_endpoint_each_fs(struct db_conn *c, const char *fs_id, db_endpoint_fn *fn, void *arg)
{
    sqlite3_stmt *s = db_stmt(c, STMT_ENDPOINT_LIST_FS, "t", fs_id);
    int rc, stop = 0;

    while (!stop && (rc = db_row(c, s)) == 1) {
        struct db_endpoint e = {.address = db_column_text(s, 0),
                                .agent = sqlite3_column_int64(s, 1),
                                .fs_id = db_column_text(s, 2),
                                .subnet_key = db_column_text(s, 3),
                                .ordinal = sqlite3_column_int64(s, 4)};

        stop = fn(&e, arg);
        free(e.address);
        free(e.fs_id);
        free(e.subnet_key);
    }
    sqlite3_reset(s);
    return !stop && rc < 0 ? rc : 0;
}

int db_endpoint_of_subnet(struct db_conn *c, int64_t agent, const char *subnet_key, char **address)
{
    sqlite3_stmt *s = db_stmt(c, STMT_ENDPOINT_GET_SUBNET, "it", agent, subnet_key);
    int rc = db_row(c, s);

    if (rc == 1)
        *address = db_column_text(s, 0);
    sqlite3_reset(s);
    return rc == 1 ? 0 : rc < 0 ? rc : -ENOENT;
}

bool db_endpoint_taken(struct db_conn *c, const char *address)
{
    sqlite3_stmt *s = db_stmt(c, STMT_ENDPOINT_TAKEN, "t", address);
    bool taken = db_row(c, s) == 1;

    sqlite3_reset(s);
    return taken;
}

int64_t db_endpoint_users(struct db_conn *c, int64_t agent, const char *subnet_key)
{
    sqlite3_stmt *s = db_stmt(c, STMT_ENDPOINT_USERS, "it", agent, subnet_key);
    int64_t users = db_row(c, s) == 1 ? sqlite3_column_int64(s, 0) : 0;

    sqlite3_reset(s);
    return users;
}
