/* What the procedures share: handles, names, who the caller is, attributes around a change. No
 * state, no locks. */
#include "agent/nfs/nfs_op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

static const struct {
    int error;
    enum nfs_status status;
} statuses[] = {
    {EPERM, NFSERR_PERM},
    {ENOENT, NFSERR_NOENT},
    {EIO, NFSERR_IO},
    {ENXIO, NFSERR_NXIO},
    {EACCES, NFSERR_ACCES},
    {EEXIST, NFSERR_EXIST},
    {EXDEV, NFSERR_XDEV},
    {ENODEV, NFSERR_NODEV},
    {ENOTDIR, NFSERR_NOTDIR},
    {EISDIR, NFSERR_ISDIR},
    {EINVAL, NFSERR_INVAL},
    {EFBIG, NFSERR_FBIG},
    {ENOSPC, NFSERR_NOSPC},
    {EROFS, NFSERR_ROFS},
    {EMLINK, NFSERR_MLINK},
    {ENAMETOOLONG, NFSERR_NAMETOOLONG},
    {ENOTEMPTY, NFSERR_NOTEMPTY},
    {EDQUOT, NFSERR_DQUOT},
    {ESTALE, NFSERR_STALE},
    {EOPNOTSUPP, NFSERR_NOTSUPP},
    {ELOOP, NFSERR_INVAL},
    /* Something on the server itself holds it (a mount point, a running program): trying again does
     * not help. */
    {EBUSY, NFSERR_ACCES},
    {ETXTBSY, NFSERR_ACCES},
    /* Passing shortages: the client tries again. */
    {ENOMEM, NFSERR_JUKEBOX},
    {EMFILE, NFSERR_JUKEBOX},
    {ENFILE, NFSERR_JUKEBOX},
    {EAGAIN, NFSERR_JUKEBOX},
    {EINTR, NFSERR_JUKEBOX},
};

int nfs_status(int error)
{
    if (error == 0)
        return NFS_OK;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].error == abs(error))
            return statuses[i].status;
    return NFSERR_SERVERFAULT;
}

bool nfs_get_fh(struct xdr_in *x, struct nfs_fh *fh)
{
    fh->data = xdr_get_opaque(x, FS_HANDLE_MAX, &fh->len);
    return !x->failed;
}

/* The volume of a handle, checked for this caller; the first handle's stays in op->vol. */
static int resolve_volume(struct nfs_op *op, unsigned n, const struct nfs_fh *fh,
                          struct fs_object *object)
{
    struct volume *v;
    struct uuid fs_id;

    if (!fs_handle_volume(fh->data, fh->len, &fs_id))
        return NFSERR_BADHANDLE;
    v = volume_get(volume_table, &fs_id);
    if (!v)
        return NFSERR_STALE;
    if (!fs_handle_check(v, fh->data, fh->len, object)) {
        volume_put(v);
        return NFSERR_BADHANDLE;
    }
    if (n > 0) {
        bool same = v == op->vol;

        volume_put(v);
        return same ? NFS_OK : NFSERR_XDEV;
    }
    op->vol = v;
    op->access = volume_access(v, op->call->client);
    if (!op->access.allowed)
        return NFSERR_ACCES;
    fs_cred_map(&op->call->cred, &op->access, &op->cred);
    return NFS_OK;
}

int nfs_resolve_fh(struct nfs_op *op, unsigned n, const struct nfs_fh *fh, bool change)
{
    struct nfs_object *o = &op->obj[n];
    struct fs_object object;
    int rc = resolve_volume(op, n, fh, &object);

    if (rc != NFS_OK)
        return rc;
    o->root = object.type == FS_HANDLE_ROOT;
    rc = inode_get(op->vol, &object, op->call->may_block, &o->inode, &o->st);
    if (rc == -EAGAIN && !op->call->may_block)
        return NFS_OFFLOAD;
    if (rc != 0)
        return nfs_status(rc);
    o->have_st = true;
    return change && !op->access.writable ? NFSERR_ROFS : NFS_OK;
}

int nfs_resolve(struct nfs_op *op, unsigned n, bool change)
{
    struct nfs_fh fh;

    return nfs_get_fh(&op->call->args, &fh) ? nfs_resolve_fh(op, n, &fh, change) : NFS_GARBAGE;
}

