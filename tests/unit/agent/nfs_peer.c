/* See the header. */
#include "tests/unit/agent/nfs_peer.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/agent/rpc_peer.h"
#include "tests/unit/agent/store_fixture.h"

#define ENDPOINT "127.0.0.30"

static const struct rpc_program *const programs[] = {&nfs_program, NULL};
static char *dir;
static struct storage *store;
static struct rpc_server *server;
static struct volume *volume;
static struct fs_handle root;
static struct volume_spec spec;
static char clients[128], resource[] = "/volumes/test";
static enum durability durability;
static uint16_t port;
static _Thread_local int fd = -1;
static _Thread_local uint32_t next_xid, flavor;
static _Thread_local uint8_t cred[512], args_space[RPC_MAX_RECORD],
    call_space[RPC_MAX_RECORD + 1024], reply_space[RPC_MAX_RECORD + 1024];
static _Thread_local size_t cred_len;
static _Thread_local struct xdr_out args;

static void apply(void)
{
    char message[256] = "";

    spec.generation++;
    cr_assert_eq(volume_apply(volume_table, store, &spec, message, sizeof message), 0, "%s",
                 message);
}

static void start(void)
{
    const struct rpc_server_config config = {.workers = 2, .io_threads = 4, .programs = programs};

    store = store_open(dir, durability);
    volume_table = volume_table_new();
    nfs_start();
    server = rpc_server_start(&config);
    cr_assert_not_null(server);
    apply();
    volume = volume_get(volume_table, &spec.fs_id);
    fs_handle_root(volume, &root);
    port = peer_free_port();
    cr_assert_eq(rpc_listen(server, ENDPOINT, port, NULL), 0);
    nfs_connect("127.0.0.1");
}

static void stop(void)
{
    nfs_disconnect();
    rpc_server_stop(server, 1);
    volume_put(volume);
    volume_table_free(volume_table);
    nfs_stop();
    storage_close(store);
}

static void set_rule(bool writable, bool root_access, bool chown_restricted, const char *allowed)
{
    snprintf(clients, sizeof clients, "%s", allowed);
    spec.rules[0] = (struct export_rule_spec){.index = 1,
                                              .clients = clients,
                                              .read_only = !writable,
                                              .read_write = writable,
                                              .root_access = root_access,
                                              .chown_restricted = chown_restricted,
                                              .nfsv3 = true};
}

static void setup(uint64_t quota)
{
    dir = scratch_make();
    spec = (struct volume_spec){.quota_bytes = quota,
                                .resource_id = resource,
                                .max_files = 100000,
                                .root_mode = 0755,
                                .nendpoints = 1,
                                .nrules = 1,
                                .export_path = "/test"};
    memset(spec.fs_id.b, 7, sizeof spec.fs_id.b);
    memset(spec.handle_key, 9, sizeof spec.handle_key);
    inet_pton(AF_INET, ENDPOINT, &spec.endpoints[0]);
    set_rule(true, true, true, "0.0.0.0/0");
    start();
    nfs_as(0, 0, 0, NULL);
}

void nfs_setup_quota(uint64_t quota)
{
    durability = DURABILITY_PROCESS;
    setup(quota);
}

void nfs_setup_power(void)
{
    durability = DURABILITY_POWER;
    setup(GIB);
}

void nfs_setup(void)
{
    nfs_setup_quota(GIB);
}

void nfs_teardown(void)
{
    stop();
    scratch_remove(dir);
}

void nfs_restart(void)
{
    stop();
    start();
}

static void copy_journal(const char *from, const char *to)
{
    char text[UUID_TEXT_MAX], command[512];

    uuid_format(&spec.fs_id, text);
    snprintf(command, sizeof command, "cp %s/volumes/%s/%s %s/volumes/%s/%s", dir, text, from, dir,
             text, to);
    cr_assert_eq(system(command), 0);
}

