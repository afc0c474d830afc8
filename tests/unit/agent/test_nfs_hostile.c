/* Hostile arguments: nfs-checklist 6, 14, 24, 41. Meant for AddressSanitizer: nothing outside the
 * record is read, and the server answers each call. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_hostile, .init = nfs_setup, .fini = nfs_teardown);

#define GARBAGE_ARGS 4
#define SUCCESS      0

static struct fs_handle file, dir;

static void make_objects(void)
{
    cr_assert_eq(nfs_do_create(nfs_root(), "file", 0644, &file), NFS_OK);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "dir", 0755, &dir), NFS_OK);
}

static void put_times(struct xdr_out *x)
{
    xdr_put_bool(x, true); /* mode, uid, gid, size, both times of the client's */
    xdr_put_u32(x, 0644);
    xdr_put_bool(x, true);
    xdr_put_u32(x, 0);
    xdr_put_bool(x, true);
    xdr_put_u32(x, 0);
    xdr_put_bool(x, true);
    xdr_put_u64(x, 5);
    for (unsigned i = 0; i < 2; i++) {
        xdr_put_u32(x, SET_TO_CLIENT_TIME);
        xdr_put_u32(x, 1);
        xdr_put_u32(x, 2);
    }
}

/* The longest form of each procedure's arguments, good ones. `variant`: CREATE by verifier, MKNOD
 * of a device. */
static struct xdr_out *put_good(uint32_t proc, bool variant)
{
    struct xdr_out *x = nfs_args();
    bool of_file = proc == NFSPROC_READ || proc == NFSPROC_WRITE || proc == NFSPROC_COMMIT ||
                   proc == NFSPROC_LINK || proc == NFSPROC_SETATTR;

    if (proc == NFSPROC_NULL)
        return x;
    nfs_put_handle(of_file ? &file : &dir);
    switch (proc) {
    case NFSPROC_SETATTR:
        put_times(x);
        xdr_put_bool(x, true);
        xdr_put_u64(x, 1);
        break;
    case NFSPROC_ACCESS:
        xdr_put_u32(x, 0x3f);
        break;
    case NFSPROC_READ:
    case NFSPROC_COMMIT:
        xdr_put_u64(x, 0);
        xdr_put_u32(x, 100);
        break;
    case NFSPROC_WRITE:
        xdr_put_u64(x, 0);
        xdr_put_u32(x, 9);
        xdr_put_u32(x, FILE_SYNC);
        xdr_put_opaque(x, "123456789", 9);
        break;
    case NFSPROC_LOOKUP:
    case NFSPROC_REMOVE:
    case NFSPROC_RMDIR:
        nfs_put_name("name");
        break;
    case NFSPROC_CREATE:
        nfs_put_name("name");
        xdr_put_u32(x, variant ? EXCLUSIVE : GUARDED);
        if (variant)
            xdr_put_u64(x, 7);
        else
            put_times(x);
        break;
    case NFSPROC_MKDIR:
        nfs_put_name("name");
        put_times(x);
        break;
    case NFSPROC_SYMLINK:
        nfs_put_name("name");
        put_times(x);
        nfs_put_name("text");
        break;
    case NFSPROC_MKNOD:
        nfs_put_name("name");
        xdr_put_u32(x, variant ? NF_CHR : NF_FIFO);
        put_times(x);
        if (variant)
            xdr_put_u64(x, 1);
        break;
    case NFSPROC_RENAME:
        nfs_put_name("name");
        nfs_put_handle(&dir);
        nfs_put_name("other");
        break;
    case NFSPROC_LINK:
        nfs_put_handle(&dir);
        nfs_put_name("name");
        break;
    case NFSPROC_READDIR:
    case NFSPROC_READDIRPLUS:
        xdr_put_u64(x, 0);
        xdr_put_u64(x, 0);
        if (proc == NFSPROC_READDIRPLUS)
            xdr_put_u32(x, 1000);
        xdr_put_u32(x, 1000);
        break;
    default: /* only a handle */
        break;
    }
    return x;
}

/* 6: cut off anywhere, arguments are garbage; whole they are not. A record's length is a multiple
 * of four for honest clients only. */
