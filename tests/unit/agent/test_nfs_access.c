/* Who may do what: nfs-checklist 21, 22, 30 to 34. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_access, .init = nfs_setup, .fini = nfs_teardown);

#define ALICE 1000
#define BOB   1001
#define STAFF 2000
#define ANON  65534

static int root_fd(void)
{
    return nfs_volume()->store->root;
}

static struct fs_handle made(const char *name, bool folder)
{
    struct fs_handle fh;

    if (folder)
        cr_assert_eq(nfs_do_mkdir(nfs_root(), name, 0755, &fh), NFS_OK);
    else
        cr_assert_eq(nfs_do_create(nfs_root(), name, 0644, &fh), NFS_OK);
    return fh;
}

struct caller {
    uint32_t uid, gid, ngids, gids[2];
};

/* What access(2) gives as that user, by the kernel's own judgement. */
static unsigned kernel_permission(const struct caller *c, const char *name)
{
    static const unsigned bits[] = {R_OK, W_OK, X_OK};
    unsigned may = 0;

    cr_assert_eq(syscall(SYS_setgroups, (size_t)c->ngids, c->gids), 0);
    setfsgid(c->gid);
    setfsuid(c->uid);
    for (size_t i = 0; i < 3; i++)
        if (syscall(SYS_faccessat2, root_fd(), name, bits[i], AT_EACCESS) == 0)
            may |= bits[i];
    setfsuid(0);
    setfsgid(0);
    return may;
}

#define ALL_BITS 0x3fu

static uint32_t expected_bits(unsigned may, bool folder)
{
    uint32_t bits = may & R_OK ? ACCESS_READ : 0;

    if (folder) {
        bits |= may & X_OK ? ACCESS_LOOKUP : 0;
        if (may & W_OK && may & X_OK)
            bits |= ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE;
    } else {
        bits |= may & W_OK ? ACCESS_MODIFY | ACCESS_EXTEND : 0;
        bits |= may & X_OK ? ACCESS_EXECUTE : 0;
    }
    return bits;
}

/* 30: all 512 modes, for the owner, the group by its first and by another id, others, and root. */
Test(nfs_access, is_what_the_kernel_says)
{
    static const struct caller callers[] = {{ALICE, BOB, 0, {0}},
                                            {BOB, STAFF, 0, {0}},
                                            {BOB, BOB, 2, {5, STAFF}},
                                            {BOB, BOB, 1, {ALICE}},
                                            {0, 0, 0, {0}}};
    struct fs_handle fh[] = {made("f", false), made("d", true)};
    static const char *const names[] = {"f", "d"};
    uint32_t given;

    for (size_t k = 0; k < 2; k++) {
        cr_assert_eq(fchownat(root_fd(), names[k], ALICE, STAFF, 0), 0);
        for (mode_t mode = 0; mode <= 0777; mode++) {
            cr_assert_eq(fchmodat(root_fd(), names[k], mode, 0), 0);
            for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
                const struct caller *c = &callers[i];

                nfs_as(c->uid, c->gid, c->ngids, c->gids);
                cr_assert_eq(nfs_do_access(&fh[k], ALL_BITS, &given), NFS_OK);
                cr_assert(eq(u32, given, expected_bits(kernel_permission(c, names[k]), k == 1)),
                          "%s mode %03o caller %zu", names[k], mode, i);
            }
        }
    }
}

Test(nfs_access, tells_only_what_was_asked)
{
    uint32_t given;

    cr_assert_eq(nfs_do_access(nfs_root(), ACCESS_LOOKUP | ACCESS_EXECUTE, &given), NFS_OK);
    cr_assert(eq(u32, given, ACCESS_LOOKUP));
}

