/* READ, WRITE, COMMIT, quota and limit over a socket: nfs-checklist 36 to 50. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/agent/nfs_peer.h"
#include "tests/unit/agent/store_fixture.h"

TestSuite(nfs_data, .init = nfs_setup, .fini = nfs_teardown);

static uint8_t data[RPC_MAX_DATA], back[RPC_MAX_DATA];

static struct fs_handle file(const char *name)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(nfs_root(), name, 0644, &fh), NFS_OK);
    return fh;
}

static uint64_t used_bytes(void)
{
    struct usage_stats u;

    usage_get(nfs_volume()->store->usage, &u);
    return u.used_bytes;
}

Test(nfs_data, what_was_written_is_read)
{
    struct fs_handle fh = file("a");
    uint32_t len;
    bool eof;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + i / 4096);
    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, sizeof data, data, 1001, FILE_SYNC), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, sizeof data, back, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, sizeof data));
    cr_assert(not(eof));
    cr_assert_eq(memcmp(data, back, len), 0);
    cr_assert_eq(nfs_do_read(&fh, sizeof data, 4096, back, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, 1001));
    cr_assert(eof);
    cr_assert_eq(memcmp(data, back, len), 0);
}

Test(nfs_data, eof_only_at_the_end)
{
    struct fs_handle fh = file("a");
    uint32_t len;
    bool eof;

    cr_assert_eq(nfs_do_write(&fh, 0, data, 8192, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, 8191, back, &len, &eof), NFS_OK);
    cr_assert(not(eof));
    cr_assert_eq(nfs_do_read(&fh, 0, 8192, back, &len, &eof), NFS_OK);
    cr_assert(eof);
    cr_assert_eq(nfs_do_read(&fh, 8192, 100, back, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, 0));
    cr_assert(eof);
    cr_assert_eq(nfs_do_read(&fh, UINT64_C(1) << 62, 100, back, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, 0));
    cr_assert_eq(nfs_do_read(&fh, UINT64_C(1) << 63, 100, back, &len, &eof), NFSERR_INVAL);
}

Test(nfs_data, a_count_beyond_rtmax_is_a_short_read)
{
    struct fs_handle fh = file("a");
    uint32_t len;
    bool eof;

    cr_assert_eq(nfs_do_setattr(&fh, -1, INT64_C(3) << 20), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, UINT32_MAX, back, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, RPC_MAX_DATA));
    cr_assert(not(eof));
}

Test(nfs_data, a_write_whose_count_is_not_its_length_is_invalid)
{
    struct fs_handle fh = file("a");
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    struct attr a;

    nfs_put_handle(&fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 100);
    xdr_put_u32(args, UNSTABLE);
    xdr_put_opaque(args, data, 50);
    cr_assert_eq(nfs_status_of(NFSPROC_WRITE, &x), NFSERR_INVAL);
    nfs_get_wcc(&x, &a);
    cr_assert(eq(u64, a.size, 0));
}

Test(nfs_data, offsets_past_what_a_file_can_have_do_not_wrap)
{
    struct fs_handle fh = file("a");
    struct attr a;

    cr_assert_eq(nfs_do_write(&fh, UINT64_MAX, data, 1, UNSTABLE), NFSERR_FBIG);
    cr_assert_eq(nfs_do_write(&fh, INT64_MAX, data, 1, UNSTABLE), NFSERR_FBIG);
    cr_assert_eq(nfs_do_write(&fh, (UINT64_C(1) << 32) - 1, data, 3, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u64, a.size, (UINT64_C(1) << 32) + 2));
}

Test(nfs_data, verifier_is_that_of_commit)
{
    struct fs_handle fh = file("a");
    uint8_t first[NFS_WRITEVERF];
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    struct attr a;

    nfs_put_handle(&fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 4);
    xdr_put_u32(args, UNSTABLE);
    xdr_put_opaque(args, "abcd", 4);
    cr_assert_eq(nfs_status_of(NFSPROC_WRITE, &x), NFS_OK);
    nfs_get_wcc(&x, &a);
    xdr_get_u64(&x);
    memcpy(first, xdr_get_fixed(&x, NFS_WRITEVERF), NFS_WRITEVERF);
    args = nfs_args();
    nfs_put_handle(&fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 0);
    cr_assert_eq(nfs_status_of(NFSPROC_COMMIT, &x), NFS_OK);
    nfs_get_wcc(&x, &a);
    cr_assert_eq(memcmp(first, xdr_get_fixed(&x, NFS_WRITEVERF), NFS_WRITEVERF), 0);
}

Test(nfs_data, a_change_alone_tells_the_attributes_before)
{
    struct fs_handle fh = file("a");
    struct xdr_out *args = nfs_args();
    struct xdr_in x;

    nfs_put_handle(&fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 4);
    xdr_put_u32(args, UNSTABLE);
    xdr_put_opaque(args, "abcd", 4);
    cr_assert_eq(nfs_status_of(NFSPROC_WRITE, &x), NFS_OK);
    cr_assert(xdr_get_bool(&x));
    cr_assert(eq(u64, xdr_get_u64(&x), 0)); /* the size before */
}

