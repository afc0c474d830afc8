/* MOUNT's paths and its list. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/mount/mount_list.h"
#include "agent/mount/mount_path.h"

Test(mount_path, every_way_to_write_a_path_is_one)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"/vol1", "/vol1"},
        {"/vol1/", "/vol1"},
        {"//vol1///a//b/", "/vol1/a/b"},
        {"/", "/"},
        {"///", "/"},
        {"/./vol1/./a/.", "/vol1/a"},
        {"/.", "/"},
        /* ".." is kept: what it means is decided below the volume's root. */
        {"/vol1/../vol2", "/vol1/../vol2"},
        {"/...", "/..."},
        {"/.hidden", "/.hidden"},
    };
    char out[MOUNT_PATH_MAX + 1];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(mount_path_clean((const uint8_t *)cases[i].in, strlen(cases[i].in), out), 0,
                     "%s", cases[i].in);
        cr_assert_str_eq(out, cases[i].out);
    }
}

Test(mount_path, bad_and_long_paths)
{
    uint8_t path[MOUNT_PATH_MAX + 1];
    char out[MOUNT_PATH_MAX + 1];

    cr_assert_eq(mount_path_clean((const uint8_t *)"", 0, out), -ENOENT);
    cr_assert_eq(mount_path_clean((const uint8_t *)"vol1", 4, out), -ENOENT);
    cr_assert_eq(mount_path_clean((const uint8_t *)"/a\0b", 4, out), -ENOENT);
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    cr_assert_eq(mount_path_clean(path, 256, out), 0); /* a name of 255 */
    cr_assert_eq(mount_path_clean(path, 257, out), -ENAMETOOLONG);
    for (size_t i = 0; i < sizeof(path); i += 100)
        path[i] = '/';
    cr_assert_eq(mount_path_clean(path, MOUNT_PATH_MAX, out), 0);
    cr_assert_eq(strlen(out), MOUNT_PATH_MAX);
    cr_assert_eq(mount_path_clean(path, MOUNT_PATH_MAX + 1, out), -ENAMETOOLONG);
}

static int open_and_close(int root, const char *rest)
{
    int fd = mount_path_open(root, rest);

    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

Test(mount_path, look_up_stays_below_the_root)
{
    char dir[] = "/tmp/spillway-mount-XXXXXX";
    int root, fd;

    cr_assert_not_null(mkdtemp(dir));
    root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(mkdirat(root, "a", 0700), 0);
    cr_assert_eq(mkdirat(root, "a/b", 0700), 0);
    fd = openat(root, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    cr_assert_eq(symlinkat("a/b", root, "inside"), 0);
    cr_assert_eq(symlinkat("/etc", root, "absolute"), 0);
    cr_assert_eq(symlinkat("../..", root, "up"), 0);
    cr_assert_eq(symlinkat("loop", root, "loop"), 0);

    cr_assert_eq(open_and_close(root, ""), 0);
    cr_assert_eq(open_and_close(root, "a/b"), 0);
    cr_assert_eq(open_and_close(root, "a/../a"), 0);
    cr_assert_eq(open_and_close(root, "inside"), 0);
    cr_assert_eq(open_and_close(root, "file"), -ENOTDIR);
    cr_assert_eq(open_and_close(root, "file/x"), -ENOTDIR);
    cr_assert_eq(open_and_close(root, "none"), -ENOENT);
    cr_assert_eq(open_and_close(root, ".."), -EXDEV);
    cr_assert_eq(open_and_close(root, "a/../.."), -EXDEV);
    cr_assert_eq(open_and_close(root, "absolute"), -EXDEV);
    cr_assert_eq(open_and_close(root, "up"), -EXDEV);
    cr_assert_eq(open_and_close(root, "loop"), -ELOOP);

    unlinkat(root, "inside", 0);
    unlinkat(root, "absolute", 0);
    unlinkat(root, "up", 0);
    unlinkat(root, "loop", 0);
    unlinkat(root, "file", 0);
    unlinkat(root, "a/b", AT_REMOVEDIR);
    unlinkat(root, "a", AT_REMOVEDIR);
    close(root);
    rmdir(dir);
}

static struct in_addr client(uint32_t n)
{
    return (struct in_addr){.s_addr = htonl(0x0a000000 + n)};
}

Test(mount_list, holds_each_mount_once)
{
    struct mount_entry *list;
    size_t n;

    cr_assert_null(mount_list_get(&n));
    cr_assert_eq(n, 0);
    mount_list_add(client(1), "/a");
    mount_list_add(client(1), "/b");
    mount_list_add(client(2), "/a");
    mount_list_add(client(1), "/a");
    list = mount_list_get(&n);
    cr_assert_eq(n, 3);
    cr_assert_str_eq(list[1].path, "/b");
    cr_assert_eq(list[2].client.s_addr, client(2).s_addr);
    free(list);
    mount_list_remove(client(1), "/a");
    mount_list_remove(client(3), "/a");
    list = mount_list_get(&n);
    cr_assert_eq(n, 2);
    free(list);
    mount_list_remove_all(client(1));
    list = mount_list_get(&n);
    cr_assert_eq(n, 1);
    cr_assert_eq(list[0].client.s_addr, client(2).s_addr);
    free(list);
}

Test(mount_list, is_bounded_and_drops_the_oldest)
{
    struct mount_entry *list;
    size_t n;

    for (uint32_t i = 0; i < MOUNT_LIST_MAX + 10; i++)
        mount_list_add(client(i), "/vol");
    list = mount_list_get(&n);
    cr_assert_eq(n, MOUNT_LIST_MAX);
    cr_assert_eq(list[0].client.s_addr, client(10).s_addr);
    cr_assert_eq(list[n - 1].client.s_addr, client(MOUNT_LIST_MAX + 9).s_addr);
    free(list);
}
