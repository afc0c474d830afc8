/*
 * The NFS program: its table, the dispatcher, start and stop. The transport calls nfs_dispatch on
 * its threads; the counters are atomic, there is no other state here.
 */
#include "agent/nfs/nfs.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent/nfs/nfs_op.h"

/* What the results of a failed call hold behind the status (RFC 1813 3.3). */
enum failure_body {
    FAIL_NOTHING,  /* GETATTR */
    FAIL_ATTR,     /* post_op_attr of the object */
    FAIL_WCC,      /* wcc_data of the object or folder */
    FAIL_TWO_WCC,  /* RENAME: both folders */
    FAIL_ATTR_WCC, /* LINK: the file's attributes, the folder's wcc_data */
};

struct nfs_proc {
    const char *name;
    nfs_function *run;
    enum failure_body failure;
};

static const struct nfs_proc table[NFSPROC_COUNT] = {
    [NFSPROC_NULL] = {"NULL", nfs_null, FAIL_NOTHING},
    [NFSPROC_GETATTR] = {"GETATTR", nfs_getattr, FAIL_NOTHING},
    [NFSPROC_SETATTR] = {"SETATTR", nfs_setattr, FAIL_WCC},
    [NFSPROC_LOOKUP] = {"LOOKUP", nfs_lookup, FAIL_ATTR},
    [NFSPROC_ACCESS] = {"ACCESS", nfs_access, FAIL_ATTR},
    [NFSPROC_READLINK] = {"READLINK", nfs_readlink, FAIL_ATTR},
    [NFSPROC_READ] = {"READ", nfs_read, FAIL_ATTR},
    [NFSPROC_WRITE] = {"WRITE", nfs_write, FAIL_WCC},
    [NFSPROC_CREATE] = {"CREATE", nfs_create, FAIL_WCC},
    [NFSPROC_MKDIR] = {"MKDIR", nfs_mkdir, FAIL_WCC},
    [NFSPROC_SYMLINK] = {"SYMLINK", nfs_symlink, FAIL_WCC},
    [NFSPROC_MKNOD] = {"MKNOD", nfs_mknod, FAIL_WCC},
    [NFSPROC_REMOVE] = {"REMOVE", nfs_remove, FAIL_WCC},
    [NFSPROC_RMDIR] = {"RMDIR", nfs_rmdir, FAIL_WCC},
    [NFSPROC_RENAME] = {"RENAME", nfs_rename, FAIL_TWO_WCC},
    [NFSPROC_LINK] = {"LINK", nfs_link, FAIL_ATTR_WCC},
    [NFSPROC_READDIR] = {"READDIR", nfs_readdir, FAIL_ATTR},
    [NFSPROC_READDIRPLUS] = {"READDIRPLUS", nfs_readdirplus, FAIL_ATTR},
    [NFSPROC_FSSTAT] = {"FSSTAT", nfs_fsstat, FAIL_ATTR},
    [NFSPROC_FSINFO] = {"FSINFO", nfs_fsinfo, FAIL_ATTR},
    [NFSPROC_PATHCONF] = {"PATHCONF", nfs_pathconf, FAIL_ATTR},
    [NFSPROC_COMMIT] = {"COMMIT", nfs_commit, FAIL_WCC},
};

static struct {
    _Atomic uint64_t calls[NFSPROC_COUNT];
    _Atomic uint64_t failed;
} counters;

int nfs_null(struct nfs_op *op)
{
    (void)op;
    return 0;
}

static void put_failure(struct nfs_op *op, enum failure_body body, int status)
{
    struct xdr_out *x = &op->call->res;

    x->at = x->start;
    x->failed = false;
    xdr_put_u32(x, (uint32_t)status);
    switch (body) {
    case FAIL_NOTHING:
        break;
    case FAIL_ATTR:
        nfs_put_object_attr(op, 0);
        break;
    case FAIL_WCC:
        nfs_put_wcc(op, 0);
        break;
    case FAIL_TWO_WCC:
        nfs_put_wcc(op, 0);
        nfs_put_wcc(op, 1);
        break;
    case FAIL_ATTR_WCC:
        nfs_put_object_attr(op, 0);
        nfs_put_wcc(op, 1);
        break;
    }
}

