/* Names: nfs-checklist 60, RFC 1813 3.2. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_name, .init = nfs_setup, .fini = nfs_teardown);

/* The procedures that take a name, each with what an impossible one and what dots get. */
static const struct {
    uint32_t proc;
    enum nfs_status dot, dotdot;
} procs[] = {
    {NFSPROC_LOOKUP, NFS_OK, NFS_OK},
    {NFSPROC_CREATE, NFSERR_EXIST, NFSERR_EXIST},
    {NFSPROC_MKDIR, NFSERR_EXIST, NFSERR_EXIST},
    {NFSPROC_SYMLINK, NFSERR_EXIST, NFSERR_EXIST},
    {NFSPROC_MKNOD, NFSERR_EXIST, NFSERR_EXIST},
    {NFSPROC_LINK, NFSERR_EXIST, NFSERR_EXIST},
    {NFSPROC_REMOVE, NFSERR_INVAL, NFSERR_EXIST},
    {NFSPROC_RMDIR, NFSERR_INVAL, NFSERR_EXIST},
    {NFSPROC_RENAME, NFSERR_INVAL, NFSERR_INVAL},
};
#define PROCS (sizeof procs / sizeof *procs)

static struct fs_handle file;

static uint32_t call_with(uint32_t proc, const void *name, uint32_t len)
{
    struct xdr_out *args = nfs_args();
    struct xdr_in x;

    if (proc == NFSPROC_LINK)
        nfs_put_handle(&file);
    nfs_put_handle(nfs_root());
    if (proc == NFSPROC_RENAME) {
        nfs_put_name("file");
        nfs_put_handle(nfs_root());
    }
    xdr_put_opaque(args, name, len);
    if (proc == NFSPROC_CREATE)
        xdr_put_u32(args, GUARDED);
    if (proc == NFSPROC_MKNOD)
        xdr_put_u32(args, NF_FIFO);
    if (proc == NFSPROC_CREATE || proc == NFSPROC_MKDIR || proc == NFSPROC_MKNOD ||
        proc == NFSPROC_SYMLINK)
        nfs_put_sattr(0644, -1);
    if (proc == NFSPROC_SYMLINK)
        nfs_put_name("text");
    return nfs_status_of(proc, &x);
}

static void make_file(void)
{
    cr_assert_eq(nfs_do_create(nfs_root(), "file", 0644, &file), NFS_OK);
}

Test(nfs_name, that_cannot_be_are_refused_everywhere)
{
    static char longest[70000];

    memset(longest, 'n', sizeof longest);
    make_file();
    for (size_t i = 0; i < PROCS; i++) {
        uint32_t proc = procs[i].proc;

        cr_assert_eq(call_with(proc, "", 0), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "a/b", 3), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "/", 1), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "../x", 4), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "a\0b", 3), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "\0", 1), NFSERR_INVAL, "procedure %u", proc);
        cr_assert_eq(call_with(proc, longest, 256), NFSERR_NAMETOOLONG, "procedure %u", proc);
        cr_assert_eq(call_with(proc, longest, sizeof longest), NFSERR_NAMETOOLONG, "procedure %u",
                     proc);
        cr_assert_eq(call_with(proc, ".", 1), procs[i].dot, "procedure %u", proc);
        cr_assert_eq(call_with(proc, "..", 2), procs[i].dotdot, "procedure %u", proc);
    }
    cr_assert_eq(nfs_do_rename(nfs_root(), ".", nfs_root(), "x"), NFSERR_INVAL);
    cr_assert_eq(nfs_do_rename(nfs_root(), "..", nfs_root(), "x"), NFSERR_INVAL);
    cr_assert_eq(nfs_do_rename(nfs_root(), "", nfs_root(), "x"), NFSERR_INVAL);
}

/* 255 bytes, of any value but '/' and NUL: names are bytes, not text. */
Test(nfs_name, of_255_bytes_and_of_no_encoding_pass)
{
    static const char *const odd[] = {"\xff\xfe\x80", "\xc3\x28", "...", " ", "\n", "-rf *", "\\"};
    struct fs_handle fh, again;
    char name[256] = "";

    memset(name, 'n', 255);
    cr_assert_eq(nfs_do_create(nfs_root(), name, 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_lookup(nfs_root(), name, &again), NFS_OK);
    cr_assert(nfs_same_handle(&fh, &again));
    cr_assert_eq(nfs_do_remove(nfs_root(), name), NFS_OK);
    for (int c = 1; c < 256; c++) {
        char all[] = {'a', (char)c, '\0'};

        if (c == '/')
            continue;
        cr_assert_eq(nfs_do_create(nfs_root(), all, 0644, &fh), NFS_OK, "byte %d", c);
        cr_assert_eq(nfs_do_lookup(nfs_root(), all, &again), NFS_OK);
        cr_assert(nfs_same_handle(&fh, &again));
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        cr_assert_eq(nfs_do_mkdir(nfs_root(), odd[i], 0755, &fh), NFS_OK);
        cr_assert_eq(nfs_do_rmdir(nfs_root(), odd[i]), NFS_OK);
    }
}

Test(nfs_name, in_what_is_no_folder_is_refused)
{
    static const uint32_t in_folder[] = {NFSPROC_LOOKUP, NFSPROC_REMOVE, NFSPROC_RMDIR};
    struct xdr_in x;

    make_file();
    for (size_t i = 0; i < sizeof in_folder / sizeof *in_folder; i++) {
        nfs_args();
        nfs_put_handle(&file);
        nfs_put_name("x");
        cr_assert_eq(nfs_status_of(in_folder[i], &x), NFSERR_NOTDIR);
    }
    cr_assert_eq(nfs_do_rename(&file, "x", nfs_root(), "y"), NFSERR_NOTDIR);
    cr_assert_eq(nfs_do_rename(nfs_root(), "file", &file, "y"), NFSERR_NOTDIR);
}
