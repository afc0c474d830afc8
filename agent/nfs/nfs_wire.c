/* NFSv3's common types on the wire, RFC 1813 2.6. Pure. */
#include "agent/nfs/nfs_op.h"

#include <sys/sysmacros.h>

static enum nfs_type type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return NF_DIR;
    case S_IFBLK:
        return NF_BLK;
    case S_IFCHR:
        return NF_CHR;
    case S_IFLNK:
        return NF_LNK;
    case S_IFSOCK:
        return NF_SOCK;
    case S_IFIFO:
        return NF_FIFO;
    default:
        return NF_REG;
    }
}

static void put_time(struct xdr_out *x, const struct timespec *t)
{
    xdr_put_u32(x, (uint32_t)t->tv_sec);
    xdr_put_u32(x, (uint32_t)t->tv_nsec);
}

void nfs_put_fattr(struct xdr_out *x, const struct volume *v, const struct stat *st)
{
    xdr_put_u32(x, type_of(st->st_mode));
    xdr_put_u32(x, st->st_mode & 07777);
    xdr_put_u32(x, (uint32_t)st->st_nlink);
    xdr_put_u32(x, st->st_uid);
    xdr_put_u32(x, st->st_gid);
    xdr_put_u64(x, (uint64_t)st->st_size);
    xdr_put_u64(x, (uint64_t)st->st_blocks * 512);
    xdr_put_u32(x, major(st->st_rdev));
    xdr_put_u32(x, minor(st->st_rdev));
    xdr_put_u64(x, v->fsid);
    xdr_put_u64(x, st->st_ino);
    put_time(x, &st->st_atim);
    put_time(x, &st->st_mtim);
    put_time(x, &st->st_ctim);
}

void nfs_put_post_attr(struct xdr_out *x, const struct volume *v, const struct stat *st)
{
    xdr_put_bool(x, st != NULL);
    if (st)
        nfs_put_fattr(x, v, st);
}

void nfs_put_object_attr(struct nfs_op *op, unsigned n)
{
    nfs_put_post_attr(&op->call->res, op->vol, op->obj[n].have_st ? &op->obj[n].st : NULL);
}

void nfs_put_wcc(struct nfs_op *op, unsigned n)
{
    const struct nfs_object *o = &op->obj[n];
    struct xdr_out *x = &op->call->res;

    xdr_put_bool(x, o->have_before);
    if (o->have_before) {
        xdr_put_u64(x, (uint64_t)o->before.st_size);
        put_time(x, &o->before.st_mtim);
        put_time(x, &o->before.st_ctim);
    }
    nfs_put_object_attr(op, n);
}

void nfs_put_post_fh(struct xdr_out *x, const struct fs_handle *fh)
{
    xdr_put_bool(x, fh != NULL);
    if (fh)
        xdr_put_opaque(x, fh->data, fh->len);
}

static bool get_time(struct xdr_in *x, enum nfs_time_how *how, struct timespec *t)
{
    uint32_t v = xdr_get_u32(x);

    if (v > SET_TO_CLIENT_TIME)
        return false;
    *how = (enum nfs_time_how)v;
    *t = (struct timespec){0};
    if (*how != SET_TO_CLIENT_TIME)
        return true;
    t->tv_sec = xdr_get_u32(x);
    t->tv_nsec = xdr_get_u32(x);
    return true;
}

bool nfs_get_sattr(struct xdr_in *x, struct nfs_sattr *out)
{
    *out = (struct nfs_sattr){0};
    if ((out->set_mode = xdr_get_bool(x)))
        out->mode = xdr_get_u32(x);
    if ((out->set_uid = xdr_get_bool(x)))
        out->uid = xdr_get_u32(x);
    if ((out->set_gid = xdr_get_bool(x)))
        out->gid = xdr_get_u32(x);
    if ((out->set_size = xdr_get_bool(x)))
        out->size = xdr_get_u64(x);
    return get_time(x, &out->atime_how, &out->atime) && get_time(x, &out->mtime_how, &out->mtime) &&
           !x->failed;
}
