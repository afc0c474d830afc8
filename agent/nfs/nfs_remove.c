/*
 * REMOVE, RMDIR, RENAME: RFC 1813 3.3.12 to 3.3.14. They run on I/O threads, as the caller where
 * the kernel decides. What if it stops right here? The name is gone or not; the usage journal holds
 * an upper bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"

/* An object whose name is about to go. */
struct victim {
    struct inode *inode; /* NULL: no such name */
    struct inode_change change;
};

/* Finds what a name means now, under the folder's lock, and opens its change. Nothing may be
 * removed that could not be found: it would stay booked. */
static int victim_begin(struct nfs_op *op, const struct nfs_object *dir, const char *name,
                        struct victim *v)
{
    int fd = openat(dir->inode->path_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc;
    struct stat st;

    v->inode = NULL;
    if (fd < 0)
        return errno == ENOENT ? 0 : nfs_status(errno); /* the kernel says who may know of it */
    rc = inode_adopt(op->vol, dir->st.st_dev, fd, &v->inode, &st);
    if (rc != 0)
        return rc == -EXDEV ? NFSERR_ACCES : nfs_status(rc);
    inode_change_begin(v->inode, &v->change);
    inode_charge_begin(op->vol, v->inode);
    return 0;
}

static void victim_end(struct victim *v, struct inode_booking *booking)
{
    if (!v->inode)
        return;
    inode_change_end(v->inode, &v->change);
    inode_charge_end(v->inode, booking);
    inode_put(v->inode);
}

/* nfsstat3 of a failed unlinkat or renameat. */
static int removal_status(int error)
{
    return error == EEXIST ? NFSERR_NOTEMPTY : nfs_status(error);
}

static int remove_name(struct nfs_op *op, const char *name, bool folder)
{
    struct inode *dir = op->obj[0].inode;
    struct inode_booking freed = {0};
    struct victim victim;
    int rc;

    nfs_lock_dirs(dir, NULL);
    nfs_change_begin(op, 0);
    inode_charge_begin(op->vol, dir);
    rc = victim_begin(op, &op->obj[0], name, &victim);
    if (rc == 0 && (rc = nfs_as_caller(op)) == 0) {
        if (unlinkat(dir->path_fd, name, folder ? AT_REMOVEDIR : 0) != 0)
            rc = removal_status(errno);
        nfs_as_root();
    }
    victim_end(&victim, &freed);
    nfs_change_end(op, 0);
    inode_charge_end(dir, &freed);
    nfs_unlock_dirs(dir, NULL);
    usage_settle(op->vol->store->usage, 0, 0, freed.bytes, freed.inodes);
    return rc;
}

static int remove_call(struct nfs_op *op, bool folder)
{
    char text[NFS_MAX_NAME + 1];
    struct nfs_name name;
    struct nfs_fh fh;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh) || !nfs_get_name(&op->call->args, &name))
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &fh, true)) != 0)
        return rc;
    if (!S_ISDIR(op->obj[0].st.st_mode))
        return NFSERR_NOTDIR;
    if ((rc = nfs_name_text(&name, text)) != 0)
        return rc;
    if (strcmp(text, ".") == 0)
        return NFSERR_INVAL;
    if (strcmp(text, "..") == 0)
        return NFSERR_EXIST;
    if ((rc = usage_reserve(op->vol->store->usage, 0, 0, true)) != 0)
        return nfs_status(rc);
    if ((rc = remove_name(op, text, folder)) != 0 || (rc = nfs_sync_object(op, 0)) != 0)
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_wcc(op, 0);
    return 0;
}

int nfs_remove(struct nfs_op *op)
{
    return remove_call(op, false);
}

int nfs_rmdir(struct nfs_op *op)
{
    return remove_call(op, true);
}

/* ---- RENAME ---- */

/* Both names in one folder are one change of it. */
static void begin_folders(struct nfs_op *op, bool same)
{
    nfs_lock_dirs(op->obj[0].inode, op->obj[1].inode);
    nfs_change_begin(op, 0);
    inode_charge_begin(op->vol, op->obj[0].inode);
    if (same)
        return;
    nfs_change_begin(op, 1);
    inode_charge_begin(op->vol, op->obj[1].inode);
}

static void end_folders(struct nfs_op *op, bool same, struct inode_booking *booking)
{
    nfs_change_end(op, 0);
    inode_charge_end(op->obj[0].inode, booking);
    if (same) {
        /* The wcc_data of the one folder stands twice in the results. */
        op->obj[1].st = op->obj[0].st;
        op->obj[1].have_st = op->obj[0].have_st;
        op->obj[1].before = op->obj[0].before;
        op->obj[1].have_before = op->obj[0].have_before;
    } else {
        nfs_change_end(op, 1);
        inode_charge_end(op->obj[1].inode, booking);
    }
    nfs_unlock_dirs(op->obj[0].inode, op->obj[1].inode);
}

/* RFC 1813 3.3.14: two that do not go together, or a folder that is not empty, are EXIST. */
static int rename_status(int error)
{
    if (error == ENOTEMPTY || error == EEXIST || error == EISDIR || error == ENOTDIR)
        return NFSERR_EXIST;
    return removal_status(error);
}

static int rename_name(struct nfs_op *op, const char *from, const char *to)
{
    struct inode *from_dir = op->obj[0].inode, *to_dir = op->obj[1].inode;
    bool same = from_dir == to_dir;
    struct inode_booking booking = {0};
    struct victim victim;
    int rc;

    begin_folders(op, same);
    rc = victim_begin(op, &op->obj[1], to, &victim);
    if (rc == 0 && (rc = nfs_as_caller(op)) == 0) {
        if (renameat(from_dir->path_fd, from, to_dir->path_fd, to) != 0)
            rc = rename_status(errno);
        nfs_as_root();
    }
    if (rc == 0)
        usage_renamed(op->vol->store->usage, to_dir->path_fd, to);
    victim_end(&victim, &booking);
    end_folders(op, same, &booking);
    usage_settle(op->vol->store->usage, NFS_FOLDER_GROWTH, 0, booking.bytes, booking.inodes);
    return rc;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int nfs_rename(struct nfs_op *op)
{
    char from_text[NFS_MAX_NAME + 1], to_text[NFS_MAX_NAME + 1];
    struct nfs_name from_name, to_name;
    struct xdr_in *args = &op->call->args;
    struct nfs_fh from, to;
    int rc;

    if (!nfs_get_fh(args, &from) || !nfs_get_name(args, &from_name) || !nfs_get_fh(args, &to) ||
        !nfs_get_name(args, &to_name))
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &from, true)) != 0 ||
        (rc = nfs_resolve_fh(op, 1, &to, true)) != 0)
        return rc;
    if (!S_ISDIR(op->obj[0].st.st_mode) || !S_ISDIR(op->obj[1].st.st_mode))
        return NFSERR_NOTDIR;
    if ((rc = nfs_name_text(&from_name, from_text)) != 0 ||
        (rc = nfs_name_text(&to_name, to_text)) != 0)
        return rc;
    if (is_dots(from_text) || is_dots(to_text))
        return NFSERR_INVAL;
    if ((rc = usage_reserve(op->vol->store->usage, NFS_FOLDER_GROWTH, 0, true)) != 0)
        return nfs_status(rc);
    if ((rc = rename_name(op, from_text, to_text)) != 0 || (rc = nfs_sync_object(op, 1)) != 0 ||
        (op->obj[0].inode != op->obj[1].inode && (rc = nfs_sync_object(op, 0)) != 0))
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_wcc(op, 0);
    nfs_put_wcc(op, 1);
    return 0;
}
