/* Handles: nfs-checklist 23 to 29. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_handle, .init = nfs_setup, .fini = nfs_teardown);

static struct fs_handle file(const struct fs_handle *in, const char *name)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(in, name, 0644, &fh), NFS_OK);
    return fh;
}

static struct fs_handle folder(const struct fs_handle *in, const char *name)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_mkdir(in, name, 0755, &fh), NFS_OK);
    return fh;
}

static int root_fd(void)
{
    return nfs_volume()->store->root;
}

/* 23 */
Test(nfs_handle, are_the_same_after_a_restart)
{
    struct fs_handle dir = folder(nfs_root(), "d"), fh = file(&dir, "f"), root = *nfs_root(), again;
    struct attr before, after;

    cr_assert_eq(nfs_do_getattr(&fh, &before), NFS_OK);
    nfs_restart();
    cr_assert(nfs_same_handle(&root, nfs_root()));
    cr_assert_eq(nfs_do_getattr(&root, &after), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &after), NFS_OK);
    cr_assert(eq(u64, after.fileid, before.fileid));
    cr_assert(eq(u64, after.fsid, before.fsid));
    cr_assert_eq(nfs_do_lookup(&root, "d", &again), NFS_OK);
    cr_assert(nfs_same_handle(&again, &dir));
    cr_assert_eq(nfs_do_lookup(&dir, "f", &again), NFS_OK);
    cr_assert(nfs_same_handle(&again, &fh));
}

/* 24. Bytes 1 to 16 name the volume: one that is not here is stale, as after its deletion. */
Test(nfs_handle, with_any_bit_changed_are_refused)
{
    struct fs_handle good[] = {*nfs_root(), file(nfs_root(), "f")};
    struct attr a;

    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < good[k].len; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                struct fs_handle bad = good[k];

                bad.data[i] ^= (uint8_t)(1u << bit);
                cr_assert(eq(u32, nfs_do_getattr(&bad, &a),
                             i >= 1 && i <= 16 ? NFSERR_STALE : NFSERR_BADHANDLE),
                          "byte %u", i);
            }
}

/* 24 */
Test(nfs_handle, of_any_other_length_are_refused)
{
    struct fs_handle good = file(nfs_root(), "f"), bad;
    struct attr a;

    for (uint32_t len = 0; len <= FS_HANDLE_MAX; len++) {
        bad = (struct fs_handle){.len = len};
        memcpy(bad.data, good.data, len < good.len ? len : good.len);
        cr_assert(eq(u32, nfs_do_getattr(&bad, &a), len == good.len ? NFS_OK : NFSERR_BADHANDLE),
                  "length %u", len);
    }
}

/* 29 */
Test(nfs_handle, of_65_bytes_is_garbage)
{
    uint8_t long_one[4 + 68] = {0, 0, 0, 65};

    cr_assert_eq(nfs_accept_stat(NFSPROC_GETATTR, long_one, sizeof long_one), 4);
}

/* 24 */
Test(nfs_handle, of_one_volume_are_not_taken_for_another)
{
    struct fs_handle second = nfs_second_volume(), fh = file(nfs_root(), "f"), forged = fh;
    struct attr a;

    memcpy(forged.data + 1, second.data + 1, 16);
    cr_assert_eq(nfs_do_getattr(&forged, &a), NFSERR_BADHANDLE);
    cr_assert_eq(nfs_do_getattr(&second, &a), NFS_OK);
    cr_assert_eq(nfs_do_lookup(&second, "f", &forged), NFSERR_NOENT);
}

/* 25 */
Test(nfs_handle, stay_valid_over_renames)
{
    struct fs_handle a = folder(nfs_root(), "a"), b = folder(nfs_root(), "b"), fh = file(&a, "f"),
                     again;
    struct attr before, after;

    cr_assert_eq(nfs_do_getattr(&fh, &before), NFS_OK);
    cr_assert_eq(nfs_do_rename(&a, "f", &b, "g"), NFS_OK);
    cr_assert_eq(nfs_do_rename(nfs_root(), "b", &a, "b"), NFS_OK);
    nfs_restart();
    cr_assert_eq(nfs_do_getattr(&fh, &after), NFS_OK);
    cr_assert(eq(u64, after.fileid, before.fileid));
    cr_assert_eq(nfs_do_lookup(&b, "g", &again), NFS_OK);
    cr_assert(nfs_same_handle(&again, &fh));
}

