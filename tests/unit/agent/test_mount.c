/* MOUNT over a real socket, with real volumes in a store of the test's own: nfs-checklist 17 to 20.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/fs/handle.h"
#include "agent/mount/mount.h"
#include "agent/volume/volume.h"
#include "tests/unit/agent/rpc_peer.h"

#define ENDPOINT "127.0.0.20"
#define OTHER    "127.0.0.21"

static char dir[] = "/tmp/spillway-mount-XXXXXX";
static const struct rpc_program *const programs[] = {&mount_program, NULL};
static struct rpc_server *server;
static struct storage *storage;
static uint16_t port;
static int fd;
static uint8_t reply[1 << 17];
static long reply_len;

static void apply(uint8_t id, const char *path, const char *endpoint, const char *clients,
                  bool deleted)
{
    struct volume_spec spec = {.generation = deleted ? 2 : 1,
                               .deleted = deleted,
                               .quota_bytes = 1u << 30,
                               .max_files = 1000,
                               .root_mode = 0755,
                               .nendpoints = 1,
                               .nrules = 1};
    char message[256] = "", rule[256], resource[] = "/volumes/x";

    memset(spec.fs_id.b, id, sizeof(spec.fs_id.b));
    snprintf(rule, sizeof(rule), "%s", clients);
    spec.resource_id = resource;
    snprintf(spec.export_path, sizeof(spec.export_path), "%s", path);
    inet_pton(AF_INET, endpoint, &spec.endpoints[0]);
    spec.rules[0] = (struct export_rule_spec){.index = 1,
                                              .clients = rule,
                                              .read_write = true,
                                              .root_access = true,
                                              .chown_restricted = true,
                                              .nfsv3 = true};
    cr_assert_eq(volume_apply(volume_table, storage, &spec, message, sizeof(message)), 0, "%s",
                 message);
}

static struct volume *volume_of(uint8_t id)
{
    struct uuid fs_id;
    struct volume *v;

    memset(fs_id.b, id, sizeof(fs_id.b));
    v = volume_get(volume_table, &fs_id);
    cr_assert_not_null(v);
    return v;
}

static void make_tree(void)
{
    struct volume *v = volume_of(1);
    int root = v->store->root, file;

    cr_assert_eq(mkdirat(root, "a", 0700), 0);
    cr_assert_eq(mkdirat(root, "a/b", 0700), 0);
    file = openat(root, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    cr_assert_eq(symlinkat("a/b", root, "inside"), 0);
    cr_assert_eq(symlinkat("/etc", root, "outside"), 0);
    volume_put(v);
}

static void start(void)
{
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(storage_open(&(struct storage_config){.dir = dir,
                                                       .backend = "dir",
                                                       .durability = DURABILITY_PROCESS},
                              &storage),
                 0);
    volume_table = volume_table_new();
    server = rpc_server_start(
        &(struct rpc_server_config){.workers = 1, .io_threads = 2, .programs = programs});
    cr_assert_not_null(server);
    port = peer_free_port();
    cr_assert_eq(rpc_listen(server, ENDPOINT, port, NULL), 0);
    cr_assert_eq(rpc_listen(server, OTHER, port, NULL), 0);
    apply(1, "/vol1", ENDPOINT, "127.0.0.0/8, 10.1.0.0/16", false);
    apply(2, "/vol10", ENDPOINT, "10.0.0.0/8", false);
    apply(3, "/vol1", OTHER, "0.0.0.0/0", false);
    make_tree();
    fd = peer_connect(NULL, ENDPOINT, port);
    cr_assert_geq(fd, 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void stop(void)
{
    close(fd);
    rpc_server_stop(server, 1);
    volume_close_all(volume_table);
    volume_table_free(volume_table);
    storage_close(storage);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(mount, .init = start, .fini = stop, .timeout = 30);

static uint32_t ask(int to, uint32_t vers, uint32_t proc, const char *path, size_t len)
{
    uint8_t msg[4096], args[2048] = {0};

    peer_put_u32(args, (uint32_t)len);
    if (len > 0)
        memcpy(args + 4, path, len);
    peer_send(to, msg,
              peer_call(msg, 5, 100005, vers, proc, args,
                        path == NULL ? 0 : 4 + ((len + 3) & ~(size_t)3)));
    reply_len = peer_reply(to, reply, sizeof(reply));
    cr_assert_geq(reply_len, 24);
    return peer_u32(reply + 20);
}

/* The mountstat3. */
static uint32_t mnt(int to, const char *path)
{
    cr_assert_eq(ask(to, 3, 1, path, strlen(path)), 0);
    if (peer_u32(reply + 24) != 0)
        cr_assert_eq(reply_len, 28);
    return peer_u32(reply + 24);
}

