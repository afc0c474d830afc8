/*
 * nfs-proof: what `make up` proves a volume with, as an NFS client would see it (libnfs, no kernel
 * mount).
 *
 *     nfs-proof check PORT EXPORT ADDRESS...        writes through each address, reads back through
 * the next nfs-proof write PORT EXPORT MIB ADDRESS...    writes and commits MIB through all of them
 * at once; prints MiB/s
 *
 * Exit status 0 when all was right; otherwise the reason is on standard error. The files it makes
 * are removed.
 *
 * One thread a writer, each with a connection of its own; nothing is shared but the barrier they
 * start at.
 */
#include <errno.h>
#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

#define MIB        (UINT64_C(1) << 20)
#define TIMEOUT_MS 60000
#define CHUNK      (UINT64_C(256) << 10)
/* Each file is committed every so often, and there are more writers than addresses: while one waits
 * for the disk, the others keep the volume's limit busy. */
#define COMMIT_EVERY        (4 * MIB)
#define WRITERS_PER_ADDRESS 2

static const char *export_path, *port;

struct writer {
    pthread_t thread;
    pthread_barrier_t *start;
    const char *address;
    unsigned number;
    uint64_t bytes;
    uint64_t begun, ended; /* nanoseconds */
    bool right;
};

static bool complain(const char *address, const char *what, struct nfs_context *nfs)
{
    fprintf(stderr, "nfs-proof: %s: %s: %s\n", address, what,
            nfs ? nfs_get_error(nfs) : "wrong data");
    return false;
}

/* A mounted context, or NULL with the reason told. */
static struct nfs_context *connect_to(const char *address)
{
    struct nfs_context *nfs = nfs_init_context();
    char *text =
        xasprintf("nfs://%s%s?version=3&nfsport=%s&mountport=%s", address, export_path, port, port);
    struct nfs_url *url = nfs ? nfs_parse_url_dir(nfs, text) : NULL;

    if (nfs)
        nfs_set_timeout(nfs, TIMEOUT_MS);
    if (!url || nfs_mount(nfs, url->server, url->path) != 0) {
        complain(address, "mount", nfs);
        if (nfs)
            nfs_destroy_context(nfs);
        nfs = NULL;
    }
    if (url)
        nfs_destroy_url(url);
    free(text);
    return nfs;
}

/* Bytes that depend on file and offset, so that a chunk in the wrong place is seen. */
static void fill(uint64_t *words, uint64_t file, uint64_t offset)
{
    uint64_t x = (file + 1) * UINT64_C(0x9e3779b97f4a7c15) + offset;

    for (size_t i = 0; i < CHUNK / sizeof(*words); i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        words[i] = x;
    }
}

static void name_of(char name[static 32], unsigned number)
{
    snprintf(name, 32, "/.nfs-proof-%u", number);
}

/* Writes the whole file and commits it. */
static bool write_file(struct nfs_context *nfs, const char *address, unsigned number,
                       uint64_t bytes)
{
    uint64_t *chunk = xcalloc(1, CHUNK);
    struct nfsfh *fh = NULL;
    bool right = true;
    char name[32];

    name_of(name, number);
    if (nfs_open(nfs, name, O_CREAT | O_TRUNC | O_RDWR, &fh) != 0)
        right = complain(address, "create", nfs);
    for (uint64_t at = 0; right && at < bytes; at += CHUNK) {
        fill(chunk, number, at);
        if (nfs_pwrite(nfs, fh, at, CHUNK, chunk) != (int)CHUNK)
            right = complain(address, "write", nfs);
        else if ((at + CHUNK) % COMMIT_EVERY == 0 && nfs_fsync(nfs, fh) != 0)
            right = complain(address, "commit", nfs);
    }
    if (fh && nfs_close(nfs, fh) != 0 && right) /* commits what is left */
        right = complain(address, "commit", nfs);
    free(chunk);
    return right;
}