void nfs_crash(void)
{
    copy_journal("usage", "usage.open");
    stop();
    copy_journal("usage.open", "usage");
    start();
}

void nfs_connect(const char *from)
{
    nfs_disconnect();
    fd = peer_connect(from, ENDPOINT, port);
    cr_assert_geq(fd, 0);
}

void nfs_disconnect(void)
{
    if (fd >= 0)
        close(fd);
    fd = -1;
}

struct volume *nfs_volume(void)
{
    return volume;
}

const struct fs_handle *nfs_root(void)
{
    return &root;
}

void nfs_set_rule(bool writable, bool root_access, bool chown_restricted, const char *allowed)
{
    set_rule(writable, root_access, chown_restricted, allowed);
    apply();
}

void nfs_set_limit(uint64_t bytes_per_s)
{
    spec.limit = bytes_per_s;
    apply();
}

void nfs_set_quota(uint64_t bytes, uint64_t max_files)
{
    spec.quota_bytes = bytes;
    spec.max_files = max_files;
    apply();
}

struct fs_handle nfs_second_volume(void)
{
    static char second_resource[] = "/volumes/second";
    struct volume_spec second = spec;
    char message[256] = "";
    struct fs_handle fh;
    struct volume *v;

    memset(second.fs_id.b, 8, sizeof second.fs_id.b);
    second.fs_id.b[3] = 99;
    memset(second.handle_key, 10, sizeof second.handle_key);
    second.resource_id = second_resource;
    snprintf(second.export_path, sizeof second.export_path, "/second");
    cr_assert_eq(volume_apply(volume_table, store, &second, message, sizeof message), 0, "%s",
                 message);
    v = volume_get(volume_table, &second.fs_id);
    fs_handle_root(v, &fh);
    volume_put(v);
    return fh;
}

void nfs_delete_volume(void)
{
    spec.deleted = true;
    apply();
}

void nfs_as(uint32_t uid, uint32_t gid, uint32_t ngids, const uint32_t *gids)
{
    struct xdr_out x = {cred, cred, cred + sizeof cred, false};

    flavor = 1;
    xdr_put_u32(&x, 1);
    xdr_put_opaque(&x, "test", 4);
    xdr_put_u32(&x, uid);
    xdr_put_u32(&x, gid);
    xdr_put_u32(&x, ngids);
    for (uint32_t i = 0; i < ngids; i++)
        xdr_put_u32(&x, gids[i]);
    cred_len = xdr_written(&x);
}

void nfs_as_unknown(void)
{
    flavor = 0;
    cred_len = 0;
}

struct xdr_out *nfs_args(void)
{
    args = (struct xdr_out){args_space, args_space, args_space + sizeof args_space, false};
    return &args;
}

void nfs_put_handle(const struct fs_handle *fh)
{
    xdr_put_opaque(&args, fh->data, fh->len);
}

void nfs_put_name(const char *name)
{
    xdr_put_opaque(&args, name, (uint32_t)strlen(name));
}

static void put_optional(int64_t v)
{
    xdr_put_bool(&args, v >= 0);
    if (v >= 0)
        xdr_put_u32(&args, (uint32_t)v);
}

static void put_time(enum nfs_time_how how, uint32_t seconds, uint32_t nanoseconds)
{
    xdr_put_u32(&args, how);
    if (how != SET_TO_CLIENT_TIME)
        return;
    xdr_put_u32(&args, seconds);
    xdr_put_u32(&args, nanoseconds);
}

void nfs_put_set(const struct set *set)
{
    put_optional(set->mode);
    put_optional(set->uid);
    put_optional(set->gid);
    xdr_put_bool(&args, set->size != -1);
    if (set->size != -1)
        xdr_put_u64(&args, (uint64_t)set->size);
    put_time(set->atime_how, set->atime_s, set->atime_ns);
    put_time(set->mtime_how, set->mtime_s, set->mtime_ns);
}

