/* The texts of the prepared statements, by their names in db/stmt.h. */
#include "db/stmt.h"

#define RESOURCE_COLUMNS                                                                           \
    "r.rid, r.parent, t.name, r.subscription, r.group_name, r.id, r.name, r.location, r.doc, "     \
    "r.generation, r.observed, r.failed, r.failure, r.verb, r.etag_ticks, r.size, r.throughput, "  \
    "r.fs_id, r.export_key, r.handle_key, r.agent, r.cooldown_until"
#define RESOURCE_SELECT                                                                            \
    "SELECT " RESOURCE_COLUMNS " FROM resource r JOIN resource_type t ON t.id = r.type "
#define OPERATION_SELECT                                                                           \
    "SELECT id, subscription, location, resource_id, "                                             \
    "coalesce((SELECT r.rid FROM resource r WHERE r.rid = operation.rid), 0), action, status, "    \
    "error, result, generation, started, ended, deadline FROM operation "
#define AGENT_SELECT                                                                               \
    "SELECT id, name, region, zone, store_uuid, backend, version, addresses, credential_hash, "    \
    "nfs_port, store_size, store_free, last_contact, draining FROM agent "

static const char *const texts[STMT_COUNT] = {
    [STMT_BEGIN_READ] = "BEGIN DEFERRED",
    [STMT_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    [STMT_SAVEPOINT] = "SAVEPOINT one",
    [STMT_RELEASE] = "RELEASE one",
    [STMT_ROLLBACK_TO] = "ROLLBACK TO one",
    [STMT_SNAPSHOT] = "SELECT 1 FROM setting LIMIT 1",

    [STMT_SUBSCRIPTION_GET] = "SELECT 1 FROM subscription WHERE id = ?1",
    [STMT_SUBSCRIPTION_ADD] = "INSERT INTO subscription VALUES (?1, ?2)",
    [STMT_SUBSCRIPTION_LIST] = "SELECT id, display_name FROM subscription ORDER BY id",

    [STMT_GROUP_GET] = "SELECT name, location, doc FROM resource_group "
                       "WHERE subscription = ?1 AND name_key = ?2",
    [STMT_GROUP_PUT] = "INSERT INTO resource_group VALUES (?1, ?2, ?3, ?4, ?5) "
                       "ON CONFLICT DO UPDATE SET location = ?4, doc = ?5",
    [STMT_GROUP_DELETE] = "DELETE FROM resource_group WHERE subscription = ?1 AND name_key = ?2",
    [STMT_GROUP_LIST] = "SELECT name, location, doc FROM resource_group "
                        "WHERE subscription = ?1 AND name_key > ?2 ORDER BY name_key",

    [STMT_RESOURCE_GET] = RESOURCE_SELECT "WHERE r.id_key = ?1",
    [STMT_RESOURCE_GET_RID] = RESOURCE_SELECT "WHERE r.rid = ?1",
    [STMT_RESOURCE_GET_FS] = RESOURCE_SELECT "WHERE r.fs_id = ?1",
    [STMT_RESOURCE_INSERT] =
        "INSERT INTO resource (parent, type, subscription, group_name, id, id_key, name, location, "
        "doc, "
        "generation, observed, failed, failure, verb, etag_ticks, size, throughput, fs_id, "
        "export_key, "
        "handle_key, agent, cooldown_until) VALUES (nullif(?1, 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
        "?10, "
        "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, nullif(?21, 0), ?22)",
    [STMT_RESOURCE_UPDATE] =
        "UPDATE resource SET subscription = ?2, group_name = ?3, id = ?4, id_key = ?5, name = ?6, "
        "location = ?7, doc = ?8, generation = ?9, observed = ?10, failed = ?11, failure = ?12, "
        "verb = ?13, etag_ticks = max(?14, etag_ticks + 1), size = ?15, throughput = ?16, fs_id = "
        "?17, "
        "export_key = ?18, handle_key = ?19, agent = nullif(?20, 0), cooldown_until = ?21 "
        "WHERE rid = ?1 RETURNING etag_ticks",
    [STMT_RESOURCE_TYPE_ADD] = "INSERT OR IGNORE INTO resource_type (name) VALUES (?1)",
    [STMT_RESOURCE_TYPE_GET] = "SELECT id FROM resource_type WHERE name = ?1",
    [STMT_RESOURCE_DELETE] = "DELETE FROM resource WHERE rid = ?1",
    [STMT_RESOURCE_CHILD] = "SELECT 1 FROM resource WHERE parent = ?1 LIMIT 1",
    [STMT_RESOURCE_EXPORT_KEY] = "SELECT rid FROM resource WHERE export_key = ?1",
    /* LIMIT -1 is no limit. */
    [STMT_RESOURCE_LIST_CHILDREN] = RESOURCE_SELECT "WHERE r.parent = ?1 AND r.id_key > ?2 "
                                                    "ORDER BY r.id_key LIMIT ?3",
    [STMT_RESOURCE_LIST_TYPE] =
        RESOURCE_SELECT "WHERE r.type = ?1 AND r.id_key > ?2 AND r.id_key >= ?3 AND r.id_key < ?4 "
                        "ORDER BY r.id_key LIMIT ?5",
    [STMT_RESOURCE_LIST_PLACED] = RESOURCE_SELECT "WHERE r.agent = ?1 ORDER BY r.export_key",
    [STMT_RESOURCE_SUMS] =
        "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(throughput), 0.0) FROM resource "
        "WHERE parent = ?1 AND rid <> ?2",
    [STMT_RESOURCE_COUNT] = "SELECT count(*) FROM resource WHERE type = ?1",

    [STMT_OPERATION_INSERT] =
        "INSERT INTO operation VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    [STMT_OPERATION_GET] = OPERATION_SELECT "WHERE id = ?1",
    [STMT_OPERATION_END] = "UPDATE operation SET status = ?2, error = ?3, ended = ?4 "
                           "WHERE id = ?1 AND ended = 0",
    [STMT_OPERATION_LIST_RUNNING] =
        OPERATION_SELECT "WHERE ended = 0 AND rid = ?1 ORDER BY started",
    [STMT_OPERATION_LIST_OVERDUE] =
        OPERATION_SELECT "WHERE ended = 0 AND deadline < ?1 ORDER BY deadline",
    [STMT_OPERATION_NEXT_DEADLINE] = "SELECT min(deadline) FROM operation WHERE ended = 0",
    [STMT_OPERATION_PRUNE] = "DELETE FROM operation WHERE ended > 0 AND ended < ?1",

    [STMT_AGENT_GET] = AGENT_SELECT "WHERE id = ?1",
    [STMT_AGENT_GET_NAME] = AGENT_SELECT "WHERE name = ?1",
    [STMT_AGENT_INSERT] = "INSERT INTO agent (name, region, zone, store_uuid, backend, version, "
                          "addresses, credential_hash, "
                          "nfs_port, store_size, store_free, last_contact, draining) "
                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    [STMT_AGENT_UPDATE] =
        "UPDATE agent SET name = ?2, region = ?3, zone = ?4, store_uuid = ?5, backend = ?6, "
        "version = ?7, "
        "addresses = ?8, credential_hash = ?9, nfs_port = ?10, store_size = ?11, store_free = ?12, "
        "last_contact = ?13, draining = ?14 WHERE id = ?1",
    [STMT_AGENT_DELETE] = "DELETE FROM agent WHERE id = ?1",
    [STMT_AGENT_LIST] = AGENT_SELECT "ORDER BY name",

    [STMT_TOKEN_ADD] = "INSERT INTO enroll_token VALUES (?1, ?2, NULL)",
    [STMT_TOKEN_GET] = "SELECT credential_hash FROM enroll_token WHERE token_hash = ?1",
    [STMT_TOKEN_USE] = "UPDATE enroll_token SET credential_hash = ?2 WHERE token_hash = ?1",
    [STMT_TOKEN_PRUNE] = "DELETE FROM enroll_token WHERE expires <= ?1",

    [STMT_ENDPOINT_INSERT] = "INSERT INTO endpoint VALUES (?1, ?2, ?3, ?4, ?5)",
    [STMT_ENDPOINT_DELETE_FS] = "DELETE FROM endpoint WHERE fs_id = ?1",
    [STMT_ENDPOINT_DELETE_SUBNET] = "DELETE FROM endpoint WHERE agent = ?1 AND subnet_key = ?2",
    [STMT_ENDPOINT_LIST_FS] = "SELECT address, agent, fs_id, subnet_key, ordinal FROM endpoint "
                              "WHERE fs_id = ?1 ORDER BY ordinal",
    [STMT_ENDPOINT_GET_SUBNET] =
        "SELECT address FROM endpoint WHERE agent = ?1 AND subnet_key = ?2",
    [STMT_ENDPOINT_TAKEN] = "SELECT 1 FROM endpoint WHERE address = ?1",
    /* A volume's export_key is its subnet_key, '/', its path; '0' follows '/'. */
    [STMT_ENDPOINT_USERS] =
        "SELECT count(*) FROM resource r WHERE r.agent = ?1 AND r.export_key > ?2 || '/' "
        "AND r.export_key < ?2 || '0' "
        "AND NOT EXISTS (SELECT 1 FROM endpoint e WHERE e.fs_id = r.fs_id)",

    [STMT_FEED_GET] = "SELECT value FROM setting WHERE name = 'feed'",
    [STMT_CHANGE_ADD] = "INSERT INTO change (agent, fs_id) VALUES (?1, ?2)",
    [STMT_CHANGE_HEAD] =
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0)",
    [STMT_CHANGE_FLOOR] = "SELECT seq FROM change_floor WHERE agent = ?1",
    [STMT_CHANGE_LIST] = "SELECT DISTINCT fs_id FROM change WHERE agent = ?1 AND seq > ?2",
    [STMT_CHANGE_NEXT_AGENT] = "SELECT min(agent) FROM change WHERE agent > ?1",
    [STMT_CHANGE_PLACE] =
        "SELECT seq FROM change WHERE agent = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
    [STMT_CHANGE_FLOOR_SET] =
        "INSERT INTO change_floor VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seq = ?2",
    [STMT_CHANGE_PRUNE] = "DELETE FROM change WHERE agent = ?1 AND seq <= ?2",
    [STMT_CHANGE_FORGET_FLOOR] = "DELETE FROM change_floor WHERE agent = ?1",

    [STMT_TOMBSTONE_ADD] = "INSERT INTO tombstone VALUES (?1, ?2, ?3) "
                           "ON CONFLICT DO UPDATE SET generation = ?3",
    [STMT_TOMBSTONE_DELETE] = "DELETE FROM tombstone WHERE agent = ?1 AND fs_id = ?2",
    [STMT_TOMBSTONE_FORGET] = "DELETE FROM tombstone WHERE agent = ?1",
    [STMT_TOMBSTONE_LIST] =
        "SELECT fs_id, generation FROM tombstone WHERE agent = ?1 ORDER BY fs_id",

    /* Taken when it is free, expired or the holder's own. */
    [STMT_LEASE_TAKE] =
        "INSERT INTO lease VALUES (?1, ?2, ?4) ON CONFLICT DO UPDATE "
        "SET holder = ?2, expires = ?4 WHERE holder = ?2 OR expires <= ?3 RETURNING 1",
    [STMT_QUOTA_GET] = "SELECT value FROM quota WHERE subscription = ?1 AND name = ?2",
    [STMT_QUOTA_SET] = "INSERT INTO quota VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET value = ?3",
};

const char *stmt_text(enum stmt_id id)
{
    return texts[id];
}
