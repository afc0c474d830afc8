/* The store and its volumes' life: layout, refusals, crashes, a full disk, the trash. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "tests/unit/agent/store_fixture.h"

static char *dir;

static void set_up(void)
{
    dir = scratch_make();
}

static void tear_down(void)
{
    scratch_remove(dir);
}

TestSuite(storage, .init = set_up, .fini = tear_down);
TestSuite(trash, .init = set_up, .fini = tear_down);

static bool exists(const char *rest)
{
    char *path = xasprintf("%s/%s", dir, rest);
    struct stat st;
    bool there = lstat(path, &st) == 0;

    free(path);
    return there;
}

static void make_file(const char *rest, const char *text)
{
    char *path = xasprintf("%s/%s", dir, rest);
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    free(path);
}

static int count_volume(const struct uuid *fs_id, void *arg)
{
    (void)fs_id;
    ++*(int *)arg;
    return 0;
}

static int volumes_in(struct storage *s)
{
    int n = 0;

    cr_assert_eq(storage_each(s, count_volume, &n), 0);
    return n;
}

/* ---- the store ---- */

Test(storage, empty_or_absent_folder_becomes_a_store_that_keeps_its_uuid)
{
    char *below = xasprintf("%s/not/yet/there", dir);
    struct storage *s = NULL;
    struct uuid uuid;

    cr_assert_eq(store_try(below, &s), 0);
    uuid = *storage_uuid(s);
    cr_assert_str_eq(storage_backend(s), "dir");
    storage_close(s);
    cr_assert_eq(store_try(below, &s), 0);
    cr_assert(uuid_equal(&uuid, storage_uuid(s)));
    storage_close(s);
    cr_assert(exists("not/yet/there/.spillway-store"));
    cr_assert_not(exists("not/yet/there/.spillway-store.new"));
    free(below);
}

Test(storage, fresh_file_system_and_a_start_cut_short_are_no_foreign_content)
{
    char *path = xasprintf("%s/lost+found", dir);
    struct storage *s = NULL;

    cr_assert_eq(mkdir(path, 0700), 0);
    make_file(".spillway-store.new", "half a uu");
    cr_assert_eq(store_try(dir, &s), 0);
    storage_close(s);
    cr_assert_not(exists(".spillway-store.new"));
    free(path);
}

Test(storage, folder_with_something_else_is_refused_and_left_alone)
{
    struct storage *s = NULL;

    make_file("thesis.tex", "");
    cr_assert_eq(store_try(dir, &s), -ENOTEMPTY);
    cr_assert_null(s);
    cr_assert_not(exists(".spillway-store"));
    cr_assert_not(exists("volumes"));
}

Test(storage, marker_without_a_uuid_is_refused)
{
    static const char *const texts[] = {"", "nonsense", "01234567-89ab-cdef-0123-456789abcde"};
    struct storage *s = NULL;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        make_file(".spillway-store", texts[i]);
        cr_assert_eq(store_try(dir, &s), -EINVAL, "\"%s\"", texts[i]);
    }
}

Test(storage, second_agent_is_refused_while_the_first_has_it)
{
    struct storage *first = store_open(dir, DURABILITY_POWER), *second = NULL;

    cr_assert_eq(store_try(dir, &second), -EWOULDBLOCK);
    storage_close(first);
    cr_assert_eq(store_try(dir, &second), 0);
    storage_close(second);
}

Test(storage, unknown_backend_is_refused_by_name)
{
    const struct storage_config config = {.dir = dir, .backend = "btrfs"};
    struct storage *s = NULL;

    cr_assert_eq(storage_open(&config, &s), -ENOTSUP);
    cr_assert_not(exists(".spillway-store"));
}

Test(storage, file_system_without_handles_is_refused)
{
    struct storage *s = NULL;

    cr_assert_neq(store_try("/proc/self", &s), 0);
    cr_assert_null(s);
}

Test(storage, space_is_that_of_the_disk)
{
    struct storage *s = store_open(dir, DURABILITY_POWER);
    uint64_t size, free_bytes;

    cr_assert_eq(storage_space(s, &size, &free_bytes), 0);
    cr_assert_gt(size, 0);
    cr_assert_leq(free_bytes, size);
    storage_close(s);
}

/* ---- volumes ---- */

