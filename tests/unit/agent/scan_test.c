/* The scan after an unclean stop: beside a service that changes everything, it finds the exact
 * figures. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/storage/inoset.h"
#include "agent/storage/usage.h"
#include "common/mem.h"
#include "tests/unit/agent/store_fixture.h"

static char *dir;
static struct uuid fs_id;

static void set_up(void)
{
    dir = scratch_make();
    fs_id = id_of(1);
}

static void tear_down(void)
{
    scratch_remove(dir);
}

TestSuite(scan, .init = set_up, .fini = tear_down);

static void write_bytes(int at, const char *name, size_t len)
{
    char *data = xcalloc(1, len + 1);
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, data, len, 0), (ssize_t)len);
    close(fd);
    free(data);
}

/* Runs `fill` on the volume's root in a process that dies without closing it. */
static void die_after(void (*fill)(int root))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct storage_volume *v =
            volume_in(store_open(dir, DURABILITY_PROCESS), &fs_id, 64 * GIB, 1000000);

        if (usage_reserve(v->usage, GIB, 100000, true) != 0)
            _exit(1);
        fill(v->root);
        raise(SIGKILL);
    }
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status));
}

static void fill_some(int root)
{
    int sub, fd;

    write_bytes(root, "a", 1);
    write_bytes(root, "b", 10000);
    write_bytes(root, "empty", 0);
    fd = openat(root, "sparse", O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 1 << 30) != 0 || pwrite(fd, "x", 1, 1 << 20) != 1 || fsync(fd) != 0)
        _exit(1);
    if (linkat(root, "b", root, "b2", 0) != 0 || symlinkat("/etc", root, "link") != 0 ||
        mkdirat(root, "sub", 0700) != 0 || mkfifoat(root, "fifo", 0600) != 0)
        _exit(1);
    sub = openat(root, "sub", O_RDONLY | O_DIRECTORY);
    write_bytes(sub, "c", 5000);
    if (linkat(root, "b", sub, "b3", 0) != 0)
        _exit(1);
}

Test(scan, counts_every_inode_once_and_follows_no_link)
{
    struct storage *s;
    struct storage_volume *v;
    struct stat root, sub;

    die_after(fill_some);
    s = store_open(dir, DURABILITY_PROCESS);
    v = volume_in(s, &fs_id, 64 * GIB, 1000000);
    await_scan(v);
    /* a, b, empty, sparse, link, sub, fifo, c */
    cr_assert_eq(usage_of(v).used_inodes, 8);
    cr_assert_eq(fstatat(v->root, "sub", &sub, 0), 0);
    cr_assert_eq(fstat(v->root, &root), 0);
    cr_assert_eq(usage_of(v).used_bytes, 4096 + 12288 + 0 + 4096 + usage_charge(&sub) + 8192);
    storage_close(s);
}

static void fill_nothing(int root)
{
    (void)root;
}

Test(scan, upper_bound_counts_until_the_end_and_the_quota_holds_at_once)
{
    struct storage *s;
    struct storage_volume *v;

    die_after(fill_nothing);
    s = store_open(dir, DURABILITY_PROCESS);
    v = volume_in(s, &fs_id, 64 * GIB, 1000000);
    /* The scan cannot end while an operation runs: this one is inside of it. */
    if (usage_reserve(v->usage, 4096, 0, true) == 0 && usage_of(v).scanning) {
        cr_assert_geq(usage_of(v).used_bytes, GIB);
        cr_assert_eq(usage_reserve(v->usage, 63 * GIB, 0, true), -EDQUOT);
    }
    usage_settle(v->usage, 4096, 0, 0, 0);
    await_scan(v);
    cr_assert_eq(usage_of(v).used_bytes, 0);
    cr_assert_eq(usage_reserve(v->usage, 64 * GIB, 0, true), 0);
    storage_close(s);
}

