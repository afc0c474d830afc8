/*
 * CREATE, MKDIR, SYMLINK, MKNOD, LINK: RFC 1813 3.3.8 to 3.3.11 and 3.3.15. They run on I/O
 * threads, as the caller where the kernel decides. What if it stops right here? A name is there
 * with its object or not at all; the usage journal holds an upper bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"
#include "common/log.h"

/* Where an exclusive CREATE leaves its verifier: durable, and no file made otherwise has one. */
#define VERIFIER_XATTR "user.spillway.createverf"

/* Most that an object has when it is new: a folder's first block, or the text of a long link. */
#define NEW_OBJECT_BYTES UINT64_C(4096)

/* A client that gives no mode means to set it behind: until then nobody else gets in. */
#define DEFAULT_FILE_MODE   0600
#define DEFAULT_FOLDER_MODE 0700

struct making {
    char name[NFS_MAX_NAME + 1];
    struct nfs_sattr attr;
    uint64_t reserved_bytes;
    struct inode_booking added; /* really */
};

/* Resolves the folder and the name; the folder is obj[n]. */
static int resolve_where(struct nfs_op *op, unsigned n, const struct nfs_fh *fh,
                         const struct nfs_name *name, char text[static NFS_MAX_NAME + 1])
{
    int rc = nfs_must_block(op);

    if (rc != 0 || (rc = nfs_resolve_fh(op, n, fh, true)) != 0)
        return rc;
    if (!S_ISDIR(op->obj[n].st.st_mode))
        return NFSERR_NOTDIR;
    rc = nfs_name_text(name, text);
    return rc == 0 && (strcmp(text, ".") == 0 || strcmp(text, "..") == 0) ? NFSERR_EXIST : rc;
}

/* Reserves and opens the change of folder obj[n]. */
static int begin(struct nfs_op *op, unsigned n, struct making *m, uint64_t bytes, uint64_t inodes)
{
    int rc;

    m->reserved_bytes = bytes + NFS_FOLDER_GROWTH;
    rc = usage_reserve(op->vol->store->usage, m->reserved_bytes, inodes, true);
    if (rc != 0)
        return nfs_status(rc);
    nfs_lock_dirs(op->obj[n].inode, NULL);
    nfs_change_begin(op, n);
    inode_charge_begin(op->vol, op->obj[n].inode);
    return 0;
}

static void end(struct nfs_op *op, unsigned n, struct making *m, uint64_t inodes)
{
    nfs_change_end(op, n);
    inode_charge_end(op->obj[n].inode, &m->added);
    nfs_unlock_dirs(op->obj[n].inode, NULL);
    usage_settle(op->vol->store->usage, m->reserved_bytes, inodes, m->added.bytes, m->added.inodes);
}

/* An object of the folder becomes obj[1]; the descriptor is taken over. */
static int adopt(struct nfs_op *op, int fd)
{
    struct nfs_object *o = &op->obj[1];
    int rc = inode_adopt(op->vol, op->obj[0].st.st_dev, fd, &o->inode, &o->st);

    o->have_st = rc == 0;
    /* Something is mounted on the name. */
    return rc == -EXDEV ? NFSERR_EXIST : nfs_status(rc);
}

/* The same of a new one; its charge as it was made is booked. */
static int adopt_new(struct nfs_op *op, struct making *m, int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0) {
        usage_touch_new(op->vol->store->usage, st.st_ino);
        /* A file that has bytes already was given them by another client, who booked them. */
        m->added.bytes += S_ISREG(st.st_mode) ? 0 : (int64_t)usage_charge(&st);
        m->added.inodes++;
    }
    return adopt(op, fd);
}

/* Attributes that could not be given while the object was made. */
static int finish_attributes(struct nfs_op *op, struct making *m)
{
    int rc;

    nfs_change_begin(op, 1);
    inode_charge_begin(op->vol, op->obj[1].inode);
    rc = nfs_apply_sattr(op, 1, &m->attr);
    nfs_change_end(op, 1);
    inode_charge_end(op->obj[1].inode, &m->added);
    return rc;
}

/* An object that could not be given its attributes does not stay. */
static void undo(struct nfs_op *op, struct making *m, int flags)
{
    struct nfs_object *o = &op->obj[1];

    inode_charge_begin(op->vol, o->inode);
    if (unlinkat(op->obj[0].inode->path_fd, m->name, flags) != 0)
        log_warn("cannot take back what a failed call made: %s", strerror(errno));
    inode_charge_end(o->inode, &m->added);
    o->have_st = false;
}

/* A link or a node is nothing but what its folder's sync writes with the name. The folder's is for
 * a name that was there already too: who made it may still be at it. */
