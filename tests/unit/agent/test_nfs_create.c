/* CREATE, MKDIR, SYMLINK, MKNOD, LINK: nfs-checklist 53 to 55 and 59. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/unit/agent/nfs_peer.h"
#include "tests/unit/agent/store_fixture.h"

TestSuite(nfs_create, .init = nfs_setup, .fini = nfs_teardown);

#define ALICE 1000
#define BOB   1001
#define STAFF 2000

static struct attr attr_of(const struct fs_handle *fh)
{
    struct attr a;

    cr_assert_eq(nfs_do_getattr(fh, &a), NFS_OK);
    return a;
}

static bool is_there(const char *name)
{
    struct fs_handle fh;

    return nfs_do_lookup(nfs_root(), name, &fh) == NFS_OK;
}

static void open_root(void)
{
    cr_assert_eq(nfs_do_setattr(nfs_root(), 0777, -1), NFS_OK);
}

/* What the quota counts is what is there. */
static void assert_usage(void)
{
    struct usage_stats u;
    uint64_t bytes, inodes;

    usage_get(nfs_volume()->store->usage, &u);
    walk_usage(nfs_volume()->store, &bytes, &inodes);
    cr_assert(eq(u64, u.used_bytes, bytes));
    cr_assert(eq(u64, u.used_inodes, inodes));
}

/* 53 */
Test(nfs_create, unchecked_takes_the_file_that_is_there)
{
    struct set mode = {.mode = 0777, .uid = -1, .gid = -1, .size = -1}, size = mode;
    struct fs_handle first, second, fh;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0640, &first), NFS_OK);
    cr_assert_eq(nfs_do_write(&first, 0, "abc", 3, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", UNCHECKED, &mode, &second), NFS_OK);
    cr_assert(nfs_same_handle(&first, &second));
    cr_assert(eq(u64, attr_of(&first).size, 3));
    cr_assert(eq(u32, attr_of(&first).mode, 0640));
    size.size = 1;
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", UNCHECKED, &size, &second), NFS_OK);
    cr_assert(eq(u64, attr_of(&first).size, 1));
    assert_usage();
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &fh), NFS_OK);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "d", UNCHECKED, &mode, &fh), NFSERR_EXIST);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", UNCHECKED, &size, &fh), NFSERR_ACCES);
}

/* 53 */
Test(nfs_create, guarded_refuses_what_is_there)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "f", 0755, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "f", "x", 1, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "f", NF_FIFO, 0, 0, &fh), NFSERR_EXIST);
    assert_usage();
}

/* 53 */
Test(nfs_create, exclusive_knows_its_own_call_again_also_after_a_restart)
{
    uint8_t verf[] = {1, 2, 3, 4, 5, 6, 7, 8}, other[] = {1, 2, 3, 4, 5, 6, 7, 9},
            first[] = {0, 2, 3, 4, 5, 6, 7, 8};
    struct fs_handle fh, again;

    cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", verf, &fh), NFS_OK);
    for (unsigned round = 0; round < 2; round++) {
        cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", verf, &again), NFS_OK);
        cr_assert(nfs_same_handle(&fh, &again));
        cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", other, &again), NFSERR_EXIST);
        cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", first, &again), NFSERR_EXIST);
        assert_usage();
        nfs_restart();
    }
    /* What the client does behind: attributes, data. It is the same file still. */
    cr_assert_eq(nfs_do_setattr(&fh, 0644, -1), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 0, "abc", 3, FILE_SYNC), NFS_OK);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", verf, &again), NFS_OK);
    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &again), NFSERR_EXIST);
}

/* 53 */
Test(nfs_create, no_verifier_is_that_of_a_file_made_otherwise)
{
    static const uint8_t zero[NFS_CREATEVERF];
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", zero, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &fh), NFS_OK);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "d", zero, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "g", zero, &fh), NFS_OK);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "g", zero, &fh), NFS_OK);
}

Test(nfs_create, exclusive_needs_permission_and_is_the_callers)
{
    static const uint8_t verf[NFS_CREATEVERF] = {7};
    struct fs_handle fh;
    struct attr a;

    nfs_as(ALICE, STAFF, 0, NULL);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", verf, &fh), NFSERR_ACCES);
    nfs_as(0, 0, 0, NULL);
    open_root();
    nfs_as(ALICE, STAFF, 0, NULL);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "f", verf, &fh), NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.uid, ALICE));
    cr_assert(eq(u32, a.gid, STAFF));
    cr_assert(eq(u32, a.mode, 0600));
    cr_assert(eq(u32, a.nlink, 1));
}

