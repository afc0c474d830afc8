/* REMOVE, RMDIR, RENAME: nfs-checklist 56, 57. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/unit/agent/nfs_peer.h"
#include "tests/unit/agent/store_fixture.h"

TestSuite(nfs_remove, .init = nfs_setup, .fini = nfs_teardown);

#define BOB 1001

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

static bool is_there(const struct fs_handle *in, const char *name)
{
    struct fs_handle fh;

    return nfs_do_lookup(in, name, &fh) == NFS_OK;
}

static void assert_usage(void)
{
    struct usage_stats u;
    uint64_t bytes, inodes;

    usage_get(nfs_volume()->store->usage, &u);
    walk_usage(nfs_volume()->store, &bytes, &inodes);
    cr_assert(eq(u64, u.used_bytes, bytes));
    cr_assert(eq(u64, u.used_inodes, inodes));
}

/* 56 */
Test(nfs_remove, files_by_remove_and_folders_by_rmdir)
{
    struct fs_handle dir = folder(nfs_root(), "d");

    file(nfs_root(), "f");
    file(&dir, "f");
    cr_assert_eq(nfs_do_remove(nfs_root(), "d"), NFSERR_ISDIR);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "f"), NFSERR_NOTDIR);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFSERR_NOTEMPTY);
    cr_assert_eq(nfs_do_remove(nfs_root(), "x"), NFSERR_NOENT);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "x"), NFSERR_NOENT);
    assert_usage();
    cr_assert_eq(nfs_do_remove(&dir, "f"), NFS_OK);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
    cr_assert_eq(nfs_do_remove(nfs_root(), "f"), NFS_OK);
    assert_usage();
}

/* Who may not search a folder learns nothing of what is in it. */
Test(nfs_remove, permission_comes_before_what_the_name_is)
{
    struct fs_handle dir = folder(nfs_root(), "d");

    file(&dir, "f");
    folder(&dir, "g");
    cr_assert_eq(nfs_do_setattr(&dir, 0700, -1), NFS_OK);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_remove(&dir, "f"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_remove(&dir, "g"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_remove(&dir, "x"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_rmdir(&dir, "f"), NFSERR_ACCES);
    cr_assert_eq(nfs_do_rename(&dir, "f", &dir, "x"), NFSERR_ACCES);
}

/* 57 */
Test(nfs_remove, a_rename_replaces_what_is_compatible)
{
    struct fs_handle a = file(nfs_root(), "a"), d = folder(nfs_root(), "d"), e, fh;
    struct attr attr;

    cr_assert_eq(nfs_do_write(&a, 0, "aaa", 3, UNSTABLE), NFS_OK);
    file(nfs_root(), "b");
    cr_assert_eq(nfs_do_rename(nfs_root(), "a", nfs_root(), "b"), NFS_OK);
    cr_assert(not(is_there(nfs_root(), "a")));
    cr_assert_eq(nfs_do_lookup(nfs_root(), "b", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &a));
    assert_usage();
    e = folder(nfs_root(), "e");
    cr_assert_eq(nfs_do_rename(nfs_root(), "d", nfs_root(), "e"), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "e", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &d));
    cr_assert_eq(nfs_do_getattr(&e, &attr), NFSERR_STALE);
    assert_usage();
}

/* 57, RFC 1813 3.3.14 */
Test(nfs_remove, a_rename_refuses_what_is_not)
{
    struct fs_handle d = folder(nfs_root(), "d"), e = folder(nfs_root(), "e");

    file(nfs_root(), "f");
    file(&e, "x");
    cr_assert_eq(nfs_do_rename(nfs_root(), "f", nfs_root(), "d"), NFSERR_EXIST);
    cr_assert_eq(nfs_do_rename(nfs_root(), "d", nfs_root(), "f"), NFSERR_EXIST);
    cr_assert_eq(nfs_do_rename(nfs_root(), "d", nfs_root(), "e"), NFSERR_EXIST);
    cr_assert_eq(nfs_do_rename(nfs_root(), "none", nfs_root(), "g"), NFSERR_NOENT);
    cr_assert_eq(nfs_do_rename(nfs_root(), "d", &d, "below"), NFSERR_INVAL);
    cr_assert(is_there(nfs_root(), "d"));
    cr_assert(is_there(nfs_root(), "f"));
    cr_assert(is_there(&e, "x"));
    assert_usage();
}

/* 57 */
Test(nfs_remove, a_rename_to_itself_changes_nothing)
{
    struct fs_handle f = file(nfs_root(), "f"), fh;

    cr_assert_eq(nfs_do_rename(nfs_root(), "f", nfs_root(), "f"), NFS_OK);
    cr_assert_eq(nfs_do_link(&f, nfs_root(), "g"), NFS_OK);
    cr_assert_eq(nfs_do_rename(nfs_root(), "f", nfs_root(), "g"), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "f", &fh), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "g", &fh), NFS_OK);
    assert_usage();
}

Test(nfs_remove, a_folder_moves_with_all_that_is_in_it)
{
    struct fs_handle a = folder(nfs_root(), "a"), b = folder(nfs_root(), "b"),
                     sub = folder(&a, "sub"), fh;
    struct attr before, after;

    file(&sub, "f");
    cr_assert_eq(nfs_do_getattr(&b, &before), NFS_OK);
    cr_assert_eq(nfs_do_rename(&a, "sub", &b, "moved"), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&b, &after), NFS_OK);
    cr_assert(eq(u32, after.nlink, before.nlink + 1));
    cr_assert_eq(nfs_do_lookup(&sub, "f", &fh), NFS_OK);
    cr_assert_eq(nfs_do_lookup(&sub, "..", &fh), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &b));
    assert_usage();
}

/* 38: both folders' attributes before and after; once of the one when it is the same. */
Test(nfs_remove, a_rename_tells_both_folders)
{
    struct fs_handle d = folder(nfs_root(), "d");
    const struct fs_handle *to[] = {&d, nfs_root()};

    for (size_t i = 0; i < 2; i++) {
        struct attr from, a, b;
        struct xdr_in x;

        file(nfs_root(), "f");
        nfs_args();
        nfs_put_handle(nfs_root());
        nfs_put_name("f");
        nfs_put_handle(to[i]);
        nfs_put_name("g");
        cr_assert_eq(nfs_status_of(NFSPROC_RENAME, &x), NFS_OK);
        cr_assert(nfs_get_wcc(&x, &a));
        cr_assert(nfs_get_wcc(&x, &b));
        cr_assert(eq(sz, xdr_left(&x), 0));
        cr_assert_eq(nfs_do_getattr(nfs_root(), &from), NFS_OK);
        cr_assert(eq(u64, a.fileid, from.fileid));
        cr_assert(eq(u32, a.ctime_ns, from.ctime_ns));
        cr_assert_eq(a.fileid == b.fileid, i == 1);
    }
}