static void expect_handle(const struct fs_handle *h)
{
    const uint8_t *after = reply + 32 + ((h->len + 3) & ~3u);

    cr_assert_eq(peer_u32(reply + 28), h->len);
    cr_assert_arr_eq(reply + 32, h->data, h->len);
    cr_assert_eq(peer_u32(after), 1);     /* one flavour: */
    cr_assert_eq(peer_u32(after + 4), 1); /* AUTH_SYS */
    cr_assert_eq(after + 8, reply + reply_len);
}

Test(mount, mnt_of_an_export_gives_its_root)
{
    struct volume *v = volume_of(1);
    struct fs_handle root;

    cr_assert_eq(fs_handle_root(v, &root), 0);
    cr_assert_eq(mnt(fd, "/vol1"), 0);
    expect_handle(&root);
    cr_assert_eq(mnt(fd, "/vol1/"), 0);
    expect_handle(&root);
    cr_assert_eq(mnt(fd, "//vol1//."), 0);
    expect_handle(&root);
    volume_put(v);
}

Test(mount, mnt_of_a_folder_below_gives_that_folder)
{
    struct volume *v = volume_of(1);
    int b = openat(v->store->root, "a/b", O_PATH | O_CLOEXEC);
    struct fs_handle h;

    cr_assert_eq(fs_handle_of(v, b, &h), 0);
    cr_assert_eq(mnt(fd, "/vol1/a/b"), 0);
    expect_handle(&h);
    cr_assert_eq(mnt(fd, "/vol1/inside"), 0);
    expect_handle(&h);
    close(b);
    volume_put(v);
}

Test(mount, an_endpoint_has_exports_of_its_own)
{
    struct volume *v = volume_of(3);
    int other = peer_connect(NULL, OTHER, port);
    struct fs_handle root;

    cr_assert_eq(fs_handle_root(v, &root), 0);
    cr_assert_eq(mnt(other, "/vol1"), 0);
    expect_handle(&root);
    cr_assert_eq(mnt(other, "/vol10"), 2);
    volume_put(v);
}

Test(mount, mnt_errors)
{
    char longest[1200];

    cr_assert_eq(mnt(fd, "/"), 2);
    cr_assert_eq(mnt(fd, ""), 2);
    cr_assert_eq(mnt(fd, "vol1"), 2);
    cr_assert_eq(mnt(fd, "/vol"), 2);
    cr_assert_eq(mnt(fd, "/vol11"), 2);
    cr_assert_eq(mnt(fd, "/vol1/none"), 2);
    cr_assert_eq(mnt(fd, "/vol1/../vol1"), 2);
    cr_assert_eq(mnt(fd, "/vol10"), 13);
    cr_assert_eq(mnt(fd, "/vol1/outside"), 13);
    cr_assert_eq(mnt(fd, "/vol1/file"), 20);
    cr_assert_eq(mnt(fd, "/vol1/file/x"), 20);
    memset(longest, 'n', sizeof(longest));
    longest[0] = '/';
    longest[257] = '\0';
    cr_assert_eq(mnt(fd, longest), 63);
    longest[257] = 'n';
    for (size_t i = 0; i < sizeof(longest); i += 8)
        longest[i] = '/';
    longest[1025] = '\0';
    cr_assert_eq(mnt(fd, longest), 63);
    cr_assert_eq(ask(fd, 3, 1, NULL, 0), 4); /* no path: GARBAGE_ARGS */
}

