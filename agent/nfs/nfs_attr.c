/* GETATTR, SETATTR, ACCESS, READLINK: RFC 1813 3.3.1, 3.3.2, 3.3.4, 3.3.5. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"

int nfs_getattr(struct nfs_op *op)
{
    int rc = nfs_resolve(op, 0, false);

    if (rc != 0)
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_fattr(&op->call->res, op->vol, &op->obj[0].st);
    return 0;
}

/* The bits of ACCESS that the caller has, of those asked for. */
static uint32_t access_bits(const struct nfs_op *op, const struct stat *st)
{
    unsigned may = fs_permission(&op->cred, st);
    uint32_t bits = 0;

    if (may & R_OK)
        bits |= ACCESS_READ;
    if (S_ISDIR(st->st_mode)) {
        if (may & X_OK)
            bits |= ACCESS_LOOKUP;
        /* Names can only be changed by who may also look them up. */
        if ((may & (W_OK | X_OK)) == (W_OK | X_OK))
            bits |= ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE;
    } else {
        if (may & W_OK)
            bits |= ACCESS_MODIFY | ACCESS_EXTEND;
        if (may & X_OK)
            bits |= ACCESS_EXECUTE;
    }
    if (!op->access.writable)
        bits &= ~(ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE);
    return bits;
}

int nfs_access(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    struct nfs_fh fh;
    uint32_t wanted;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh))
        return NFS_GARBAGE;
    wanted = xdr_get_u32(&op->call->args);
    if (op->call->args.failed)
        return NFS_GARBAGE;
    if ((rc = nfs_resolve_fh(op, 0, &fh, false)) != 0)
        return rc;
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_u32(x, wanted & access_bits(op, &op->obj[0].st));
    return 0;
}

int nfs_readlink(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    char text[NFS_MAX_PATH + 1];
    ssize_t len;
    int rc;

    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve(op, 0, false)) != 0)
        return rc;
    if (!S_ISLNK(op->obj[0].st.st_mode))
        return NFSERR_INVAL;
    len = readlinkat(op->obj[0].inode->path_fd, "", text, sizeof text);
    if (len < 0)
        return nfs_status(errno);
    if ((rc = nfs_room(op, NFS_POST_ATTR_SIZE + 16 + (size_t)len)) != 0)
        return rc;
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_opaque(x, text, (uint32_t)len);
    return 0;
}

/* ---- setting attributes ---- */

/* The object by a path that chmod(2) takes: fchmod(2) refuses O_PATH descriptors. */
static int chmod_object(const struct inode *i, mode_t mode)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", i->path_fd);
    return chmod(path, mode) == 0 ? 0 : nfs_status(errno);
}

static int set_size(struct nfs_op *op, struct nfs_object *o, uint64_t size)
{
    int fd, rc;

    if (!S_ISREG(o->st.st_mode))
        return S_ISDIR(o->st.st_mode) ? NFSERR_ISDIR : NFSERR_INVAL;
    if (size > INT64_MAX)
        return NFSERR_FBIG;
    /* As for WRITE: the owner may, whatever the mode says by now. */
    if (!(fs_permission(&op->cred, &o->st) & W_OK) && op->cred.uid != o->st.st_uid)
        return NFSERR_ACCES;
    fd = inode_data_fd(op->vol, o->inode, true, true);
    if (fd < 0)
        return nfs_status(fd);
    pthread_mutex_lock(&o->inode->size_lock);
    /* As the caller, so that the kernel takes the set-id bits away where it must. */
    if ((rc = nfs_as_caller(op)) == 0) {
        if (ftruncate(fd, (off_t)size) != 0)
            rc = nfs_status(errno);
        nfs_as_root();
    }
    pthread_mutex_unlock(&o->inode->size_lock);
    return rc;
}

/* A caller may give away what he owns where chownMode is Unrestricted; otherwise the kernel decides
 * for him. */
static int set_owner(struct nfs_op *op, struct nfs_object *o, const struct nfs_sattr *a)
{
    uid_t uid = a->set_uid ? a->uid : (uid_t)-1;
    gid_t gid = a->set_gid ? a->gid : (gid_t)-1;
    bool own_right = !op->access.chown_restricted && op->cred.uid == o->st.st_uid;
    int rc = own_right ? 0 : nfs_as_caller(op);

    if (rc == 0 && fchownat(o->inode->path_fd, "", uid, gid, AT_EMPTY_PATH) != 0)
        rc = nfs_status(errno);
    nfs_as_root();
    return rc;
}

static struct timespec time_of(enum nfs_time_how how, struct timespec client)
{
    if (how == SET_TO_CLIENT_TIME)
        return client;
    return (struct timespec){.tv_nsec = how == SET_TO_SERVER_TIME ? UTIME_NOW : UTIME_OMIT};
}

/* The time of now may be set by who may write, also one of the two alone, which utimensat(2) leaves
 * to the owner. */
static int set_times(struct nfs_op *op, struct nfs_object *o, const struct nfs_sattr *a,
                     enum nfs_time_how mtime_how)
{
    struct timespec times[2] = {time_of(a->atime_how, a->atime), time_of(mtime_how, a->mtime)};
    bool now = a->atime_how != SET_TO_CLIENT_TIME && mtime_how != SET_TO_CLIENT_TIME;
    bool own_right = now && fs_permission(&op->cred, &o->st) & W_OK;
    int rc = own_right ? 0 : nfs_as_caller(op);

    if (rc == 0 && utimensat(o->inode->path_fd, "", times, AT_EMPTY_PATH) != 0)
        rc = nfs_status(errno);
    nfs_as_root();
    return rc;
}

