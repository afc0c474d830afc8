/*
 * The MOUNT procedures, see mount.h. Those that look up folders or build lists run on I/O threads.
 *
 * Errors: MNT answers a mountstat3; the others have no error to give (RFC 1813 appendix I) and
 * always reply.
 */
#include "agent/mount/mount.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rpc/rpc.h>

#include "agent/fs/handle.h"
#include "agent/mount/mount_list.h"
#include "agent/mount/mount_path.h"
#include "agent/mount/mount_proto.h"
#include "agent/volume/volume.h"
#include "common/mem.h"

#define EXPORTS_MAX                                                                                \
    2048 /* listed at one endpoint; keeps the reply and rpcgen's recursion bounded */

/* Encodes a result by its rpcgen'd XDR. */
static enum rpc_verdict reply_xdr(struct rpc_call *call, xdrproc_t proc, void *value)
{
    size_t size = xdr_sizeof(proc, value);
    XDR xdrs;
    bool ok;

    if (size == 0 || !rpc_reserve(call, size))
        return RPC_SYSTEM_ERR;
    xdrmem_create(&xdrs, (char *)call->res.at, (u_int)size, XDR_ENCODE);
    ok = proc(&xdrs, value);
    call->res.at += xdr_getpos(&xdrs);
    xdr_destroy(&xdrs);
    return ok ? RPC_REPLY : RPC_SYSTEM_ERR;
}

static enum rpc_verdict run_null(struct rpc_call *call)
{
    (void)call;
    return RPC_REPLY;
}

/* --- MNT --- */

static mountstat3 status_of(int err)
{
    static const struct {
        int err;
        mountstat3 status;
    } map[] = {
        {0, MNT3_OK},
        {-ENOENT, MNT3ERR_NOENT},
        {-EACCES, MNT3ERR_ACCES},
        {-EPERM, MNT3ERR_ACCES},
        {-EXDEV, MNT3ERR_ACCES}, /* a way out of the volume */
        {-ELOOP, MNT3ERR_ACCES},
        {-ENOTDIR, MNT3ERR_NOTDIR},
        {-ENAMETOOLONG, MNT3ERR_NAMETOOLONG},
        {-EINVAL, MNT3ERR_INVAL},
        {-EIO, MNT3ERR_IO},
    };

    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
        if (map[i].err == err)
            return map[i].status;
    }
    return MNT3ERR_SERVERFAULT;
}

static int handle_of_path(const struct volume *v, const char *rest, struct fs_handle *out)
{
    int fd, err;

    if (rest[0] == '\0')
        return fs_handle_root(v, out);
    fd = mount_path_open(v->store->root, rest);
    if (fd < 0)
        return fd;
    err = fs_handle_of(v, fd, out);
    close(fd);
    return err;
}

static int mount_volume(const struct rpc_call *call, const char *path, struct fs_handle *out)
{
    const char *rest;
    struct volume *v = volume_find_export(volume_table, call->local, path, &rest);
    int err;

    if (v == NULL)
        return -ENOENT;
    if (atomic_load(&v->gone))
        err = -ENOENT;
    else if (!volume_access(v, call->client).allowed)
        err = -EACCES;
    else
        err = handle_of_path(v, rest, out);
    volume_put(v);
    return err;
}

static enum rpc_verdict run_mnt(struct rpc_call *call)
{
    char path[MOUNT_PATH_MAX + 1];
    struct fs_handle handle;
    int flavors[] = {1 /* AUTH_SYS */};
    mountres3 res = {0};
    const uint8_t *raw;
    uint32_t len;
    int err;

    if (!call->may_block)
        return RPC_OFFLOAD;
    /* Longer than dirpath allows is answered NAMETOOLONG, so it is read with the record as its
     * bound. */
    raw = xdr_get_opaque(&call->args, RPC_MAX_RECORD, &len);
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    err = mount_path_clean(raw, len, path);
    if (err == 0)
        err = mount_volume(call, path, &handle);
    res.fhs_status = status_of(err);
    if (err == 0) {
        mount_list_add(call->client, path);
        res.mountres3_u.mountinfo.fhandle.fhandle3_len = handle.len;
        res.mountres3_u.mountinfo.fhandle.fhandle3_val = (char *)handle.data;
        res.mountres3_u.mountinfo.auth_flavors.auth_flavors_len =
            sizeof(flavors) / sizeof(flavors[0]);
        res.mountres3_u.mountinfo.auth_flavors.auth_flavors_val = flavors;
    }
    return reply_xdr(call, (xdrproc_t)xdr_mountres3, &res);
}

/* --- DUMP, UMNT, UMNTALL --- */

static enum rpc_verdict run_dump(struct rpc_call *call)
{
    struct mountbody *bodies;
    struct mount_entry *entries;
    char(*hosts)[INET_ADDRSTRLEN];
    mountlist list = NULL;
    enum rpc_verdict verdict;
    size_t n;

