/* READDIR and READDIRPLUS: nfs-checklist 27, 61 to 64. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_dir, .init = nfs_setup, .fini = nfs_teardown);

#define MANY 10000

static struct fs_handle dir;
static int dir_fd;

static void make_dir(void)
{
    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    dir_fd = openat(nfs_volume()->store->root, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(dir_fd, 0);
}

/* Behind the server's back, since 10,000 calls would test nothing of this. */
static void make_files(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        char name[32];
        int fd;

        snprintf(name, sizeof name, "file-%05u", i);
        fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        cr_assert_geq(fd, 0);
        close(fd);
    }
}

/* One reader of the folder. */
struct reader {
    bool plus, eof;
    uint64_t cookie;
    uint32_t dircount, count;
    unsigned calls, entries, dots;
    unsigned char *seen; /* how often, by the number in the name */
};

static size_t result_size;

static void see(struct reader *r, const char *name, uint32_t len)
{
    if (len == 10 && memcmp(name, "file-", 5) == 0)
        r->seen[atoi(name + 5)]++;
    else
        r->dots++;
    r->entries++;
}

static void read_details(struct xdr_in *x, uint64_t fileid)
{
    struct fs_handle fh;
    struct attr a;

    cr_assert(nfs_get_post_attr(x, &a));
    cr_assert(eq(u64, a.fileid, fileid));
    cr_assert(xdr_get_bool(x));
    nfs_get_handle(x, &fh);
}

static uint32_t send_read(const struct reader *r, struct xdr_in *x)
{
    struct xdr_out *args = nfs_args();
    uint32_t status;

    nfs_put_handle(&dir);
    xdr_put_u64(args, r->cookie);
    xdr_put_u64(args, 0);
    if (r->plus)
        xdr_put_u32(args, r->dircount);
    xdr_put_u32(args, r->count);
    status = nfs_status_of(r->plus ? NFSPROC_READDIRPLUS : NFSPROC_READDIR, x);
    result_size = xdr_left(x);
    return status;
}

/* Reads on by one call. */
static void read_some(struct reader *r)
{
    unsigned before = r->entries;
    struct xdr_in x;
    struct attr a;

    cr_assert_eq(send_read(r, &x), NFS_OK);
    cr_assert_leq(result_size, r->count);
    cr_assert(nfs_get_post_attr(&x, &a));
    cr_assert(eq(u32, a.type, NF_DIR));
    xdr_get_u64(&x);
    while (xdr_get_bool(&x)) {
        uint64_t fileid = xdr_get_u64(&x);
        const uint8_t *name;
        uint32_t len;

        name = xdr_get_opaque(&x, 255, &len);
        cr_assert_not_null(name);
        see(r, (const char *)name, len);
        r->cookie = xdr_get_u64(&x);
        if (r->plus)
            read_details(&x, fileid);
    }
    r->eof = xdr_get_bool(&x);
    cr_assert(not(x.failed));
    cr_assert(eq(sz, xdr_left(&x), 0));
    cr_assert(r->eof || r->entries > before, "an empty answer that is not the end");
    r->calls++;
}

static struct reader reader(bool plus, uint32_t dircount, uint32_t count)
{
    return (struct reader){
        .plus = plus, .dircount = dircount, .count = count, .seen = calloc(2 * MANY, 1)};
}

static void assert_each_once(const struct reader *r, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        cr_assert(eq(uint, r->seen[i], 1), "file-%05u", i);
    free(r->seen);
}

/* 61, 62: small replies, two readers of each kind that take turns. */
Test(nfs_dir, ten_thousand_entries_come_once_each, .timeout = 60)
{
    struct reader r[4];

    make_dir();
    make_files(0, MANY);
    r[0] = reader(false, 0, 200);
    r[1] = reader(false, 0, 4096);
    r[2] = reader(true, 512, 1024);
    r[3] = reader(true, UINT32_MAX, UINT32_MAX);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < 4; i++)
            if (!r[i].eof) {
                read_some(&r[i]);
                more |= !r[i].eof;
            }
    }
    for (size_t i = 0; i < 4; i++) {
        cr_assert(eq(uint, r[i].dots, 2));
        assert_each_once(&r[i], 0, MANY);
    }
    cr_assert_lt(r[3].calls, 5);
}

