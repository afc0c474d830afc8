/* See store_fixture.h. */
#include "tests/unit/agent/store_fixture.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

char *scratch_make(void)
{
    char *dir = xstrdup("/tmp/store-test-XXXXXX");

    cr_assert_not_null(mkdtemp(dir));
    return dir;
}

void scratch_remove(char *dir)
{
    char *command = xasprintf("rm -rf '%s'", dir);

    cr_assert_eq(system(command), 0);
    free(command);
    free(dir);
}

int store_try(const char *dir, struct storage **out)
{
    const struct storage_config config = {.dir = dir, .backend = "dir"};

    return storage_open(&config, out);
}

struct storage *store_open(const char *dir, enum durability durability)
{
    const struct storage_config config = {.dir = dir, .backend = "dir", .durability = durability};
    struct storage *s = NULL;

    cr_assert_eq(storage_open(&config, &s), 0);
    return s;
}

struct storage_volume *volume_in(struct storage *s, const struct uuid *fs_id, uint64_t quota,
                                 uint64_t files)
{
    struct storage_volume *v = NULL;

    cr_assert_eq(storage_volume_open(s, fs_id, 0770, quota, files, &v), 0);
    return v;
}

struct uuid id_of(unsigned number)
{
    struct uuid id = {{0xab, 0xcd}};

    for (int i = 0; i < 4; i++)
        id.b[12 + i] = (uint8_t)(number >> (24 - 8 * i));
    return id;
}

struct usage_stats usage_of(const struct storage_volume *v)
{
    struct usage_stats stats;

    usage_get(v->usage, &stats);
    return stats;
}

void await(bool (*holds)(void *arg), void *arg, unsigned seconds)
{
    uint64_t end = clock_mono_ns() + seconds * NS_PER_S;
    const struct timespec step = {.tv_nsec = 1000000};

    while (!holds(arg)) {
        cr_assert_lt(clock_mono_ns(), end, "not within %u s", seconds);
        nanosleep(&step, NULL);
    }
}

static bool is_scanned(void *arg)
{
    return !usage_of(arg).scanning;
}

void await_scan(struct storage_volume *v)
{
    await(is_scanned, v, 60);
}

static bool is_trash_empty(void *arg)
{
    uint64_t folders, removed;

    storage_trash_stats(arg, &folders, &removed);
    return folders == 0;
}

void await_trash(struct storage *s)
{
    await(is_trash_empty, s, 60);
}

static struct {
    uint64_t bytes, inodes;
    ino_t *linked; /* those with several names, once each */
    size_t nlinked;
} walked;

static bool is_another_name(const struct stat *st)
{
    if (S_ISDIR(st->st_mode) || st->st_nlink == 1)
        return false;
    for (size_t i = 0; i < walked.nlinked; i++)
        if (walked.linked[i] == st->st_ino)
            return true;
    walked.linked = xrealloc(walked.linked, (walked.nlinked + 1) * sizeof(ino_t));
    walked.linked[walked.nlinked++] = st->st_ino;
    return false;
}

static int add_walked(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path;
    (void)type;
    if (at->level > 0 && !is_another_name(st)) {
        walked.bytes += usage_charge(st);
        walked.inodes++;
    }
    return 0;
}

void walk_usage(const struct storage_volume *v, uint64_t *bytes, uint64_t *inodes)
{
    char *path = xasprintf("/proc/self/fd/%d/.", v->root);

    memset(&walked, 0, sizeof(walked));
    cr_assert_eq(nftw(path, add_walked, 64, FTW_PHYS), 0);
    *bytes = walked.bytes;
    *inodes = walked.inodes;
    free(walked.linked);
    free(path);
}