/* 24, 26 */
Test(nfs_handle, of_a_removed_file_are_stale_also_when_its_inode_is_used_again)
{
    struct fs_handle old = file(nfs_root(), "f"), fresh;
    struct attr first, a;
    bool reused = false;
    uint32_t len;
    char data[8];
    bool eof;

    cr_assert_eq(nfs_do_getattr(&old, &first), NFS_OK);
    cr_assert_eq(nfs_do_write(&old, 0, "old", 3, UNSTABLE), NFS_OK);
    cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
    for (unsigned i = 0; i < 100; i++) {
        fresh = file(nfs_root(), "f");
        cr_assert_eq(nfs_do_getattr(&fresh, &a), NFS_OK);
        reused |= a.fileid == first.fileid;
        cr_assert(not(nfs_same_handle(&old, &fresh)));
        cr_assert_eq(nfs_do_getattr(&old, &a), NFSERR_STALE);
        cr_assert_eq(nfs_do_read(&old, 0, 8, data, &len, &eof), NFSERR_STALE);
        cr_assert_eq(nfs_do_write(&old, 0, "bad", 3, UNSTABLE), NFSERR_STALE);
        cr_assert_eq(nfs_do_setattr(&old, 0600, 0), NFSERR_STALE);
        cr_assert_eq(nfs_do_read(&fresh, 0, 8, data, &len, &eof), NFS_OK);
        cr_assert(eq(u32, len, 0));
        cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
    }
    cr_expect(reused, "this file system does not use inodes again soon: nothing was proven");
}

/* Also when it was removed on the server's machine, while the cache has it open. */
Test(nfs_handle, of_a_file_removed_behind_the_server_are_stale)
{
    struct fs_handle fh = file(nfs_root(), "f");
    struct attr a;

    cr_assert_eq(nfs_do_write(&fh, 0, "x", 1, UNSTABLE), NFS_OK);
    cr_assert_eq(unlinkat(root_fd(), "f", 0), 0);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFSERR_STALE);
    cr_assert_eq(nfs_do_write(&fh, 0, "x", 1, UNSTABLE), NFSERR_STALE);
}

/* 26 */
Test(nfs_handle, of_a_removed_folder_are_stale)
{
    struct fs_handle dir = folder(nfs_root(), "d"), fh;

    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
    cr_assert_eq(nfs_do_create(&dir, "f", 0644, &fh), NFSERR_STALE);
    cr_assert_eq(nfs_do_lookup(&dir, "f", &fh), NFSERR_STALE);
    cr_assert_eq(nfs_do_rename(nfs_root(), "x", &dir, "y"), NFSERR_STALE);
}

/* A file that was replaced is gone; the one that replaced it is not. 57 */
Test(nfs_handle, of_a_replaced_file_are_stale)
{
    struct fs_handle old = file(nfs_root(), "a"), fresh = file(nfs_root(), "b");
    struct attr a;

    cr_assert_eq(nfs_do_rename(nfs_root(), "b", nfs_root(), "a"), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&old, &a), NFSERR_STALE);
    cr_assert_eq(nfs_do_getattr(&fresh, &a), NFS_OK);
}

Test(nfs_handle, of_a_file_with_a_name_left_live)
{
    struct fs_handle fh = file(nfs_root(), "a");
    struct attr a;

    cr_assert_eq(nfs_do_link(&fh, nfs_root(), "b"), NFS_OK);
    cr_assert_eq(nfs_do_remove(nfs_root(), "a"), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u32, a.nlink, 1));
    cr_assert_eq(nfs_do_remove(nfs_root(), "b"), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFSERR_STALE);
}

