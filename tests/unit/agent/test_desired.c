/* The agent's record of its volumes: atomic, and each state that a crash can leave is read as it
 * must be. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/control/desired.h"
#include "common/buf.h"
#include "common/mem.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/ctl-desired-XXXXXX");
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(desired, .init = make_dir, .fini = remove_dir);

static struct uuid volume(uint8_t n)
{
    struct uuid id = {{0}};

    id.b[15] = n;
    return id;
}

static int list_one(const struct uuid *fs_id, const char *spec, size_t len, int error, void *arg)
{
    struct buf *b = arg;

    buf_printf(b, "%u=%.*s/%d;", fs_id->b[15], (int)len, spec ? spec : "", error);
    return 0;
}

/* Valid until the next call. */
static const char *list(struct desired *d)
{
    static struct buf b;

    b.len = 0;
    buf_str(&b, "");
    cr_assert_eq(desired_each(d, list_one, &b), 0);
    return b.data;
}

static void put_file(const char *name, const char *content)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    cr_assert(f, "%s", path);
    fputs(content, f);
    fclose(f);
}

Test(desired, a_record_is_there_after_reopening_and_only_for_root)
{
    struct desired *d;
    struct uuid id = volume(7);
    struct stat st;
    char path[256];

    cr_assert_eq(desired_open(dir, &d), 0);
    cr_assert_eq(desired_save(d, &id, "{\"a\":1}"), 0);
    cr_assert_eq(desired_save(d, &id, "{\"a\":2}"), 0);
    desired_close(d);
    cr_assert_eq(desired_open(dir, &d), 0);
    cr_expect_str_eq(list(d), "7={\"a\":2}/0;");
    snprintf(path, sizeof(path), "%s/volumes/00000000-0000-0000-0000-000000000007.json", dir);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600, "it holds the handle key");
    desired_close(d);
}

/* Killed while the temporary file was written: the old record counts. */
Test(desired, a_half_written_replacement_is_not_read)
{
    struct desired *d;
    struct uuid id = volume(1);

    cr_assert_eq(desired_open(dir, &d), 0);
    cr_assert_eq(desired_save(d, &id, "old"), 0);
    put_file("volumes/00000000-0000-0000-0000-000000000001.json.tmp", "{\"hal");
    cr_expect_str_eq(list(d), "1=old/0;");
    cr_assert_eq(desired_save(d, &id, "new"), 0);
    cr_expect_str_eq(list(d), "1=new/0;");
    desired_close(d);
}

Test(desired, other_files_are_left_alone)
{
    struct desired *d;

    cr_assert_eq(desired_open(dir, &d), 0);
    put_file("volumes/notes.txt", "x");
    put_file("volumes/00000000-0000-0000-0000-00000000000g.json", "x");
    put_file("volumes/00000000-0000-0000-0000-000000000001.jsonx", "x");
    cr_expect_str_eq(list(d), "");
    desired_close(d);
}

Test(desired, removing_is_for_good_and_may_be_repeated)
{
    struct desired *d;
    struct uuid id = volume(1), other = volume(2);

    cr_assert_eq(desired_open(dir, &d), 0);
    cr_assert_eq(desired_save(d, &id, "x"), 0);
    cr_assert_eq(desired_save(d, &other, "y"), 0);
    cr_assert_eq(desired_remove(d, &id), 0);
    cr_assert_eq(desired_remove(d, &id), 0);
    cr_expect_str_eq(list(d), "2=y/0;");
    desired_close(d);
}

Test(desired, an_orphan_is_not_listed_and_its_record_is_kept_until_it_comes_back)
{
    struct desired *d;
    struct uuid id = volume(3);
    char path[256];

    cr_assert_eq(desired_open(dir, &d), 0);
    cr_assert_eq(desired_save(d, &id, "x"), 0);
    cr_assert_eq(desired_orphan(d, &id), 0);
    cr_assert_eq(desired_orphan(d, &id), 0);
    cr_expect_str_eq(list(d), "");
    snprintf(path, sizeof(path), "%s/orphans/00000000-0000-0000-0000-000000000003.json", dir);
    cr_expect_eq(access(path, F_OK), 0);
    cr_assert_eq(desired_save(d, &id, "z"), 0);
    cr_expect_str_eq(list(d), "3=z/0;");
    cr_expect_neq(access(path, F_OK), 0);
    desired_close(d);
}

Test(desired, a_record_that_is_too_long_is_an_error_of_that_volume_alone)
{
    struct desired *d;
    struct uuid id = volume(1), other = volume(2);
    char *big = xcalloc(1, DESIRED_MAX_SPEC + 2);
    const char *text;

    memset(big, 'x', DESIRED_MAX_SPEC + 1);
    cr_assert_eq(desired_open(dir, &d), 0);
    cr_assert_eq(desired_save(d, &id, big), 0);
    cr_assert_eq(desired_save(d, &other, "y"), 0);
    text = list(d);
    cr_expect(strstr(text, "1=/-27;"), "%s", text); /* EFBIG */
    cr_expect(strstr(text, "2=y/0;"), "%s", text);
    free(big);
    desired_close(d);
}
