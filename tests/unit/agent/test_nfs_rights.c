/* What SETATTR and CREATE do whole or not at all: nfs-checklist 35, 37, 53. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_rights, .init = nfs_setup, .fini = nfs_teardown);

#define UNSET UINT32_MAX

/* sattr3 with what is not UNSET, and no guard. */
static uint32_t set_attributes(const struct fs_handle *fh, uint32_t mode, uint32_t uid,
                               uint32_t gid, uint32_t size)
{
    const uint32_t words[] = {mode, uid, gid};
    struct xdr_out *args = nfs_args();
    struct xdr_in x;

    nfs_put_handle(fh);
    for (size_t i = 0; i < 3; i++) {
        xdr_put_bool(args, words[i] != UNSET);
        if (words[i] != UNSET)
            xdr_put_u32(args, words[i]);
    }
    xdr_put_bool(args, size != UNSET);
    if (size != UNSET)
        xdr_put_u64(args, size);
    xdr_put_u32(args, DONT_CHANGE);
    xdr_put_u32(args, DONT_CHANGE);
    xdr_put_bool(args, false);
    return nfs_status_of(NFSPROC_SETATTR, &x);
}

static struct fs_handle file_of(const char *name, uint32_t uid, uint32_t gid, long mode)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(nfs_root(), name, mode, &fh), NFS_OK);
    cr_assert_eq(set_attributes(&fh, UNSET, uid, gid, 100), NFS_OK);
    return fh;
}

Test(nfs_rights, of_attributes_that_may_not_all_be_set_none_is)
{
    struct fs_handle fh = file_of("a", 1000, 1000, 0666);
    const uint32_t groups[] = {2000};
    struct attr a;

    nfs_as(1001, 1001, 0, NULL);
    cr_assert_eq(set_attributes(&fh, 0600, UNSET, UNSET, 0), NFSERR_PERM);
    cr_assert_eq(set_attributes(&fh, UNSET, 1001, UNSET, 0), NFSERR_PERM);
    cr_assert_eq(set_attributes(&fh, UNSET, UNSET, 1001, 0), NFSERR_PERM);
    nfs_as(1000, 1000, 1, groups);
    cr_assert_eq(set_attributes(&fh, 0600, 1001, UNSET, 0), NFSERR_PERM);
    cr_assert_eq(set_attributes(&fh, 0600, UNSET, 3000, 0), NFSERR_PERM);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u64, a.size, 100));
    cr_assert(eq(u32, a.mode, 0666));
    /* A group of his own, and the size by who may write. */
    cr_assert_eq(set_attributes(&fh, UNSET, 1000, 2000, UNSET), NFS_OK);
    nfs_as(1001, 1001, 0, NULL);
    cr_assert_eq(set_attributes(&fh, UNSET, UNSET, UNSET, 7), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u64, a.size, 7));
    cr_assert(eq(u32, a.uid, 1000));
    cr_assert(eq(u32, a.gid, 2000));
}