Test(nfs_hostile, arguments_cut_off_at_any_byte_are_garbage, .timeout = 60)
{
    static uint8_t copy[4096];

    make_objects();
    for (uint32_t proc = NFSPROC_GETATTR; proc < NFSPROC_COUNT; proc++)
        for (int variant = 0; variant < 2; variant++) {
            struct xdr_out *x = put_good(proc, variant);
            size_t len = xdr_written(x);

            memcpy(copy, x->start, len);
            for (size_t cut = 0; cut < len; cut++)
                cr_assert(eq(int, nfs_accept_stat(proc, copy, cut), GARBAGE_ARGS),
                          "procedure %u cut at %zu of %zu", proc, cut, len);
            cr_assert(eq(int, nfs_accept_stat(proc, copy, len), SUCCESS), "procedure %u", proc);
        }
}

/* 6: what follows the arguments is ignored, by every procedure alike. */
Test(nfs_hostile, bytes_behind_the_arguments_are_ignored)
{
    static uint8_t copy[4096];

    make_objects();
    for (uint32_t proc = 0; proc < NFSPROC_COUNT; proc++) {
        struct xdr_out *x = put_good(proc, false);
        size_t len = xdr_written(x);

        memcpy(copy, x->start, len);
        memset(copy + len, 0xff, 64);
        cr_assert(eq(int, nfs_accept_stat(proc, copy, len + 64), SUCCESS), "procedure %u", proc);
    }
}

static unsigned long seed = 1;

static uint32_t next_random(void)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (uint32_t)(seed >> 33);
}

static void assert_answered(uint32_t proc, const void *data, size_t len)
{
    int stat = nfs_accept_stat(proc, data, len);

    cr_assert(stat == SUCCESS || stat == GARBAGE_ARGS, "procedure %u: %d", proc, stat);
}

/* 14 */
Test(nfs_hostile, random_bytes_are_answered, .timeout = 60)
{
    static uint8_t data[512];
    struct attr a;

    make_objects();
    for (unsigned i = 0; i < 20000; i++) {
        size_t len = next_random() % sizeof data;

        for (size_t k = 0; k < len; k++)
            data[k] = (uint8_t)next_random();
        assert_answered(next_random() % NFSPROC_COUNT, data, len);
    }
    cr_assert_eq(nfs_do_getattr(nfs_root(), &a), NFS_OK);
}

/* 14: good arguments with one word changed to what is at a border, or one byte to any. */
Test(nfs_hostile, arguments_with_a_word_changed_are_answered, .timeout = 120)
{
    static const uint32_t words[] = {0, 1, 2, 3, 8, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    static uint8_t copy[4096];
    struct attr a;

    make_objects();
    for (uint32_t proc = NFSPROC_GETATTR; proc < NFSPROC_COUNT; proc++)
        for (int variant = 0; variant < 2; variant++) {
            struct xdr_out *x = put_good(proc, variant);
            size_t len = xdr_written(x);
            uint8_t good[1024];

            memcpy(good, x->start, len);
            for (size_t at = 0; at < len; at += 4)
                for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
                    uint32_t word = htonl(words[w]);

                    memcpy(copy, good, len);
                    memcpy(copy + at, &word, 4);
                    assert_answered(proc, copy, len);
                }
        }
    cr_assert_eq(nfs_do_getattr(nfs_root(), &a), NFS_OK);
}

/* 41, 43, 62: the largest numbers in every field of a data or listing call. */
Test(nfs_hostile, the_largest_numbers_are_answered_by_a_status)
{
    struct xdr_out *x;
    struct xdr_in results;

    make_objects();
    for (uint32_t proc = NFSPROC_READ; proc <= NFSPROC_COMMIT; proc++) {
        if (proc != NFSPROC_READ && proc != NFSPROC_COMMIT && proc != NFSPROC_READDIR &&
            proc != NFSPROC_READDIRPLUS)
            continue;
        x = put_good(proc, false);
        memset(x->start + 4 + xdr_pad(file.len), 0xff,
               (size_t)(x->at - x->start) - 4 - xdr_pad(file.len));
        cr_assert_lt(nfs_status_of(proc, &results), 10009);
    }
}
