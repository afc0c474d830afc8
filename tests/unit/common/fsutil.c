/* State on disk: whole or not at all, and one process a folder. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/spillway-unit-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
}

static void remove_dir(void)
{
    char *command = xasprintf("rm -rf '%s'", dir);

    cr_assert_eq(system(command), 0);
    free(command);
}

TestSuite(fsutil, .init = make_dir, .fini = remove_dir);

Test(fsutil, folders_are_made_with_their_parents_and_again)
{
    struct stat st;

    cr_assert_eq(fs_mkdir_p("a/b//c/", 0750), 0);
    cr_assert_eq(fs_mkdir_p("a/b/c", 0700), 0);
    cr_assert_eq(stat("a/b/c", &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0750);
}

Test(fsutil, a_file_in_the_way_of_a_folder_is_an_error)
{
    cr_assert_eq(fs_write_atomic("f", "", 0, 0600), 0);
    cr_assert_eq(fs_mkdir_p("f", 0700), -ENOTDIR);
    cr_assert_eq(fs_mkdir_p("f/g", 0700), -ENOTDIR);
    cr_assert_eq(fs_mkdir_p("", 0700), -ENOENT);
}

Test(fsutil, files_are_replaced_with_the_mode_given_and_nothing_is_left_over)
{
    struct stat st;
    char *data;
    size_t len;

    umask(077);
    cr_assert_eq(fs_write_atomic("f", "first, longer", 13, 0600), 0);
    cr_assert_eq(fs_write_atomic("f", "a\0b", 3, 0644), 0);
    cr_assert_eq(fs_read_file("f", 100, &data, &len), 0);
    cr_assert_eq(len, 3);
    cr_assert_eq(memcmp(data, "a\0b", 4), 0);
    free(data);
    cr_assert_eq(stat("f", &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0644);
    cr_assert_eq(access("f.tmp", F_OK), -1);
}

Test(fsutil, a_failed_write_leaves_the_old_content)
{
    char *data;

    cr_assert_eq(fs_write_atomic("d/f", "x", 1, 0600), -ENOENT);
    cr_assert_eq(fs_write_atomic("f", "old", 3, 0600), 0);
    /* Opening a folder for writing fails for root, too. */
    cr_assert_eq(mkdir("f.tmp", 0700), 0);
    cr_assert_eq(fs_write_atomic("f", "new", 3, 0600), -EISDIR);
    cr_assert_eq(fs_read_file("f", 3, &data, NULL), 0);
    cr_assert_str_eq(data, "old");
    free(data);
}

Test(fsutil, a_link_left_in_the_temporary_files_place_is_not_followed)
{
    char *data;

    cr_assert_eq(fs_write_atomic("victim", "safe", 4, 0600), 0);
    cr_assert_eq(symlink("victim", "f.tmp"), 0);
    cr_assert_eq(fs_write_atomic("f", "new", 3, 0600), -ELOOP);
    cr_assert_eq(fs_read_file("victim", 10, &data, NULL), 0);
    cr_assert_str_eq(data, "safe");
    free(data);
}

Test(fsutil, reading_stops_at_the_limit)
{
    char *data;
    size_t len;

    cr_assert_eq(fs_write_atomic("f", "12345", 5, 0600), 0);
    cr_assert_eq(fs_read_file("f", 5, &data, &len), 0);
    cr_assert_eq(len, 5);
    free(data);
    cr_assert_eq(fs_read_file("f", 4, &data, &len), -EFBIG);
    cr_assert_eq(fs_read_file("absent", 4, &data, &len), -ENOENT);
    /* A file without an end is stopped as well. */
    cr_assert_eq(fs_read_file("/dev/zero", 100000, &data, &len), -EFBIG);
}

Test(fsutil, a_folder_is_locked_for_other_processes_until_this_one_ends)
{
    int status;
    pid_t child;

    cr_assert_eq(fs_lock_dir("."), 0);
    child = fork();
    if (child == 0)
        _exit(fs_lock_dir(".") == -EWOULDBLOCK ? 0 : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(fs_lock_dir("absent"), -ENOENT);
}