    if (!call->may_block)
        return RPC_OFFLOAD;
    entries = mount_list_get(&n);
    bodies = xcalloc(n + 1, sizeof(bodies[0]));
    hosts = xcalloc(n + 1, sizeof(hosts[0]));
    for (size_t i = n; i-- > 0;) {
        inet_ntop(AF_INET, &entries[i].client, hosts[i], sizeof(hosts[i]));
        bodies[i] = (struct mountbody){
            .ml_hostname = hosts[i], .ml_directory = entries[i].path, .ml_next = list};
        list = &bodies[i];
    }
    verdict = reply_xdr(call, (xdrproc_t)xdr_mountlist, &list);
    free(hosts);
    free(bodies);
    free(entries);
    return verdict;
}

static enum rpc_verdict run_umnt(struct rpc_call *call)
{
    char path[MOUNT_PATH_MAX + 1];
    const uint8_t *raw;
    uint32_t len;

    raw = xdr_get_opaque(&call->args, RPC_MAX_RECORD, &len);
    if (call->args.failed)
        return RPC_GARBAGE_ARGS;
    if (mount_path_clean(raw, len, path) == 0)
        mount_list_remove(call->client, path);
    return RPC_REPLY;
}

static enum rpc_verdict run_umntall(struct rpc_call *call)
{
    mount_list_remove_all(call->client);
    return RPC_REPLY;
}

/* --- EXPORT --- */

/* Appends the clients of a rule, a comma list, at *last; returns the new end. Names that MOUNT has
 * no room for are left out. */
static groups *add_groups(groups *last, const char *clients)
{
    while (*clients != '\0') {
        size_t len;

        clients += strspn(clients, ", ");
        len = strcspn(clients, ", ");
        if (len > 0 && len <= MNTNAMLEN) {
            *last = xcalloc(1, sizeof(**last));
            (*last)->gr_name = xstrndup(clients, len);
            last = &(*last)->gr_next;
        }
        clients += len;
    }
    return last;
}

static struct exportnode *export_of(const struct volume *v)
{
    struct exportnode *node = xcalloc(1, sizeof(*node));
    groups *last = &node->ex_groups;
    struct volume_spec spec = {0};

    volume_get_spec(v, &spec);
    node->ex_dir = xstrdup(spec.export_path);
    for (size_t i = 0; i < spec.nrules; i++) {
        if (spec.rules[i].nfsv3 && (spec.rules[i].read_only || spec.rules[i].read_write))
            last = add_groups(last, spec.rules[i].clients);
    }
    volume_spec_clear(&spec);
    return node;
}

static bool listed_for(const struct volume *v, const struct rpc_call *call)
{
    return !atomic_load(&v->gone) && volume_has_endpoint(v, call->local) &&
           volume_access(v, call->client).allowed;
}

static enum rpc_verdict run_export(struct rpc_call *call)
{
    exports list = NULL, *last = &list;
    enum rpc_verdict verdict;
    struct volume **volumes;
    size_t n, listed = 0;

    if (!call->may_block)
        return RPC_OFFLOAD;
    volumes = volume_list(volume_table, &n);
    for (size_t i = 0; i < n; i++) {
        if (listed < EXPORTS_MAX && listed_for(volumes[i], call)) {
            *last = export_of(volumes[i]);
            last = &(*last)->ex_next;
            listed++;
        }
        volume_put(volumes[i]);
    }
    free(volumes);
    verdict = reply_xdr(call, (xdrproc_t)xdr_exports, &list);
    xdr_free((xdrproc_t)xdr_exports, (char *)&list);
    return verdict;
}

static const struct rpc_proc mount3_procs[] = {
    {"NULL", run_null}, {"MNT", run_mnt},         {"DUMP", run_dump},
    {"UMNT", run_umnt}, {"UMNTALL", run_umntall}, {"EXPORT", run_export},
};
/* MNT of version 1 hands out NFS 2 handles: not offered. */
static const struct rpc_proc mount1_procs[] = {
    {"NULL", run_null},       {"MNT", NULL},          {"DUMP", run_dump},        {"UMNT", run_umnt},
    {"UMNTALL", run_umntall}, {"EXPORT", run_export}, {"EXPORTALL", run_export},
};

static const struct rpc_proc *mount_procs(uint32_t vers, size_t *count)
{
    switch (vers) {
    case 1:
        *count = sizeof(mount1_procs) / sizeof(mount1_procs[0]);
        return mount1_procs;
    case 3:
        *count = sizeof(mount3_procs) / sizeof(mount3_procs[0]);
        return mount3_procs;
    default:
        *count = 0;
        return NULL;
    }
}

const struct rpc_program mount_program = {100005, "mount", 1, 3, mount_procs};
