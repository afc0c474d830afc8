/*
 * libFuzzer: the 22 procedures of NFS, from their arguments to their results, on a real volume in a
 * temporary folder (so it must run as root). An input is
 *
 *     byte 0      the procedure, modulo 22
 *     byte 1      low 3 bits: which object's handle comes first, or none (then the rest is all of
 *                 the arguments); next 3: that of the second handle, where the procedure has one;
 *                 bit 6: a caller who is not root; bit 7: an export that is read-only
 *     byte 2      of RENAME: how many bytes of the rest stand before the second handle
 *     the rest    the arguments behind the handles
 *
 * Handles carry a MAC that no fuzzer finds, therefore they are put in.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/fs/handle.h"
#include "agent/fs/inode.h"
#include "agent/nfs/nfs.h"
#include "agent/nfs/nfs_proto.h"
#include "agent/rpc/internal.h"
#include "agent/volume/volume.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { ROOT, FOLDER, FILE_A, LINK, FIFO, GONE, OBJECTS, NO_HANDLE = 7 };

#define REBUILD_EVERY 512

static char dir[] = "/tmp/fuzz-nfs-XXXXXX";
static struct storage *store;
static struct rpc_server server;
static struct volume *volume;
static struct fs_handle handles[OBJECTS];

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void apply(bool deleted, bool writable)
{
    static char everybody[] = "0.0.0.0/0", resource[] = "/volumes/fuzz";
    static struct volume_spec spec = {.quota_bytes = 1 << 24,
                                      .max_files = 1000,
                                      .root_mode = 0777,
                                      .nendpoints = 1,
                                      .nrules = 1,
                                      .export_path = "/fuzz",
                                      .resource_id = resource,
                                      .fs_id = {{1}},
                                      .handle_key = {2},
                                      .endpoints = {{0x0100007f}}};
    char message[256];

    spec.generation++;
    spec.deleted = deleted;
    spec.rules[0] = (struct export_rule_spec){.index = 1,
                                              .clients = everybody,
                                              .read_only = !writable,
                                              .read_write = writable,
                                              .root_access = true,
                                              .chown_restricted = true,
                                              .nfsv3 = true};
    require(volume_apply(volume_table, store, &spec, message, sizeof message) == 0);
}

static void handle_of(const char *name, struct fs_handle *out)
{
    int fd = openat(volume->store->root, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    require(fd >= 0 && fs_handle_of(volume, fd, out) == 0);
    close(fd);
}

/* A fresh volume, writable, with an object of each kind. */
static void rebuild(void)
{
    const struct uuid fs_id = {{1}};
    int root, fd;

    if (volume) {
        apply(true, true);
        volume_put(volume);
    }
    apply(false, true);
    volume = volume_get(volume_table, &fs_id);
    require(volume != NULL);
    root = volume->store->root;
    fs_handle_root(volume, &handles[ROOT]);
    require(mkdirat(root, "folder", 0777) == 0);
    handle_of("folder", &handles[FOLDER]);
    for (int i = 0; i < 8; i++) {
        char name[32];

        snprintf(name, sizeof name, "folder/%d", i);
        require((fd = openat(root, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666)) >= 0);
        close(fd);
    }
    require((fd = openat(root, "a", O_CREAT | O_WRONLY | O_CLOEXEC, 0666)) >= 0);
    require(write(fd, "0123456789", 10) == 10);
    close(fd);
    handle_of("a", &handles[FILE_A]);
    require(symlinkat("a", root, "link") == 0);
    handle_of("link", &handles[LINK]);
    require(mkfifoat(root, "fifo", 0666) == 0);
    handle_of("fifo", &handles[FIFO]);
    require((fd = openat(root, "gone", O_CREAT | O_WRONLY | O_CLOEXEC, 0666)) >= 0);
    handle_of("gone", &handles[GONE]);
    require(unlinkat(root, "gone", 0) == 0);
    close(fd);
}

