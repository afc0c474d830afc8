/* FSSTAT, FSINFO, PATHCONF: RFC 1813 3.3.18 to 3.3.20. */
#include <unistd.h>

#include "agent/nfs/nfs_op.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The quota is the size; free is what both the quota and the disk leave (design D10). */
int nfs_fsstat(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    uint64_t disk_size = 0, disk_free = 0, bytes, files;
    struct usage_stats u;
    int rc = nfs_resolve(op, 0, false);

    if (rc != 0)
        return rc;
    if (storage_space(op->vol->store->store, &disk_size, &disk_free) != 0)
        return NFSERR_IO;
    usage_get(op->vol->store->usage, &u);
    bytes = min_u64(u.quota_bytes > u.used_bytes ? u.quota_bytes - u.used_bytes : 0, disk_free);
    files = u.max_files > u.used_inodes ? u.max_files - u.used_inodes : 0;
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_u64(x, u.quota_bytes);
    xdr_put_u64(x, bytes);
    xdr_put_u64(x, bytes);
    xdr_put_u64(x, u.max_files);
    xdr_put_u64(x, files);
    xdr_put_u64(x, files);
    xdr_put_u32(x, 0); /* invarsec: may change at any time */
    return 0;
}

int nfs_fsinfo(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    int rc = nfs_resolve(op, 0, false);

    if (rc != 0)
        return rc;
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_u32(x, RPC_MAX_DATA); /* rtmax, rtpref, rtmult */
    xdr_put_u32(x, RPC_MAX_DATA);
    xdr_put_u32(x, 4096);
    xdr_put_u32(x, RPC_MAX_DATA); /* wtmax, wtpref, wtmult */
    xdr_put_u32(x, RPC_MAX_DATA);
    xdr_put_u32(x, 4096);
    xdr_put_u32(x, 65536);     /* dtpref */
    xdr_put_u64(x, INT64_MAX); /* maxfilesize */
    xdr_put_u32(x, 0);         /* time_delta: 1 ns */
    xdr_put_u32(x, 1);
    xdr_put_u32(x, FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME);
    return 0;
}

int nfs_pathconf(struct nfs_op *op)
{
    struct xdr_out *x = &op->call->res;
    long links;
    int rc = nfs_resolve(op, 0, false);

    if (rc != 0)
        return rc;
    links = fpathconf(op->obj[0].inode->path_fd, _PC_LINK_MAX);
    xdr_put_u32(x, NFS_OK);
    nfs_put_object_attr(op, 0);
    xdr_put_u32(x, links > 0 && links < UINT32_MAX ? (uint32_t)links : 127);
    xdr_put_u32(x, NFS_MAX_NAME);
    xdr_put_bool(x, true); /* no_trunc */
    xdr_put_bool(x, op->access.chown_restricted);
    xdr_put_bool(x, false); /* case_insensitive */
    xdr_put_bool(x, true);  /* case_preserving */
    return 0;
}
