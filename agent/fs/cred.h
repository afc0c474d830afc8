/*
 * Acting as the caller (design D12): file system ids and groups of the calling thread only, by the
 * raw system calls (the C library's would change every thread). What a thread has is remembered, so
 * unchanged ids cost nothing.
 */
#ifndef AGENT_FS_CRED_H
#define AGENT_FS_CRED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/rpc/rpc.h"
#include "agent/volume/volume.h"

#define FS_ANON 65534 /* who root is without root access, and a caller without credentials */

struct fs_cred {
    uint32_t uid, gid;
    uint32_t ngids;
    uint32_t gids[RPC_MAX_GIDS];
};

/* Who the caller is on this export: squashed unless it lets root be root. AUTH_NONE is nobody. */
void fs_cred_map(const struct rpc_cred *rpc, const struct export_access *access,
                 struct fs_cred *out);

/* The thread acts as the caller from here on, then as root again (which opening handles needs). 0,
 * or -EPERM when the kernel did not follow: then nothing may be done. */
int fs_become(const struct fs_cred *cred);
void fs_become_root(void);

/* Permission bits (R_OK | W_OK | X_OK) that the mode gives the caller, as the kernel decides
 * without ACLs: root all, but execution only of what anybody may execute. */
unsigned fs_permission(const struct fs_cred *cred, const struct stat *st);
bool fs_in_group(const struct fs_cred *cred, uint32_t gid);

#endif