static int sync_made(struct nfs_op *op, const struct making *m)
{
    mode_t mode = op->obj[1].st.st_mode;
    bool changed = m->added.inodes > 0 || m->attr.set_size;
    int rc = changed && (S_ISREG(mode) || S_ISDIR(mode)) ? nfs_sync_object(op, 1) : 0;

    return rc != 0 ? rc : nfs_sync_object(op, 0);
}

/* The results that all four share. */
static int put_made(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    struct nfs_object *o = &op->obj[1];
    struct fs_handle fh;

    if (o->have_st)
        fs_handle_make(op->vol, &o->inode->object, &fh);
    xdr_put_u32(x, NFS_OK);
    nfs_put_post_fh(x, o->have_st ? &fh : NULL);
    nfs_put_object_attr(op, 1);
    nfs_put_wcc(op, 0);
    return 0;
}

/* ---- CREATE ---- */

static int openat_as_caller(struct nfs_op *op, const char *name, int flags, mode_t mode)
{
    int rc = nfs_as_caller(op), fd, error;

    if (rc != 0)
        return -EPERM;
    fd = openat(op->obj[0].inode->path_fd, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    error = errno;
    nfs_as_root();
    return fd >= 0 ? fd : -error;
}

/* What a file is made with at once; the rest is set behind. */
static mode_t first_mode(struct making *m, mode_t otherwise)
{
    mode_t mode = m->attr.set_mode ? m->attr.mode & 07777 : otherwise;

    /* open(2) gives it whole; chown would take set-id bits away again. */
    if (!(mode & (S_ISUID | S_ISGID)))
        m->attr.set_mode = false;
    return mode;
}

/* The file that was there before becomes obj[1]; anything else that has the name is EXIST. */
static int find_existing(struct nfs_op *op, struct making *m)
{
    int fd = openat_as_caller(op, m->name, O_PATH, 0), rc;

    if (fd < 0)
        return nfs_status(fd == -ENOENT ? -EAGAIN : fd);
    rc = adopt(op, fd);
    return rc == 0 && !S_ISREG(op->obj[1].st.st_mode) ? NFSERR_EXIST : rc;
}

/* UNCHECKED over an existing file: only a size is applied, as for open(2) with O_TRUNC. */
static int use_existing(struct nfs_op *op, struct making *m)
{
    struct nfs_sattr size = {.set_size = m->attr.set_size, .size = m->attr.size};
    int rc = find_existing(op, m);

    if (rc != 0)
        return rc;
    m->attr = size;
    return size.set_size ? finish_attributes(op, m) : 0;
}

static int create_file(struct nfs_op *op, struct making *m, bool guarded)
{
    int fd = openat_as_caller(op, m->name, O_CREAT | O_EXCL | O_RDWR,
                              first_mode(m, DEFAULT_FILE_MODE)),
        rc;

    if (fd == -EEXIST && !guarded)
        return use_existing(op, m);
    if (fd < 0)
        return nfs_status(fd);
    rc = adopt_new(op, m, fd);
    if (rc == 0 && (rc = finish_attributes(op, m)) != 0)
        undo(op, m, 0);
    return rc;
}

/* A file that carries the verifier before it has its name, so that a crash cannot part the two. */
static int make_verified(struct nfs_op *op, struct making *m, const uint8_t *verf, int *out)
{
    char path[32];
    int fd = openat_as_caller(op, ".", O_TMPFILE | O_RDWR, DEFAULT_FILE_MODE), rc;

    if (fd < 0)
        return nfs_status(fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = fsetxattr(fd, VERIFIER_XATTR, verf, NFS_CREATEVERF, 0) == 0 ? 0 : nfs_status(errno);
    if (rc == 0 && (rc = nfs_as_caller(op)) == 0) {
        if (linkat(AT_FDCWD, path, op->obj[0].inode->path_fd, m->name, AT_SYMLINK_FOLLOW) != 0)
            rc = nfs_status(errno);
        nfs_as_root();
    }
    if (rc != 0)
        close(fd);
    *out = fd;
    return rc;
}

/* The same verifier as that of the file that is there: the client's own call, sent again. */
static int match_verifier(struct nfs_op *op, struct making *m, const uint8_t *verf)
{
    uint8_t found[NFS_CREATEVERF];
    char path[32];
    int rc = find_existing(op, m);

    if (rc != 0)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", op->obj[1].inode->path_fd);
    if (getxattr(path, VERIFIER_XATTR, found, sizeof found) != NFS_CREATEVERF ||
        memcmp(found, verf, sizeof found) != 0)
        return NFSERR_EXIST;
    return 0;
}

static int create_exclusive(struct nfs_op *op, struct making *m, const uint8_t *verf)
{
    int fd = -1, rc = make_verified(op, m, verf, &fd);

    if (rc == 0)
        return adopt_new(op, m, fd);
    /* What is there already counts, also in a folder where the caller may not make anything. */
    if (rc == NFSERR_EXIST || rc == NFSERR_ACCES) {
        int found = match_verifier(op, m, verf);

        return found == NFS_OK || found == NFSERR_EXIST ? found : rc;
    }
    return rc;
}

int nfs_create(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    const uint8_t *verf = NULL;
    struct making m = {0};
    struct nfs_name name;
    struct nfs_fh fh;
    uint32_t mode;
    int rc;

    if (!nfs_get_fh(args, &fh) || !nfs_get_name(args, &name))
        return NFS_GARBAGE;
    mode = xdr_get_u32(args);
    if (mode > EXCLUSIVE)
        return NFS_GARBAGE;
    if (mode == EXCLUSIVE ? !(verf = xdr_get_fixed(args, NFS_CREATEVERF))
                          : !nfs_get_sattr(args, &m.attr))
        return NFS_GARBAGE;
    if ((rc = resolve_where(op, 0, &fh, &name, m.name)) != 0 ||
        (rc = nfs_sattr_allowed(op, &m.attr)) != 0 ||
        (rc = begin(op, 0, &m, NEW_OBJECT_BYTES, 1)) != 0)
        return rc;
    rc = verf ? create_exclusive(op, &m, verf) : create_file(op, &m, mode == GUARDED);
    end(op, 0, &m, 1);
    if (rc == 0)
        rc = sync_made(op, &m);
    return rc != 0 ? rc : put_made(op);
}

/* ---- MKDIR, SYMLINK, MKNOD ---- */

/* Makes the name as the caller by `make`, then opens what it made. */
typedef int make_fn(int dir_fd, const struct making *m, const void *arg);

static int make_name(struct nfs_op *op, struct making *m, make_fn *make, const void *arg,
                     int remove_flags)
{
    int rc, fd;

    if ((rc = begin(op, 0, m, NEW_OBJECT_BYTES, 1)) != 0)
        return rc;
    if ((rc = nfs_as_caller(op)) == 0) {
        if (make(op->obj[0].inode->path_fd, m, arg) != 0)
            rc = nfs_status(errno);
        nfs_as_root();
    }
    if (rc == 0) {
        fd = openat(op->obj[0].inode->path_fd, m->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            rc = nfs_status(errno);
            /* What nobody has booked does not stay. */
            unlinkat(op->obj[0].inode->path_fd, m->name, remove_flags);
        } else {
            rc = adopt_new(op, m, fd);
        }
        if (rc == 0 && (rc = finish_attributes(op, m)) != 0)
            undo(op, m, remove_flags);
    }
    end(op, 0, m, 1);
    if (rc == 0)
        rc = sync_made(op, m);
    return rc != 0 ? rc : put_made(op);
}

static int make_folder(int dir_fd, const struct making *m, const void *arg)
{
    return mkdirat(dir_fd, m->name, *(const mode_t *)arg);
}

int nfs_mkdir(struct nfs_op *op)
{
    struct making m = {0};
    struct nfs_name name;
    struct nfs_fh fh;
    mode_t mode;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh) || !nfs_get_name(&op->call->args, &name) ||
        !nfs_get_sattr(&op->call->args, &m.attr))
        return NFS_GARBAGE;
    if (m.attr.set_size)
        m.attr.set_size = false; /* RFC 1813 3.3.9: the size of a folder cannot be set */
    if ((rc = resolve_where(op, 0, &fh, &name, m.name)) != 0 ||
        (rc = nfs_sattr_allowed(op, &m.attr)) != 0)
        return rc;
    mode = first_mode(&m, DEFAULT_FOLDER_MODE);
    return make_name(op, &m, make_folder, &mode, AT_REMOVEDIR);
}