Test(storage, new_volume_has_a_root_of_the_given_mode_owned_by_root)
{
    struct storage *s;
    struct storage_volume *v = NULL;
    struct uuid id = id_of(7);
    struct stat st;

    umask(077);
    cr_assert_eq(chmod(dir, 02755), 0); /* a set-gid parent hands down its group */
    cr_assert_eq(chown(dir, 0, 12345), 0);
    s = store_open(dir, DURABILITY_POWER);
    cr_assert_eq(storage_volume_open(s, &id, 01775, GIB, 100, &v), 0);
    cr_assert_eq(fstat(v->root, &st), 0);
    cr_assert_eq(st.st_mode, S_IFDIR | 01775);
    cr_assert_eq(st.st_uid, 0);
    cr_assert_eq(st.st_gid, 0);
    cr_assert_eq(storage_volume_root_mode(v), 01775);
    cr_assert_eq(volumes_in(s), 1);
    storage_close(s);
}

Test(storage, mode_given_last_is_kept_and_a_clients_own_is_left)
{
    struct storage *s = store_open(dir, DURABILITY_POWER);
    struct uuid id = id_of(7);
    struct storage_volume *v = volume_in(s, &id, GIB, 100);
    struct usage_stats stats;
    struct stat st;

    cr_assert_eq(storage_volume_chmod(v, 0755), 0);
    cr_assert_eq(fchmod(v->root, 0711), 0);
    storage_close(s);
    s = store_open(dir, DURABILITY_POWER);
    cr_assert_eq(storage_volume_open(s, &id, 0777, GIB, 100, &v), 0);
    cr_assert_eq(storage_volume_root_mode(v), 0755);
    cr_assert_eq(fstat(v->root, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0711);
    stats = usage_of(v);
    cr_assert_not(stats.scanning, "keeping a mode changes no usage");
    storage_close(s);
}

Test(storage, deleted_volume_is_gone_and_may_be_made_again_at_once)
{
    struct storage *s = store_open(dir, DURABILITY_POWER);
    struct uuid id = id_of(7);
    struct storage_volume *v = volume_in(s, &id, GIB, 100), *again;

    cr_assert_eq(mkdirat(v->root, "old", 0700), 0);
    cr_assert_eq(storage_volume_delete(s, &id, NULL), 0);
    cr_assert_eq(storage_volume_delete(s, &id, NULL), -ENOENT);
    cr_assert_eq(volumes_in(s), 0);
    again = volume_in(s, &id, GIB, 100);
    cr_assert_eq(faccessat(again->root, "old", F_OK, 0), -1);
    /* Calls that still run on the old one do no harm to the new one. */
    cr_assert_eq(usage_reserve(v->usage, 4096, 1, true), -ESTALE);
    cr_assert_eq(usage_reserve(again->usage, 4096, 1, true), 0);
    usage_settle(again->usage, 4096, 1, 4096, 1);
    storage_volume_close(v);
    cr_assert_eq(storage_volume_delete(s, &id, again), 0);
    await_trash(s);
    storage_close(s);
}

Test(storage, what_is_no_volume_is_not_listed)
{
    struct storage *s = store_open(dir, DURABILITY_POWER);
    struct uuid id = id_of(7);

    volume_in(s, &id, GIB, 100);
    make_file("volumes/README", "");
    cr_assert_eq(volumes_in(s), 1);
    storage_close(s);
}

/* ---- crashes ---- */

static int check_volume(const struct uuid *fs_id, void *arg)
{
    struct storage_volume *v = NULL;
    struct stat st;

    cr_assert_eq(storage_volume_open(arg, fs_id, 0700, GIB, 100, &v), 0);
    cr_assert_eq(fstat(v->root, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0751, "made whole, by the one who died");
    cr_assert_not(usage_of(v).scanning, "its journal is whole");
    storage_volume_close(v);
    return 0;
}

static void create_and_delete(unsigned seed)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);

    for (;;) {
        struct uuid id = id_of((unsigned)rand_r(&seed) % 5);
        struct storage_volume *v;

        if (storage_volume_open(s, &id, 0751, GIB, 100, &v) == 0) {
            if (rand_r(&seed) % 2)
                storage_volume_delete(s, &id, v);
            else
                storage_volume_close(v);
        }
    }
}

