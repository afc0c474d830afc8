/*
 * WRITE and COMMIT, RFC 1813 3.3.7 and 3.3.21, and the write verifier: random at each start, so
 * unique below a second and over restarts, and changed whenever a sync failed, so that clients send
 * again what may be lost. A WRITE tells the verifier from before it wrote, a COMMIT the one from
 * behind its sync: a failure anywhere in between makes the two differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"
#include "common/clock.h"
#include "common/log.h"

static _Atomic uint64_t verifier, sync_failures;

void nfs_new_write_verifier(void)
{
    uint64_t v;

    randombytes_buf(&v, sizeof v);
    atomic_store(&verifier, v);
}

void nfs_write_verifier(uint8_t out[static NFS_WRITEVERF])
{
    uint64_t v = atomic_load_explicit(&verifier, memory_order_acquire);

    memcpy(out, &v, NFS_WRITEVERF);
}

uint64_t nfs_sync_failures(void)
{
    return atomic_load(&sync_failures);
}

static void sync_failed(const struct volume *v, int error)
{
    char fs_id[UUID_TEXT_MAX];

    log_error("volume %s: sync failed: %s; clients will send again", uuid_format(&v->fs_id, fs_id),
              strerror(error));
    nfs_new_write_verifier();
    atomic_fetch_add(&sync_failures, 1);
}

static bool must_sync(const struct nfs_op *op)
{
    return storage_durability(op->vol->store->store) == DURABILITY_POWER;
}

int nfs_sync_object(struct nfs_op *op, unsigned n)
{
    struct nfs_object *o = &op->obj[n];
    int error;

    if (!must_sync(op))
        return 0;
    if (S_ISREG(o->st.st_mode) || S_ISDIR(o->st.st_mode))
        return nfs_status(inode_sync(op->vol, o->inode, S_ISDIR(o->st.st_mode), sync_failed));
    /* Links and nodes cannot be opened for it. */
    if (syncfs(op->vol->store->root) == 0)
        return 0;
    error = errno;
    sync_failed(op->vol, error);
    return nfs_status(error);
}

/* ---- WRITE ---- */

struct write_args {
    uint64_t offset;
    uint32_t count, stable;
    const uint8_t *data;
    uint32_t len;
};

static bool get_args(struct xdr_in *x, struct nfs_fh *fh, struct write_args *w)
{
    if (!nfs_get_fh(x, fh))
        return false;
    w->offset = xdr_get_u64(x);
    w->count = xdr_get_u32(x);
    w->stable = xdr_get_u32(x);
    w->data = xdr_get_opaque(x, RPC_MAX_RECORD, &w->len);
    return !x->failed && w->stable <= FILE_SYNC;
}

#define BLOCK UINT64_C(4096)

static uint64_t round_up(uint64_t v)
{
    return (v + BLOCK - 1) / BLOCK * BLOCK;
}

/* The most that a write can add to the file's charge: the blocks that it touches and what maps
 * them.
 */
static uint64_t growth_bound(const struct write_args *w)
{
    return w->len > 0 ? round_up(w->offset + w->len) - w->offset / BLOCK * BLOCK + 4 * BLOCK : 0;
}

/* Also not more than what the file lacks of its size in whole blocks, so that overwriting in a full
 * volume adds nothing. Holds as long as nobody makes the file smaller. */
static uint64_t exact_growth_bound(struct inode *i, const struct write_args *w)
{
    uint64_t bound = growth_bound(w), size = round_up(w->offset + w->len), charged;
    struct stat st;

    if (fstat(i->path_fd, &st) != 0)
        return bound;
    if (size < round_up((uint64_t)st.st_size))
        size = round_up((uint64_t)st.st_size);
    charged = inode_charged(i);
    if (size <= charged)
        return 0;
    return size - charged < bound ? size - charged : bound;
}

/* Reserves for a write. Near the quota, where the plain bound does not fit, by the exact one: then
 * the file's size is locked, which *locked tells. 0 or -errno. */
static int reserve(struct usage *usage, struct inode *i, const struct write_args *w,
                   uint64_t *reserved, bool *locked)
{
    int rc;

    *reserved = growth_bound(w);
    *locked = false;
    if ((rc = usage_reserve(usage, *reserved, 0, true)) != -EDQUOT)
        return rc;
    pthread_mutex_lock(&i->size_lock);
    *reserved = exact_growth_bound(i, w);
    rc = usage_reserve(usage, *reserved, 0, true);
    *locked = rc == 0;
    if (rc != 0)
        pthread_mutex_unlock(&i->size_lock);
    return rc;
}

