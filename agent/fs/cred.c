/* Acting as the caller; see the header. Per-thread state only, no locks. */
#include "agent/fs/cred.h"

#include <errno.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

#define NO_ID UINT32_MAX /* the system calls' "leave it": no user or group has it */

/* What this thread is. It starts as root with whatever groups the process has. */
static _Thread_local struct {
    uint32_t uid, gid;
    bool groups_known;
    uint32_t ngids;
    uint32_t gids[RPC_MAX_GIDS];
} now;

static uint32_t map_id(uint32_t id, const struct export_access *access)
{
    return id == NO_ID || (id == 0 && !access->root) ? FS_ANON : id;
}

void fs_cred_map(const struct rpc_cred *rpc, const struct export_access *access,
                 struct fs_cred *out)
{
    *out = (struct fs_cred){.uid = FS_ANON, .gid = FS_ANON};
    if (rpc->flavor != 1)
        return;
    out->uid = map_id(rpc->uid, access);
    out->gid = map_id(rpc->gid, access);
    for (uint32_t i = 0; i < rpc->ngids && i < RPC_MAX_GIDS; i++)
        if (map_id(rpc->gids[i], access) == rpc->gids[i])
            out->gids[out->ngids++] = rpc->gids[i];
}

/* setfsuid and setfsgid tell their success only by what they answer next time. */
static bool set_fsuid(uint32_t uid)
{
    if (now.uid == uid)
        return true;
    setfsuid(uid);
    if ((uint32_t)setfsuid((uid_t)-1) != uid)
        return false;
    now.uid = uid;
    return true;
}

static bool set_fsgid(uint32_t gid)
{
    if (now.gid == gid)
        return true;
    setfsgid(gid);
    if ((uint32_t)setfsgid((gid_t)-1) != gid)
        return false;
    now.gid = gid;
    return true;
}

int fs_become(const struct fs_cred *cred)
{
    bool same = now.groups_known && now.ngids == cred->ngids &&
                memcmp(now.gids, cred->gids, cred->ngids * sizeof *cred->gids) == 0;

    if (!same) {
        if (syscall(SYS_setgroups, (size_t)cred->ngids, cred->gids) != 0)
            return -EPERM;
        now.groups_known = true;
        now.ngids = cred->ngids;
        memcpy(now.gids, cred->gids, sizeof now.gids);
    }
    /* The group first: without its capabilities the thread could not change it any more. */
    if (!set_fsgid(cred->gid) || !set_fsuid(cred->uid)) {
        fs_become_root();
        return -EPERM;
    }
    return 0;
}

void fs_become_root(void)
{
    /* A thread that stays somebody would answer others with his rights. */
    if (!set_fsuid(0) || !set_fsgid(0))
        fatal("cannot act as root again");
}

bool fs_in_group(const struct fs_cred *cred, uint32_t gid)
{
    if (cred->gid == gid)
        return true;
    for (uint32_t i = 0; i < cred->ngids; i++)
        if (cred->gids[i] == gid)
            return true;
    return false;
}

unsigned fs_permission(const struct fs_cred *cred, const struct stat *st)
{
    if (cred->uid == 0)
        return R_OK | W_OK | (S_ISDIR(st->st_mode) || (st->st_mode & 0111) ? X_OK : 0);
    if (cred->uid == st->st_uid)
        return st->st_mode >> 6 & 7;
    if (fs_in_group(cred, st->st_gid))
        return st->st_mode >> 3 & 7;
    return st->st_mode & 7;
}