Test(nfs_rights, an_owner_gives_away_where_chown_is_unrestricted)
{
    struct fs_handle fh = file_of("a", 1000, 1000, 0644);
    struct attr a;

    nfs_set_rule(true, true, false, "0.0.0.0/0");
    nfs_as(1001, 1001, 0, NULL);
    cr_assert_eq(set_attributes(&fh, UNSET, 1001, UNSET, UNSET), NFSERR_PERM);
    nfs_as(1000, 1000, 0, NULL);
    cr_assert_eq(set_attributes(&fh, UNSET, 1001, 3000, UNSET), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
    cr_assert(eq(u32, a.uid, 1001));
    cr_assert(eq(u32, a.gid, 3000));
}

/* ---- guarded SETATTRs at once: the handler on two threads */

struct guarded {
    const struct attr *seen;
    const struct fs_handle *fh;
    pthread_barrier_t *together;
    uint32_t mode, status;
};

static void *set_guarded(void *arg)
{
    static const struct in_addr client = {.s_addr = 0x0100007f};
    struct guarded *g = arg;
    struct rpc_call call = {.prog = NFS_PROGRAM,
                            .vers = NFS_V3,
                            .proc = NFSPROC_SETATTR,
                            .client = client,
                            .cred = {.flavor = 1},
                            .may_block = true};
    uint8_t args[256], results[RPC_REPLY_INLINE];
    struct xdr_out x = {args, args, args + sizeof args, false};
    struct xdr_in reply;
    size_t count;

    xdr_put_opaque(&x, g->fh->data, g->fh->len);
    xdr_put_bool(&x, true);
    xdr_put_u32(&x, g->mode);
    for (int i = 0; i < 5; i++)
        xdr_put_u32(&x, 0);
    xdr_put_bool(&x, true);
    xdr_put_u32(&x, g->seen->ctime_s);
    xdr_put_u32(&x, g->seen->ctime_ns);
    call.args = (struct xdr_in){args, x.at, false};
    call.res = (struct xdr_out){results, results, results + sizeof results, false};
    pthread_barrier_wait(g->together);
    cr_assert_eq(nfs_program.procs(NFS_V3, &count)[NFSPROC_SETATTR].run(&call), RPC_REPLY);
    reply = (struct xdr_in){results, call.res.at, false};
    g->status = xdr_get_u32(&reply);
    return NULL;
}

/* The clock that kernels take file times from may stand still for some milliseconds. */
static void await_later_than(const struct attr *a)
{
    struct timespec now;

    do
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (now.tv_sec == a->ctime_s && now.tv_nsec <= a->ctime_ns);
}

Test(nfs_rights, of_two_setattrs_guarded_by_the_same_time_one_is_done)
{
    struct fs_handle fh = file_of("a", 0, 0, 0644);
    pthread_barrier_t together;
    struct attr a;

    pthread_barrier_init(&together, NULL, 2);
    for (uint32_t round = 0; round < 50; round++) {
        struct guarded g[2] = {{&a, &fh, &together, 0600, 0}, {&a, &fh, &together, 0640, 0}};
        pthread_t other;

        cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
        await_later_than(&a);
        pthread_create(&other, NULL, set_guarded, &g[0]);
        set_guarded(&g[1]);
        pthread_join(other, NULL);
        cr_assert(eq(u32, g[0].status + g[1].status, NFS_OK + NFSERR_NOT_SYNC));
        cr_assert(eq(u32, g[0].status & g[1].status, NFS_OK));
        cr_assert_eq(nfs_do_getattr(&fh, &a), NFS_OK);
        cr_assert(eq(u32, a.mode, g[0].status == NFS_OK ? 0600 : 0640));
    }
    pthread_barrier_destroy(&together);
}

/* ---- exclusive CREATE */

static uint32_t create_exclusive(const struct fs_handle *dir, const char *name, const char *verf,
                                 struct fs_handle *fh)
{
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    uint32_t status;

    nfs_put_handle(dir);
    nfs_put_name(name);
    xdr_put_u32(args, EXCLUSIVE);
    xdr_put_fixed(args, verf, NFS_CREATEVERF);
    if ((status = nfs_status_of(NFSPROC_CREATE, &x)) == NFS_OK) {
        cr_assert(xdr_get_bool(&x));
        nfs_get_handle(&x, fh);
    }
    return status;
}

Test(nfs_rights, an_exclusive_create_says_what_is_there_where_nothing_may_be_made)
{
    struct fs_handle dir, plain, made, again;

    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0777, &dir), NFS_OK);
    cr_assert_eq(nfs_do_create(&dir, "plain", 0644, &plain), NFS_OK);
    nfs_as(1000, 1000, 0, NULL);
    cr_assert_eq(create_exclusive(&dir, "made", "12345678", &made), NFS_OK);
    nfs_as(0, 0, 0, NULL);
    cr_assert_eq(nfs_do_setattr(&dir, 0755, -1), NFS_OK);
    nfs_as(1000, 1000, 0, NULL);
    cr_assert_eq(create_exclusive(&dir, "plain", "\0\0\0\0\0\0\0\0", &again), NFSERR_EXIST);
    cr_assert_eq(create_exclusive(&dir, "made", "12345679", &again), NFSERR_EXIST);
    cr_assert_eq(create_exclusive(&dir, "made", "12345678", &again), NFS_OK);
    cr_assert(again.len == made.len && memcmp(again.data, made.data, made.len) == 0);
    cr_assert_eq(create_exclusive(&dir, "other", "12345678", &again), NFSERR_ACCES);
}
