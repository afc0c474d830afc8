/*
 * NFS version 3 (RFC 1813): the program that the transport serves. One file a group of procedures;
 * nfs_op.h has what they share.
 */
#ifndef AGENT_NFS_NFS_H
#define AGENT_NFS_NFS_H

#include <stdint.h>

#include "agent/rpc/rpc.h"

extern const struct rpc_program nfs_program;

/* Before the first call: makes this start's write verifier and the cache of open objects, bounded
 * by what RLIMIT_NOFILE leaves. */
void nfs_start(void);
/* After the last call. */
void nfs_stop(void);

struct nfs_stats {
    uint64_t calls[22];            /* by procedure number */
    uint64_t failed;               /* answered with another status than NFS3_OK */
    uint64_t sync_failures;        /* fsync errors: each changed the write verifier */
    uint64_t cached, hits, misses; /* open objects */
};
void nfs_get_stats(struct nfs_stats *out);

#endif