Test(scan, closing_stops_it_and_the_next_opening_scans_again)
{
    struct storage *s;
    struct storage_volume *v;

    die_after(fill_some);
    s = store_open(dir, DURABILITY_PROCESS);
    storage_volume_close(volume_in(s, &fs_id, 64 * GIB, 1000000));
    v = volume_in(s, &fs_id, 64 * GIB, 1000000);
    await_scan(v);
    cr_assert_eq(usage_of(v).used_inodes, 8);
    storage_close(s);
}

/* ---- beside a service ---- */

/*
 * A small service: threads that create, write, truncate, link, remove, rename within and across
 * folders and move whole folders, and book it as the NFS server does. An inode's charge changes
 * under its lock.
 */
#define FOLDERS   8
#define FILES     600 /* a folder at the start; more than a batch */
#define SERVANTS  4
#define INO_LOCKS 64

struct service {
    struct storage_volume *volume;
    pthread_mutex_t inos[INO_LOCKS];
    pthread_mutex_t names[FOLDERS]; /* of a folder: what a server's folder lock is for */
    pthread_mutex_t tree;           /* moving folders */
    atomic_bool stop;
    _Atomic unsigned operations;
};

static void fill_service(int root)
{
    char name[32];

    for (int i = 0; i < FOLDERS; i++) {
        int fd;

        snprintf(name, sizeof(name), "d%d", i);
        if (mkdirat(root, name, 0700) != 0)
            _exit(1);
        fd = openat(root, name, O_RDONLY | O_DIRECTORY);
        for (int k = 0; k < FILES; k++) {
            snprintf(name, sizeof(name), "f%d", k);
            write_bytes(fd, name, (size_t)(k % 7) * 3000);
        }
        for (int k = 0; k < 20; k++) {
            int sub;

            snprintf(name, sizeof(name), "s%d.%d", i, k);
            if (mkdirat(fd, name, 0700) != 0)
                _exit(1);
            sub = openat(fd, name, O_RDONLY | O_DIRECTORY);
            write_bytes(sub, "x", 9000);
            close(sub);
        }
        close(fd);
    }
}

static uint64_t charge_of(int fd)
{
    struct stat st;

    cr_assert_eq(fstat(fd, &st), 0);
    return usage_charge(&st);
}

static uint64_t ino_of(int fd)
{
    struct stat st;

    cr_assert_eq(fstat(fd, &st), 0);
    return st.st_ino;
}

static pthread_mutex_t *ino_lock(struct service *s, uint64_t ino)
{
    return &s->inos[ino % INO_LOCKS];
}

/* A folder changes its own charge when it grows; it is touched before and booked after. */
struct folder_change {
    int fd;
    uint64_t before;
};

static struct folder_change folder_begin(struct service *s, int fd)
{
    struct folder_change c = {fd, charge_of(fd)};

    usage_touch(s->volume->usage, ino_of(fd), c.before);
    return c;
}

static int64_t folder_end(const struct folder_change *c)
{
    return (int64_t)(charge_of(c->fd) - c->before);
}

