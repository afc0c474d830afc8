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

/* What a rename can add to the folder it goes to. */
#define FOLDER_GROWTH UINT64_C(8192)

/* An object whose name is about to go: its usage is booked when that was its last. */
struct victim {
    struct inode *inode; /* NULL: no such name */
    struct stat st;
};

/* Finds what a name means now, under the folder's lock. */
static int find_victim(struct nfs_op *op, const struct inode *dir, const char *name,
                       struct victim *v)
{
    int fd = openat(dir->path_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    v->inode = NULL;
    return fd >= 0 ? inode_adopt(op->vol, fd, &v->inode, &v->st) : -errno;
}

/* After the change: bytes and inodes that came free, as negative numbers. */
static void settle_victim(struct victim *v, int64_t *bytes, int64_t *inodes)
{
    struct stat st;

    if (!v->inode)
        return;
    if (fstat(v->inode->path_fd, &st) == 0) {
        if (st.st_nlink == 0) {
            inode_forget(v->inode);
            (*inodes)--;
        }
        *bytes += inode_charge_end(v->inode, &st);
    }
    inode_put(v->inode);
}

static int check_removable(const char *name, const struct victim *v, bool folder)
{
    if (strcmp(name, ".") == 0)
        return NFSERR_INVAL;
    if (strcmp(name, "..") == 0)
        return NFSERR_EXIST;
    if (!v->inode)
        return NFS_OK; /* the kernel says what is wrong with it */
    if (folder)
        return S_ISDIR(v->st.st_mode) ? NFS_OK : NFSERR_NOTDIR;
    return S_ISDIR(v->st.st_mode) ? NFSERR_ISDIR : NFS_OK;
}

static int remove_name(struct nfs_op *op, const char *name, bool folder)
{
    struct inode *dir = op->obj[0].inode;
    int64_t bytes = 0, inodes = 0;
    struct victim victim;
    int rc;

    nfs_lock_dirs(dir, NULL);
    nfs_change_begin(op, 0);
    inode_charge_begin(op->vol, dir);
    find_victim(op, dir, name, &victim);
    rc = check_removable(name, &victim, folder);
    if (rc == 0 && victim.inode)
        inode_charge_begin(op->vol, victim.inode);
    if (rc == 0 && (rc = nfs_as_caller(op)) == 0) {
        if (unlinkat(dir->path_fd, name, folder ? AT_REMOVEDIR : 0) != 0)
            rc = errno == EEXIST ? NFSERR_NOTEMPTY : nfs_status(errno);
        nfs_as_root();
    }
    settle_victim(&victim, &bytes, &inodes);
    nfs_change_end(op, 0);
    bytes += inode_charge_end(dir, &op->obj[0].st);
    nfs_unlock_dirs(dir, NULL);
    usage_settle(op->vol->store->usage, 0, 0, bytes, inodes);
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

/* ---- RENAME
 * ----------------------------------------------------------------------------------------------------------------
 */

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

static int64_t end_folders(struct nfs_op *op, bool same)
{
    int64_t bytes;

    nfs_change_end(op, 0);
    bytes = inode_charge_end(op->obj[0].inode, &op->obj[0].st);
    if (same) {
        /* The wcc_data of the one folder stands twice in the results. */
        op->obj[1].st = op->obj[0].st;
        op->obj[1].have_st = op->obj[0].have_st;
        op->obj[1].before = op->obj[0].before;
        op->obj[1].have_before = op->obj[0].have_before;
    } else {
        nfs_change_end(op, 1);
        bytes += inode_charge_end(op->obj[1].inode, &op->obj[1].st);
    }
    nfs_unlock_dirs(op->obj[0].inode, op->obj[1].inode);
    return bytes;
}

static int rename_name(struct nfs_op *op, const char *from, const char *to)
{
    struct inode *from_dir = op->obj[0].inode, *to_dir = op->obj[1].inode;
    bool same = from_dir == to_dir;
    int64_t bytes = 0, inodes = 0;
    struct victim victim;
    int rc;

    begin_folders(op, same);
    find_victim(op, to_dir, to, &victim);
    if (victim.inode)
        inode_charge_begin(op->vol, victim.inode);
    if ((rc = nfs_as_caller(op)) == 0) {
        if (renameat(from_dir->path_fd, from, to_dir->path_fd, to) != 0)
            rc = errno == ENOTEMPTY ? NFSERR_EXIST : nfs_status(errno);
        nfs_as_root();
    }
    if (rc == 0)
        usage_renamed(op->vol->store->usage, to_dir->path_fd, to);
    settle_victim(&victim, &bytes, &inodes);
    bytes += end_folders(op, same);
    usage_settle(op->vol->store->usage, FOLDER_GROWTH, 0, bytes, inodes);
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
    if ((rc = usage_reserve(op->vol->store->usage, FOLDER_GROWTH, 0, true)) != 0)
        return nfs_status(rc);
    if ((rc = rename_name(op, from_text, to_text)) != 0 || (rc = nfs_sync_object(op, 1)) != 0 ||
        (op->obj[0].inode != op->obj[1].inode && (rc = nfs_sync_object(op, 0)) != 0))
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_wcc(op, 0);
    nfs_put_wcc(op, 1);
    return 0;
}
