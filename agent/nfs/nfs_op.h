/*
 * One run of an NFS procedure: what all of them share. The dispatcher makes it, calls the
 * procedure's function and encodes what a failed one returns; nothing of it outlives the run but
 * what struct nfs_wait keeps.
 *
 * A procedure decodes its arguments, resolves the handles, does its work and, on success, encodes
 * the whole result including the status. It returns 0, a positive nfsstat3 (then the dispatcher
 * encodes the failure with the attributes that the operation left in obj[]), or one of the negative
 * values below.
 */
#ifndef AGENT_NFS_NFS_OP_H
#define AGENT_NFS_NFS_OP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/fs/cred.h"
#include "agent/fs/inode.h"
#include "agent/nfs/nfs_proto.h"
#include "agent/rpc/rpc.h"
#include "agent/volume/volume.h"

enum { NFS_GARBAGE = -1, NFS_OFFLOAD = -2, NFS_PARK = -3 };

/* An object that the call names by a handle, and its attributes around the operation. */
struct nfs_object {
    struct inode *inode;
    bool root;          /* the volume's root */
    struct stat st;     /* at resolution, then after the operation */
    bool have_st;       /* st may be told */
    struct stat before; /* for wcc_data */
    bool have_before;   /* atomic with the operation */
    struct inode_change change;
    bool changing;
};

struct nfs_op {
    struct rpc_call *call;
    struct volume *vol;
    struct export_access access;
    struct fs_cred cred;
    struct nfs_object obj[2];
};

/* Kept in the call's scratch across its waits. */
struct nfs_wait {
    struct volume *vol; /* referenced while the call is parked at its throttle */
    uint64_t cost;      /* bytes that the throttle charged */
    bool admitted;
};

typedef int nfs_function(struct nfs_op *op);

/* Decodes a handle and resolves it to obj[n]: 0, NFS_GARBAGE, NFS_OFFLOAD or a status. The second
 * must be of the first's volume (else NFSERR_XDEV). `change`: the export must be writable (else
 * NFSERR_ROFS, attributes told). */
int nfs_resolve(struct nfs_op *op, unsigned n, bool change);
/* The same, split: all arguments are decoded before the first is resolved. */
struct nfs_fh {
    const uint8_t *data;
    uint32_t len;
};
bool nfs_get_fh(struct xdr_in *x, struct nfs_fh *fh);
int nfs_resolve_fh(struct nfs_op *op, unsigned n, const struct nfs_fh *fh, bool change);
/* Runs again on a thread that may block, unless this is one: use as `if ((rc = nfs_must_block(op)))
 * return rc;` */
int nfs_must_block(const struct nfs_op *op);

/* Around a change of obj[n]: takes the attributes before, then those after and whether the former
 * are atomic. */
void nfs_change_begin(struct nfs_op *op, unsigned n);
void nfs_change_end(struct nfs_op *op, unsigned n);

/* Offers the call's payload to the volume's limit before any I/O: 0 once it is admitted, or
 * NFS_PARK. On I/O threads it was admitted before. */
int nfs_admit(struct nfs_op *op, uint64_t cost);
/* Ends a READ or WRITE: gives back what was charged and not moved, counts what was. */
void nfs_moved(struct nfs_op *op, uint64_t bytes);

/* Acts as the caller until nfs_as_root. 0 or NFSERR_SERVERFAULT. */
int nfs_as_caller(struct nfs_op *op);
void nfs_as_root(void);

/* nfsstat3 of an errno value (positive or negative); NFS_OK for 0. */
int nfs_status(int error);

/* Serializes changes of a folder's names, so that what a name meant before a change is what the
 * change took away, and guarded SETATTRs of one object. Only on I/O threads; two folders are locked
 * together (b may be NULL or the same). Taken before an inode's lock; no call under it waits for a
 * sync. */
void nfs_lock_dirs(const struct inode *a, const struct inode *b);
void nfs_unlock_dirs(const struct inode *a, const struct inode *b);

/* A name from the wire as a C string in `out` (NFS_MAX_NAME + 1 bytes): 0, NFSERR_NAMETOOLONG, or
 * NFSERR_INVAL for an empty one, one with '/' or NUL. "." and ".." pass. */
struct nfs_name {
    const uint8_t *data;
    uint32_t len;
};
bool nfs_get_name(struct xdr_in *x, struct nfs_name *name);
int nfs_name_text(const struct nfs_name *name, char out[static NFS_MAX_NAME + 1]);

/* The most that a new name makes a folder grow by: blocks that its index needs when it is split. */
#define NFS_FOLDER_GROWTH UINT64_C(16384)

/* Room for results larger than RPC_REPLY_INLINE: 0, or NFSERR_JUKEBOX when memory is short. */
int nfs_room(struct nfs_op *op, size_t bytes);

/* ---- encoding (nfs_wire.c) ---- */

#define NFS_FATTR_SIZE     84
#define NFS_POST_ATTR_SIZE (4 + NFS_FATTR_SIZE)

void nfs_put_fattr(struct xdr_out *x, const struct volume *v, const struct stat *st);
void nfs_put_post_attr(struct xdr_out *x, const struct volume *v,
                       const struct stat *st);                       /* st may be NULL */
void nfs_put_object_attr(struct nfs_op *op, unsigned n);             /* post_op_attr of obj[n] */
void nfs_put_wcc(struct nfs_op *op, unsigned n);                     /* wcc_data of obj[n] */
void nfs_put_post_fh(struct xdr_out *x, const struct fs_handle *fh); /* fh may be NULL */

/* sattr3, RFC 1813 2.6. */
struct nfs_sattr {
    bool set_mode, set_uid, set_gid, set_size;
    uint32_t mode, uid, gid;
    uint64_t size;
    enum nfs_time_how atime_how, mtime_how;
    struct timespec atime, mtime;
};
bool nfs_get_sattr(struct xdr_in *x, struct nfs_sattr *out);

/* ---- shared between files of procedures ---- */

/* Applies attributes to obj[n] as the caller (nfs_attr.c), between the begin and end of its change
 * and its charge. 0 or a status. */
int nfs_apply_sattr(struct nfs_op *op, unsigned n, const struct nfs_sattr *a);
/* Whether the caller may set these on an object of his own that is about to be made: NFS_OK or
 * NFSERR_PERM. */
int nfs_sattr_allowed(const struct nfs_op *op, const struct nfs_sattr *a);

/* Whether attributes are those of the root of the volume (nfs_lookup.c). */
bool nfs_is_root(const struct nfs_op *op, const struct stat *st);
/* Whether handles of names may only be given out under the folder's lock (nfs_lookup.c). */
bool nfs_scanning(const struct nfs_op *op);

/* fsyncs as the store's durability asks; a failed one changes the write verifier (nfs_write.c). 0
 * or a status. */
int nfs_sync_object(struct nfs_op *op, unsigned n);
void nfs_write_verifier(uint8_t out[static NFS_WRITEVERF]);
void nfs_new_write_verifier(void);
uint64_t nfs_sync_failures(void);

extern nfs_function nfs_null, nfs_getattr, nfs_setattr, nfs_lookup, nfs_access, nfs_readlink,
    nfs_read, nfs_write, nfs_create, nfs_mkdir, nfs_symlink, nfs_mknod, nfs_remove, nfs_rmdir,
    nfs_rename, nfs_link, nfs_readdir, nfs_readdirplus, nfs_fsstat, nfs_fsinfo, nfs_pathconf,
    nfs_commit;

#endif