int nfs_must_block(const struct nfs_op *op)
{
    return op->call->may_block ? 0 : NFS_OFFLOAD;
}

void nfs_change_begin(struct nfs_op *op, unsigned n)
{
    struct nfs_object *o = &op->obj[n];

    inode_change_begin(o->inode, &o->change);
    o->changing = true;
    o->have_before = fstat(o->inode->path_fd, &o->before) == 0;
}

void nfs_change_end(struct nfs_op *op, unsigned n)
{
    struct nfs_object *o = &op->obj[n];

    if (!o->changing)
        return;
    o->changing = false;
    o->have_st = fstat(o->inode->path_fd, &o->st) == 0;
    if (!inode_change_end(o->inode, &o->change))
        o->have_before = false;
}

/* ---- the volume's limit ---- */

_Static_assert(sizeof(struct nfs_wait) <= RPC_SCRATCH, "fits into the call");

static struct nfs_wait *wait_of(struct rpc_call *call)
{
    return (struct nfs_wait *)(void *)call->scratch;
}

static void release_wait(struct rpc_call *call)
{
    struct nfs_wait *w = wait_of(call);

    if (w->vol)
        volume_put(w->vol);
    w->vol = NULL;
}

int nfs_admit(struct nfs_op *op, uint64_t cost)
{
    struct rpc_call *call = op->call;
    struct nfs_wait *w = wait_of(call);

    if (w->admitted)
        return 0;
    w->admitted = true; /* the next run finds it so */
    w->cost = cost;
    call->throttle = op->vol->throttle;
    if (throttle_offer(op->vol->throttle, &call->qos, call->client, cost, clock_mono_ns()) ==
        THROTTLE_GO) {
        call->throttle = NULL;
        return 0;
    }
    /* The throttle must outlive the wait: the run's reference becomes the call's. */
    w->vol = op->vol;
    op->vol = NULL;
    call->cleanup = release_wait;
    return NFS_PARK;
}

void nfs_moved(struct nfs_op *op, uint64_t bytes)
{
    struct nfs_wait *w = wait_of(op->call);

    if (op->vol && w->admitted && w->cost > bytes)
        throttle_refund(op->vol->throttle, w->cost - bytes);
    w->cost = bytes;
}

int nfs_as_caller(struct nfs_op *op)
{
    return fs_become(&op->cred) == 0 ? 0 : NFSERR_SERVERFAULT;
}

void nfs_as_root(void)
{
    fs_become_root();
}

bool nfs_get_name(struct xdr_in *x, struct nfs_name *name)
{
    /* Longer ones are decoded too: they are a NAMETOOLONG, not garbage. */
    name->data = xdr_get_opaque(x, RPC_MAX_RECORD, &name->len);
    return !x->failed;
}

int nfs_name_text(const struct nfs_name *name, char out[static NFS_MAX_NAME + 1])
{
    if (name->len > NFS_MAX_NAME)
        return NFSERR_NAMETOOLONG;
    if (name->len == 0 || memchr(name->data, '/', name->len) || memchr(name->data, '\0', name->len))
        return NFSERR_INVAL;
    memcpy(out, name->data, name->len);
    out[name->len] = '\0';
    return NFS_OK;
}

#define DIR_LOCKS 256

static pthread_mutex_t dir_locks[DIR_LOCKS] = {[0 ... DIR_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

static size_t lock_of(const struct inode *dir)
{
    return dir->hash % DIR_LOCKS;
}

void nfs_lock_dirs(const struct inode *a, const struct inode *b)
{
    size_t first = lock_of(a), second = b ? lock_of(b) : first;

    /* The lower one first. */
    pthread_mutex_lock(&dir_locks[first < second ? first : second]);
    if (first != second)
        pthread_mutex_lock(&dir_locks[first < second ? second : first]);
}

void nfs_unlock_dirs(const struct inode *a, const struct inode *b)
{
    size_t first = lock_of(a), second = b ? lock_of(b) : first;

    pthread_mutex_unlock(&dir_locks[first]);
    if (first != second)
        pthread_mutex_unlock(&dir_locks[second]);
}

int nfs_room(struct nfs_op *op, size_t bytes)
{
    return rpc_reserve(op->call, bytes) ? NFS_OK : NFSERR_JUKEBOX;
}