static enum rpc_verdict verdict_of(struct nfs_op *op, const struct nfs_proc *proc, int rc)
{
    nfs_change_end(op, 0);
    nfs_change_end(op, 1);
    switch (rc) {
    case NFS_GARBAGE:
        return RPC_GARBAGE_ARGS;
    case NFS_OFFLOAD:
        return RPC_OFFLOAD;
    case NFS_PARK:
        return RPC_PARKED;
    default:
        break;
    }
    if (rc > 0) {
        put_failure(op, proc->failure, rc);
        atomic_fetch_add_explicit(&counters.failed, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&counters.calls[op->call->proc], 1, memory_order_relaxed);
    /* READ and WRITE count themselves, with their bytes. */
    if (op->vol && op->call->proc != NFSPROC_READ && op->call->proc != NFSPROC_WRITE)
        volume_count_other(op->vol, op->call->record_len + xdr_written(&op->call->res));
    return op->call->res.failed ? RPC_SYSTEM_ERR : RPC_REPLY;
}

static enum rpc_verdict nfs_dispatch(struct rpc_call *call)
{
    const struct nfs_proc *proc = &table[call->proc];
    struct nfs_op op;
    enum rpc_verdict verdict;

    op.call = call;
    op.vol = NULL;
    for (unsigned n = 0; n < 2; n++) {
        op.obj[n].inode = NULL;
        op.obj[n].root = op.obj[n].have_st = op.obj[n].have_before = op.obj[n].changing = false;
    }
    verdict = verdict_of(&op, proc, proc->run(&op));
    inode_put(op.obj[0].inode);
    inode_put(op.obj[1].inode);
    if (op.vol)
        volume_put(op.vol);
    return verdict;
}

/* The transport's table, made from ours so that each name stands once. */
static struct rpc_proc rpc_procs[NFSPROC_COUNT];

static const struct rpc_proc *procs_of(uint32_t vers, size_t *count)
{
    *count = NFSPROC_COUNT;
    return vers == NFS_V3 ? rpc_procs : NULL;
}

const struct rpc_program nfs_program = {
    .prog = NFS_PROGRAM, .name = "nfs", .vers_low = NFS_V3, .vers_high = NFS_V3, .procs = procs_of};

/* Descriptors that are not for the cache: connections, volumes, the store. */
#define OTHER_DESCRIPTORS ((rlim_t)8192)
#define MAX_OBJECTS       (1u << 17)

void nfs_start(void)
{
    struct rlimit limit = {1024, 1024};
    size_t objects;

    getrlimit(RLIMIT_NOFILE, &limit);
    objects = limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? (limit.rlim_cur - OTHER_DESCRIPTORS) / 2
                                                     : limit.rlim_cur / 4;
    /* Clients say modes whole; what the agent makes for itself has its modes given too. */
    umask(0);
    inode_cache_init(objects < MAX_OBJECTS ? objects : MAX_OBJECTS);
    volume_on_retire(inode_forget_volume);
    nfs_new_write_verifier();
    for (size_t i = 0; i < NFSPROC_COUNT; i++)
        rpc_procs[i] = (struct rpc_proc){table[i].name, nfs_dispatch};
}

void nfs_stop(void)
{
    inode_cache_destroy();
}

void nfs_get_stats(struct nfs_stats *out)
{
    struct inode_stats inodes;

    for (size_t i = 0; i < NFSPROC_COUNT; i++)
        out->calls[i] = atomic_load_explicit(&counters.calls[i], memory_order_relaxed);
    out->failed = atomic_load_explicit(&counters.failed, memory_order_relaxed);
    out->sync_failures = nfs_sync_failures();
    inode_get_stats(&inodes);
    out->cached = inodes.cached;
    out->hits = inodes.hits;
    out->misses = inodes.misses;
}