Test(mount, a_deleted_volume_is_no_export)
{
    apply(1, "/vol1", ENDPOINT, "127.0.0.0/8", true);
    cr_assert_eq(mnt(fd, "/vol1"), 2);
    cr_assert_eq(ask(fd, 3, 5, NULL, 0), 0);
    cr_assert_eq(peer_u32(reply + 24), 0);
}

/* A counted string at *at, moving it. */
static void expect_string(const uint8_t **at, const char *text)
{
    cr_assert_eq(peer_u32(*at), strlen(text));
    cr_assert_arr_eq(*at + 4, text, strlen(text));
    *at += 4 + ((strlen(text) + 3) & ~(size_t)3);
}

static void expect_u32(const uint8_t **at, uint32_t v)
{
    cr_assert_eq(peer_u32(*at), v);
    *at += 4;
}

Test(mount, export_lists_what_the_caller_may_mount_with_its_groups)
{
    static const struct {
        uint32_t vers, proc;
    } calls[] = {{3, 5}, {1, 5}, {1, 6}};

    for (int i = 0; i < 3; i++) {
        const uint8_t *at = reply + 24;

        cr_assert_eq(ask(fd, calls[i].vers, calls[i].proc, NULL, 0), 0);
        expect_u32(&at, 1);
        expect_string(&at, "/vol1");
        expect_u32(&at, 1);
        expect_string(&at, "127.0.0.0/8");
        expect_u32(&at, 1);
        expect_string(&at, "10.1.0.0/16");
        expect_u32(&at, 0); /* no more groups */
        expect_u32(&at, 0); /* no more exports: not /vol10, not the other endpoint's */
        cr_assert_eq(at, reply + reply_len);
    }
}

Test(mount, dump_and_umnt)
{
    const uint8_t *at = reply + 24;
    int second = peer_connect("127.0.0.9", ENDPOINT, port);

    cr_assert_eq(mnt(fd, "/vol1"), 0);
    cr_assert_eq(mnt(fd, "/vol1/a"), 0);
    cr_assert_eq(mnt(fd, "/vol10"), 13); /* not in the list */
    cr_assert_eq(mnt(second, "/vol1"), 0);
    cr_assert_eq(ask(fd, 3, 2, NULL, 0), 0);
    expect_u32(&at, 1);
    expect_string(&at, "127.0.0.1");
    expect_string(&at, "/vol1");
    expect_u32(&at, 1);
    expect_string(&at, "127.0.0.1");
    expect_string(&at, "/vol1/a");
    expect_u32(&at, 1);
    expect_string(&at, "127.0.0.9");
    expect_string(&at, "/vol1");
    expect_u32(&at, 0);

    cr_assert_eq(ask(fd, 3, 3, "/vol1/", 6), 0);
    cr_assert_eq(reply_len, 24);
    cr_assert_eq(ask(fd, 1, 3, "/never mounted", 14), 0);
    cr_assert_eq(ask(second, 1, 4, NULL, 0), 0);
    cr_assert_eq(reply_len, 24);
    at = reply + 24;
    cr_assert_eq(ask(fd, 1, 2, NULL, 0), 0);
    expect_u32(&at, 1);
    expect_string(&at, "127.0.0.1");
    expect_string(&at, "/vol1/a");
    expect_u32(&at, 0);
}

Test(mount, versions_1_and_3_and_what_of_1_is_not_offered)
{
    cr_assert_eq(ask(fd, 3, 0, NULL, 0), 0);
    cr_assert_eq(ask(fd, 1, 0, NULL, 0), 0);
    cr_assert_eq(ask(fd, 1, 1, "/vol1", 5), 3); /* MNT for NFS 2 */
    cr_assert_eq(ask(fd, 2, 0, NULL, 0), 2);
    cr_assert_eq(peer_u32(reply + 24), 1);
    cr_assert_eq(peer_u32(reply + 28), 3);
    cr_assert_eq(ask(fd, 3, 6, NULL, 0), 3);
}
