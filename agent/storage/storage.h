/*
 * Where volumes live (design D11): one interface, a file per backend. The store is a folder STORE:
 *
 *     .spillway-store            the store's UUID; equal UUIDs may share a volume
 *     volumes/FSID/data/         the volume's root, what clients see as "/"
 *     volumes/FSID/usage         the usage journal
 *     trash/FSID.N/              deleted volumes on their way out
 *
 * Creation and deletion are atomic against a crash: a volume is there whole or not at all.
 */
#ifndef AGENT_STORAGE_STORAGE_H
#define AGENT_STORAGE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/uuid.h"

struct storage;
struct usage;

enum durability {
    DURABILITY_POWER,   /* stable means stable against a power cut */
    DURABILITY_PROCESS, /* stable means stable against the process's death */
};

struct storage_config {
    const char *dir;
    const char *backend; /* "dir" */
    enum durability durability;
};

/* Opens the store, makes it when the folder is empty or absent, starts the trash's background
 * thread. Refuses a file system without file handles (name_to_handle_at) and a folder that another
 * agent has open. 0 or -errno, logged with what to do. */
int storage_open(const struct storage_config *config, struct storage **out);
void storage_close(struct storage *s);
const struct uuid *storage_uuid(const struct storage *s);
const char *storage_backend(const struct storage *s);
enum durability storage_durability(const struct storage *s);
/* Bytes of the disk below: its size, and what is free to us. */
int storage_space(const struct storage *s, uint64_t *size, uint64_t *free_bytes);
/* Volumes on disk, for finding orphans. */
typedef int storage_each_fn(const struct uuid *fs_id, void *arg);
int storage_each(struct storage *s, storage_each_fn *fn, void *arg);
/* Trash waiting to be removed: folders now, and files removed since the start. */
void storage_trash_stats(const struct storage *s, uint64_t *folders, uint64_t *removed);

/* One volume of the store, open. */
struct storage_volume {
    struct storage *store;
    struct uuid fs_id;
    int root; /* O_RDONLY | O_DIRECTORY of the volume's root: base of handles and of "/" */
    struct usage *usage;
};

/* Opens a volume, makes it when absent with a root folder of mode `root_mode` owned by root. 0 or
 * -errno. */
int storage_volume_open(struct storage *s, const struct uuid *fs_id, mode_t root_mode,
                        uint64_t quota_bytes, uint64_t max_files, struct storage_volume **out);
/* Settles the usage journal (a clean close), closes. */
void storage_volume_close(struct storage_volume *v);
int storage_volume_resize(struct storage_volume *v, uint64_t quota_bytes, uint64_t max_files);
/* The mode that the root was last given here or at creation: kept on disk, so that a client's own
 * chmod of the root is told from a change of what the volume should have. */
mode_t storage_volume_root_mode(const struct storage_volume *v);
int storage_volume_chmod(struct storage_volume *v, mode_t root_mode);
/* Moves a volume, open (then it is closed by this) or not, into the trash; on return it is gone for
 * good, a crash cannot bring it back. Its space comes back in the background. `v` may be NULL: who
 * has the volume open then keeps it for the calls that still run (reserving answers -ESTALE), and
 * closes it later. -ENOENT when there is none. */
int storage_volume_delete(struct storage *s, const struct uuid *fs_id, struct storage_volume *v);

/* ---- usage: the quota's arithmetic, per volume
 * --------------------------------------------------------------------
 *
 * A file counts the smaller of its size rounded up to 4 KiB and its allocated blocks; so does a
 * folder. The root is no inode of the count, and only what it has grown beyond an empty root
 * counts, so an empty volume uses nothing. The caller keeps, per open inode, what the inode is
 * charged; an operation reserves the most it could add, runs, looks at the inode again and settles
 * the difference. The quota is never passed: a reservation that does not fit is refused. Against
 * crashes the journal holds an upper bound of the usage, drawn in chunks ahead of it; after an
 * unclean stop the bound counts until a background scan has found the truth.
 */
uint64_t usage_charge(const struct stat *st);
/* 0, or -EDQUOT when the quota or -ENOSPC when the number of files does not allow it. What is 0 is
 * not checked, so a volume above a lowered quota can still be changed without growing. May fsync
 * the journal when a new chunk is drawn; `may_block` false then answers -EAGAIN instead. Every
 * operation that makes, grows, renames or removes something reserves, (0, 0) if need be, before its
 * first change, and settles on the same thread: a scan waits for those that run. */
int usage_reserve(struct usage *u, uint64_t bytes, uint64_t inodes, bool may_block);
/* Ends a reservation: gives it back and books what really changed. */
void usage_settle(struct usage *u, uint64_t reserved_bytes, uint64_t reserved_inodes, int64_t bytes,
                  int64_t inodes);

/* The next three tell a running scan what it must not count twice nor miss; without one they cost a
 * load. All are called between the operation's usage_reserve and usage_settle. */

/* Before an operation that changes an inode's charge or removes one of its names, with its charge
 * as it is before. */
void usage_touch(struct usage *u, uint64_t ino, uint64_t charged);
/* A new inode, right after its creation and before another operation can change it. */
void usage_touch_new(struct usage *u, uint64_t ino);
/* After a rename, with the object's new place: a scan may be past it already. */
void usage_renamed(struct usage *u, int dir_fd, const char *name);

struct usage_stats {
    uint64_t used_bytes, used_inodes;
    uint64_t quota_bytes, max_files;
    bool scanning; /* used is still an upper bound */
};
void usage_get(const struct usage *u, struct usage_stats *out);

#endif