Test(nfs_data, reading_needs_permission_but_the_owner_keeps_it)
{
    struct fs_handle fh = file("a");
    uint32_t len;
    bool eof;

    cr_assert_eq(fchownat(nfs_volume()->store->root, "a", 1000, 1000, 0), 0);
    cr_assert_eq(nfs_do_setattr(&fh, 0000, -1), NFS_OK);
    nfs_as(1001, 1001, 0, NULL);
    cr_assert_eq(nfs_do_read(&fh, 0, 10, back, &len, &eof), NFSERR_ACCES);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 10, UNSTABLE), NFSERR_ACCES);
    nfs_as(1000, 1000, 0, NULL);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 10, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, 10, back, &len, &eof), NFS_OK);
}

Test(nfs_data, set_id_bits_go_with_a_write)
{
    struct fs_handle fh = file("a");
    struct attr a;

    cr_assert_eq(fchownat(nfs_volume()->store->root, "a", 1000, 1000, 0), 0);
    cr_assert_eq(nfs_do_setattr(&fh, 06755, -1), NFS_OK);
    nfs_as(1000, 1000, 0, NULL);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 10, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u32, a.mode, 0755));
}

Test(nfs_data, only_files_are_read_and_written)
{
    uint32_t len;
    bool eof;

    cr_assert_eq(nfs_do_read(nfs_root(), 0, 10, back, &len, &eof), NFSERR_INVAL);
    cr_assert_eq(nfs_do_write(nfs_root(), 0, data, 10, UNSTABLE), NFSERR_INVAL);
}

Test(nfs_data, truncation_books_usage)
{
    struct fs_handle fh = file("a");

    cr_assert_eq(nfs_do_write(&fh, 0, data, 100000, FILE_SYNC), NFS_OK);
    cr_assert(eq(u64, used_bytes(), 102400)); /* 25 blocks of 4 KiB */
    cr_assert_eq(nfs_do_setattr(&fh, -1, 4097), NFS_OK);
    cr_assert(eq(u64, used_bytes(), 8192));
    cr_assert_eq(nfs_do_setattr(&fh, -1, INT64_C(1) << 33), NFS_OK);
    cr_assert_leq(used_bytes(), 8192 + 4096);
    cr_assert_eq(nfs_do_remove(nfs_root(), "a"), NFS_OK);
    cr_assert(eq(u64, used_bytes(), 0));
}

static void small_quota(void)
{
    nfs_setup_quota(1 << 20);
}

TestSuite(nfs_quota, .init = small_quota, .fini = nfs_teardown);

Test(nfs_quota, a_write_past_the_quota_is_refused_and_one_over_old_data_is_not)
{
    struct fs_handle fh = file("a");
    struct attr a;

    for (unsigned i = 0; i < 14; i++)
        cr_assert_eq(nfs_do_write(&fh, i * UINT64_C(65536), data, 65536, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 14 * 65536, data, 3 * 65536, UNSTABLE), NFSERR_DQUOT);
    cr_assert_leq(used_bytes(), 1 << 20);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 65536, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u64, a.size, 14 * 65536));
    cr_assert_eq(nfs_do_remove(nfs_root(), "a"), NFS_OK);
    fh = file("b");
    cr_assert_eq(nfs_do_write(&fh, 0, data, 10 * 65536, UNSTABLE), NFS_OK);
}

Test(nfs_quota, fsstat_shows_the_quota)
{
    struct fs_handle fh = file("a");
    struct xdr_in x;
    struct attr a;

    cr_assert_eq(nfs_do_write(&fh, 0, data, 65536, FILE_SYNC), NFS_OK);
    nfs_args();
    nfs_put_handle(nfs_root());
    cr_assert_eq(nfs_status_of(NFSPROC_FSSTAT, &x), NFS_OK);
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u64, xdr_get_u64(&x), 1 << 20));
    cr_assert(eq(u64, xdr_get_u64(&x), (1 << 20) - 65536));
    cr_assert(eq(u64, xdr_get_u64(&x), (1 << 20) - 65536));
    cr_assert(eq(u64, xdr_get_u64(&x), 100000));
    cr_assert(eq(u64, xdr_get_u64(&x), 99999));
}

Test(nfs_data, reads_and_writes_are_charged_by_what_they_move)
{
    struct fs_handle fh = file("a");
    struct volume_totals before, after;
    uint32_t len;
    bool eof;

    nfs_set_limit(UINT64_C(1) << 30);
    volume_get_totals(nfs_volume(), clock_mono_ns(), &before);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 5000, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, RPC_MAX_DATA, back, &len, &eof), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 5000, RPC_MAX_DATA, back, &len, &eof), NFS_OK);
    nfs_as(1001, 1001, 0, NULL);
    cr_assert_eq(nfs_do_write(&fh, 0, data, 5000, UNSTABLE), NFSERR_ACCES);
    volume_get_totals(nfs_volume(), clock_mono_ns(), &after);
    cr_assert(eq(u64, after.throttle.charged - before.throttle.charged, 10000));
    cr_assert(eq(u64, after.read_bytes, 5000));
    cr_assert(eq(u64, after.write_bytes, 5000));
}