static int make_link(int dir_fd, const struct making *m, const void *arg)
{
    return symlinkat(arg, dir_fd, m->name);
}

int nfs_symlink(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    char text[NFS_MAX_PATH + 1];
    struct making m = {0};
    struct nfs_name name;
    const uint8_t *path;
    struct nfs_fh fh;
    uint32_t len;
    int rc;

    if (!nfs_get_fh(args, &fh) || !nfs_get_name(args, &name) || !nfs_get_sattr(args, &m.attr) ||
        !(path = xdr_get_opaque(args, RPC_MAX_RECORD, &len)))
        return NFS_GARBAGE;
    if ((rc = resolve_where(op, 0, &fh, &name, m.name)) != 0 ||
        (rc = nfs_sattr_allowed(op, &m.attr)) != 0)
        return rc;
    if (len > NFS_MAX_PATH)
        return NFSERR_NAMETOOLONG;
    if (len == 0 || memchr(path, '\0', len))
        return NFSERR_INVAL;
    memcpy(text, path, len);
    text[len] = '\0';
    /* A link has neither a size nor a mode of its own. */
    m.attr.set_size = m.attr.set_mode = false;
    return make_name(op, &m, make_link, text, 0);
}

/* What Linux keeps of a device's number. */
#define MAX_MAJOR 0xfffu
#define MAX_MINOR 0xfffffu

