/* Stable data, the write verifier (nfs-checklist 45 to 47), what is refused before it waits. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/fs/inode.h"
#include "agent/nfs/nfs_op.h"
#include "common/clock.h"
#include "tests/unit/agent/nfs_peer.h"

TestSuite(nfs_sync, .init = nfs_setup_power, .fini = nfs_teardown);
TestSuite(nfs_refusal, .init = nfs_setup, .fini = nfs_teardown);

static uint8_t data[65536];

static struct fs_handle file(const char *name)
{
    struct fs_handle fh;

    cr_assert_eq(nfs_do_create(nfs_root(), name, 0600, &fh), NFS_OK);
    return fh;
}

static uint64_t verifier(struct xdr_in *x)
{
    uint64_t v = 0;

    memcpy(&v, xdr_get_fixed(x, NFS_WRITEVERF), sizeof v);
    return v;
}

/* WRITE of 4 KiB; the stability and verifier that the server told. */
static uint32_t write_4k(const struct fs_handle *fh, uint32_t stable, uint32_t *told,
                         uint64_t *verf)
{
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    struct attr a;
    uint32_t status;

    nfs_put_handle(fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 4096);
    xdr_put_u32(args, stable);
    xdr_put_opaque(args, data, 4096);
    if ((status = nfs_status_of(NFSPROC_WRITE, &x)) == NFS_OK) {
        nfs_get_wcc(&x, &a);
        cr_assert(eq(u32, xdr_get_u32(&x), 4096));
        *told = xdr_get_u32(&x);
        *verf = verifier(&x);
    }
    return status;
}

static uint32_t commit(const struct fs_handle *fh, uint64_t *verf)
{
    struct xdr_out *args = nfs_args();
    struct xdr_in x;
    struct attr a;
    uint32_t status;

    nfs_put_handle(fh);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 0);
    status = nfs_status_of(NFSPROC_COMMIT, &x);
    nfs_get_wcc(&x, &a);
    if (status == NFS_OK)
        *verf = verifier(&x);
    return status;
}

/* The open object behind a handle, referenced. */
static struct inode *object(const struct fs_handle *fh)
{
    struct fs_object name;
    struct inode *i;
    struct stat st;

    cr_assert(fs_handle_check(nfs_volume(), fh->data, fh->len, &name));
    cr_assert_eq(inode_get(nfs_volume(), &name, true, &i, &st), 0);
    return i;
}

/* Puts a descriptor that cannot be synced (fsync(2): EINVAL) in the place of the file's own, which
 * it returns. */
static int break_sync(struct inode *i)
{
    int broken = eventfd(0, EFD_CLOEXEC);

    cr_assert_geq(broken, 0);
    return atomic_exchange(&i->data_fd, broken);
}

static void mend_sync(struct inode *i, int fd)
{
    close(atomic_exchange(&i->data_fd, fd));
}

Test(nfs_sync, a_failed_commit_is_told_and_changes_the_verifier)
{
    struct fs_handle fh = file("a"), other = file("b");
    uint64_t written = 0, elsewhere = 0, verf = 0;
    struct nfs_stats stats;
    struct inode *i;
    uint32_t told;
    int fd;

    cr_assert_eq(write_4k(&fh, UNSTABLE, &told, &written), NFS_OK);
    cr_assert_eq(write_4k(&other, UNSTABLE, &told, &elsewhere), NFS_OK);
    cr_assert(eq(u64, written, elsewhere));
    i = object(&fh);
    fd = break_sync(i);
    cr_assert_eq(commit(&fh, &verf), NFSERR_INVAL);
    mend_sync(i, fd);
    inode_put(i);
    /* The kernel would tell the error only once: who asks now must still learn of it. */
    cr_assert_eq(commit(&fh, &verf), NFS_OK);
    cr_assert(ne(u64, verf, written));
    cr_assert_eq(write_4k(&fh, UNSTABLE, &told, &written), NFS_OK);
    cr_assert(eq(u64, verf, written));
    nfs_get_stats(&stats);
    cr_assert(eq(u64, stats.sync_failures, 1));
}

