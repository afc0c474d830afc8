/* SETATTR, FSSTAT, FSINFO, PATHCONF: nfs-checklist 35 to 40. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/agent/nfs_peer.h"
#include "tests/unit/agent/store_fixture.h"

TestSuite(nfs_attr, .init = nfs_setup, .fini = nfs_teardown);

#define ALICE 1000
#define BOB   1001
#define STAFF 2000

static struct fs_handle file_of(uint32_t uid, uint32_t gid, long mode)
{
    struct set set = {.mode = mode, .uid = uid, .gid = gid, .size = -1};
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", GUARDED, &set, &fh), NFS_OK);
    return fh;
}

static struct attr attr_of(const struct fs_handle *fh)
{
    struct attr a;

    cr_assert_eq(nfs_do_getattr(fh, &a), NFS_OK);
    return a;
}

static uint32_t set_guarded(const struct fs_handle *fh, uint32_t mode, uint32_t s, uint32_t ns,
                            struct attr *after, bool *before)
{
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    uint32_t status;

    nfs_put_handle(fh);
    nfs_put_sattr((long)mode, -1);
    xdr_put_bool(args, true);
    xdr_put_u32(args, s);
    xdr_put_u32(args, ns);
    status = nfs_status_of(NFSPROC_SETATTR, &x);
    *before = nfs_get_wcc(&x, after);
    return status;
}

/* 35 */
Test(nfs_attr, a_guard_lets_only_the_ctime_pass_that_there_is)
{
    struct fs_handle fh = file_of(0, 0, 0644);
    struct attr a = attr_of(&fh), after;
    bool before;

    cr_assert_eq(set_guarded(&fh, 0600, a.ctime_s, a.ctime_ns + 1, &after, &before),
                 NFSERR_NOT_SYNC);
    cr_assert(before);
    cr_assert(eq(u32, after.mode, 0644));
    cr_assert_eq(set_guarded(&fh, 0600, a.ctime_s + 1, a.ctime_ns, &after, &before),
                 NFSERR_NOT_SYNC);
    cr_assert_eq(set_guarded(&fh, 0600, a.ctime_s, a.ctime_ns, &after, &before), NFS_OK);
    cr_assert(before);
    cr_assert(eq(u32, after.mode, 0600));
    cr_assert_eq(set_guarded(&fh, 0666, a.ctime_s, a.ctime_ns, &after, &before), NFSERR_NOT_SYNC);
    cr_assert(eq(u32, after.mode, 0600));
}

/* 36 */
Test(nfs_attr, size_is_set_up_and_down_past_4_gib)
{
    static const uint64_t sizes[] = {10, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, 3, 0};
    struct fs_handle fh = file_of(0, 0, 0644);
    uint32_t len;
    char data[16];
    bool eof;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_assert_eq(nfs_do_setattr(&fh, -1, (int64_t)sizes[i]), NFS_OK);
        cr_assert(eq(u64, attr_of(&fh).size, sizes[i]));
    }
    cr_assert_eq(nfs_do_write(&fh, 0, "abcdef", 6, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, -1, 3), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, -1, 6), NFS_OK);
    cr_assert_eq(nfs_do_read(&fh, 0, 16, data, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, 6));
    cr_assert_eq(memcmp(data, "abc\0\0\0", 6), 0);
    cr_assert_eq(
        nfs_do_set(&fh, &(struct set){.mode = -1, .uid = -1, .gid = -1, .size = INT64_MIN}),
        NFSERR_FBIG);
}

/* 36 */
Test(nfs_attr, only_files_have_a_size_to_set)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_setattr(nfs_root(), -1, 0), NFSERR_ISDIR);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", "x", 1, &fh), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, -1, 0), NFSERR_INVAL);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "p", NF_FIFO, 0, 0, &fh), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, -1, 0), NFSERR_INVAL);
}

/* 36 */
Test(nfs_attr, times_are_the_clients_or_the_servers)
{
    struct fs_handle fh = file_of(ALICE, ALICE, 0644);
    struct set set = {SET_NOTHING,           .atime_how = SET_TO_CLIENT_TIME,
                      .atime_s = 1000000000, .mtime_how = SET_TO_CLIENT_TIME,
                      .mtime_s = 1234567890, .mtime_ns = 999999999};
    uint32_t now = (uint32_t)time(NULL);
    struct attr a;

    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_set(&fh, &set), NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.atime_s, 1000000000));
    cr_assert(eq(u32, a.mtime_s, 1234567890));
    cr_assert(eq(u32, a.mtime_ns, 999999999));
    set.mtime_ns = 1000000000;
    cr_assert_eq(nfs_do_set(&fh, &set), NFSERR_INVAL);
    cr_assert_eq(nfs_do_set(&fh, &(struct set){SET_NOTHING, .mtime_how = SET_TO_SERVER_TIME}),
                 NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.atime_s, 1000000000));
    cr_assert(ge(u32, a.mtime_s, now));
}