struct node {
    mode_t mode;
    dev_t dev;
};

static int make_node(int dir_fd, const struct making *m, const void *arg)
{
    const struct node *node = arg;

    return mknodat(dir_fd, m->name, node->mode, node->dev);
}

/* mknoddata3: false when it cannot be decoded. */
static bool get_node(struct xdr_in *x, struct making *m, struct node *node, bool *device,
                     bool *known, bool *fits)
{
    static const mode_t types[] = {
        [NF_BLK] = S_IFBLK, [NF_CHR] = S_IFCHR, [NF_SOCK] = S_IFSOCK, [NF_FIFO] = S_IFIFO};
    uint32_t type = xdr_get_u32(x), high, low;

    *known = type < sizeof types / sizeof *types && types[type] != 0;
    if (!*known)
        return !x->failed && type >= NF_REG && type <= NF_FIFO;
    if (!nfs_get_sattr(x, &m->attr))
        return false;
    *device = type == NF_BLK || type == NF_CHR;
    node->mode = types[type];
    if (*device) {
        high = xdr_get_u32(x);
        low = xdr_get_u32(x);
        node->dev = makedev(high, low);
        *fits = high <= MAX_MAJOR && low <= MAX_MINOR;
    }
    return !x->failed;
}

int nfs_mknod(struct nfs_op *op)
{
    struct making m = {0};
    struct node node = {0};
    bool device = false, known, fits = true;
    struct nfs_name name;
    struct nfs_fh fh;
    int rc;

    if (!nfs_get_fh(&op->call->args, &fh) || !nfs_get_name(&op->call->args, &name) ||
        !get_node(&op->call->args, &m, &node, &device, &known, &fits))
        return NFS_GARBAGE;
    if ((rc = resolve_where(op, 0, &fh, &name, m.name)) != 0 ||
        (rc = nfs_sattr_allowed(op, &m.attr)) != 0)
        return rc;
    if (!known)
        return NFSERR_BADTYPE;
    /* Root on the client, and let be root: else he is mapped to somebody by now. mknod(2) says
     * EPERM, which RFC 1813 3.3.11 does not have. */
    if (device && op->cred.uid != 0)
        return NFSERR_ACCES;
    if (!fits)
        return NFSERR_INVAL;
    m.attr.set_size = false;
    node.mode |= first_mode(&m, DEFAULT_FILE_MODE);
    return make_name(op, &m, make_node, &node, 0);
}

/* ---- LINK ---- */

int nfs_link(struct nfs_op *op)
{
    struct nfs_fh file, dir;
    struct making m = {0};
    struct nfs_name name;
    char path[32];
    int rc;

    if (!nfs_get_fh(&op->call->args, &file) || !nfs_get_fh(&op->call->args, &dir) ||
        !nfs_get_name(&op->call->args, &name))
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &file, true)) != 0 ||
        (rc = resolve_where(op, 1, &dir, &name, m.name)) != 0)
        return rc;
    if (S_ISDIR(op->obj[0].st.st_mode))
        return NFSERR_ISDIR;
    if ((rc = begin(op, 1, &m, 0, 0)) != 0)
        return rc;
    nfs_change_begin(op, 0);
    /* The way to link an open object without its name, as the caller. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", op->obj[0].inode->path_fd);
    if ((rc = nfs_as_caller(op)) == 0) {
        if (linkat(AT_FDCWD, path, op->obj[1].inode->path_fd, m.name, AT_SYMLINK_FOLLOW) != 0)
            rc = nfs_status(errno);
        nfs_as_root();
    }
    nfs_change_end(op, 0);
    end(op, 1, &m, 0);
    if (rc == 0)
        rc = nfs_sync_object(op, 1);
    if (rc != 0)
        return rc;
    xdr_put_u32(&op->call->res, NFS_OK);
    nfs_put_object_attr(op, 0);
    nfs_put_wcc(op, 1);
    return 0;
}