Test(nfs_sync, a_stable_write_that_cannot_be_synced_fails)
{
    struct fs_handle fh = file("a");
    uint64_t before = 0, after = 0;
    struct inode *i;
    uint32_t told;
    int fd;

    cr_assert_eq(write_4k(&fh, DATA_SYNC, &told, &before), NFS_OK);
    cr_assert_geq(told, DATA_SYNC);
    cr_assert_eq(write_4k(&fh, FILE_SYNC, &told, &before), NFS_OK);
    cr_assert(eq(u32, told, FILE_SYNC));
    cr_assert_eq(write_4k(&fh, UNSTABLE, &told, &before), NFS_OK);
    i = object(&fh);
    fd = break_sync(i);
    /* An event counter takes writes at no offset (pwrite(2): ESPIPE), so the sync itself is asked.
     */
    cr_assert_eq(commit(&fh, &after), NFSERR_INVAL);
    cr_assert_eq(write_4k(&fh, FILE_SYNC, &told, &after), NFSERR_SERVERFAULT);
    mend_sync(i, fd);
    inode_put(i);
    cr_assert_eq(write_4k(&fh, FILE_SYNC, &told, &after), NFS_OK);
    cr_assert(ne(u64, before, after));
}

Test(nfs_sync, namespace_operations_succeed_on_a_durable_store)
{
    struct fs_handle dir, fh;

    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    cr_assert_eq(nfs_do_create(&dir, "a", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_rename(&dir, "a", nfs_root(), "b"), NFS_OK);
    cr_assert_eq(nfs_do_setattr(&fh, 0600, 100), NFS_OK);
    cr_assert_eq(nfs_do_rmdir(nfs_root(), "d"), NFS_OK);
    cr_assert_eq(nfs_do_remove(nfs_root(), "b"), NFS_OK);
}

/* ---- syncs of one object */

#define THREADS 8
#define ROUNDS  20

static _Atomic int failures;

static void note_failure(const struct volume *v, int error)
{
    (void)v;
    (void)error;
    failures++;
}

static void *sync_often(void *arg)
{
    struct inode *i = arg;

    for (int n = 0; n < ROUNDS; n++) {
        if (pwrite(atomic_load(&i->data_fd), data, 4096, 0) != 4096 ||
            inode_sync(nfs_volume(), i, false, note_failure) != 0)
            failures++;
    }
    return NULL;
}

Test(nfs_sync, those_who_wait_share_a_sync)
{
    struct fs_handle fh = file("a");
    struct inode *i = object(&fh);
    pthread_t threads[THREADS];

    cr_assert_geq(inode_data_fd(nfs_volume(), i, true, true), 0);
    i->syncs_begun = i->syncs_done = 0;
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, sync_often, i);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    cr_assert_eq(failures, 0);
    cr_assert_eq(i->syncs_begun, i->syncs_done);
    cr_assert_geq(i->syncs_done, ROUNDS); /* each thread waits for ROUNDS different ones */
    cr_assert_leq(i->syncs_done, THREADS * ROUNDS);
    inode_put(i);
}

static void *sync_once(void *arg)
{
    static int rc;

    rc = inode_sync(nfs_volume(), arg, false, note_failure);
    return &rc;
}

/* Another sync that comes while one fails is made by itself and not told by the failed one's end.
 */
static struct inode *failing;
static pthread_t second;

static void start_second(const struct volume *v, int error)
{
    (void)v;
    cr_assert_eq(error, EINVAL);
    failures++;
    pthread_create(&second, NULL, sync_once, failing);
}

Test(nfs_sync, who_comes_while_a_sync_fails_waits_for_his_own)
{
    struct fs_handle fh = file("a");
    void *rc;
    int fd;

    failing = object(&fh);
    cr_assert_geq(inode_data_fd(nfs_volume(), failing, true, true), 0);
    fd = break_sync(failing);
    cr_assert_eq(inode_sync(nfs_volume(), failing, false, start_second), -EINVAL);
    pthread_join(second, &rc);
    cr_assert_eq(*(int *)rc, -EINVAL);
    cr_assert_eq(failures, 2);
    mend_sync(failing, fd);
    cr_assert_eq(inode_sync(nfs_volume(), failing, false, note_failure), 0);
    inode_put(failing);
}

/* ---- refusals */

Test(nfs_refusal, who_may_not_read_or_write_does_not_wait_for_the_limit)
{
    struct fs_handle fh = file("a");
    uint64_t start;
    uint32_t len;
    bool eof;

    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFS_OK);
    nfs_set_limit(1024);
    /* Goes at once and owes a minute to those behind. */
    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFS_OK);
    nfs_as(1001, 1001, 0, NULL);
    start = clock_mono_ns();
    cr_assert_eq(nfs_do_read(&fh, 0, sizeof data, data, &len, &eof), NFSERR_ACCES);
    cr_assert_eq(nfs_do_write(&fh, 0, data, sizeof data, UNSTABLE), NFSERR_ACCES);
    cr_assert_lt(clock_mono_ns() - start, 10 * NS_PER_S);
}

