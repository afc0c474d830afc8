/* The usage journal's file: what is believed of it, and what never is. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/storage/journal.h"
#include "tests/unit/agent/store_fixture.h"

#define FILE_BYTES (2 * JOURNAL_SLOT_BYTES)

static char *dir;
static int folder;
static struct uuid fs_id;

static void set_up(void)
{
    dir = scratch_make();
    folder = open(dir, O_RDONLY | O_DIRECTORY);
    fs_id = id_of(1);
    cr_assert_eq(journal_create(folder, "usage", &fs_id, 4096, 0770), 0);
}

static void tear_down(void)
{
    close(folder);
    scratch_remove(dir);
}

TestSuite(journal, .init = set_up, .fini = tear_down);

static enum journal_trust look(struct journal_record *record)
{
    enum journal_trust trust;
    struct journal j;

    cr_assert_eq(journal_open(&j, folder, "usage", &fs_id, record, &trust), 0);
    journal_close(&j);
    return trust;
}

static void write_records(const struct journal_record *records, int count)
{
    struct journal_record record;
    enum journal_trust trust;
    struct journal j;

    cr_assert_eq(journal_open(&j, folder, "usage", &fs_id, &record, &trust), 0);
    for (int i = 0; i < count; i++)
        cr_assert_eq(journal_write(&j, &records[i], true), 0);
    journal_close(&j);
}

static void read_file(unsigned char file[FILE_BYTES])
{
    int fd = openat(folder, "usage", O_RDONLY);

    cr_assert_eq(pread(fd, file, FILE_BYTES, 0), FILE_BYTES);
    close(fd);
}

static void write_file(const unsigned char file[FILE_BYTES])
{
    int fd = openat(folder, "usage", O_WRONLY);

    cr_assert_eq(pwrite(fd, file, FILE_BYTES, 0), FILE_BYTES);
    close(fd);
}

Test(journal, new_one_is_clean_and_empty)
{
    struct journal_record r;

    cr_assert_eq(look(&r), JOURNAL_CLEAN);
    cr_assert_eq(r.used[USAGE_BYTES], 0);
    cr_assert_eq(r.used[USAGE_INODES], 0);
    cr_assert_eq(r.root_base, 4096);
    cr_assert_eq(r.root_mode, 0770);
}

Test(journal, newest_record_is_in_force)
{
    const struct journal_record records[] = {
        {.bound = {100, 1}}, {.bound = {200, 2}}, {.bound = {150, 3}}};
    struct journal_record r;

    for (int n = 1; n <= 3; n++) {
        write_records(&records[n - 1], 1);
        cr_assert_eq(look(&r), JOURNAL_OPEN);
        cr_assert_eq(r.bound[USAGE_BYTES], records[n - 1].bound[USAGE_BYTES]);
        cr_assert_eq(r.bound[USAGE_INODES], (uint64_t)n);
    }
}

Test(journal, write_cut_short_leaves_the_record_before)
{
    const struct journal_record first = {.bound = {100, 1}}, second = {.bound = {200, 2}};
    unsigned char before[FILE_BYTES], after[FILE_BYTES];
    struct journal_record r;

    write_records(&first, 1);
    read_file(before);
    write_records(&second, 1);
    read_file(after);
    /* A power cut leaves the old or the new sector: the two files differ within one. */
    for (int i = 0; i < FILE_BYTES; i++)
        if (before[i] != after[i])
            cr_assert_lt(i % JOURNAL_SLOT_BYTES, 512);
    write_file(before);
    cr_assert_eq(look(&r), JOURNAL_OPEN);
    cr_assert_eq(r.bound[USAGE_BYTES], 100);
}

/* The slot before the newest is clean here: falling back to it would believe figures that are old.
 */
Test(journal, any_byte_changed_is_never_trusted)
{
    const struct journal_record open = {.bound = {64 * MIB, 1024}};
    unsigned char file[FILE_BYTES];
    struct journal_record r;

    write_records(&open, 1);
    read_file(file);
    for (int i = 0; i < FILE_BYTES; i++) {
        file[i] ^= (unsigned char)(1 << i % 8);
        write_file(file);
        cr_assert_eq(look(&r), JOURNAL_DAMAGED, "byte %d", i);
        file[i] ^= (unsigned char)(1 << i % 8);
    }
    write_file(file);
    cr_assert_eq(look(&r), JOURNAL_OPEN);
}

Test(journal, wrong_length_is_never_trusted)
{
    static const off_t lengths[] = {0, 1, JOURNAL_SLOT_BYTES, FILE_BYTES - 1, FILE_BYTES + 1};
    unsigned char file[FILE_BYTES];
    struct journal_record r;

    read_file(file);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        int fd = openat(folder, "usage", O_WRONLY);

        cr_assert_eq(ftruncate(fd, lengths[i]), 0);
        cr_assert_eq(look(&r), JOURNAL_DAMAGED, "length %ld", (long)lengths[i]);
        cr_assert_eq(ftruncate(fd, 0), 0);
        close(fd);
        write_file(file);
    }
}

Test(journal, slots_exchanged_or_doubled_are_never_trusted)
{
    unsigned char file[FILE_BYTES], other[FILE_BYTES];
    struct journal_record r;

    read_file(file);
    memcpy(other, file + JOURNAL_SLOT_BYTES, JOURNAL_SLOT_BYTES);
    memcpy(other + JOURNAL_SLOT_BYTES, file, JOURNAL_SLOT_BYTES);
    write_file(other);
    cr_assert_eq(look(&r), JOURNAL_DAMAGED);
    memcpy(other, file, JOURNAL_SLOT_BYTES);
    write_file(other);
    cr_assert_eq(look(&r), JOURNAL_DAMAGED);
}

Test(journal, of_another_volume_is_never_trusted)
{
    const struct uuid other = id_of(2);
    struct journal_record r;
    enum journal_trust trust;
    struct journal j;

    cr_assert_eq(journal_open(&j, folder, "usage", &other, &r, &trust), 0);
    cr_assert_eq(trust, JOURNAL_DAMAGED);
    journal_close(&j);
}

Test(journal, absent_is_never_trusted)
{
    struct journal_record r;

    cr_assert_eq(unlinkat(folder, "usage", 0), 0);
    cr_assert_eq(look(&r), JOURNAL_DAMAGED);
}

Test(journal, damaged_one_is_whole_again_after_one_write)
{
    const struct journal_record record = {.bound = {5, 6}};
    struct journal_record r;
    unsigned char file[FILE_BYTES] = {0};

    write_file(file);
    write_records(&record, 1);
    cr_assert_eq(look(&r), JOURNAL_OPEN);
    cr_assert_eq(r.bound[USAGE_BYTES], 5);
}

Test(journal, has_one_writer)
{
    struct journal_record r;
    enum journal_trust trust;
    struct journal one, two;

    cr_assert_eq(journal_open(&one, folder, "usage", &fs_id, &r, &trust), 0);
    cr_assert_eq(journal_open(&two, folder, "usage", &fs_id, &r, &trust), -EWOULDBLOCK);
    journal_close(&one);
}