Test(nfs_handle, of_a_deleted_volume_are_stale)
{
    struct fs_handle fh = file(nfs_root(), "f");
    struct attr a;

    nfs_delete_volume();
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFSERR_STALE);
    cr_assert_eq(nfs_do_getattr(nfs_root(), &a), NFSERR_STALE);
    cr_assert_eq(nfs_do_write(&fh, 0, "x", 1, UNSTABLE), NFSERR_STALE);
}

/* 27 */
Test(nfs_handle, fsid_is_of_the_volume)
{
    struct fs_handle second = nfs_second_volume(), fh = file(nfs_root(), "f"), other;
    struct attr root, a, b;

    cr_assert_eq(nfs_do_getattr(nfs_root(), &root), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&second, &b), NFS_OK);
    cr_assert(ne(u64, a.fsid, 0));
    cr_assert(eq(u64, a.fsid, root.fsid));
    cr_assert(ne(u64, b.fsid, 0));
    cr_assert(ne(u64, b.fsid, a.fsid));
    other = file(&second, "f");
    cr_assert_eq(nfs_do_getattr(&other, &a), NFS_OK);
    cr_assert(eq(u64, a.fsid, b.fsid));
}

/* 28 */
Test(nfs_handle, dot_dot_at_the_root_is_the_root)
{
    struct fs_handle dir = folder(nfs_root(), "d"), fh, ordinary;

    cr_assert_eq(nfs_do_lookup(nfs_root(), "..", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, nfs_root()));
    cr_assert_eq(nfs_do_lookup(nfs_root(), ".", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, nfs_root()));
    cr_assert_eq(nfs_do_lookup(&dir, "..", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, nfs_root()));
    cr_assert_eq(nfs_do_lookup(&dir, ".", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &dir));
    /* Not even by the root as the ordinary folder that it is below. */
    cr_assert_eq(fs_handle_of(nfs_volume(), root_fd(), &ordinary), 0);
    cr_assert_eq(nfs_do_lookup(&ordinary, "..", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, nfs_root()));
}

/* 28 */
Test(nfs_handle, symbolic_links_are_not_followed)
{
    struct fs_handle link, fh;
    struct attr a;

    cr_assert_eq(nfs_do_symlink(nfs_root(), "out", "/", 1, &link), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "out", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &link));
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u32, a.type, NF_LNK));
    cr_assert_eq(nfs_do_lookup(&link, "etc", &fh), NFSERR_NOTDIR);
    cr_assert_eq(nfs_do_create(&link, "x", 0644, &fh), NFSERR_NOTDIR);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "out", UNCHECKED, &(struct set){SET_NOTHING}, &fh),
                 NFSERR_EXIST);
}

/* ---- something mounted below a volume ---- */

static bool mounted;

/* The mount is in a namespace of the test's process, and goes with it. */
static void setup_mounted(void)
{
    bool own = unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    struct fs_handle dir;
    char path[64];

    nfs_setup();
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    snprintf(path, sizeof path, "/proc/self/fd/%d/d", root_fd());
    mounted = own && mount("none", path, "tmpfs", 0, NULL) == 0;
}

static void teardown_mounted(void)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d/d", root_fd());
    if (mounted)
        umount2(path, MNT_DETACH);
    nfs_teardown();
}

TestSuite(nfs_mounted, .init = setup_mounted, .fini = teardown_mounted);

/* 28 */
Test(nfs_mounted, is_not_part_of_the_volume)
{
    struct fs_handle fh;

    if (!mounted)
        cr_skip_test("may not mount here");
    cr_assert_eq(nfs_do_lookup(nfs_root(), "d", &fh), NFSERR_ACCES);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_remove(nfs_root(), "d"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_rename(nfs_root(), "d", nfs_root(), "e"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &fh), NFSERR_EXIST);
    cr_assert_eq(nfs_do_create_with(nfs_root(), "d", UNCHECKED, &(struct set){SET_NOTHING}, &fh),
                 NFSERR_EXIST);
}