/* 30 */
Test(nfs_access, folders_need_search_to_look_up_and_read_to_list)
{
    struct fs_handle dir = made("d", true), fh;
    struct xdr_out *args;
    struct xdr_in x;
    struct attr a;
    bool plain = true;

    cr_assert_eq(nfs_do_create(&dir, "f", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&dir, 0711, -1), NFS_OK);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_lookup(&dir, "f", &fh), NFS_OK);
    args = nfs_args();
    nfs_put_handle(&dir);
    xdr_put_u64(args, 0);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 4096);
    cr_assert_eq(nfs_status_of(NFSPROC_READDIR, &x), NFSERR_ACCES);
    nfs_as(0, 0, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&dir, 0744, -1), NFS_OK);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_lookup(&dir, "f", &fh), NFSERR_ACCES);
    /* Names, but no handles that would lead around the folder's mode. */
    args = nfs_args();
    nfs_put_handle(&dir);
    xdr_put_u64(args, 0);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 4096);
    xdr_put_u32(args, 4096);
    cr_assert_eq(nfs_status_of(NFSPROC_READDIRPLUS, &x), NFS_OK);
    cr_assert(nfs_get_post_attr(&x, &a));
    xdr_get_u64(&x);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t len;

        cr_assert(xdr_get_bool(&x));
        xdr_get_u64(&x);
        cr_assert_not_null(xdr_get_opaque(&x, 255, &len));
        xdr_get_u64(&x);
        plain &= !xdr_get_bool(&x) && !xdr_get_bool(&x);
    }
    cr_assert(plain);
    cr_assert(not(xdr_get_bool(&x)));
    cr_assert(xdr_get_bool(&x));
}

Test(nfs_access, in_a_sticky_folder_names_are_their_owners)
{
    struct fs_handle dir = made("d", true), fh;

    cr_assert_eq(nfs_do_setattr(&dir, 01777, -1), NFS_OK);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_create(&dir, "f", 0666, &fh), NFS_OK);
    nfs_as(BOB, BOB, 0, NULL);
    cr_assert_eq(nfs_do_remove(&dir, "f"), NFSERR_PERM);
    cr_assert_eq(nfs_do_rename(&dir, "f", &dir, "g"), NFSERR_PERM);
    nfs_as(ALICE, ALICE, 0, NULL);
    cr_assert_eq(nfs_do_remove(&dir, "f"), NFS_OK);
}

/* 31 */
Test(nfs_access, root_is_nobody_unless_let_be_root)
{
    static const struct {
        bool root_access, known;
        struct caller caller;
        uint32_t uid, gid;
        bool group0; /* still a member of group 0 */
    } rows[] = {
        {true, true, {0, 0, 1, {0}}, 0, 0, true},
        {true, true, {ALICE, 0, 0, {0}}, ALICE, 0, true},
        {true, true, {ALICE, ALICE, 1, {0}}, ALICE, ALICE, true},
        {false, true, {0, 0, 1, {0}}, ANON, ANON, false},
        {false, true, {0, ALICE, 0, {0}}, ANON, ALICE, false},
        {false, true, {ALICE, 0, 0, {0}}, ALICE, ANON, false},
        {false, true, {ALICE, ALICE, 2, {0, STAFF}}, ALICE, ALICE, false},
        {false, true, {ANON, ANON, 0, {0}}, ANON, ANON, false},
        {true, true, {UINT32_MAX, UINT32_MAX, 1, {UINT32_MAX}}, ANON, ANON, false},
        {true, false, {0, 0, 0, {0}}, ANON, ANON, false},
        {false, false, {0, 0, 0, {0}}, ANON, ANON, false},
    };
    struct fs_handle dir = made("d", true), group0 = made("group0", false), fh;
    uint32_t given;
    struct attr a;

    cr_assert_eq(nfs_do_setattr(&dir, 0777, -1), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&group0, 0040, -1), NFS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct caller *c = &rows[i].caller;

        nfs_set_rule(true, rows[i].root_access, true, "0.0.0.0/0");
        nfs_as(c->uid, c->gid, c->ngids, c->gids);
        if (!rows[i].known)
            nfs_as_unknown();
        cr_assert_eq(nfs_do_create(&dir, "f", 0644, &fh), NFS_OK, "row %zu", i);
        cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
        cr_assert(eq(u32, a.uid, rows[i].uid), "row %zu", i);
        cr_assert(eq(u32, a.gid, rows[i].gid), "row %zu", i);
        cr_assert_eq(nfs_do_access(&group0, ACCESS_READ, &given), NFS_OK);
        cr_assert_eq(given == ACCESS_READ, rows[i].group0, "row %zu", i);
        cr_assert_eq(nfs_do_remove(&dir, "f"), NFS_OK);
    }
}

