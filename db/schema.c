/*
 * Schema and its numbered migrations. PRAGMA user_version is the number of the last one that ran;
 * each runs in a transaction with its number, so a crash leaves the one before or the one after.
 * Called when a file is opened. A migration that was released is never edited; a change is a new
 * one.
 */
#include <errno.h>
#include <stdio.h>

#include "common/log.h"
#include "db/internal.h"

static const char migration_1[] =
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE subscription (id TEXT PRIMARY KEY, display_name TEXT NOT NULL) STRICT, WITHOUT "
    "ROWID;"
    "INSERT INTO subscription VALUES ('00000000-0000-0000-0000-000000000001', 'Spillway');"
    "CREATE TABLE resource_group ("
    "  subscription TEXT NOT NULL REFERENCES subscription (id), name_key TEXT NOT NULL,"
    "  name TEXT NOT NULL, location TEXT NOT NULL, doc TEXT NOT NULL,"
    "  PRIMARY KEY (subscription, name_key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE resource_type (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE agent ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, region TEXT NOT NULL,"
    "  zone TEXT NOT NULL, store_uuid TEXT NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL,"
    "  addresses TEXT NOT NULL, credential_hash TEXT NOT NULL, nfs_port INTEGER NOT NULL,"
    "  store_size INTEGER NOT NULL, store_free INTEGER NOT NULL, last_contact INTEGER NOT NULL,"
    "  draining INTEGER NOT NULL) STRICT;"
    /* rids are never used again: an operation may outlive its resource. */
    "CREATE TABLE resource ("
    "  rid INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER REFERENCES resource (rid),"
    "  type INTEGER NOT NULL REFERENCES resource_type (id),"
    "  subscription TEXT NOT NULL, group_name TEXT NOT NULL, id TEXT NOT NULL, id_key TEXT NOT "
    "NULL,"
    "  name TEXT NOT NULL, location TEXT NOT NULL, doc TEXT NOT NULL,"
    "  generation INTEGER NOT NULL, observed INTEGER NOT NULL, failed INTEGER NOT NULL, failure "
    "TEXT,"
    "  verb INTEGER NOT NULL, etag_ticks INTEGER NOT NULL,"
    "  size INTEGER NOT NULL, throughput REAL NOT NULL, fs_id TEXT, export_key TEXT, handle_key "
    "TEXT,"
    "  agent INTEGER REFERENCES agent (id), cooldown_until INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX resource_id ON resource (id_key);"
    "CREATE INDEX resource_of_type ON resource (type, id_key);"
    /* Also covers the sums over a pool's volumes. */
    "CREATE INDEX resource_child ON resource (parent, id_key, size, throughput);"
    "CREATE UNIQUE INDEX resource_fs ON resource (fs_id) WHERE fs_id IS NOT NULL;"
    "CREATE UNIQUE INDEX resource_export ON resource (export_key) WHERE export_key IS NOT NULL;"
    "CREATE INDEX resource_placed ON resource (agent, export_key) WHERE agent IS NOT NULL;"
    "CREATE TABLE operation ("
    "  id TEXT PRIMARY KEY, subscription TEXT NOT NULL, location TEXT NOT NULL, resource_id TEXT "
    "NOT NULL,"
    "  rid INTEGER NOT NULL, action TEXT NOT NULL, status TEXT NOT NULL, error TEXT, result TEXT,"
    "  generation INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,"
    "  deadline INTEGER NOT NULL) STRICT;"
    "CREATE INDEX operation_running ON operation (rid, started) WHERE ended = 0;"
    "CREATE INDEX operation_deadline ON operation (deadline) WHERE ended = 0;"
    "CREATE INDEX operation_ended ON operation (ended) WHERE ended > 0;"
    "CREATE TABLE enroll_token ("
    "  token_hash TEXT PRIMARY KEY, expires INTEGER NOT NULL, credential_hash TEXT) STRICT, "
    "WITHOUT ROWID;"
    "CREATE TABLE endpoint ("
    "  address TEXT PRIMARY KEY, agent INTEGER NOT NULL REFERENCES agent (id), fs_id TEXT,"
    "  subnet_key TEXT, ordinal INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX endpoint_fs ON endpoint (fs_id, ordinal) WHERE fs_id IS NOT NULL;"
    "CREATE UNIQUE INDEX endpoint_subnet ON endpoint (agent, subnet_key) WHERE subnet_key IS NOT "
    "NULL;"
    "CREATE TABLE change ("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT, agent INTEGER NOT NULL, fs_id TEXT NOT NULL) STRICT;"
    "CREATE INDEX change_agent ON change (agent, seq);"
    /* Highest sequence number that was pruned for an agent: older cursors get the whole list. */
    "CREATE TABLE change_floor (agent INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;"
    "CREATE TABLE tombstone ("
    "  agent INTEGER NOT NULL, fs_id TEXT NOT NULL, generation INTEGER NOT NULL,"
    "  PRIMARY KEY (agent, fs_id)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE lease ("
    "  duty TEXT PRIMARY KEY, holder TEXT NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT "
    "ROWID;"
    "CREATE TABLE quota ("
    "  subscription TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,"
    "  PRIMARY KEY (subscription, name)) STRICT, WITHOUT ROWID;"
    "INSERT INTO setting VALUES ('feed', lower(hex(randomblob(8))));";

const char *const schema_migrations[] = {migration_1};
const int schema_version = sizeof schema_migrations / sizeof *schema_migrations;

static int read_version(sqlite3 *handle, int *version)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(handle, "PRAGMA user_version", -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW ? 0 : db_error(handle, rc);
}

static int run_migration(sqlite3 *handle, const char *text, int number)
{
    char pragma[48];
    int rc;

    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", number);
    rc = db_exec(handle, "BEGIN IMMEDIATE");
    if (rc == 0)
        rc = db_exec(handle, text);
    if (rc == 0)
        rc = db_exec(handle, pragma);
    if (rc == 0)
        rc = db_exec(handle, "COMMIT");
    if (rc != 0)
        sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int db_migrate(sqlite3 *handle, const char *path, const char *const *migrations, int count)
{
    int version = 0, rc = read_version(handle, &version);

    if (rc == 0 && version > count) {
        log_error("%s has schema version %d, this program knows up to %d: use a newer spillwayd",
                  path, version, count);
        return -EPROTO;
    }
    for (; rc == 0 && version < count; version++)
        rc = run_migration(handle, migrations[version], version + 1);
    return rc;
}