void nfs_put_sattr(long mode, int64_t size)
{
    nfs_put_set(&(struct set){.mode = mode, .uid = -1, .gid = -1, .size = size});
}

static void send_call(uint32_t proc, const void *data, size_t len)
{
    peer_send(fd, call_space,
              peer_call_auth(call_space, ++next_xid, NFS_PROGRAM, NFS_V3, proc, flavor, cred,
                             cred_len, data, len));
}

/* A reply behind the verifier: accept_stat and what follows. */
static bool receive(struct xdr_in *x, uint32_t *xid)
{
    long got = peer_reply(fd, reply_space, sizeof reply_space);

    if (got < 0)
        return false;
    *x = (struct xdr_in){reply_space, reply_space + got, false};
    *xid = xdr_get_u32(x);
    cr_assert_eq(xdr_get_u32(x), 1); /* REPLY */
    cr_assert_eq(xdr_get_u32(x), 0); /* MSG_ACCEPTED */
    xdr_get_u32(x);
    xdr_get_u32(x); /* an empty verifier */
    return true;
}

void nfs_send(uint32_t proc)
{
    cr_assert(!args.failed);
    send_call(proc, args_space, xdr_written(&args));
}

struct xdr_in nfs_receive(void)
{
    struct xdr_in x;
    uint32_t xid;

    cr_assert(receive(&x, &xid));
    cr_assert_eq(xdr_get_u32(&x), 0); /* SUCCESS */
    return x;
}

struct xdr_in nfs_call(uint32_t proc)
{
    struct xdr_in x;
    uint32_t xid;

    nfs_send(proc);
    cr_assert(receive(&x, &xid));
    cr_assert_eq(xid, next_xid);
    cr_assert_eq(xdr_get_u32(&x), 0); /* SUCCESS */
    return x;
}

uint32_t nfs_status_of(uint32_t proc, struct xdr_in *results)
{
    *results = nfs_call(proc);
    return xdr_get_u32(results);
}

int nfs_accept_stat(uint32_t proc, const void *data, size_t len)
{
    struct xdr_in x;
    uint32_t xid;

    send_call(proc, data, len);
    if (!receive(&x, &xid))
        return -1;
    cr_assert_eq(xid, next_xid);
    return (int)xdr_get_u32(&x);
}

void nfs_get_attr(struct xdr_in *x, struct attr *a)
{
    a->type = xdr_get_u32(x);
    a->mode = xdr_get_u32(x);
    a->nlink = xdr_get_u32(x);
    a->uid = xdr_get_u32(x);
    a->gid = xdr_get_u32(x);
    a->size = xdr_get_u64(x);
    a->used = xdr_get_u64(x);
    xdr_get_u64(x); /* rdev */
    a->fsid = xdr_get_u64(x);
    a->fileid = xdr_get_u64(x);
    a->atime_s = xdr_get_u32(x);
    xdr_get_u32(x);
    a->mtime_s = xdr_get_u32(x);
    a->mtime_ns = xdr_get_u32(x);
    a->ctime_s = xdr_get_u32(x);
    a->ctime_ns = xdr_get_u32(x);
    cr_assert(!x->failed);
}

bool nfs_get_post_attr(struct xdr_in *x, struct attr *a)
{
    bool there = xdr_get_bool(x);

    if (there)
        nfs_get_attr(x, a);
    return there;
}

bool nfs_get_wcc(struct xdr_in *x, struct attr *a)
{
    bool before = xdr_get_bool(x);

    if (before)
        xdr_get_fixed(x, 24);
    cr_assert(nfs_get_post_attr(x, a));
    return before;
}

void nfs_get_handle(struct xdr_in *x, struct fs_handle *fh)
{
    const uint8_t *data = xdr_get_opaque(x, FS_HANDLE_MAX, &fh->len);

    cr_assert_not_null(data);
    memcpy(fh->data, data, fh->len);
}