/* 54: the mode as it was said, whatever the server's umask. */
Test(nfs_create, modes_are_applied_whole)
{
    static const uint32_t modes[] = {0, 0666, 0777, 01644, 02755, 04711, 07777};
    struct fs_handle fh;

    open_root();
    nfs_as(ALICE, ALICE, 0, NULL);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(nfs_do_create(nfs_root(), "f", modes[i], &fh), NFS_OK);
        cr_assert(eq(u32, attr_of(&fh).mode, modes[i]));
        cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
        cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", modes[i], &fh), NFS_OK);
        cr_assert(eq(u32, attr_of(&fh).mode, modes[i]));
        cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
    }
    cr_assert_eq(nfs_do_create(nfs_root(), "f", -1, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode & 0077, 0));
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", -1, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).mode & 0077, 0));
}

/* 54 */
Test(nfs_create, attributes_are_applied)
{
    struct set set = {.mode = 06755,
                      .uid = ALICE,
                      .gid = STAFF,
                      .size = 5000,
                      .atime_how = SET_TO_CLIENT_TIME,
                      .atime_s = 11,
                      .mtime_how = SET_TO_CLIENT_TIME,
                      .mtime_s = 12,
                      .mtime_ns = 13};
    struct fs_handle fh;
    struct attr a;

    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", UNCHECKED, &set, &fh), NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.mode, 06755));
    cr_assert(eq(u32, a.uid, ALICE));
    cr_assert(eq(u32, a.gid, STAFF));
    cr_assert(eq(u64, a.size, 5000));
    cr_assert(eq(u32, a.atime_s, 11));
    cr_assert(eq(u32, a.mtime_s, 12));
    cr_assert(eq(u32, a.mtime_ns, 13));
    cr_assert_eq(nfs_do_mkdir_with(nfs_root(), "d", &set, &fh), NFS_OK);
    a = attr_of(&fh);
    cr_assert(eq(u32, a.type, NF_DIR));
    cr_assert(eq(u32, a.mode, 06755));
    cr_assert(eq(u32, a.uid, ALICE));
    cr_assert(eq(u32, a.mtime_s, 12));
}

/* 54 */
Test(nfs_create, what_cannot_be_applied_makes_nothing)
{
    struct set foreign = {.mode = 0644, .uid = BOB, .gid = -1, .size = -1},
               group = {.mode = 0644, .uid = -1, .gid = BOB, .size = -1},
               size = {.mode = 0644, .uid = -1, .gid = -1, .size = INT64_MIN};
    struct fs_handle fh;

    open_root();
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", GUARDED, &foreign, &fh), NFSERR_PERM);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", GUARDED, &group, &fh), NFSERR_PERM);
    cr_assert_eq(nfs_do_mkdir_with(nfs_root(), "f", &foreign, &fh), NFSERR_PERM);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "f", GUARDED, &size, &fh), NFSERR_FBIG);
    cr_assert(not(is_there("f")));
    assert_usage();
}

/* A folder with the set-group-id bit hands its group on. */
Test(nfs_create, a_set_group_id_folder_gives_its_group)
{
    struct fs_handle dir, fh;

    cr_assert_eq(
        nfs_do_mkdir_with(nfs_root(), "d",
                          &(struct set){.mode = 02777, .uid = -1, .gid = STAFF, .size = -1}, &dir),
        NFS_OK);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_create(&dir, "f", 0644, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).gid, STAFF));
    cr_assert_eq(nfs_do_mkdir(&dir, "sub", 0755, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).gid, STAFF));
    cr_assert(eq(u32, attr_of(&fh).mode, 02755));
}

static uint32_t readlink_of(const struct fs_handle *fh, char *text, uint32_t *len)
{
    const uint8_t *data;
    struct xdr_in x;
    struct attr a;
    uint32_t status;

    nfs_args();
    nfs_put_handle(fh);
    status = nfs_status_of(NFSPROC_READLINK, &x);
    cr_assert(nfs_get_post_attr(&x, &a));
    if (status != NFS_OK)
        return status;
    data = xdr_get_opaque(&x, 8192, len);
    cr_assert_not_null(data);
    memcpy(text, data, *len);
    return NFS_OK;
}