/* 36, 37. What open(2) with O_TRUNC sends for one who may write but does not own the file. */
Test(nfs_attr, a_writer_may_set_the_time_of_now_but_no_other)
{
    const uint32_t staff[] = {STAFF};
    struct fs_handle fh = file_of(ALICE, STAFF, 0664);
    struct set now = {SET_NOTHING, .mtime_how = SET_TO_SERVER_TIME};
    struct set then = {SET_NOTHING, .mtime_how = SET_TO_CLIENT_TIME, .mtime_s = 1};
    struct set truncate = {.mode = -1, .uid = -1, .gid = -1, .mtime_how = SET_TO_SERVER_TIME};

    cr_assert_eq(nfs_do_write(&fh, 0, "abc", 3, UNSTABLE), NFS_OK);
    nfs_as(BOB, BOB, 1, staff);
    cr_assert_eq(nfs_do_set(&fh, &truncate), NFS_OK);
    cr_assert(eq(u64, attr_of(&fh).size, 0));
    cr_assert_eq(nfs_do_set(&fh, &now), NFS_OK);
    cr_assert_eq(nfs_do_set(&fh, &then), NFSERR_PERM);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_set(&fh, &truncate), NFSERR_ACCES);
    cr_assert(ne(u32, nfs_do_set(&fh, &now), NFS_OK));
}

/* 37 */
Test(nfs_attr, the_mode_is_the_owners)
{
    struct fs_handle fh = file_of(ALICE, ALICE, 0666);

    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&fh, 0777, -1), NFSERR_PERM);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&fh, 0400, -1), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode, 0400));
}

static uint32_t chown_to(const struct fs_handle *fh, int64_t uid, int64_t gid)
{
    return nfs_do_set(fh, &(struct set){.mode = -1, .uid = uid, .gid = gid, .size = -1});
}

/* 37 */
Test(nfs_attr, restricted_an_owner_may_only_change_to_a_group_of_his)
{
    const uint32_t staff[] = {STAFF};
    struct fs_handle fh = file_of(ALICE, ALICE, 0644);
    struct attr a;

    nfs_as(ALICE, ALICE, 1, staff);
    cr_assert_eq(chown_to(&fh, BOB, -1), NFSERR_PERM);
    cr_assert_eq(chown_to(&fh, 0, -1), NFSERR_PERM);
    cr_assert_eq(chown_to(&fh, -1, BOB), NFSERR_PERM);
    cr_assert_eq(chown_to(&fh, -1, STAFF), NFS_OK);
    cr_assert_eq(chown_to(&fh, ALICE, ALICE), NFS_OK);
    nfs_as(BOB, BOB, 1, staff);
    cr_assert_eq(chown_to(&fh, -1, STAFF), NFSERR_PERM);
    nfs_as(0, 0, 0, NULL);
    cr_assert_eq(chown_to(&fh, BOB, STAFF), NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.uid, BOB));
    cr_assert(eq(u32, a.gid, STAFF));
    nfs_set_rule(true, false, true, "0.0.0.0/0");
    cr_assert_eq(chown_to(&fh, ALICE, -1), NFSERR_PERM);
}

/* 37: chownMode Unrestricted */
Test(nfs_attr, unrestricted_an_owner_may_give_away_what_is_his)
{
    struct fs_handle fh = file_of(ALICE, ALICE, 0644);

    nfs_set_rule(true, true, false, "0.0.0.0/0");
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(chown_to(&fh, BOB, -1), NFSERR_PERM);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(chown_to(&fh, BOB, STAFF), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).uid, BOB));
    cr_assert_eq(chown_to(&fh, ALICE, -1), NFSERR_PERM);
}

/* 37 */
Test(nfs_attr, set_id_bits_go_with_what_others_do_and_stay_for_root)
{
    const uint32_t staff[] = {STAFF};
    struct fs_handle fh = file_of(ALICE, STAFF, 06775);

    cr_assert(eq(u32, attr_of(&fh).mode, 06775));
    cr_assert_eq(nfs_do_write(&fh, 0, "x", 1, UNSTABLE), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode, 06775));
    nfs_as(BOB, BOB, 1, staff);
    cr_assert_eq(nfs_do_write(&fh, 0, "x", 1, UNSTABLE), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode, 0775));
    nfs_as(0, 0, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&fh, 06775, -1), NFS_OK);
    nfs_as(BOB, BOB, 1, staff);
    cr_assert_eq(nfs_do_setattr(&fh, -1, 0), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode, 0775));
    nfs_as(ALICE, STAFF, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&fh, 06775, -1), NFS_OK);
    cr_assert_eq(chown_to(&fh, -1, STAFF), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode, 0775));
}

