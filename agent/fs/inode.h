/*
 * Objects of volumes that are open: one entry an object, found by what its handle names, with its
 * descriptors, what it is charged against the quota, and who changes it right now. Bounded; the
 * least recently used ones are closed.
 *
 * Locking: an entry's reference count and list membership are guarded by its shard's mutex; `lock`
 * in an entry guards its descriptors' making and its charge. The shard's is a leaf: nothing is
 * taken under it. Both are held for short system calls at most.
 */
#ifndef AGENT_FS_INODE_H
#define AGENT_FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/fs/handle.h"

struct inode {
    struct inode *chain;         /* in its bucket */
    struct inode *newer, *older; /* in its shard's list */
    struct uuid fs_id;
    struct fs_object object;
    uint64_t hash;
    unsigned refs;
    bool cached; /* in the table; otherwise closed with its last reference */

    int path_fd;          /* O_PATH: for attributes and names */
    _Atomic int data_fd;  /* of a regular file, -1 until needed */
    atomic_bool writable; /* data_fd is open for writing */
    pthread_mutex_t lock;
    uint64_t charged; /* bytes that the quota counts for it */
    bool uncounted;   /* its last name is gone and booked: no inode of the quota any more */
    uint64_t ino;
    /* Held by what makes the file smaller, and by a write that reserved counting on that nobody
     * does. Before `lock`, and behind a folder's. */
    pthread_mutex_t size_lock;

    /* Changes under way and made, for pre-operation attributes. */
    atomic_uint mutators;
    atomic_uint_fast64_t changes;

    /* Syncs are numbered from 1; one runs at a time (inode_sync). Guarded by `lock`, which is not
     * held while one runs. */
    pthread_cond_t synced;
    uint64_t syncs_begun, syncs_done;
    uint64_t sync_failed; /* the last that failed, 0: none */
    int sync_error;       /* of that one, -errno */
};

/* Sets the bound; before any other call. Each object needs up to two descriptors. */
void inode_cache_init(size_t max_objects);
void inode_cache_destroy(void);
/* Closes what is cached of a volume (it goes away). */
void inode_forget_volume(const struct uuid *fs_id);

/* The object that a handle names, referenced. 0; -ESTALE when it is gone; -EAGAIN when it is not
 * cached and `may_block` is false; or -errno. Its attributes are in *st. */
int inode_get(struct volume *v, const struct fs_object *object, bool may_block, struct inode **out,
              struct stat *st);
/* The same for an open descriptor (O_PATH is enough), which is taken over in any case. It must be
 * of the file system `dev`, the volume's: what is mounted below a volume is not part of it and
 * answered -EXDEV. */
int inode_adopt(struct volume *v, dev_t dev, int path_fd, struct inode **out, struct stat *st);
void inode_put(struct inode *i);
/* Not found by new calls any more: its last name was removed. */
void inode_forget(struct inode *i);

/* A descriptor of a regular file for reading, or for reading and writing, as root; -errno. Belongs
 * to the entry. */
int inode_data_fd(struct volume *v, struct inode *i, bool write, bool may_block);

/* Makes durable what was changed of a regular file or a folder before the call (fsync). One sync of
 * an object runs at a time, and those who come meanwhile share the next one. The kernel tells a
 * writeback error only once for a descriptor, so each sync that fails calls `failed` before anybody
 * is told how it ended and before another begins: no later success can hide it. 0 or -errno. */
typedef void inode_sync_failed_fn(const struct volume *v, int error);
int inode_sync(struct volume *v, struct inode *i, bool folder, inode_sync_failed_fn *failed);

/* Changes to an object, from one inode_change_begin to its end. The attributes before are atomic
 * with the change only if nobody else changed it in between (RFC 1813 2.6, pre_op_attr): otherwise
 * they are left out. */
struct inode_change {
    bool alone;
    uint64_t seen;
};
void inode_change_begin(struct inode *i, struct inode_change *change);
/* True when the change was atomic. After the attributes behind it were taken. */
bool inode_change_end(struct inode *i, const struct inode_change *change);

/* The quota's side of a change, between usage_reserve and usage_settle: tells a scan before, and
 * adds after by how much the object's charge changed, and -1 inode when its last name is gone
 * (once, whoever removed it; then new calls do not find it any more). */
struct inode_booking {
    int64_t bytes, inodes;
};
void inode_charge_begin(struct volume *v, struct inode *i);
void inode_charge_end(struct inode *i, struct inode_booking *booking);
uint64_t inode_charged(struct inode *i);

struct inode_stats {
    uint64_t cached, hits, misses;
};
void inode_get_stats(struct inode_stats *out);

#endif
