/*
 * READDIR and READDIRPLUS, RFC 1813 3.3.16 and 3.3.17. Cookies are the file system's own 64-bit
 * positions (getdents64's d_off), so reading resumes right behind the entry they came with,
 * whatever was added or removed meanwhile; the cookie verifier is therefore zero and any is
 * accepted. They run on I/O threads.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"

#define GETDENTS_BYTES 16384
/* Behind the entries: end of the list, eof. */
#define LIST_END 8

/* The kernel's record, getdents64(2). */
struct dirent_record {
    uint64_t ino;
    int64_t next;
    unsigned short len;
    unsigned char type;
    char name[];
};

struct listing {
    struct nfs_op *op;
    int fd;
    bool plus;
    size_t left;       /* bytes of results that may still be used */
    size_t names_left; /* READDIRPLUS: of dircount */
    unsigned entries;
    bool full, eof;
    bool search;      /* details may be told: the caller may look names up here */
    struct stat root; /* the volume's */
};

/* What an entry says beyond its name (READDIRPLUS). */
struct details {
    struct stat st;
    bool have_st, have_fh;
    struct fs_handle fh;
};

static bool is_parent(const char *name)
{
    return strcmp(name, "..") == 0;
}

/* Attributes and handle of an entry, of one object. One that vanished meanwhile, whose name means
 * another object by now, or that something is mounted on has neither; nor has any where the caller
 * could not look it up. */
static void look(struct listing *l, const char *name, uint64_t ino, struct details *d)
{
    int fd = l->search ? openat(l->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    d->have_st = fstat(fd, &d->st) == 0 && d->st.st_dev == l->root.st_dev && d->st.st_ino == ino;
    if (d->have_st && ino == l->root.st_ino)
        d->have_fh = fs_handle_root(l->op->vol, &d->fh) == 0;
    else if (d->have_st)
        d->have_fh = fs_handle_of(l->op->vol, fd, &d->fh) == 0;
    close(fd);
}

static size_t entry_size(const struct listing *l, size_t name_len, const struct details *d)
{
    size_t size = 4 + 8 + 4 + xdr_pad(name_len) + 8;

    if (l->plus)
        size += (d->have_st ? NFS_POST_ATTR_SIZE : 4) + (d->have_fh ? 8 + xdr_pad(d->fh.len) : 4);
    return size;
}

/* Adds an entry; false when it does not fit any more. */
static bool put_entry(struct listing *l, const struct dirent_record *record)
{
    struct xdr_out *x = &l->op->call->res;
    const char *name = record->name;
    size_t len = strlen(name), name_bytes = 20 + xdr_pad(len), size;
    /* The root's parent is the root. */
    bool up = is_parent(name) && l->op->obj[0].st.st_ino == l->root.st_ino;
    uint64_t ino = up ? l->root.st_ino : record->ino;
    struct details d = {.have_st = false, .have_fh = false};

    if (l->plus)
        look(l, up ? "." : name, ino, &d);
    size = entry_size(l, len, &d);
    /* One entry is always given if maxcount lets it. */
    if (size > l->left || (l->plus && l->entries > 0 && name_bytes > l->names_left))
        return false;
    xdr_put_bool(x, true);
    xdr_put_u64(x, ino);
    xdr_put_opaque(x, name, (uint32_t)len);
    xdr_put_u64(x, (uint64_t)record->next);
    if (l->plus) {
        nfs_put_post_attr(x, l->op->vol, d.have_st ? &d.st : NULL);
        nfs_put_post_fh(x, d.have_fh ? &d.fh : NULL);
    }
    l->left -= size;
    l->names_left -= name_bytes < l->names_left ? name_bytes : l->names_left;
    l->entries++;
    return true;
}

static int put_entries(struct listing *l)
{
    _Alignas(struct dirent_record) char buffer[GETDENTS_BYTES];

    while (!l->full && !l->eof) {
        long got = syscall(SYS_getdents64, l->fd, buffer, sizeof buffer);

        if (got < 0)
            return nfs_status(errno);
        l->eof = got == 0;
        for (long at = 0; at < got && !l->full;) {
            const struct dirent_record *record = (const void *)(buffer + at);

            l->full = !put_entry(l, record);
            at += record->len;
        }
    }
    return l->full && l->entries == 0 ? NFSERR_TOOSMALL : 0;
}

/* Opens the folder as the caller, who must be allowed to read it, at a cookie. */
static int open_at(struct nfs_op *op, uint64_t cookie)
{
    int fd, rc = nfs_as_caller(op);
    char path[32];

    if (rc != 0)
        return -EPERM;
    /* By "." it would need to be searched too. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", op->obj[0].inode->path_fd);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = errno;
    nfs_as_root();
    if (fd < 0)
        return -rc;
    if (cookie != 0 && (cookie > INT64_MAX || lseek(fd, (off_t)cookie, SEEK_SET) < 0)) {
        close(fd);
        return -ERANGE;
    }
    return fd;
}

static int list(struct listing *l, uint64_t cookie, uint32_t count)
{
    static const uint8_t cookieverf[NFS_COOKIEVERF];
    struct nfs_op *op = l->op;
    struct xdr_out *x = &op->call->res;
    size_t fixed = NFS_POST_ATTR_SIZE + NFS_COOKIEVERF + LIST_END;
    int rc;

    if (!S_ISDIR(op->obj[0].st.st_mode))
        return NFSERR_NOTDIR;
    if (count > RPC_MAX_DATA)
        count = RPC_MAX_DATA;
    if (count < fixed)
        return NFSERR_TOOSMALL;
    l->left = count - fixed;
    if ((rc = nfs_room(op, 4 + (size_t)count)) != 0)
        return rc;
    if (fstat(op->vol->store->root, &l->root) != 0)
        return nfs_status(errno);
    l->search = fs_permission(&op->cred, &op->obj[0].st) & X_OK && !nfs_scanning(op);
    l->fd = open_at(op, cookie);
    if (l->fd < 0)
        return l->fd == -ERANGE ? NFSERR_BAD_COOKIE : nfs_status(l->fd);
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_fixed(x, cookieverf, sizeof cookieverf);
    rc = put_entries(l);
    close(l->fd);
    xdr_put_bool(x, false);
    xdr_put_bool(x, l->eof);
    return rc;
}

int nfs_readdir(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    struct listing l = {.op = op, .fd = -1};
    struct nfs_fh fh;
    uint64_t cookie;
    uint32_t count;
    int rc;

    if (!nfs_get_fh(args, &fh))
        return NFS_GARBAGE;
    cookie = xdr_get_u64(args);
    xdr_get_fixed(args, NFS_COOKIEVERF);
    count = xdr_get_u32(args);
    if (args->failed)
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &fh, false)) != 0)
        return rc;
    return list(&l, cookie, count);
}

int nfs_readdirplus(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    struct listing l = {.op = op, .fd = -1, .plus = true};
    struct nfs_fh fh;
    uint64_t cookie;
    uint32_t count;
    int rc;

    if (!nfs_get_fh(args, &fh))
        return NFS_GARBAGE;
    cookie = xdr_get_u64(args);
    xdr_get_fixed(args, NFS_COOKIEVERF);
    l.names_left = xdr_get_u32(args);
    count = xdr_get_u32(args);
    if (args->failed)
        return NFS_GARBAGE;
    if ((rc = nfs_must_block(op)) != 0 || (rc = nfs_resolve_fh(op, 0, &fh, false)) != 0)
        return rc;
    return list(&l, cookie, count);
}
