/*
 * The store: resources, operations, the agents' change feed. Every SQL string of the control plane
 * stands in db/; callers see rows and named functions only.
 *
 * Writing: transactions are queued to one writer thread, which takes all that wait, runs each in a
 * savepoint, commits once (WAL, synchronous=FULL) and then calls their `done`s: group commit. A 2xx
 * is sent from `done`, that is after the commit. No caller may rely on being the only writer: a
 * transaction takes the locks it needs (db_lock_*), which cost nothing here and are row locks in a
 * store that several control planes share.
 *
 * Reading: a reader is a connection with an open snapshot, taken from a pool and given back.
 *
 * Errors are negative errno values: -ENOENT no such row, -EEXIST a unique key is taken, -ENOSPC the
 * disk is full, -EIO anything else of the database (logged where it happens). Texts in rows belong
 * to the row and are freed by its _clear function. All sizes are bytes, all moments ns since the
 * Unix epoch.
 */
#ifndef DB_DB_H
#define DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct db_conn; /* a reader's snapshot, or the transaction that runs */

/* Opens DIR/spillway.db (made with its folder when absent, mode 0600), runs the missing migrations.
 * A database newer than this program is refused. 0 or -errno, logged. */
int db_open(const char *dir, struct db **out);
/* Runs what is queued, then closes. */
void db_close(struct db *db);
/* Online copy of the database of DIR (a server may be running on it) into `file`, which must not
 * exist; fsynced and complete, or absent, on return. Also copies the metrics file, to FILE.metrics.
 */
int db_backup(const char *dir, const char *file);

/* ---- transactions ---- */

/* Runs on the writer thread. Returns 0 to commit, anything else to undo what it did; the value
 * reaches `done`. It must not block on anything but the database. */
typedef int db_run_fn(struct db_conn *txn, void *arg);
/* Runs on the writer thread after the group's commit: `result` is what `run` returned, or a
 * negative errno when the commit failed (then nothing of the transaction is there). It must not
 * block. */
typedef void db_done_fn(void *arg, int result);

struct db_request {
    const char *name; /* for logs and metrics: "volume put" */
    db_run_fn *run;
    db_done_fn *done; /* may be NULL */
    void *arg;
};

/* Queues a transaction. `done` is called exactly once, also when the database fails. */
void db_submit(struct db *db, const struct db_request *request);
/* Queues and waits; returns what `done` would have got. Not from a `run` or `done`. */
int db_submit_wait(struct db *db, const struct db_request *request);

struct db_conn *db_read_begin(struct db *db); /* never NULL: waits for a free reader */
void db_read_end(struct db_conn *reader);

/* Row locks inside a transaction, held to its end; take parents before children. */
int db_lock_resource(struct db_conn *txn, int64_t rid);

/* ---- subscriptions and resource groups ---- */

bool db_subscription_exists(struct db_conn *c, const char *subscription);
int db_subscription_add(struct db_conn *txn, const char *subscription, const char *display_name);
typedef int db_subscription_fn(const char *subscription, const char *display_name, void *arg);
int db_subscription_each(struct db_conn *c, db_subscription_fn *fn, void *arg);

struct db_group {
    char *name; /* in the case it was first put */
    char *location;
    char *doc; /* JSON object: tags */
};
int db_group_get(struct db_conn *c, const char *subscription, const char *name,
                 struct db_group *out);
/* Insert, or replace location and doc. */
int db_group_put(struct db_conn *txn, const char *subscription, const char *name,
                 const char *location, const char *doc);
int db_group_delete(struct db_conn *txn, const char *subscription, const char *name);
/* In the order of their lower-case names, those after `after` ("" for all); stops when fn returns
 * non-zero. */
typedef int db_group_fn(const struct db_group *group, void *arg);
int db_group_each(struct db_conn *c, const char *subscription, const char *after, db_group_fn *fn,
                  void *arg);
void db_group_clear(struct db_group *group);

/* ---- resources ---- */

/* What a resource is doing, from desired against observed (design D1). */
enum db_verb {
    DB_VERB_CREATING,
    DB_VERB_UPDATING,
    DB_VERB_PATCHING,
    DB_VERB_DELETING,
    DB_VERB_MOVING
};

struct db_resource {
    int64_t rid;    /* 0 before insert */
    int64_t parent; /* rid of the parent resource, 0 for a top-level one */
    char *type;     /* "Microsoft.NetApp/netAppAccounts/capacityPools/volumes" */
    char *subscription, *group;
    char *id;       /* ARM id, in the case of its creation; unique without case */
    char *name;     /* last segment */
    char *location; /* normalised: "eastus" */
    char *doc;      /* JSON object: properties, tags, zones, systemData, as its type wants them */

