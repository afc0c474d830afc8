/*
 * READ, RFC 1813 3.3.6. The payload goes from the page cache into the reply, behind its header of
 * fixed size. A worker only reads what is resident; anything else is left to an I/O thread.
 */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/nfs/nfs_op.h"
#include "common/clock.h"

/* Status, post_op_attr with attributes, count, eof, length of the data. */
#define READ_HEADER (4 + NFS_POST_ATTR_SIZE + 12)

/* Bytes of the file that a READ of `count` at `offset` can return. */
static uint64_t available(const struct stat *st, uint64_t offset, uint64_t count)
{
    uint64_t size = (uint64_t)st->st_size;

    if (offset >= size)
        return 0;
    return size - offset < count ? size - offset : count;
}

/* Fills `buffer`; NFS_OFFLOAD when that would block and must not, or a status. The number of bytes
 * is in *got. */
static int read_data(struct nfs_op *op, int fd, uint8_t *buffer, size_t len, uint64_t offset,
                     size_t *got)
{
    bool may_block = op->call->may_block;

    for (*got = 0; *got < len;) {
        struct iovec iov = {buffer + *got, len - *got};
        ssize_t n = preadv2(fd, &iov, 1, (off_t)(offset + *got), may_block ? 0 : RWF_NOWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !may_block && (errno == EAGAIN || errno == EOPNOTSUPP))
            return NFS_OFFLOAD;
        if (n < 0)
            return nfs_status(errno);
        if (n == 0 && !may_block)
            return NFS_OFFLOAD;
        if (n == 0)
            break; /* truncated meanwhile */
        *got += (size_t)n;
    }
    return 0;
}

/* What can be refused without reading. */
static int check_read(const struct nfs_op *op, uint64_t offset)
{
    const struct nfs_object *o = &op->obj[0];

    if (!S_ISREG(o->st.st_mode) || offset > INT64_MAX)
        return NFSERR_INVAL;
    /* The owner may read whatever the mode says by now, and who may execute a file must be able to
     * load it. */
    if (!(fs_permission(&op->cred, &o->st) & (R_OK | X_OK)) && op->cred.uid != o->st.st_uid)
        return NFSERR_ACCES;
    return NFS_OK;
}

static int read_object(struct nfs_op *op, uint64_t offset, uint32_t count, uint64_t *moved)
{
    struct nfs_object *o = &op->obj[0];
    struct xdr_out *x = &op->call->res;
    size_t len, got = 0;
    int fd, rc;

    len = (size_t)available(&o->st, offset, count);
    if ((rc = nfs_room(op, READ_HEADER + xdr_pad(len))) != 0)
        return rc;
    if (len > 0) {
        fd = inode_data_fd(op->vol, o->inode, false, op->call->may_block);
        if (fd == -EAGAIN && !op->call->may_block)
            return NFS_OFFLOAD;
        if (fd < 0)
            return nfs_status(fd);
        if ((rc = read_data(op, fd, x->at + READ_HEADER, len, offset, &got)) != 0)
            return rc;
        if (got < len && fstat(o->inode->path_fd, &o->st) != 0)
            return nfs_status(errno);
    }
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_u32(x, (uint32_t)got);
    xdr_put_bool(x, offset + got >= (uint64_t)o->st.st_size);
    xdr_put_u32(x, (uint32_t)got);
    *moved = got;
    for (; got % 4 != 0; got++)
        x->at[got] = 0;
    x->at += got;
    return 0;
}

int nfs_read(struct nfs_op *op)
{
    struct xdr_in *args = &op->call->args;
    uint64_t offset, moved = 0;
    struct nfs_fh fh;
    uint32_t count;
    int rc, admit;

    if (!nfs_get_fh(args, &fh))
        return NFS_GARBAGE;
    offset = xdr_get_u64(args);
    count = xdr_get_u32(args);
    if (args->failed)
        return NFS_GARBAGE;
    if (count > RPC_MAX_DATA)
        count = RPC_MAX_DATA;
    rc = nfs_resolve_fh(op, 0, &fh, false);
    if (rc == 0)
        rc = check_read(op, offset);
    if (rc == 0 || rc == NFS_OFFLOAD) {
        /* Of a file that is not open yet the size is unknown: what it turns out to lack is given
         * back. */
        admit = nfs_admit(op, rc == 0 ? available(&op->obj[0].st, offset, count) : count);
        if (admit != 0)
            return admit;
    }
    if (rc == 0)
        rc = read_object(op, offset, count, &moved);
    if (rc == NFS_OFFLOAD)
        return rc;
    nfs_moved(op, moved);
    if (op->vol)
        volume_count_read(op->vol, moved, clock_mono_ns() - op->call->arrived_ns);
    return rc;
}