/* Each thread is root again after it was somebody: what root only may do works between. */
Test(nfs_access, threads_do_not_stay_who_they_were)
{
    struct fs_handle fh = made("secret", false), denied;
    uint32_t len;
    char data[4];
    bool eof;

    cr_assert_eq(nfs_do_setattr(&fh, 0600, -1), NFS_OK);
    for (unsigned i = 0; i < 200; i++) {
        nfs_as(ALICE + i, ALICE + i, 0, NULL);
        cr_assert_eq(nfs_do_create(nfs_root(), "x", 0644, &denied), NFSERR_ACCES);
        cr_assert_eq(nfs_do_read(&fh, 0, 4, data, &len, &eof), NFSERR_ACCES);
        nfs_as(0, 0, 0, NULL);
        cr_assert_eq(nfs_do_create(nfs_root(), "x", 0644, &denied), NFS_OK);
        cr_assert_eq(nfs_do_read(&fh, 0, 4, data, &len, &eof), NFS_OK);
        cr_assert_eq(nfs_do_remove(nfs_root(), "x"), NFS_OK);
    }
}

/* ---- the export's rule ---- */

/* Encodes a good call of a procedure that changes something. */
static void put_change(uint32_t proc, const struct fs_handle *f, const struct fs_handle *dir)
{
    struct xdr_out *args = nfs_args();

    nfs_put_handle(proc == NFSPROC_SETATTR || proc == NFSPROC_WRITE || proc == NFSPROC_COMMIT ||
                           proc == NFSPROC_LINK
                       ? f
                       : dir);
    switch (proc) {
    case NFSPROC_SETATTR:
        nfs_put_sattr(0600, -1);
        xdr_put_bool(args, false);
        break;
    case NFSPROC_WRITE:
        xdr_put_u64(args, 0);
        xdr_put_u32(args, 3);
        xdr_put_u32(args, UNSTABLE);
        xdr_put_opaque(args, "abc", 3);
        break;
    case NFSPROC_COMMIT:
        xdr_put_u64(args, 0);
        xdr_put_u32(args, 0);
        break;
    case NFSPROC_CREATE:
        nfs_put_name("new");
        xdr_put_u32(args, UNCHECKED);
        nfs_put_sattr(0644, -1);
        break;
    case NFSPROC_MKDIR:
        nfs_put_name("new");
        nfs_put_sattr(0755, -1);
        break;
    case NFSPROC_SYMLINK:
        nfs_put_name("new");
        nfs_put_sattr(-1, -1);
        nfs_put_name("text");
        break;
    case NFSPROC_MKNOD:
        nfs_put_name("new");
        xdr_put_u32(args, NF_FIFO);
        nfs_put_sattr(0644, -1);
        break;
    case NFSPROC_RENAME:
        nfs_put_name("f");
        nfs_put_handle(dir);
        nfs_put_name("new");
        break;
    case NFSPROC_LINK:
        nfs_put_handle(dir);
        nfs_put_name("new");
        break;
    default: /* REMOVE, RMDIR */
        nfs_put_name(proc == NFSPROC_RMDIR ? "d" : "f");
        break;
    }
}

static const uint32_t changing[] = {
    NFSPROC_SETATTR, NFSPROC_WRITE,  NFSPROC_COMMIT, NFSPROC_CREATE, NFSPROC_MKDIR, NFSPROC_SYMLINK,
    NFSPROC_MKNOD,   NFSPROC_RENAME, NFSPROC_LINK,   NFSPROC_REMOVE, NFSPROC_RMDIR};
#define CHANGING (sizeof changing / sizeof *changing)