Test(storage, killed_between_creating_and_deleting_leaves_whole_volumes_only, .timeout = 60)
{
    for (unsigned round = 0; round < 40; round++) {
        pid_t child = fork();
        struct storage *s;

        if (child == 0)
            create_and_delete(round);
        usleep(3000 + round * 700 % 20000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        s = store_open(dir, DURABILITY_PROCESS);
        cr_assert_eq(storage_each(s, check_volume, s), 0);
        await_trash(s);
        storage_close(s);
        for (unsigned i = 0; i < 5; i++) {
            char text[UUID_TEXT_MAX], name[64];
            struct uuid id = id_of(i);

            snprintf(name, sizeof(name), "volumes/.new.%s", uuid_format(&id, text));
            cr_assert_not(exists(name));
        }
    }
}

/* ---- a full disk ---- */

/* A file system of 8 MiB of its own, in a mount namespace of the test's process. */
static bool mount_small(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", 0, "size=8m") == 0;
}

static void fill_disk(void)
{
    char *path = xasprintf("%s/volumes/ballast", dir);
    static const char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    while (write(fd, block, sizeof(block)) > 0)
        ;
    cr_assert_eq(errno, ENOSPC);
    close(fd);
    free(path);
}

Test(storage, full_disk_fails_a_creation_whole_and_heals)
{
    struct storage *s;
    struct storage_volume *old, *v = NULL;
    struct uuid one = id_of(1), two = id_of(2);
    char *ballast = xasprintf("%s/volumes/ballast", dir);

    if (!mount_small())
        cr_skip_test("needs root and mount namespaces");
    s = store_open(dir, DURABILITY_POWER);
    old = volume_in(s, &one, GIB, 100);
    fill_disk();
    cr_assert_eq(storage_volume_open(s, &two, 0770, GIB, 100, &v), -ENOSPC);
    cr_assert_eq(volumes_in(s), 1);
    /* Journals have their space since their creation. */
    cr_assert_eq(usage_reserve(old->usage, MIB, 1, true), 0);
    usage_settle(old->usage, MIB, 1, 0, 0);
    cr_assert_eq(unlink(ballast), 0);
    cr_assert_eq(storage_volume_open(s, &two, 0770, GIB, 100, &v), 0);
    cr_assert_eq(volumes_in(s), 2);
    storage_close(s);
    umount(dir);
    free(ballast);
}

/* ---- the trash ---- */

static void fill_wide(int root, int files)
{
    char name[32];

    for (int i = 0; i < files; i++) {
        int fd;

        snprintf(name, sizeof(name), "file-%d", i);
        fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        cr_assert_geq(fd, 0);
        close(fd);
    }
}

/* Far past PATH_MAX and the number of descriptors. */
static void fill_deep(int root, int levels)
{
    int at = dup(root);

    for (int i = 0; i < levels; i++) {
        int next;

        cr_assert_eq(mkdirat(at, "a-folder-with-a-long-name", 0700), 0);
        next = openat(at, "a-folder-with-a-long-name", O_RDONLY | O_DIRECTORY);
        if (i % 1000 == 999)
            fill_wide(next, 3);
        close(at);
        at = next;
    }
    close(at);
}

Test(trash, wide_and_deep_trees_go_in_the_background, .timeout = 120)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);
    struct uuid id = id_of(1);
    struct storage_volume *v = volume_in(s, &id, GIB, 1000000);
    uint64_t folders, removed, start;

    fill_wide(v->root, 20000);
    fill_deep(v->root, 10000);
    start = clock_mono_ns();
    cr_assert_eq(storage_volume_delete(s, &id, v), 0);
    cr_assert_lt(clock_mono_ns() - start, NS_PER_S);
    await_trash(s);
    storage_trash_stats(s, &folders, &removed);
    cr_assert_eq(folders, 0);
    /* 20,000 files, 10,000 folders with 30 files, the volume's root, its journal */
    cr_assert_eq(removed, 30032);
    storage_close(s);
    cr_assert(!exists("trash/x"));
}