uint32_t nfs_do_getattr(const struct fs_handle *fh, struct attr *a)
{
    struct xdr_in x;
    uint32_t status;

    nfs_args();
    nfs_put_handle(fh);
    if ((status = nfs_status_of(NFSPROC_GETATTR, &x)) == NFS_OK)
        nfs_get_attr(&x, a);
    return status;
}

uint32_t nfs_do_lookup(const struct fs_handle *in, const char *name, struct fs_handle *fh)
{
    struct xdr_in x;
    uint32_t status;

    nfs_args();
    nfs_put_handle(in);
    nfs_put_name(name);
    if ((status = nfs_status_of(NFSPROC_LOOKUP, &x)) == NFS_OK)
        nfs_get_handle(&x, fh);
    return status;
}

static uint32_t made(uint32_t proc, struct fs_handle *fh)
{
    struct xdr_in x;
    uint32_t status = nfs_status_of(proc, &x);

    if (status == NFS_OK) {
        cr_assert(xdr_get_bool(&x));
        nfs_get_handle(&x, fh);
    }
    return status;
}

static void put_where(const struct fs_handle *in, const char *name)
{
    nfs_args();
    nfs_put_handle(in);
    nfs_put_name(name);
}

uint32_t nfs_do_create_with(const struct fs_handle *in, const char *name, enum nfs_createmode how,
                            const struct set *set, struct fs_handle *fh)
{
    put_where(in, name);
    xdr_put_u32(&args, how);
    nfs_put_set(set);
    return made(NFSPROC_CREATE, fh);
}

uint32_t nfs_do_create(const struct fs_handle *in, const char *name, long mode,
                       struct fs_handle *fh)
{
    return nfs_do_create_with(in, name, GUARDED,
                              &(struct set){.mode = mode, .uid = -1, .gid = -1, .size = -1}, fh);
}

uint32_t nfs_do_exclusive(const struct fs_handle *in, const char *name,
                          const uint8_t verf[static NFS_CREATEVERF], struct fs_handle *fh)
{
    put_where(in, name);
    xdr_put_u32(&args, EXCLUSIVE);
    xdr_put_fixed(&args, verf, NFS_CREATEVERF);
    return made(NFSPROC_CREATE, fh);
}

uint32_t nfs_do_mkdir_with(const struct fs_handle *in, const char *name, const struct set *set,
                           struct fs_handle *fh)
{
    put_where(in, name);
    nfs_put_set(set);
    return made(NFSPROC_MKDIR, fh);
}

uint32_t nfs_do_mkdir(const struct fs_handle *in, const char *name, long mode, struct fs_handle *fh)
{
    return nfs_do_mkdir_with(in, name,
                             &(struct set){.mode = mode, .uid = -1, .gid = -1, .size = -1}, fh);
}

uint32_t nfs_do_symlink(const struct fs_handle *in, const char *name, const void *text,
                        uint32_t len, struct fs_handle *fh)
{
    put_where(in, name);
    nfs_put_sattr(-1, -1);
    xdr_put_opaque(&args, text, len);
    return made(NFSPROC_SYMLINK, fh);
}

uint32_t nfs_do_mknod(const struct fs_handle *in, const char *name, uint32_t type, uint32_t major,
                      uint32_t minor, struct fs_handle *fh)
{
    put_where(in, name);
    xdr_put_u32(&args, type);
    if (type != NF_REG && type != NF_DIR && type != NF_LNK)
        nfs_put_sattr(0644, -1);
    if (type == NF_BLK || type == NF_CHR) {
        xdr_put_u32(&args, major);
        xdr_put_u32(&args, minor);
    }
    return made(NFSPROC_MKNOD, fh);
}