/* 38 */
Test(nfs_attr, wcc_data_come_with_failure_too)
{
    struct fs_handle fh = file_of(ALICE, ALICE, 0600);
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    struct attr a;

    nfs_as(BOB, BOB, 0, NULL);
    nfs_put_handle(&fh);
    nfs_put_sattr(0777, -1);
    xdr_put_bool(args, false);
    cr_assert_eq(nfs_status_of(NFSPROC_SETATTR, &x), NFSERR_PERM);
    cr_assert(nfs_get_wcc(&x, &a));
    cr_assert(eq(u32, a.mode, 0600));
}

/* 39 */
Test(nfs_attr, file_system_calls_want_a_good_handle)
{
    static const uint32_t procs[] = {NFSPROC_FSSTAT, NFSPROC_FSINFO, NFSPROC_PATHCONF};
    struct fs_handle gone = file_of(0, 0, 0644), bad = *nfs_root();
    struct xdr_in x;

    cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
    bad.data[bad.len - 1] ^= 1;
    for (size_t i = 0; i < sizeof procs / sizeof *procs; i++) {
        nfs_args();
        nfs_put_handle(&gone);
        cr_assert_eq(nfs_status_of(procs[i], &x), NFSERR_STALE);
        cr_assert(not(xdr_get_bool(&x)));
        nfs_args();
        nfs_put_handle(&bad);
        cr_assert_eq(nfs_status_of(procs[i], &x), NFSERR_BADHANDLE);
    }
}

/* 39 */
Test(nfs_attr, free_space_of_a_volume_above_its_quota_is_none)
{
    struct fs_handle fh = file_of(0, 0, 0644);
    static uint8_t data[65536];
    struct xdr_in x;
    struct attr a;

    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFS_OK);
    nfs_set_quota(4096, 1);
    nfs_args();
    nfs_put_handle(nfs_root());
    cr_assert_eq(nfs_status_of(NFSPROC_FSSTAT, &x), NFS_OK);
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u64, xdr_get_u64(&x), 4096)); /* tbytes */
    cr_assert(eq(u64, xdr_get_u64(&x), 0));    /* fbytes */
    cr_assert(eq(u64, xdr_get_u64(&x), 0));    /* abytes */
    cr_assert(eq(u64, xdr_get_u64(&x), 1));    /* tfiles */
    cr_assert(eq(u64, xdr_get_u64(&x), 0));    /* ffiles */
    cr_assert(eq(u64, xdr_get_u64(&x), 0));    /* afiles */
    /* It can still be changed and made smaller. */
    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, 0600, 100), NFS_OK);
    cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
}

/* 40 */
Test(nfs_attr, fsinfo_says_what_is_honoured)
{
    struct xdr_in x;
    struct attr a;

    nfs_args();
    nfs_put_handle(nfs_root());
    cr_assert_eq(nfs_status_of(NFSPROC_FSINFO, &x), NFS_OK);
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u32, xdr_get_u32(&x), 1 << 20)); /* rtmax: the next tests read and write as much */
    cr_assert(eq(u32, xdr_get_u32(&x), 1 << 20));
    cr_assert(eq(u32, xdr_get_u32(&x), 4096));
    cr_assert(eq(u32, xdr_get_u32(&x), 1 << 20)); /* wtmax */
    cr_assert(eq(u32, xdr_get_u32(&x), 1 << 20));
    cr_assert(eq(u32, xdr_get_u32(&x), 4096));
    cr_assert(eq(u32, xdr_get_u32(&x), 65536)); /* dtpref */
    cr_assert(eq(u64, xdr_get_u64(&x), INT64_MAX));
    cr_assert(eq(u32, xdr_get_u32(&x), 0));
    cr_assert(eq(u32, xdr_get_u32(&x), 1));
    cr_assert(eq(u32, xdr_get_u32(&x), 0x1b)); /* LINK, SYMLINK, HOMOGENEOUS, CANSETTIME */
    cr_assert(eq(sz, xdr_left(&x), 0));
}

Test(nfs_attr, pathconf_says_whether_chown_is_restricted)
{
    for (int restricted = 0; restricted < 2; restricted++) {
        struct xdr_in x;
        struct attr a;

        nfs_set_rule(true, true, restricted, "0.0.0.0/0");
        nfs_args();
        nfs_put_handle(nfs_root());
        cr_assert_eq(nfs_status_of(NFSPROC_PATHCONF, &x), NFS_OK);
        cr_assert(nfs_get_post_attr(&x, &a));
        cr_assert(gt(u32, xdr_get_u32(&x), 1)); /* linkmax */
        cr_assert(eq(u32, xdr_get_u32(&x), 255));
        cr_assert(xdr_get_bool(&x));
        cr_assert_eq(xdr_get_bool(&x), restricted);
        cr_assert(not(xdr_get_bool(&x)));
        cr_assert(xdr_get_bool(&x));
    }
}