static bool check_file(struct nfs_context *nfs, const char *address, unsigned number,
                       uint64_t bytes)
{
    uint64_t *want = xcalloc(1, CHUNK), *got = xcalloc(1, CHUNK);
    struct nfsfh *fh = NULL;
    bool right = true;
    char name[32];

    name_of(name, number);
    if (nfs_open(nfs, name, O_RDONLY, &fh) != 0)
        right = complain(address, "open", nfs);
    for (uint64_t at = 0; right && at < bytes; at += CHUNK) {
        fill(want, number, at);
        if (nfs_pread(nfs, fh, at, CHUNK, got) != (int)CHUNK)
            right = complain(address, "read", nfs);
        else if (memcmp(want, got, CHUNK) != 0)
            right = complain(address, "read", NULL);
    }
    if (fh)
        nfs_close(nfs, fh);
    free(want);
    free(got);
    return right;
}

static bool remove_file(struct nfs_context *nfs, const char *address, unsigned number)
{
    char name[32];

    name_of(name, number);
    return nfs_unlink(nfs, name) == 0 || complain(address, "remove", nfs);
}

static bool run_check(char **addresses, unsigned count)
{
    struct nfs_context **nfs = xcalloc(count, sizeof(struct nfs_context *));
    bool right = true;

    for (unsigned i = 0; right && i < count; i++)
        right = (nfs[i] = connect_to(addresses[i])) != NULL;
    for (unsigned i = 0; right && i < count; i++) {
        unsigned next = (i + 1) % count;

        right = write_file(nfs[i], addresses[i], i, MIB) &&
                check_file(nfs[next], addresses[next], i, MIB) &&
                remove_file(nfs[next], addresses[next], i);
    }
    for (unsigned i = 0; i < count; i++)
        if (nfs[i])
            nfs_destroy_context(nfs[i]);
    free(nfs);
    return right;
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct nfs_context *nfs = connect_to(w->address);

    pthread_barrier_wait(w->start);
    w->begun = clock_mono_ns();
    w->right = nfs && write_file(nfs, w->address, w->number, w->bytes);
    w->ended = clock_mono_ns();
    if (nfs) {
        w->right &= remove_file(nfs, w->address, w->number);
        nfs_destroy_context(nfs);
    }
    return NULL;
}

static bool run_write(uint64_t mib, char **addresses, unsigned count)
{
    unsigned writers = count * WRITERS_PER_ADDRESS;
    struct writer *w = xcalloc(writers, sizeof(*w));
    uint64_t share = mib * MIB / writers / COMMIT_EVERY * COMMIT_EVERY, begun = UINT64_MAX,
             ended = 0;
    pthread_barrier_t start;
    bool right = true;

    pthread_barrier_init(&start, NULL, writers);
    for (unsigned i = 0; i < writers; i++) {
        w[i] = (struct writer){
            .start = &start, .address = addresses[i % count], .number = i, .bytes = share};
        if (pthread_create(&w[i].thread, NULL, writer_main, &w[i]) != 0) {
            fprintf(stderr, "nfs-proof: cannot start a thread: %s\n", strerror(errno));
            exit(1);
        }
    }
    for (unsigned i = 0; i < writers; i++) {
        pthread_join(w[i].thread, NULL);
        right &= w[i].right;
        begun = w[i].begun < begun ? w[i].begun : begun;
        ended = w[i].ended > ended ? w[i].ended : ended;
    }
    pthread_barrier_destroy(&start);
    if (right)
        printf("%.2f\n", (double)(share * writers) / (double)MIB /
                             ((double)(ended - begun) / (double)NS_PER_S));
    free(w);
    return right;
}

int main(int argc, char **argv)
{
    bool check = argc >= 5 && strcmp(argv[1], "check") == 0;
    uint64_t mib;

    if (!check && (argc < 6 || strcmp(argv[1], "write") != 0)) {
        fprintf(stderr, "usage: nfs-proof check PORT EXPORT ADDRESS...\n"
                        "       nfs-proof write PORT EXPORT MIB ADDRESS...\n");
        return 2;
    }
    port = argv[2];
    export_path = argv[3];
    if (check)
        return run_check(argv + 4, (unsigned)argc - 4) ? 0 : 1;
    mib = strtoull(argv[4], NULL, 10);
    return run_write(mib, argv + 5, (unsigned)argc - 5) ? 0 : 1;
}