/* 63: what is there all the time is neither skipped nor told twice. */
Test(nfs_dir, creations_and_removals_between_do_not_disturb, .timeout = 60)
{
    struct reader r[2];
    unsigned removed = MANY / 2, made = MANY;

    make_dir();
    make_files(0, MANY);
    r[0] = reader(false, 0, 1500);
    r[1] = reader(true, 2000, 8000);
    while (!r[0].eof || !r[1].eof) {
        for (size_t i = 0; i < 2; i++)
            if (!r[i].eof)
                read_some(&r[i]);
        /* The upper half goes while it is read, others come. */
        for (unsigned k = 0; k < 20 && removed < MANY; k++, removed++) {
            char name[32];

            snprintf(name, sizeof name, "file-%05u", removed);
            cr_assert_eq(nfs_do_remove(&dir, name), NFS_OK);
        }
        if (made + 5 <= 2 * MANY) {
            make_files(made, made + 5);
            made += 5;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        for (unsigned k = MANY / 2; k < 2 * MANY; k++)
            cr_assert_leq(r[i].seen[k], 1);
        assert_each_once(&r[i], 0, MANY / 2);
    }
}

/* 61: emptying a folder while reading it, as rm -r does. */
Test(nfs_dir, a_folder_that_is_emptied_while_it_is_read_becomes_empty, .timeout = 60)
{
    struct reader r;

    make_dir();
    make_files(0, 2000);
    r = reader(false, 0, 1024);
    while (!r.eof) {
        read_some(&r);
        for (unsigned i = 0; i < 2000; i++)
            if (r.seen[i] == 1) {
                char name[32];

                snprintf(name, sizeof name, "file-%05u", i);
                cr_assert_eq(nfs_do_remove(&dir, name), NFS_OK);
                r.seen[i] = 2;
            }
    }
    free(r.seen);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
}

/* 62: for each budget the reply keeps to it, or says that it is too small. */
Test(nfs_dir, a_reply_is_never_larger_than_asked_for)
{
    make_dir();
    make_files(0, 50);
    for (int plus = 0; plus < 2; plus++)
        for (uint32_t count = 0; count < 1200; count++) {
            struct reader r = reader(plus, count, count);
            struct xdr_in x;
            uint32_t status = send_read(&r, &x);

            /* dir_attributes 88, verifier 8, end 4, eof 4. Any entry may be the first: "." has 28
             * bytes, "file-00000" 36; attributes and a handle 88 and at most 72 more. */
            if (count < 104 + 28)
                cr_assert(eq(u32, status, NFSERR_TOOSMALL), "count %u", count);
            else if (count >= (plus ? 104 + 36 + 160 : 104 + 36))
                cr_assert(eq(u32, status, NFS_OK), "count %u", count);
            if (status == NFS_OK) {
                cr_assert_leq(result_size, count);
                read_some(&r);
            }
            free(r.seen);
        }
}

/* 62: dircount bounds the names, not what comes with them; one entry comes always. */
Test(nfs_dir, dircount_is_honoured)
{
    struct reader few = reader(true, 100, 65536), one = reader(true, 0, 65536);

    make_dir();
    make_files(0, 50);
    read_some(&few);
    /* An entry's name, cookie and fileid: "." 24, ".." 24, "file-00000" 32 bytes of XDR. */
    cr_assert(ge(uint, few.entries, 2));
    cr_assert(le(uint, few.entries, 4));
    read_some(&one);
    cr_assert(eq(uint, one.entries, 1));
    free(few.seen);
    free(one.seen);
}

Test(nfs_dir, an_empty_folder_ends_at_once)
{
    struct reader r = reader(true, 4096, 4096);

    make_dir();
    read_some(&r);
    cr_assert(r.eof);
    cr_assert(eq(uint, r.entries, 2));
    read_some(&r); /* from its last cookie on */
    cr_assert(r.eof);
    cr_assert(eq(uint, r.entries, 2));
    free(r.seen);
}

Test(nfs_dir, cookies_that_no_folder_gives_do_no_harm)
{
    static const uint64_t cookies[] = {1, 2, 12345, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};

    make_dir();
    make_files(0, 50);
    for (size_t i = 0; i < sizeof cookies / sizeof *cookies; i++) {
        struct reader r = reader(false, 0, 4096);
        struct xdr_in x;
        uint32_t status;

        r.cookie = cookies[i];
        status = send_read(&r, &x);
        cr_assert(status == NFS_OK || status == NFSERR_BAD_COOKIE);
        if (cookies[i] > INT64_MAX)
            cr_assert(eq(u32, status, NFSERR_BAD_COOKIE));
        free(r.seen);
    }
}

/* 27, 28, 64: what READDIRPLUS tells of an object is what LOOKUP and GETATTR tell. */
Test(nfs_dir, readdirplus_agrees_with_lookup)
{
    static uint8_t copy[65536];
    struct fs_handle fh, found, link;
    struct xdr_out *args;
    struct attr a, b;
    struct xdr_in x;

    make_dir();
    make_files(0, 3);
    cr_assert_eq(nfs_do_symlink(nfs_root(), "l", "d", 1, &link), NFS_OK);
    args = nfs_args();
    nfs_put_handle(nfs_root());
    xdr_put_u64(args, 0);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 65536);
    xdr_put_u32(args, 65536);
    cr_assert_eq(nfs_status_of(NFSPROC_READDIRPLUS, &x), NFS_OK);
    /* The next call's reply takes the place of this one. */
    memcpy(copy, x.at, xdr_left(&x));
    x = (struct xdr_in){copy, copy + xdr_left(&x), false};
    cr_assert(nfs_get_post_attr(&x, &a));
    xdr_get_u64(&x);
    for (unsigned i = 0; i < 4; i++) { /* ".", "..", "d", "l" */
        char name[256] = "";
        const uint8_t *text;
        uint64_t fileid;
        uint32_t len;

        cr_assert(xdr_get_bool(&x));
        fileid = xdr_get_u64(&x);
        text = xdr_get_opaque(&x, 255, &len);
        cr_assert_not_null(text);
        memcpy(name, text, len);
        xdr_get_u64(&x);
        cr_assert(nfs_get_post_attr(&x, &a));
        cr_assert(xdr_get_bool(&x));
        nfs_get_handle(&x, &fh);
        cr_assert(eq(u64, a.fileid, fileid));
        cr_assert(ne(u64, a.fsid, 0));
        cr_assert_eq(nfs_do_lookup(nfs_root(), name, &found), NFS_OK, "%s", name);
        cr_assert(nfs_same_handle(&fh, &found), "%s", name);
        cr_assert_eq(nfs_do_getattr(&fh, &b), NFS_OK);
        cr_assert(eq(u64, a.fileid, b.fileid));
        cr_assert(eq(u64, a.fsid, b.fsid));
        cr_assert(eq(u32, a.type, b.type));
    }
    cr_assert(not(xdr_get_bool(&x)));
    cr_assert(xdr_get_bool(&x));
}

Test(nfs_dir, only_folders_are_listed)
{
    struct reader r = reader(false, 0, 4096);
    struct xdr_in x;

    cr_assert_eq(nfs_do_create(nfs_root(), "f", 0644, &dir), NFS_OK);
    cr_assert_eq(send_read(&r, &x), NFSERR_NOTDIR);
    r.plus = true;
    cr_assert_eq(send_read(&r, &x), NFSERR_NOTDIR);
    free(r.seen);
}