Test(nfs_refusal, what_is_busy_on_the_server_is_not_tried_for_ever)
{
    cr_assert_eq(nfs_status(EBUSY), NFSERR_ACCES);
    cr_assert_eq(nfs_status(ETXTBSY), NFSERR_ACCES);
    cr_assert_eq(nfs_status(-EMFILE), NFSERR_JUKEBOX);
    cr_assert_eq(nfs_status(-ENOMEM), NFSERR_JUKEBOX);
}

/* ---- READDIRPLUS */

static uint32_t list_plus(const struct fs_handle *dir, struct xdr_in *x)
{
    struct xdr_out *args = nfs_args();
    struct attr a;
    uint32_t status;

    nfs_put_handle(dir);
    xdr_put_u64(args, 0);
    xdr_put_u64(args, 0);
    xdr_put_u32(args, 8192);
    xdr_put_u32(args, 32768);
    status = nfs_status_of(NFSPROC_READDIRPLUS, x);
    cr_assert(nfs_get_post_attr(x, &a));
    xdr_get_u64(x);
    return status;
}

/* Every entry's number, attributes and handle are those of the same object; returns how many. */
static unsigned check_list(const struct fs_handle *dir)
{
    struct fs_handle fh, found;
    struct attr a, b;
    struct xdr_in x;
    unsigned entries = 0;
    uint8_t reply[32768];

    cr_assert_eq(list_plus(dir, &x), NFS_OK);
    /* The calls below use the same buffer. */
    cr_assert_leq(xdr_left(&x), sizeof reply);
    memcpy(reply, x.at, xdr_left(&x));
    x = (struct xdr_in){reply, reply + xdr_left(&x), false};
    for (; xdr_get_bool(&x); entries++) {
        uint64_t ino = xdr_get_u64(&x);
        char name[NFS_MAX_NAME + 1] = "";
        uint32_t len;
        const uint8_t *text = xdr_get_opaque(&x, NFS_MAX_NAME, &len);

        cr_assert_not_null(text);
        memcpy(name, text, len);
        xdr_get_u64(&x);
        cr_assert(nfs_get_post_attr(&x, &a), "%s", name);
        cr_assert(eq(u64, a.fileid, ino));
        cr_assert(xdr_get_bool(&x), "%s", name);
        nfs_get_handle(&x, &fh);
        cr_assert_eq(nfs_do_getattr(&fh, &b), NFS_OK, "%s", name);
        cr_assert(eq(u64, b.fileid, ino));
        cr_assert_eq(nfs_do_lookup(dir, name, &found), NFS_OK, "%s", name);
        cr_assert(found.len == fh.len && memcmp(found.data, fh.data, fh.len) == 0, "%s", name);
    }
    cr_assert(xdr_get_bool(&x)); /* eof */
    cr_assert_not(x.failed);
    return entries;
}

Test(nfs_refusal, readdirplus_tells_handles_and_attributes_of_the_same_objects)
{
    struct fs_handle dir, fh;

    cr_assert_eq(nfs_do_mkdir(nfs_root(), "d", 0755, &dir), NFS_OK);
    cr_assert_eq(nfs_do_create(&dir, "a", 0644, &fh), NFS_OK);
    cr_assert_eq(nfs_do_mkdir(&dir, "e", 0755, &fh), NFS_OK);
    cr_assert_eq(check_list(nfs_root()), 3);
    cr_assert_eq(check_list(&dir), 4);
    cr_assert_eq(check_list(&fh), 2);
}

Test(nfs_refusal, nothing_leads_above_the_root_by_either_of_its_handles)
{
    struct fs_handle plain, up;
    struct attr root, a;

    cr_assert_eq(nfs_do_getattr(nfs_root(), &root), NFS_OK);
    cr_assert_eq(fs_handle_of(nfs_volume(), nfs_volume()->store->root, &plain), 0);
    cr_assert_eq(nfs_do_lookup(&plain, "..", &up), NFS_OK);
    cr_assert_eq(nfs_do_getattr(&up, &a), NFS_OK);
    cr_assert(eq(u64, a.fileid, root.fileid));
    cr_assert_eq(check_list(&plain), 2);
}