Test(trash, follows_no_symbolic_link_and_removes_every_type)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);
    struct uuid id = id_of(1);
    struct storage_volume *v = volume_in(s, &id, GIB, 1000);
    char *outside = xasprintf("%s/outside", dir), *precious = xasprintf("%s/precious", outside);

    cr_assert_eq(mkdir(outside, 0700), 0);
    make_file("outside/precious", "kept");
    cr_assert_eq(symlinkat(outside, v->root, "folder-link"), 0);
    cr_assert_eq(symlinkat(precious, v->root, "file-link"), 0);
    cr_assert_eq(symlinkat("../../../outside", v->root, "relative-link"), 0);
    cr_assert_eq(symlinkat("nowhere", v->root, "dangling"), 0);
    cr_assert_eq(mkfifoat(v->root, "fifo", 0600), 0);
    cr_assert_eq(mknodat(v->root, "socket", S_IFSOCK | 0600, 0), 0);
    cr_assert_eq(mkdirat(v->root, ".0", 0000), 0);
    cr_assert_eq(mkdirat(v->root, ".0/.0", 0000), 0);
    cr_assert_eq(storage_volume_delete(s, &id, v), 0);
    await_trash(s);
    cr_assert(exists("outside/precious"));
    storage_close(s);
    free(outside);
    free(precious);
}

Test(trash, what_is_mounted_inside_is_left_alone)
{
    struct storage *s;
    struct uuid id = id_of(1), other = id_of(2);
    struct storage_volume *v;
    char *outside = xasprintf("%s.outside", dir), *inside, text[UUID_TEXT_MAX];
    char *kept = xasprintf("%s/kept", outside);
    uint64_t folders, removed;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        cr_skip_test("needs root and mount namespaces");
    s = store_open(dir, DURABILITY_PROCESS);
    v = volume_in(s, &id, GIB, 1000);
    inside = xasprintf("%s/volumes/%s/data/sub/mnt", dir, uuid_format(&id, text));
    cr_assert_eq(mkdirat(v->root, "sub", 0700), 0);
    cr_assert_eq(mkdirat(v->root, "sub/mnt", 0700), 0);
    cr_assert_eq(mkdir(outside, 0700), 0);
    cr_assert_eq(mkdir(kept, 0700), 0);
    cr_assert_eq(mount(outside, inside, NULL, MS_BIND, NULL), 0);
    cr_assert_eq(storage_volume_delete(s, &id, v), 0);
    /* Another one is not held up by it. */
    v = volume_in(s, &other, GIB, 1000);
    cr_assert_eq(storage_volume_delete(s, &other, v), 0);
    do
        storage_trash_stats(s, &folders, &removed);
    while (folders > 1);
    storage_close(s);
    cr_assert_eq(access(kept, F_OK), 0);
    free(inside);
    inside = xasprintf(
        "cd %s/trash && find . -mount -name mnt -exec umount {} \\; 2>/dev/null; rm -r %s", dir,
        outside);
    cr_assert_eq(system(inside), 0);
    free(inside);
    free(outside);
    free(kept);
}

static void delete_and_die(void)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);
    struct uuid id = id_of(1);
    struct storage_volume *v = volume_in(s, &id, GIB, 1000000);
    uint64_t folders, removed;

    fill_wide(v->root, 5000);
    fill_deep(v->root, 500);
    if (storage_volume_delete(s, &id, v) != 0)
        _exit(1);
    do
        storage_trash_stats(s, &folders, &removed);
    while (removed < 1000);
    raise(SIGKILL);
}

Test(trash, restart_goes_on_where_it_was_cut_short, .timeout = 60)
{
    struct storage *s;
    pid_t child = fork();
    int status;

    if (child == 0)
        delete_and_die();
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status));
    s = store_open(dir, DURABILITY_PROCESS);
    cr_assert_eq(volumes_in(s), 0);
    await_trash(s);
    storage_close(s);
}

Test(trash, closing_the_store_does_not_wait_for_it, .timeout = 60)
{
    struct storage *s = store_open(dir, DURABILITY_PROCESS);
    struct uuid id = id_of(1);
    struct storage_volume *v = volume_in(s, &id, GIB, 1000000);
    uint64_t folders, removed;

    fill_wide(v->root, 30000);
    cr_assert_eq(storage_volume_delete(s, &id, v), 0);
    storage_close(s);
    s = store_open(dir, DURABILITY_PROCESS);
    storage_trash_stats(s, &folders, &removed);
    cr_assert_eq(folders, 1, "30,000 files do not go in no time");
    await_trash(s);
    storage_close(s);
}