/* 22, 34 */
Test(nfs_access, a_read_only_export_refuses_every_change_with_attributes)
{
    struct fs_handle f = made("f", false), d = made("d", true), fh;
    struct xdr_in x;
    struct attr a;
    uint32_t given, len;
    char data[4];
    bool eof;

    nfs_set_rule(false, true, true, "0.0.0.0/0");
    for (size_t i = 0; i < CHANGING; i++) {
        put_change(changing[i], &f, nfs_root());
        cr_assert(eq(u32, nfs_status_of(changing[i], &x), NFSERR_ROFS), "procedure %u",
                  changing[i]);
        if (changing[i] == NFSPROC_LINK)
            cr_assert(nfs_get_post_attr(&x, &a));
        else
            nfs_get_wcc(&x, &a); /* the test fails when there are no attributes after */
        cr_assert(eq(u32, a.type,
                     changing[i] == NFSPROC_SETATTR || changing[i] == NFSPROC_WRITE ||
                             changing[i] == NFSPROC_COMMIT || changing[i] == NFSPROC_LINK
                         ? NF_REG
                         : NF_DIR));
    }
    cr_assert_eq(nfs_do_lookup(nfs_root(), "new", &fh), NFSERR_NOENT);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "d", &fh), NFS_OK);
    cr_assert_eq(nfs_do_read(&f, 0, 4, data, &len, &eof), NFS_OK);
    cr_assert(eq(u32, len, 0));
    cr_assert_eq(nfs_do_access(&d, ALL_BITS, &given), NFS_OK);
    cr_assert(eq(u32, given, ACCESS_READ | ACCESS_LOOKUP));
    nfs_set_rule(true, true, true, "0.0.0.0/0");
    for (size_t i = 0; i < 2; i++) {
        put_change(changing[i], &f, nfs_root());
        cr_assert_eq(nfs_status_of(changing[i], &x), NFS_OK);
    }
}

/* 21, 22: checked on each call; what was mounted before is refused, never stale, and back. */
Test(nfs_access, a_rule_denies_and_lets_in_again_at_once)
{
    struct fs_handle f = made("f", false);
    struct xdr_in x;
    struct attr a;

    for (unsigned round = 0; round < 3; round++) {
        nfs_set_rule(true, true, true, "10.0.0.0/8");
        cr_assert_eq(nfs_do_getattr(&f, &a), NFSERR_ACCES);
        for (size_t i = 0; i < CHANGING; i++) {
            put_change(changing[i], &f, nfs_root());
            cr_assert_eq(nfs_status_of(changing[i], &x), NFSERR_ACCES);
            cr_assert(not(xdr_get_bool(&x))); /* nothing is told */
        }
        nfs_set_rule(true, true, true, "127.0.0.0/8");
        cr_assert_eq(nfs_do_getattr(&f, &a), NFS_OK);
    }
}

/* 21 */
Test(nfs_access, a_handle_is_no_use_from_another_address)
{
    struct fs_handle f = made("f", false);
    struct attr a;

    nfs_set_rule(true, true, true, "127.0.0.1/32");
    cr_assert_eq(nfs_do_getattr(&f, &a), NFS_OK);
    nfs_connect("127.0.0.2");
    cr_assert_eq(nfs_do_getattr(&f, &a), NFSERR_ACCES);
    cr_assert_eq(nfs_do_getattr(nfs_root(), &a), NFSERR_ACCES);
    cr_assert_eq(nfs_do_write(&f, 0, "x", 1, UNSTABLE), NFSERR_ACCES);
    nfs_connect("127.0.0.1");
    cr_assert_eq(nfs_do_getattr(&f, &a), NFS_OK);
}

/* 32, 59 */
Test(nfs_access, nothing_moves_between_volumes)
{
    struct fs_handle f = made("f", false), second = nfs_second_volume(), fh;

    cr_assert_eq(nfs_do_rename(nfs_root(), "f", &second, "f"), NFSERR_XDEV);
    cr_assert_eq(nfs_do_link(&f, &second, "f"), NFSERR_XDEV);
    cr_assert_eq(nfs_do_lookup(&second, "f", &fh), NFSERR_NOENT);
    cr_assert_eq(nfs_do_lookup(nfs_root(), "f", &fh), NFS_OK);
}