static void clean_up(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        perror(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct storage_config config = {
        .dir = dir, .backend = "dir", .durability = DURABILITY_PROCESS};

    (void)argc;
    (void)argv;
    require(mkdtemp(dir) != NULL);
    atexit(clean_up);
    require(storage_open(&config, &store) == 0);
    volume_table = volume_table_new();
    nfs_start();
    volume_on_retire(inode_forget_volume);
    pool_init(&server.pool, (size_t)64 << 20, NULL, NULL);
    return 0;
}

struct input {
    uint32_t proc;
    unsigned first, second, split;
    bool other, read_only;
    const uint8_t *rest;
    size_t len;
};

static bool parse(const uint8_t *data, size_t size, struct input *in)
{
    if (size < 3 || size > 8192)
        return false;
    in->proc = data[0] % NFSPROC_COUNT;
    in->first = data[1] & 7;
    in->second = data[1] >> 3 & 7;
    in->other = data[1] >> 6 & 1;
    in->read_only = data[1] >> 7;
    in->rest = data + 3;
    in->len = size - 3;
    in->split = in->proc == NFSPROC_RENAME && data[2] < in->len ? data[2] / 4 * 4u : 0;
    return true;
}

static void put_handle(struct xdr_out *x, unsigned object)
{
    if (object < OBJECTS)
        xdr_put_opaque(x, handles[object].data, handles[object].len);
}

static void put_raw(struct xdr_out *x, const uint8_t *data, size_t len)
{
    require(xdr_room(x) >= len);
    if (len > 0)
        memcpy(x->at, data, len);
    x->at += len;
}

/* The arguments in memory of exactly their size, so that each byte read too much is seen. */
static uint8_t *build(const struct input *in, size_t *len)
{
    static uint8_t space[8192 + 256];
    struct xdr_out x = {space, space, space + sizeof space, false};
    uint8_t *args;

    if (in->first != NO_HANDLE)
        put_handle(&x, in->first);
    if (in->proc == NFSPROC_RENAME || in->proc == NFSPROC_LINK) {
        put_raw(&x, in->rest, in->split);
        put_handle(&x, in->second);
    }
    put_raw(&x, in->rest + in->split, in->len - in->split);
    *len = xdr_written(&x);
    args = malloc(*len > 0 ? *len : 1);
    require(args != NULL);
    memcpy(args, space, *len);
    return args;
}

static bool is_status(uint32_t status)
{
    static const uint32_t known[] = {
        NFS_OK,          NFSERR_PERM,        NFSERR_NOENT,      NFSERR_IO,      NFSERR_NXIO,
        NFSERR_ACCES,    NFSERR_EXIST,       NFSERR_XDEV,       NFSERR_NODEV,   NFSERR_NOTDIR,
        NFSERR_ISDIR,    NFSERR_INVAL,       NFSERR_FBIG,       NFSERR_NOSPC,   NFSERR_ROFS,
        NFSERR_MLINK,    NFSERR_NAMETOOLONG, NFSERR_NOTEMPTY,   NFSERR_DQUOT,   NFSERR_STALE,
        NFSERR_NOT_SYNC, NFSERR_BADHANDLE,   NFSERR_BAD_COOKIE, NFSERR_NOTSUPP, NFSERR_TOOSMALL,
        NFSERR_BADTYPE,  NFSERR_JUKEBOX};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == status)
            return true;
    return false; /* SERVERFAULT too: an errno that nobody thought of */
}

static void check_reply(const struct rpc_call *call)
{
    struct xdr_in x = {call->res.start, call->res.at, false};

    require(!call->res.failed && xdr_written(&call->res) % 4 == 0);
    if (call->proc == NFSPROC_NULL) {
        require(xdr_written(&call->res) == 0);
        return;
    }
    require(xdr_written(&call->res) >= 4);
    require(is_status(xdr_get_u32(&x)));
}

static void run(const struct input *in, uint8_t *args, size_t len)
{
    static struct call call;
    size_t count;
    enum rpc_verdict verdict = RPC_OFFLOAD;

    memset(&call.pub, 0, sizeof call.pub);
    call.pub.server = &server;
    call.pub.prog = NFS_PROGRAM;
    call.pub.vers = NFS_V3;
    call.pub.proc = in->proc;
    call.pub.client.s_addr = 0x0100007f;
    call.pub.cred =
        (struct rpc_cred){.flavor = 1, .uid = in->other ? 1000 : 0, .gid = in->other ? 1000 : 0};
    call.pub.record_len = (uint32_t)len;
    for (int pass = 0; pass < 2 && verdict == RPC_OFFLOAD; pass++) {
        call.pub.may_block = pass == 1;
        call.pub.args = (struct xdr_in){args, args + len, false};
        call.pub.res = (struct xdr_out){call.reply + REPLY_OFFSET, call.reply + REPLY_OFFSET,
                                        call.reply + sizeof call.reply, false};
        verdict = nfs_program.procs(NFS_V3, &count)[in->proc].run(&call.pub);
    }
    require(verdict == RPC_REPLY || verdict == RPC_GARBAGE_ARGS);
    if (verdict == RPC_REPLY)
        check_reply(&call.pub);
    if (call.pub.cleanup)
        call.pub.cleanup(&call.pub);
    rbuf_put(&server.pool, call.out);
    call.out = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool writable = true;
    static unsigned runs;
    struct usage_stats usage;
    struct input in;
    uint8_t *args;
    size_t len;

    if (!parse(data, size, &in))
        return 0;
    if (runs++ % REBUILD_EVERY == 0) {
        rebuild();
        writable = true;
    }
    if (writable == in.read_only)
        apply(false, writable = !in.read_only);
    args = build(&in, &len);
    run(&in, args, len);
    free(args);
    /* The thread is root again, and the quota holds. */
    require(setfsuid((uid_t)-1) == 0 && setfsgid((gid_t)-1) == 0);
    usage_get(volume->store->usage, &usage);
    require(usage.used_bytes <= usage.quota_bytes || usage.scanning);
    return 0;
}