/* 55 */
Test(nfs_create, links_of_every_length_are_read_as_they_were_made)
{
    static const uint32_t lengths[] = {1, 59, 60, 61, 1023, 1024, 4094, 4095};
    static char text[8192], back[8192];
    struct fs_handle fh;
    uint32_t len = 0;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 37 == 0 ? '/' : i % 255 + 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        cr_assert_eq(nfs_do_symlink(nfs_root(), "l", text, lengths[i], &fh), NFS_OK);
        cr_assert_eq(readlink_of(&fh, back, &len), NFS_OK);
        cr_assert(eq(u32, len, lengths[i]));
        cr_assert_eq(memcmp(text, back, len), 0);
        cr_assert(eq(u64, attr_of(&fh).size, len));
        assert_usage();
        cr_assert_eq(nfs_do_remove(nfs_root(), "l"), NFS_OK);
    }
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", text, 4096, &fh), NFSERR_NAMETOOLONG);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", text, 0, &fh), NFSERR_INVAL);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", "a\0b", 3, &fh), NFSERR_INVAL);
    cr_assert(not(is_there("l")));
    assert_usage();
}

/* 55 */
Test(nfs_create, only_links_are_read_as_links)
{
    struct fs_handle fh;
    char text[8];
    uint32_t len;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &fh), NFS_OK);
    cr_assert_eq(readlink_of(&fh, text, &len), NFSERR_INVAL);
    cr_assert_eq(readlink_of(nfs_root(), text, &len), NFSERR_INVAL);
}

/* The kinds of MKNOD, RFC 1813 3.3.11. */
Test(nfs_create, nodes_of_every_kind)
{
    struct fs_handle fh;
    struct stat st;

    open_root();
    cr_assert_eq(nfs_do_mknod(nfs_root(), "c", NF_CHR, 0x123, 0x45678, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).type, NF_CHR));
    cr_assert_eq(fstatat(nfs_volume()->store->root, "c", &st, 0), 0);
    cr_assert_eq(st.st_rdev, makedev(0x123, 0x45678));
    cr_assert_eq(nfs_do_mknod(nfs_root(), "b", NF_BLK, 7, 1, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).type, NF_BLK));
    cr_assert_eq(nfs_do_mknod(nfs_root(), "big", NF_BLK, 0x1000, 1, &fh), NFSERR_INVAL);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "big", NF_BLK, 1, 0x100000, &fh), NFSERR_INVAL);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "r", NF_REG, 0, 0, &fh), NFSERR_BADTYPE);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "r", NF_DIR, 0, 0, &fh), NFSERR_BADTYPE);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "r", NF_LNK, 0, 0, &fh), NFSERR_BADTYPE);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "x", NF_CHR, 1, 3, &fh), NFSERR_ACCES);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "x", NF_CHR, 0, 0, &fh), NFSERR_ACCES);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "p", NF_FIFO, 0, 0, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).type, NF_FIFO));
    cr_assert_eq(nfs_do_mknod(nfs_root(), "s", NF_SOCK, 0, 0, &fh), NFS_OK);
    cr_assert(eq(u32, attr_of(&fh).type, NF_SOCK));
    cr_assert(eq(u32, attr_of(&fh).uid, ALICE));
    assert_usage();
}

/* 59 */
Test(nfs_create, a_link_is_another_name_of_the_same_file)
{
    struct fs_handle fh, again, dir, link;

    cr_assert_eq(nfs_do_create(nfs_root(), "a", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    cr_assert_eq(nfs_do_link(&fh, &dir, "b"), NFS_OK);
    cr_assert_eq(nfs_do_lookup(&dir, "b", &again), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &again));
    cr_assert(eq(u32, attr_of(&fh).nlink, 2));
    cr_assert_eq(nfs_do_link(&fh, &dir, "b"), NFSERR_EXIST);
    cr_assert_eq(nfs_do_link(&fh, &fh, "b"), NFSERR_NOTDIR);
    cr_assert_eq(nfs_do_link(&dir, nfs_root(), "e"), NFSERR_ISDIR);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", "a", 1, &link), NFS_OK);
    cr_assert_eq(nfs_do_link(&link, nfs_root(), "m"), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "m", &again), NFS_OK);
    cr_assert(nfs_same_handle(&link, &again));
    cr_assert_eq(nfs_do_set(&fh, &(struct set){.mode = -1, .uid = ALICE, .gid = -1, .size = -1}),
                 NFS_OK);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_link(&fh, nfs_root(), "z"), NFSERR_ACCES);
    assert_usage();
}

