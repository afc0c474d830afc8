/* LOOKUP, RFC 1813 3.3.3. A worker only walks what the kernel has cached. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* Opens a name of obj[0] as the caller; the thread is root again after it. */
static int open_name(struct nfs_op *op, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = op->call->may_block ? 0 : RESOLVE_CACHED};
    int fd, rc = nfs_as_caller(op);

    if (rc != 0)
        return -EPERM;
    fd = (int)syscall(SYS_openat2, op->obj[0].inode->path_fd, name, &how, sizeof how);
    rc = errno;
    nfs_as_root();
    return fd >= 0 ? fd : -rc;
}

/* Whether an object is the volume's root. */
bool nfs_is_root(const struct nfs_op *op, const struct stat *st)
{
    struct stat root;

    return fstat(op->vol->store->root, &root) == 0 && root.st_ino == st->st_ino &&
           root.st_dev == st->st_dev;
}

/* While a scan counts, nobody may change an object that its maker has not told of yet
 * (usage_touch_new): its handle is given out when he is done. */
bool nfs_scanning(const struct nfs_op *op)
{
    struct usage_stats u;

    usage_get(op->vol->store->usage, &u);
    return u.scanning;
}

/* Finds the name; the object is obj[1], its handle in *fh. */
static int find(struct nfs_op *op, const char *name, struct fs_handle *fh)
{
    struct nfs_object *dir = &op->obj[0], *o = &op->obj[1];
    bool parent = strcmp(name, "..") == 0;
    int fd, rc;

    /* The root's parent is the root: nothing leads out of an export. */
    fd = open_name(op, parent && nfs_is_root(op, &dir->st) ? "." : name);
    /* EINVAL: a kernel that does not know RESOLVE_CACHED (before 5.12). */
    if ((fd == -EAGAIN || fd == -EINVAL) && !op->call->may_block)
        return NFS_OFFLOAD;
    if (fd < 0)
        return nfs_status(fd);
    rc = inode_adopt(op->vol, dir->st.st_dev, fd, &o->inode, &o->st);
    if (rc == -ESTALE && !atomic_load(&op->vol->gone))
        return NFSERR_NOENT; /* removed meanwhile */
    if (rc != 0)
        return rc == -EXDEV ? NFSERR_ACCES : nfs_status(rc);
    o->have_st = true;
    if ((parent || strcmp(name, ".") == 0) && nfs_is_root(op, &o->st))
        return nfs_status(fs_handle_root(op->vol, fh));
    fs_handle_make(op->vol, &o->inode->object, fh);
    return 0;
}

int nfs_lookup(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    char text[NFS_MAX_NAME + 1];
    struct nfs_name name;
    struct fs_handle handle = {.len = 0};
    struct nfs_fh fh;
    bool scanning;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh) || !nfs_get_name(&op->call->args, &name))
        return NFS_GARBAGE;
    if ((rc = nfs_resolve_fh(op, 0, &fh, false)) != 0)
        return rc;
    if (!S_ISDIR(op->obj[0].st.st_mode))
        return NFSERR_NOTDIR;
    if ((rc = nfs_name_text(&name, text)) != 0)
        return rc;
    scanning = nfs_scanning(op);
    if (scanning && (rc = nfs_must_block(op)) != 0)
        return rc;
    if (scanning)
        nfs_lock_dirs(op->obj[0].inode, NULL);
    rc = find(op, text, &handle);
    if (scanning)
        nfs_unlock_dirs(op->obj[0].inode, NULL);
    if (rc != 0)
        return rc;
    xdr_put_u32(x, NFS_OK);
    xdr_put_opaque(x, handle.data, handle.len);
    nfs_put_object_attr(op, 1);
    nfs_put_object_attr(op, 0);
    return 0;
}