uint32_t nfs_do_link(const struct fs_handle *file, const struct fs_handle *in, const char *name)
{
    struct xdr_in x;

    nfs_args();
    nfs_put_handle(file);
    nfs_put_handle(in);
    nfs_put_name(name);
    return nfs_status_of(NFSPROC_LINK, &x);
}

bool nfs_same_handle(const struct fs_handle *a, const struct fs_handle *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

uint32_t nfs_do_write(const struct fs_handle *fh, uint64_t offset, const void *data, uint32_t len,
                      uint32_t stable)
{
    struct xdr_in x;
    struct attr a;
    uint32_t status;

    nfs_args();
    nfs_put_handle(fh);
    xdr_put_u64(&args, offset);
    xdr_put_u32(&args, len);
    xdr_put_u32(&args, stable);
    xdr_put_opaque(&args, data, len);
    if ((status = nfs_status_of(NFSPROC_WRITE, &x)) == NFS_OK) {
        nfs_get_wcc(&x, &a);
        cr_assert_eq(xdr_get_u32(&x), len);
        cr_assert_geq(xdr_get_u32(&x), stable);
    }
    return status;
}

uint32_t nfs_do_read(const struct fs_handle *fh, uint64_t offset, uint32_t count, void *data,
                     uint32_t *len, bool *eof)
{
    const uint8_t *bytes;
    struct xdr_in x;
    struct attr a;
    uint32_t status, said;

    nfs_args();
    nfs_put_handle(fh);
    xdr_put_u64(&args, offset);
    xdr_put_u32(&args, count);
    if ((status = nfs_status_of(NFSPROC_READ, &x)) == NFS_OK) {
        cr_assert(nfs_get_post_attr(&x, &a));
        said = xdr_get_u32(&x);
        *eof = xdr_get_bool(&x);
        bytes = xdr_get_opaque(&x, RPC_MAX_DATA, len);
        cr_assert_not_null(bytes);
        cr_assert_eq(said, *len);
        memcpy(data, bytes, *len);
    }
    return status;
}

static uint32_t remove_call(uint32_t proc, const struct fs_handle *in, const char *name)
{
    struct xdr_in x;

    nfs_args();
    nfs_put_handle(in);
    nfs_put_name(name);
    return nfs_status_of(proc, &x);
}

uint32_t nfs_do_remove(const struct fs_handle *in, const char *name)
{
    return remove_call(NFSPROC_REMOVE, in, name);
}

uint32_t nfs_do_rmdir(const struct fs_handle *in, const char *name)
{
    return remove_call(NFSPROC_RMDIR, in, name);
}

uint32_t nfs_do_rename(const struct fs_handle *from, const char *name, const struct fs_handle *to,
                       const char *new_name)
{
    struct xdr_in x;

    nfs_args();
    nfs_put_handle(from);
    nfs_put_name(name);
    nfs_put_handle(to);
    nfs_put_name(new_name);
    return nfs_status_of(NFSPROC_RENAME, &x);
}

uint32_t nfs_do_set(const struct fs_handle *fh, const struct set *set)
{
    struct xdr_in x;

    nfs_args();
    nfs_put_handle(fh);
    nfs_put_set(set);
    xdr_put_bool(&args, false);
    return nfs_status_of(NFSPROC_SETATTR, &x);
}

uint32_t nfs_do_setattr(const struct fs_handle *fh, long mode, int64_t size)
{
    return nfs_do_set(fh, &(struct set){.mode = mode, .uid = -1, .gid = -1, .size = size});
}

uint32_t nfs_do_access(const struct fs_handle *fh, uint32_t wanted, uint32_t *given)
{
    struct xdr_in x;
    struct attr a;
    uint32_t status;

    nfs_args();
    nfs_put_handle(fh);
    xdr_put_u32(&args, wanted);
    status = nfs_status_of(NFSPROC_ACCESS, &x);
    cr_assert(nfs_get_post_attr(&x, &a));
    if (status == NFS_OK)
        *given = xdr_get_u32(&x);
    return status;
}