/* Two who remove the two names of a file: it is counted out once. */
Test(nfs_create, usage_counts_a_file_with_several_names_once)
{
    struct fs_handle fh;
    struct usage_stats u;

    cr_assert_eq(nfs_do_create(nfs_root(), "a", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 0, "abc", 3, FILE_SYNC), NFS_OK);
    cr_assert_eq(nfs_do_link(&fh, nfs_root(), "b"), NFS_OK);
    assert_usage();
    cr_assert_eq(nfs_do_rename(nfs_root(), "a", nfs_root(), "b"), NFS_OK); /* the same: nothing */
    assert_usage();
    cr_assert_eq(nfs_do_remove(nfs_root(), "a"), NFS_OK);
    assert_usage();
    cr_assert_eq(nfs_do_remove(nfs_root(), "b"), NFS_OK);
    usage_get(nfs_volume()->store->usage, &u);
    cr_assert(eq(u64, u.used_inodes, 0));
    cr_assert(eq(u64, u.used_bytes, 0));
}

Test(nfs_create, the_number_of_files_is_limited)
{
    struct fs_handle fh;

    nfs_set_quota(GIB, 2);
    cr_assert_eq(nfs_do_create(nfs_root(), "a", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "b", 0755, &fh), NFS_OK);
    cr_assert_eq(nfs_do_create(nfs_root(), "c", 0644, &fh), NFSERR_NOSPC);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "c", "x", 1, &fh), NFSERR_NOSPC);
    cr_assert(not(is_there("c")));
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "b"), NFS_OK);
    cr_assert_eq(nfs_do_create(nfs_root(), "c", 0644, &fh), NFS_OK);
}

/* wcc_data of the folder: before and after. */
Test(nfs_create, tells_the_folder_before_and_after)
{
    struct attr before = attr_of(nfs_root()), a;
    struct fs_handle fh;
    struct xdr_in x;

    nfs_args();
    nfs_put_handle(nfs_root());
    nfs_put_name("d");
    nfs_put_sattr(0755, -1);
    cr_assert_eq(nfs_status_of(NFSPROC_MKDIR, &x), NFS_OK);
    cr_assert(xdr_get_bool(&x));
    nfs_get_handle(&x, &fh);
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u32, a.type, NF_DIR));
    cr_assert(xdr_get_bool(&x));
    cr_assert(eq(u64, xdr_get_u64(&x), before.size));
    cr_assert(eq(u32, xdr_get_u32(&x), before.mtime_s));
    cr_assert(eq(u32, xdr_get_u32(&x), before.mtime_ns));
    cr_assert(eq(u32, xdr_get_u32(&x), before.ctime_s));
    cr_assert(eq(u32, xdr_get_u32(&x), before.ctime_ns));
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u32, a.nlink, before.nlink + 1));
    cr_assert(eq(sz, xdr_left(&x), 0));
}

TestSuite(nfs_power, .init = nfs_setup_power, .fini = nfs_teardown);

/* Every kind of object is synced without an error where stable means against a power cut. */
Test(nfs_power, every_change_is_synced)
{
    static const uint8_t verf[NFS_CREATEVERF] = {1};
    struct fs_handle fh, dir;
    struct nfs_stats stats;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 0, "a", 1, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 0, "a", 1, DATA_SYNC), NFS_OK);
    cr_assert_eq(nfs_do_write(&fh, 0, "a", 1, FILE_SYNC), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, 0600, 0), NFS_OK);
    cr_assert_eq(nfs_do_exclusive(nfs_root(), "g", verf, &fh), NFS_OK);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&dir, 0700, -1), NFS_OK);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", "x", 1, &fh), NFS_OK);
    cr_assert_eq(nfs_do_set(&fh, &(struct set){.mode = -1, .uid = 5, .gid = -1, .size = -1}),
                 NFS_OK);
    cr_assert_eq(nfs_do_mknod(nfs_root(), "p", NF_FIFO, 0, 0, &fh), NFS_OK);
    cr_assert_eq(nfs_do_link(&fh, &dir, "p"), NFS_OK);
    cr_assert_eq(nfs_do_rename(nfs_root(), "g", &dir, "g"), NFS_OK);
    cr_assert_eq(nfs_do_remove(&dir, "g"), NFS_OK);
    cr_assert_eq(nfs_do_remove(&dir, "p"), NFS_OK);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
    nfs_get_stats(&stats);
    cr_assert(eq(u64, stats.sync_failures, 0));
    cr_assert(eq(u64, stats.failed, 0));
}