static void do_create(struct service *s, int d, int fd, const char *name, bool folder)
{
    struct usage *u = s->volume->usage;
    int64_t bytes = 0, inodes = 0;
    struct folder_change c;
    int made = -1;

    if (usage_reserve(u, 16384, 1, true) != 0)
        return;
    pthread_mutex_lock(&s->names[d]);
    c = folder_begin(s, fd);
    if (folder) {
        if (mkdirat(fd, name, 0700) == 0)
            made = openat(fd, name, O_RDONLY | O_DIRECTORY);
    } else {
        made = openat(fd, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    }
    if (made >= 0) {
        sched_yield(); /* widen the gap that the scan must not see into */
        usage_touch_new(u, ino_of(made));
        bytes = (int64_t)charge_of(made);
        inodes = 1;
        close(made);
    }
    bytes += folder_end(&c);
    pthread_mutex_unlock(&s->names[d]);
    usage_settle(u, 16384, 1, bytes, inodes);
}

static void do_write(struct service *s, int d, int fd, const char *name, off_t size, bool cut)
{
    struct usage *u = s->volume->usage;
    static const char data[20000];
    int64_t bytes = 0;
    int file;

    if (usage_reserve(u, 40960, 0, true) != 0)
        return;
    pthread_mutex_lock(&s->names[d]);
    file = openat(fd, name, O_RDWR | O_NOFOLLOW);
    pthread_mutex_unlock(&s->names[d]);
    if (file >= 0) {
        pthread_mutex_t *lock = ino_lock(s, ino_of(file));
        struct stat st;

        pthread_mutex_lock(lock);
        cr_assert_eq(fstat(file, &st), 0);
        /* What has no name any more was given back when it lost the last one. */
        if (st.st_nlink > 0) {
            usage_touch(u, st.st_ino, usage_charge(&st));
            if (cut)
                cr_assert_eq(ftruncate(file, size), 0);
            else
                cr_assert_gt(pwrite(file, data, (size_t)size, 0), -1);
            bytes = (int64_t)(charge_of(file) - usage_charge(&st));
        }
        pthread_mutex_unlock(lock);
        close(file);
    }
    usage_settle(u, 40960, 0, bytes, 0);
}

static void do_remove(struct service *s, int d, int fd, const char *name)
{
    struct usage *u = s->volume->usage;
    int64_t bytes = 0, inodes = 0;
    int file;

    if (usage_reserve(u, 0, 0, true) != 0)
        return;
    pthread_mutex_lock(&s->names[d]);
    file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (file >= 0) {
        pthread_mutex_t *lock = ino_lock(s, ino_of(file));
        struct folder_change c = folder_begin(s, fd);
        struct stat st;

        pthread_mutex_lock(lock);
        cr_assert_eq(fstat(file, &st), 0);
        usage_touch(u, st.st_ino, usage_charge(&st));
        if (!S_ISDIR(st.st_mode) && unlinkat(fd, name, 0) == 0 && st.st_nlink == 1) {
            bytes -= (int64_t)usage_charge(&st);
            inodes = -1;
        }
        pthread_mutex_unlock(lock);
        close(file);
        bytes += folder_end(&c);
    }
    pthread_mutex_unlock(&s->names[d]);
    usage_settle(u, 0, 0, bytes, inodes);
}

static void lock_two(struct service *s, int a, int b)
{
    pthread_mutex_lock(&s->names[a < b ? a : b]);
    if (a != b)
        pthread_mutex_lock(&s->names[a < b ? b : a]);
}

static void unlock_two(struct service *s, int a, int b)
{
    pthread_mutex_unlock(&s->names[a]);
    if (a != b)
        pthread_mutex_unlock(&s->names[b]);
}

/* To a new name, which nothing is at: RENAME_NOREPLACE; or a second name. */
static void do_move(struct service *s, int a, int b, const int fds[FOLDERS], const char *from,
                    const char *to, bool link)
{
    struct usage *u = s->volume->usage;
    struct folder_change ca, cb;
    int64_t bytes;

    if (usage_reserve(u, 16384, 0, true) != 0)
        return;
    lock_two(s, a, b);
    ca = folder_begin(s, fds[a]);
    cb = folder_begin(s, fds[b]);
    if (link) {
        if (linkat(fds[a], from, fds[b], to, 0) != 0)
            cr_assert(errno == ENOENT || errno == EEXIST || errno == EPERM);
    } else if (renameat2(fds[a], from, fds[b], to, RENAME_NOREPLACE) == 0) {
        sched_yield();
        usage_renamed(u, fds[b], to);
    }
    bytes = folder_end(&ca) + (a != b ? folder_end(&cb) : 0);
    unlock_two(s, a, b);
    usage_settle(u, 16384, 0, bytes, 0);
}

static void *serve(void *arg)
{
    struct service *s = arg;
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    int fds[FOLDERS];
    char name[48], other[48];

    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        fds[i] = openat(s->volume->root, name, O_RDONLY | O_DIRECTORY);
    }
    while (!s->stop) {
        int a = rand_r(&seed) % FOLDERS, b = rand_r(&seed) % FOLDERS;
        unsigned what = (unsigned)rand_r(&seed) % 10, n = (unsigned)rand_r(&seed) % (2 * FILES);

        snprintf(name, sizeof(name), "f%u", n);
        snprintf(other, sizeof(other), "f%u", (unsigned)rand_r(&seed) % (2 * FILES));
        if (what < 3)
            do_create(s, a, fds[a], name, false);
        else if (what < 5)
            do_remove(s, a, fds[a], name);
        else if (what < 7)
            do_write(s, a, fds[a], name, rand_r(&seed) % 20000, what == 6);
        else if (what == 7)
            do_move(s, a, b, fds, name, other, rand_r(&seed) % 2 == 0);
        else if (what == 8)
            do_create(s, a, fds[a], other, rand_r(&seed) % 4 == 0);
        else {
            snprintf(name, sizeof(name), "s%d.%d", rand_r(&seed) % FOLDERS, rand_r(&seed) % 20);
            do_move(s, a, b, fds, name, name, false);
        }
        s->operations++;
    }
    for (int i = 0; i < FOLDERS; i++)
        close(fds[i]);
    return NULL;
}