    /* Desired against observed. A resource that no agent serves is observed as it is written. */
    int64_t generation;
    int64_t observed;   /* generation last reported as applied */
    int64_t failed;     /* generation reported or timed out as failed, 0 for none */
    char *failure;      /* JSON {code,message} of `failed`, or NULL */
    enum db_verb verb;  /* what the step to `generation` is */
    int64_t etag_ticks; /* 100 ns since the epoch, strictly increasing per resource */

    /* What queries need; 0 or NULL where the type has no such thing. */
    int64_t size;      /* pool size or volume quota, bytes */
    double throughput; /* MiB/s: a volume's limit, under automatic QoS too; a pool's total */
    char *fs_id;       /* a volume's fileSystemId (UUID text), unique */
    char *export_key;  /* location/zone/subnet/path of a volume, lower case, unique; else NULL */
    char *handle_key;  /* hex of the volume's 16-byte handle key */
    int64_t agent;     /* placement: agent id, 0 for none */
    int64_t cooldown_until; /* ns; the pool's throughput may not be lowered before it; 0 for none */
};

int db_resource_get(struct db_conn *c, const char *id,
                    struct db_resource *out); /* id without case */
int db_resource_get_rid(struct db_conn *c, int64_t rid, struct db_resource *out);
int db_resource_get_fs(struct db_conn *c, const char *fs_id, struct db_resource *out);
/* Sets rid. -EEXIST when id, fs_id or export_key is taken (db_export_key_owner tells which). */
int db_resource_insert(struct db_conn *txn, struct db_resource *r);
/* Writes every column of rid but type and parent; etag_ticks is raised to max(now, stored + 1) and
 * set in `r`. */
int db_resource_update(struct db_conn *txn, struct db_resource *r);
int db_resource_delete(struct db_conn *txn, int64_t rid);
bool db_resource_has_children(struct db_conn *c, int64_t rid);
/* The resource that holds an export key: its rid, or 0. */
int64_t db_export_key_owner(struct db_conn *c, const char *export_key);

/* Children of `parent` (or, with parent 0, resources of `type` in the subscription and, unless
 * NULL, the group), ordered by lower-case id, those after `after` (lower-case id, "" for all), at
 * most `limit` (0: all). `fn` may keep nothing of the row; non-zero stops. */
struct db_list {
    int64_t parent;
    const char *type, *subscription, *group;
    const char *after;
    int limit;
};
typedef int db_resource_fn(const struct db_resource *r, void *arg);
int db_resource_each(struct db_conn *c, const struct db_list *list, db_resource_fn *fn, void *arg);
/* All volumes placed on an agent. */
int db_resource_each_placed(struct db_conn *c, int64_t agent, db_resource_fn *fn, void *arg);

struct db_sums {
    int64_t count;
    int64_t size;      /* bytes */
    double throughput; /* MiB/s */
};
/* Sums over a resource's children, without the one of rid `except` (0: none). */
int db_resource_sums(struct db_conn *c, int64_t parent, int64_t except, struct db_sums *out);
/* Counts of a type for metrics and quotas. */
int64_t db_resource_count(struct db_conn *c, const char *type);
void db_resource_clear(struct db_resource *r);
void db_resource_copy(struct db_resource *to, const struct db_resource *from);

/* ---- long-running operations ---- */

struct db_operation {
    char *id; /* UUID text */
    char *subscription, *location;
    char *resource_id;  /* ARM id it works on */
    int64_t rid;        /* its row, 0 once that is gone */
    char *action;       /* "CREATE", "UPDATE", "DELETE", … */
    char *status;       /* "Creating", …, "Succeeded", "Failed", "Canceled" */
    char *error;        /* JSON {code,message} when Failed, or NULL */
    char *result;       /* JSON body of the Location answer for actions that return one, or NULL */
    int64_t generation; /* that must be observed for Succeeded */
    int64_t started, ended; /* ns; ended 0 while running */
    int64_t deadline;       /* ns; running past it makes it Failed */
};
int db_operation_insert(struct db_conn *txn, const struct db_operation *op);
int db_operation_get(struct db_conn *c, const char *id, struct db_operation *out);
/* Ends a running operation; one that ended already stays as it is. */
int db_operation_end(struct db_conn *txn, const char *id, const char *status, const char *error,
                     int64_t now);
typedef int db_operation_fn(const struct db_operation *op, void *arg);
/* Running operations of a resource, oldest first. */
int db_operation_each_running(struct db_conn *c, int64_t rid, db_operation_fn *fn, void *arg);
/* Running operations whose deadline is before `now`, and the earliest deadline of the others (0:
 * none). */
int db_operation_each_overdue(struct db_conn *c, int64_t now, db_operation_fn *fn, void *arg);
int64_t db_operation_next_deadline(struct db_conn *c);
/* Forgets operations that ended before `before`. */
int db_operation_prune(struct db_conn *txn, int64_t before);
void db_operation_clear(struct db_operation *op);

/* ---- agents ---- */