/* What the kernel would refuse of the attributes, as it decides (chown(2), chmod(2),
 * utimensat(2)): asked first, so that of several none is set when one may not be. */
static int check_rights(const struct nfs_op *op, const struct stat *st, const struct nfs_sattr *a)
{
    if (op->cred.uid == 0)
        return NFS_OK;
    if (op->cred.uid != st->st_uid)
        return a->set_mode || a->set_uid || a->set_gid || a->atime_how == SET_TO_CLIENT_TIME ||
                       a->mtime_how == SET_TO_CLIENT_TIME
                   ? NFSERR_PERM
                   : NFS_OK;
    if (!op->access.chown_restricted)
        return NFS_OK;
    if (a->set_uid && a->uid != st->st_uid)
        return NFSERR_PERM;
    return a->set_gid && a->gid != st->st_gid && !fs_in_group(&op->cred, a->gid) ? NFSERR_PERM
                                                                                 : NFS_OK;
}

int nfs_apply_sattr(struct nfs_op *op, unsigned n, const struct nfs_sattr *a)
{
    struct nfs_object *o = &op->obj[n];
    enum nfs_time_how mtime_how = a->mtime_how;
    int rc;

    if ((a->atime_how == SET_TO_CLIENT_TIME && a->atime.tv_nsec >= 1000000000) ||
        (a->mtime_how == SET_TO_CLIENT_TIME && a->mtime.tv_nsec >= 1000000000))
        return NFSERR_INVAL;
    rc = check_rights(op, &o->st, a);
    if (rc == 0 && a->set_size)
        rc = set_size(op, o, a->size);
    /* The new size has set the time; not to be tried as one who may write but is not the owner. */
    if (rc == 0 && a->set_size && mtime_how == SET_TO_SERVER_TIME)
        mtime_how = DONT_CHANGE;
    /* The owner before the mode: a new owner clears the set-id bits. */
    if (rc == 0 && (a->set_uid || a->set_gid))
        rc = set_owner(op, o, a);
    if (rc == 0 && a->set_mode && (rc = nfs_as_caller(op)) == 0) {
        rc = chmod_object(o->inode, a->mode & 07777);
        nfs_as_root();
    }
    if (rc == 0 && (a->atime_how != DONT_CHANGE || mtime_how != DONT_CHANGE))
        rc = set_times(op, o, a, mtime_how);
    return rc;
}

int nfs_sattr_allowed(const struct nfs_op *op, const struct nfs_sattr *a)
{
    if (op->cred.uid == 0 || !op->access.chown_restricted)
        return NFS_OK;
    if (a->set_uid && a->uid != op->cred.uid)
        return NFSERR_PERM;
    return a->set_gid && !fs_in_group(&op->cred, a->gid) ? NFSERR_PERM : NFS_OK;
}

static bool same_time(const struct timespec *t, uint32_t seconds, uint32_t nanoseconds)
{
    return (uint32_t)t->tv_sec == seconds && (uint32_t)t->tv_nsec == nanoseconds;
}

/* sattrguard3: the object must not have changed since the client saw this ctime. */
struct guard {
    bool set;
    uint32_t seconds, nanoseconds;
};

static bool get_guard(struct xdr_in *x, struct guard *g)
{
    if ((g->set = xdr_get_bool(x))) {
        g->seconds = xdr_get_u32(x);
        g->nanoseconds = xdr_get_u32(x);
    }
    return !x->failed;
}

static bool guard_holds(const struct guard *g, const struct nfs_object *o)
{
    return !g->set || (o->have_before && same_time(&o->before.st_ctim, g->seconds, g->nanoseconds));
}

/* Blocks that a file has behind its end count once its size covers them. */
static uint64_t size_growth(const struct nfs_object *o, const struct nfs_sattr *a)
{
    struct stat st = o->st;
    uint64_t charge, charged = inode_charged(o->inode);

    if (!a->set_size || !S_ISREG(st.st_mode))
        return 0;
    st.st_size = a->size > INT64_MAX ? INT64_MAX : (off_t)a->size;
    charge = usage_charge(&st);
    return charge > charged ? charge - charged : 0;
}

int nfs_setattr(struct nfs_op *op)
{
    struct nfs_object *o = &op->obj[0];
    struct inode_booking booking = {0};
    struct guard guard = {0};
    struct nfs_sattr a;
    struct nfs_fh fh;
    uint64_t reserved;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh) || !nfs_get_sattr(&op->call->args, &a) ||
        !get_guard(&op->call->args, &guard))
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &fh, true)) != 0)
        return rc;
    reserved = size_growth(o, &a);
    if ((rc = usage_reserve(op->vol->store->usage, reserved, 0, true)) != 0)
        return nfs_status(rc);
    /* Of two guarded by the same time only one may find it so. */
    if (guard.set)
        nfs_lock_dirs(o->inode, NULL);
    nfs_change_begin(op, 0);
    inode_charge_begin(op->vol, o->inode);
    rc = guard_holds(&guard, o) ? nfs_apply_sattr(op, 0, &a) : NFSERR_NOT_SYNC;
    nfs_change_end(op, 0);
    inode_charge_end(o->inode, &booking);
    if (guard.set)
        nfs_unlock_dirs(o->inode, NULL);
    usage_settle(op->vol->store->usage, reserved, 0, booking.bytes, booking.inodes);
    if (rc == 0)
        rc = nfs_sync_object(op, 0);
    if (rc != 0)
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_wcc(op, 0);
    return 0;
}