static void run_beside_a_scan(unsigned round)
{
    struct service *s = xcalloc(1, sizeof(*s));
    struct storage *store = store_open(dir, DURABILITY_PROCESS);
    pthread_t servants[SERVANTS];
    uint64_t bytes, inodes;
    unsigned during;

    for (int i = 0; i < INO_LOCKS; i++)
        pthread_mutex_init(&s->inos[i], NULL);
    for (int i = 0; i < FOLDERS; i++)
        pthread_mutex_init(&s->names[i], NULL);
    s->volume = volume_in(store, &fs_id, 64 * GIB, 1000000);
    cr_assert(usage_of(s->volume).scanning);
    for (int i = 0; i < SERVANTS; i++)
        pthread_create(&servants[i], NULL, serve, s);
    await_scan(s->volume);
    during = s->operations;
    s->stop = true;
    for (int i = 0; i < SERVANTS; i++)
        pthread_join(servants[i], NULL);
    cr_assert_gt(during, 100, "round %u proves something", round);
    walk_usage(s->volume, &bytes, &inodes);
    {
        /* The root has not grown here: its entries are the FOLDERS. */
        struct usage_stats stats = usage_of(s->volume);

        cr_assert_eq(stats.used_inodes, inodes, "round %u: %lu, not %lu", round,
                     (unsigned long)stats.used_inodes, (unsigned long)inodes);
        cr_assert_eq(stats.used_bytes, bytes, "round %u: %lu, not %lu", round,
                     (unsigned long)stats.used_bytes, (unsigned long)bytes);
    }
    storage_close(store);
    free(s);
}

Test(scan, figures_are_exact_beside_a_service_that_changes_everything, .timeout = 120)
{
    for (unsigned round = 0; round < 5; round++) {
        pid_t child;

        if (round == 0)
            die_after(fill_service);
        else if ((child = fork()) == 0) { /* an unclean stop over what is there */
            struct storage_volume *v =
                volume_in(store_open(dir, DURABILITY_PROCESS), &fs_id, 64 * GIB, 1000000);

            _exit(usage_reserve(v->usage, MIB, 10, true) == 0 ? 0 : 1);
        } else {
            waitpid(child, NULL, 0);
        }
        run_beside_a_scan(round);
    }
}

/* ---- the set ---- */

Test(inoset, holds_what_was_added_and_nothing_else)
{
    struct inoset set = {0};
    uint64_t x = 88172645463325252u;

    cr_assert_not(inoset_has(&set, 0));
    for (uint64_t i = 0; i < 100000; i += 3)
        cr_assert_eq(inoset_add(&set, i), 1);
    for (uint64_t i = 0; i < 100000; i++)
        cr_assert_eq(inoset_has(&set, i), i % 3 == 0);
    cr_assert_eq(inoset_add(&set, 3), 0);
    cr_assert_eq(inoset_add(&set, UINT64_MAX), 1);
    cr_assert(inoset_has(&set, UINT64_MAX));
    for (int i = 0; i < 10000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        cr_assert_geq(inoset_add(&set, x), 0);
        cr_assert(inoset_has(&set, x));
    }
    inoset_free(&set);
    cr_assert_not(inoset_has(&set, 3));
}