struct db_agent {
    int64_t id;
    char *name;          /* unique */
    char *region, *zone; /* "" serves every one */
    char *store_uuid;
    char *backend; /* "dir", "btrfs" */
    char *version;
    char *addresses;       /* JSON array of the endpoint addresses or prefixes it offers */
    char *credential_hash; /* hex */
    int64_t nfs_port;
    int64_t store_size, store_free; /* bytes, as last reported */
    int64_t last_contact;           /* ns, as last written (api/ keeps the live one in memory) */
    bool draining;                  /* takes no new volumes */
};
int db_agent_get(struct db_conn *c, int64_t id, struct db_agent *out);
int db_agent_get_name(struct db_conn *c, const char *name, struct db_agent *out);
int db_agent_insert(struct db_conn *txn, struct db_agent *a); /* sets id */
int db_agent_update(struct db_conn *txn, const struct db_agent *a);
int db_agent_delete(struct db_conn *txn, int64_t id);
typedef int db_agent_fn(const struct db_agent *a, void *arg);
int db_agent_each(struct db_conn *c, db_agent_fn *fn, void *arg);
void db_agent_clear(struct db_agent *a);

/* One-time enrolment tokens, stored as hashes. A token may be used again with the very same
 * credential, so that a lost answer does not lock an agent out. */
int db_enroll_token_add(struct db_conn *txn, const char *token_hash, int64_t expires);
/* -ENOENT unknown or expired, -EEXIST used with another credential. */
int db_enroll_token_use(struct db_conn *txn, const char *token_hash, const char *credential_hash,
                        int64_t now);

/* Endpoint addresses (design D9). An address serves one breakthrough volume (fs_id, ordinal) or the
 * ordinary volumes of one subnet (subnet_key) on its agent. */
struct db_endpoint {
    char *address; /* dotted IPv4 */
    int64_t agent;
    char *fs_id;      /* of a breakthrough volume, else NULL */
    char *subnet_key; /* of ordinary volumes, else NULL */
    int64_t ordinal;  /* 0 to 5 */
};
int db_endpoint_insert(struct db_conn *txn,
                       const struct db_endpoint *e); /* -EEXIST: address taken */
int db_endpoint_delete_fs(struct db_conn *txn, const char *fs_id);
int db_endpoint_delete_subnet(struct db_conn *txn, int64_t agent, const char *subnet_key);
typedef int db_endpoint_fn(const struct db_endpoint *e, void *arg);
int db_endpoint_each_fs(struct db_conn *c, const char *fs_id, db_endpoint_fn *fn,
                        void *arg); /* by ordinal */
/* The shared address of a subnet on an agent: 0 and *address (caller frees), or -ENOENT. */
int db_endpoint_of_subnet(struct db_conn *c, int64_t agent, const char *subnet_key, char **address);
bool db_endpoint_taken(struct db_conn *c, const char *address);
/* Ordinary volumes that use a subnet's address on an agent. */
int64_t db_endpoint_users(struct db_conn *c, int64_t agent, const char *subnet_key);

/* The change feed. A cursor is "FEED:SEQ"; FEED is made with the database, so that a cursor of
 * another (restored, older) one is unknown and gets the whole list. */
int db_change_add(struct db_conn *txn, int64_t agent, const char *fs_id);
/* 0 and the changed fs_ids after `cursor`, each once, and the new cursor; -ESTALE when the cursor
 * is unknown, too old or empty: then *cursor_out is the head and the caller sends everything.
 * Caller frees *cursor_out. */
typedef int db_change_fn(const char *fs_id, void *arg);
int db_change_each(struct db_conn *c, int64_t agent, const char *cursor, db_change_fn *fn,
                   void *arg, char **cursor_out);
int db_change_prune(struct db_conn *txn, int64_t keep_per_agent);

/* Volumes that an agent must still delete although their resource is gone (forceDelete). */
int db_tombstone_add(struct db_conn *txn, int64_t agent, const char *fs_id, int64_t generation);
int db_tombstone_delete(struct db_conn *txn, int64_t agent, const char *fs_id);
typedef int db_tombstone_fn(const char *fs_id, int64_t generation, void *arg);
int db_tombstone_each(struct db_conn *c, int64_t agent, db_tombstone_fn *fn, void *arg);

/* ---- duties and settings ---- */

/* A named lease for a duty that one instance may do: true when `holder` has it until `now + ttl`.
 */
bool db_lease_take(struct db_conn *txn, const char *duty, const char *holder, int64_t now,
                   int64_t ttl);

/* Adjustable limits ("accountsPerSubscription", …); -1 is unlimited, which is how they are shipped.
 */
int64_t db_quota_get(struct db_conn *c, const char *subscription, const char *name);
int db_quota_set(struct db_conn *txn, const char *subscription, const char *name, int64_t limit);

/* Counters for /metrics. */
struct db_stats {
    uint64_t commits, transactions, failed;
    uint64_t commit_ns; /* total time spent in COMMIT */
    uint64_t queued;    /* waiting now */
};
void db_get_stats(const struct db *db, struct db_stats *out);

#endif
