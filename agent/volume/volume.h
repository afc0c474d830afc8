/*
 * The volumes that this agent serves: what a call needs to know of one, found by fileSystemId (in
 * every handle) or by endpoint address and path (MOUNT). agent/control/ writes the table,
 * agent/nfs/ and agent/mount/ read it.
 *
 * Locking: the table has a read-write lock, held for look-ups only; a volume found is referenced.
 * The export rules are an immutable snapshot that is read without a lock (export.h). What a call
 * takes here is a leaf.
 */
#ifndef AGENT_VOLUME_VOLUME_H
#define AGENT_VOLUME_VOLUME_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/qos/throttle.h"
#include "agent/rpc/rpc.h"
#include "agent/storage/storage.h"
#include "common/uuid.h"

#define VOLUME_MAX_ENDPOINTS 6
#define VOLUME_PATH_MAX      82 /* "/" + creationToken of at most 80 + NUL */
#define VOLUME_MAX_RULES     5
#define VOLUME_HANDLE_KEY    16

/* A volume's desired state, as the control plane sends it (docs/agent-protocol.md). */
struct export_rule_spec {
    unsigned index;
    char *clients; /* comma list of IPv4 addresses, CIDRs, host names */
    bool read_only, read_write, root_access, chown_restricted, nfsv3;
};
struct volume_spec {
    struct uuid fs_id;
    int64_t generation;
    bool deleted;
    char *resource_id;
    char export_path[VOLUME_PATH_MAX];
    struct in_addr endpoints[VOLUME_MAX_ENDPOINTS];
    size_t nendpoints;
    bool breakthrough;
    uint64_t quota_bytes, max_files;
    uint64_t limit; /* bytes/s, 0: none */
    uint8_t handle_key[VOLUME_HANDLE_KEY];
    unsigned root_mode;
    bool snapshot_dir_visible;
    struct export_rule_spec rules[VOLUME_MAX_RULES];
    size_t nrules;
};

/* Counters of one thread for one volume; summed by readers. Only its thread adds. */
struct volume_counters {
    _Alignas(64) _Atomic uint64_t read_bytes;
    _Atomic uint64_t write_bytes, other_bytes;
    _Atomic uint64_t read_ops, write_ops, other_ops;
    _Atomic uint64_t read_ns, write_ns;
};

struct volume {
    struct uuid fs_id;
    uint64_t fsid; /* for fattr3: from fs_id, never 0 */
    uint8_t handle_key[VOLUME_HANDLE_KEY];
    struct storage_volume *store;
    struct throttle *throttle;
    atomic_bool gone; /* deleted: every call answers STALE */
    atomic_bool snapshot_dir_visible;
    struct volume_counters counters[RPC_MAX_THREADS];
    struct volume_private *private; /* volume.c's: references, spec, rules */
};

/* What the export policy says for a client: the lowest ruleIndex that matches wins, read-only wins
 * over read-write, no match is no access. Checked on every call. */
struct export_access {
    bool allowed, writable, root, chown_restricted;
};

struct volume_table;
struct volume_table *volume_table_new(void);
void volume_table_free(struct volume_table *t);

/* The one table of the process, set once at start; for RPC handlers. */
extern struct volume_table *volume_table;

struct volume *volume_get(struct volume_table *t,
                          const struct uuid *fs_id); /* referenced, or NULL */
void volume_put(struct volume *v);
/* The volume whose export path is `path` or a parent folder of it, at an endpoint; *rest is then
 * the path below the export ("" or "a/b"). Never a prefix that ends inside a name, and nothing for
 * a path with ".." in it. Referenced, or NULL. */
struct volume *volume_find_export(struct volume_table *t, struct in_addr endpoint, const char *path,
                                  const char **rest);
struct export_access volume_access(const struct volume *v, struct in_addr client);
/* Snapshot of the volumes for listing (MOUNT EXPORT, metrics): referenced, in order of their ids;
 * the caller puts each and frees the array. */
struct volume **volume_list(struct volume_table *t, size_t *count);
/* The spec as applied; valid while the volume is referenced and not changed: copied into *out,
 * volume_spec_clear it. */
void volume_get_spec(const struct volume *v, struct volume_spec *out);
bool volume_has_endpoint(const struct volume *v, struct in_addr endpoint);

/* Applies a spec: creates, changes or deletes. Idempotent. 0 or -errno with a message for the
 * control plane. Not to be called by two threads at once. */
int volume_apply(struct volume_table *t, struct storage *storage, const struct volume_spec *spec,
                 char *message, size_t size);
/* Takes one volume out of service without touching its data: no spec speaks of it any more, it is
 * an orphan now. Calls answer STALE. -ENOENT when it is not served. The same caller as
 * volume_apply. */
int volume_retire(struct volume_table *t, const struct uuid *fs_id);
/* `hook` is called with each volume that goes out of service, after new calls answer STALE, so that
 * what is cached of it can be let go. Set once at start. */
void volume_on_retire(void (*hook)(const struct uuid *fs_id));
/* Takes all volumes out of service without touching their data (agent stop). */
void volume_close_all(struct volume_table *t);

void volume_spec_clear(struct volume_spec *spec);
void volume_spec_copy(struct volume_spec *to, const struct volume_spec *from);

/* Counting, from the thread that ends the call. */
void volume_count_read(struct volume *v, uint64_t bytes, uint64_t ns);
void volume_count_write(struct volume *v, uint64_t bytes, uint64_t ns);
void volume_count_other(struct volume *v, uint64_t bytes);

struct volume_totals {
    uint64_t read_bytes, write_bytes, other_bytes, read_ops, write_ops, other_ops, read_ns,
        write_ns;
    struct throttle_stats throttle;
    struct usage_stats usage;
};
void volume_get_totals(struct volume *v, uint64_t now_ns, struct volume_totals *out);

#endif