/* Writes all of it, or until an error behind the first byte; the number of bytes is in *done. */
static int write_data(int fd, const struct write_args *w, size_t *done)
{
    for (*done = 0; *done < w->len;) {
        ssize_t n = pwrite(fd, w->data + *done, w->len - *done, (off_t)(w->offset + *done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return *done > 0 ? 0 : nfs_status(n < 0 ? errno : EIO);
        *done += (size_t)n;
    }
    return 0;
}

/* The change between its reservation and its booking. */
static int write_reserved(struct nfs_op *op, int fd, const struct write_args *w, size_t *done)
{
    /* Set-id bits go with a write by anybody but root: the kernel sees to it when it is his. */
    bool set_id = op->obj[0].st.st_mode & (S_ISUID | S_ISGID);
    int rc = set_id ? nfs_as_caller(op) : 0;

    if (rc == 0)
        rc = write_data(fd, w, done);
    if (set_id)
        nfs_as_root();
    return rc;
}

/* What can be refused without a change. */
static int check_write(const struct nfs_op *op, const struct write_args *w)
{
    const struct nfs_object *o = &op->obj[0];

    if (!S_ISREG(o->st.st_mode) || w->count != w->len)
        return NFSERR_INVAL;
    if (w->offset > INT64_MAX || w->len > INT64_MAX - w->offset)
        return NFSERR_FBIG;
    if (!(fs_permission(&op->cred, &o->st) & W_OK) && op->cred.uid != o->st.st_uid)
        return NFSERR_ACCES;
    return NFS_OK;
}

static int write_object(struct nfs_op *op, struct write_args *w, size_t *done)
{
    struct nfs_object *o = &op->obj[0];
    struct usage *usage = op->vol->store->usage;
    struct inode_booking booking = {0};
    uint64_t reserved;
    bool locked;
    int fd, rc;

    if (w->len > RPC_MAX_DATA)
        w->len = RPC_MAX_DATA;
    fd = inode_data_fd(op->vol, o->inode, true, true);
    if (fd < 0)
        return nfs_status(fd);
    if ((rc = reserve(usage, o->inode, w, &reserved, &locked)) != 0)
        return nfs_status(rc);
    nfs_change_begin(op, 0);
    inode_charge_begin(op->vol, o->inode);
    rc = write_reserved(op, fd, w, done);
    nfs_change_end(op, 0);
    inode_charge_end(o->inode, &booking);
    usage_settle(usage, reserved, 0, booking.bytes, booking.inodes);
    if (locked)
        pthread_mutex_unlock(&o->inode->size_lock);
    if (rc == 0 && w->stable != UNSTABLE) {
        w->stable = FILE_SYNC; /* one kind of sync serves all who wait for one */
        rc = nfs_sync_object(op, 0);
    }
    return rc;
}

static void put_written(struct nfs_op *op, size_t done, uint32_t stable,
                        const uint8_t verf[static NFS_WRITEVERF])
{
    struct xdr_out *x = &op->call->res;

    xdr_put_u32(x, NFS_OK);
    nfs_put_wcc(op, 0);
    xdr_put_u32(x, (uint32_t)done);
    xdr_put_u32(x, stable);
    xdr_put_fixed(x, verf, NFS_WRITEVERF);
}

int nfs_write(struct nfs_op *op)
{
    struct write_args w = {0};
    uint8_t verf[NFS_WRITEVERF];
    struct nfs_fh fh;
    size_t done = 0;
    int rc, admit;

    if (!get_args(&op->call->args, &fh, &w))
        return NFS_GARBAGE;
    rc = nfs_resolve_fh(op, 0, &fh, true);
    if (rc == 0)
        rc = check_write(op, &w);
    if (rc == 0 || rc == NFS_OFFLOAD) {
        admit = nfs_admit(op, w.len < RPC_MAX_DATA ? w.len : RPC_MAX_DATA);
        if (admit != 0)
            return admit;
    }
    /* Into the page cache too a write may wait for the disk: for a page that it changes in part,
     * for the journal, for too much that is dirty; few file systems can be asked not to. */
    if (rc == 0)
        rc = nfs_must_block(op);
    /* Before the data: the failure of a sync meanwhile may be one of this data. */
    nfs_write_verifier(verf);
    if (rc == 0)
        rc = write_object(op, &w, &done);
    if (rc == NFS_OFFLOAD)
        return rc;
    nfs_moved(op, rc == 0 ? done : 0);
    if (op->vol)
        volume_count_write(op->vol, rc == 0 ? done : 0, clock_mono_ns() - op->call->arrived_ns);
    if (rc == 0)
        put_written(op, done, w.stable, verf);
    return rc;
}

/* ---- COMMIT ---- */

int nfs_commit(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    uint8_t verf[NFS_WRITEVERF];
    struct nfs_fh fh;
    int rc;

    if (!nfs_get_fh(args, &fh))
        return NFS_GARBAGE;
    /* The range: syncing the whole file is always allowed. */
    xdr_get_u64(args);
    xdr_get_u32(args);
    if (args->failed)
        return NFS_GARBAGE;
    if ((rc = nfs_resolve_fh(op, 0, &fh, true)) != 0)
        return rc;
    if (!S_ISREG(op->obj[0].st.st_mode))
        return NFSERR_INVAL;
    if (must_sync(op) && ((rc = nfs_must_block(op)) != 0 || (rc = nfs_sync_object(op, 0)) != 0))
        return rc;
    nfs_write_verifier(verf);
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_wcc(op, 0);
    xdr_put_fixed(&op->call->res, verf, sizeof verf);
    return 0;
}
