/*
 * Finds what a volume really uses, while it is in service, after an unclean stop.
 *
 * The scan walks the tree and sums up charges; operations that run meanwhile book their changes as
 * always. In the end used = what the scan counted + what was booked since its start, exactly,
 * because every inode is counted once with the charge that it had before its first change:
 *
 *   - An operation about to change an inode that is not counted yet counts it itself, as it still
 * is (usage_touch). The scan leaves counted inodes alone, and looks at the others under the lock.
 *   - A new inode counts nothing (usage_touch_new): all of it is booked. The scan must not see one
 * between its making and that call. So it reads a batch of names, waits until all operations that
 * ran at that moment have ended (as SRCU does: two counters, new operations enter the other one),
 * and only then counts those that nobody has counted.
 *   - A name that went or means another inode by then was removed, made or renamed: the operation
 * has told.
 *   - A folder renamed to where the scan has been comes back by usage_renamed. Folders that wait to
 * be walked are kept as file handles, so that renaming them does not matter, nor how deep they are.
 *
 * The root folder does not count as an inode, and only with what it has grown since it was made, so
 * an empty volume uses nothing.
 *
 * Locking: one mutex a scan; see usage.h. Operations take it only while a scan runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/storage/inoset.h"
#include "agent/storage/usage.h"
#include "common/clock.h"
#include "common/log.h"

#define BATCH       256
#define SOURCES     32  /* folders that a batch is read from: small ones share the wait */
#define HANDLE_MAX  128 /* MAX_HANDLE_SZ */
#define MAX_TOKENS  8   /* operations of one thread inside one another; more are not waited for */
#define REST_MAX_NS (100 * NS_PER_MS)
#define OPEN_TRIES  100

/* A place to walk, or an object that was renamed. */
struct place {
    struct place *next;
    bool counted; /* as the folder that it is; its entries are not */
    union {
        struct file_handle head;
        unsigned char space[sizeof(struct file_handle) + HANDLE_MAX];
    } handle;
};

/* What the batch at hand is read from. */
struct source {
    int path;  /* of an object that is to be counted itself, else -1 */
    DIR *dir;  /* NULL: it is no folder, or gone */
    bool read; /* to its end */
};

struct entry {
    uint64_t ino;
    const struct source *source;
    char name[NAME_MAX + 1]; /* "": the source itself */
};

struct scan {
    struct usage *usage;
    struct job job;
    int root; /* its own descriptor */
    uint64_t root_ino;
    dev_t device;
    uint64_t serial;
    struct place *pending; /* the scan's own: depth first, so that it stays short */
    struct entry *batch;
    struct source
        sources[SOURCES]; /* from the first; one that is not read to its end is the last */
    unsigned nsources;

    pthread_mutex_t lock;
    pthread_cond_t left; /* a side of `inside` is empty, or stopping */
    bool active;         /* operations are to tell */
    bool failed;         /* cannot be exact any more: the estimate stays */
    bool stopping;
    unsigned side; /* which one operations enter */
    unsigned inside[2];
    struct inoset counted;
    struct place *renamed;
    int64_t found[USAGE_KINDS], start[USAGE_KINDS];
};

/* The scans that this thread's operations are inside of. A scan may be gone by the time the
 * operation ends, hence the serial number. */
static _Thread_local struct {
    const struct scan *scan;
    uint64_t serial;
    unsigned side;
} tokens[MAX_TOKENS];
_Thread_local unsigned scan_tokens;

static _Atomic uint64_t next_serial = 1;

/* ---- what operations tell ---- */

void scan_enter(struct scan *s)
{
    if (scan_tokens == MAX_TOKENS)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->active) {
        tokens[scan_tokens].scan = s;
        tokens[scan_tokens].serial = s->serial;
        tokens[scan_tokens++].side = s->side;
        s->inside[s->side]++;
    }
    pthread_mutex_unlock(&s->lock);
}

void scan_leave(struct scan *s)
{
    unsigned i = scan_tokens;

    while (i > 0 && tokens[i - 1].scan != s)
        i--;
    if (!s || i == 0)
        return;
    i--;
    pthread_mutex_lock(&s->lock);
    if (tokens[i].serial == s->serial && --s->inside[tokens[i].side] == 0)
        pthread_cond_broadcast(&s->left);
    pthread_mutex_unlock(&s->lock);
    memmove(&tokens[i], &tokens[i + 1], (scan_tokens - i - 1) * sizeof(tokens[0]));
    scan_tokens--;
}

/* Counts an inode that nobody has counted. Under the lock. */
static void count(struct scan *s, uint64_t ino, uint64_t charge)
{
    int64_t bytes = (int64_t)charge;

    if (ino == s->root_ino)
        bytes -= (int64_t)s->usage->root_base;
    else
        s->found[USAGE_INODES]++;
    s->found[USAGE_BYTES] += bytes;
}

void scan_touch(struct scan *s, enum scan_touch how, uint64_t ino, uint64_t charged)
{
    pthread_mutex_lock(&s->lock);
    if (s->active) {
        int added = inoset_add(&s->counted, ino);

        if (added < 0)
            s->failed = true;
        else if (added > 0 && how == SCAN_CHANGED)
            count(s, ino, charged);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The object's place by its handle; NULL with errno. */
static struct place *place_of(int dir, const char *name, int flags)
{
    struct place *p = calloc(1, sizeof(*p));
    int mount;

    if (!p)
        return NULL;
    p->handle.head.handle_bytes = HANDLE_MAX;
    if (name_to_handle_at(dir, name, &p->handle.head, &mount, flags) != 0) {
        int saved = errno;

        free(p);
        errno = saved;
        return NULL;
    }
    return p;
}

static bool is_gone(int error)
{
    return error == ENOENT || error == ESTALE || error == ENOTDIR;
}

void scan_renamed(struct scan *s, int dir_fd, const char *name)
{
    struct place *p = place_of(dir_fd, name, 0);
    int error = errno;

    pthread_mutex_lock(&s->lock);
    if (!s->active) {
        free(p);
    } else if (p) {
        p->next = s->renamed;
        s->renamed = p;
    } else if (!is_gone(error)) {
        s->failed = true;
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- the walk ---- */

/* Waits until every operation that runs now has ended. False when the scan is to stop. */
static bool wait_for_operations(struct scan *s)
{
    unsigned old;
    bool go_on;

    pthread_mutex_lock(&s->lock);
    old = s->side;
    s->side = !old;
    while (s->inside[old] > 0 && !s->stopping)
        pthread_cond_wait(&s->left, &s->lock);
    go_on = !s->stopping && !s->failed;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void fail(struct scan *s, const char *what, int error)
{
    log_error("usage scan: %s: %s", what, strerror(error));
    pthread_mutex_lock(&s->lock);
    s->failed = true;
    pthread_mutex_unlock(&s->lock);
}

static bool may_go_on(struct scan *s)
{
    bool go_on;

    pthread_mutex_lock(&s->lock);
    go_on = !s->stopping && !s->failed;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

/* Counts `name` if it still is the inode `ino` (0: whatever it is) and nobody has. Inode numbers
 * are not reused under our feet: who frees one counts it first. */
static void visit(struct scan *s, const struct entry *e)
{
    bool itself = e->name[0] == '\0', same;
    int at = itself ? e->source->path : dirfd(e->source->dir);
    int flags = AT_NO_AUTOMOUNT | (itself ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW);
    struct stat st;

    /* Once without the lock, so that no operation waits for the disk. */
    if (fstatat(at, e->name, &st, flags) != 0)
        return;
    pthread_mutex_lock(&s->lock);
    same = fstatat(at, e->name, &st, flags) == 0 && st.st_dev == s->device &&
           (e->ino == 0 || st.st_ino == e->ino);
    if (same) {
        int added = inoset_add(&s->counted, st.st_ino);

        if (added < 0)
            s->failed = true;
        else if (added > 0)
            count(s, st.st_ino, usage_charge(&st));
    }
    pthread_mutex_unlock(&s->lock);
    if (same && S_ISDIR(st.st_mode) && !itself) {
        struct place *p = place_of(at, e->name, 0);

        if (p) {
            p->counted = true;
            p->next = s->pending;
            s->pending = p;
        } else if (!is_gone(errno)) {
            fail(s, "file handle", errno);
        }
    }
}

/* Opens an object by its handle; -1 with errno. The kernel says ENOMEM, not ESTALE, of one that is
 * gone and whose inode number is being given to a new object at this moment: what it says then
 * counts. */
static int open_place(const struct scan *s, struct place *p)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int fd = -1;

    for (int tries = 0; tries < OPEN_TRIES && fd < 0 && (tries == 0 || errno == ENOMEM); tries++) {
        if (tries > 0)
            nanosleep(&moment, NULL);
        fd = open_by_handle_at(s->root, &p->handle.head, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd;
}

/* Opens a place as the next source; adds the place itself to the batch when it is not counted yet.
 */
static void open_source(struct scan *s, struct place *p, size_t *n)
{
    struct source *source = &s->sources[s->nsources];
    int fd;

    source->path = open_place(s, p);
    if (source->path < 0) {
        if (!is_gone(errno))
            fail(s, "opening by handle", errno);
        return;
    }
    fd = openat(source->path, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    source->dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!source->dir && !is_gone(errno))
        fail(s, "opening a folder", errno);
    if (!source->dir && fd >= 0)
        close(fd);
    source->read = !source->dir;
    if (!p->counted) {
        struct entry *e = &s->batch[(*n)++];

        e->ino = 0;
        e->source = source;
        e->name[0] = '\0';
    }
    s->nsources++;
}

static void read_source(struct scan *s, struct source *source, size_t *n)
{
    struct dirent *d = NULL;

    while (*n < BATCH && (errno = 0, d = readdir(source->dir))) {
        struct entry *e = &s->batch[*n];

        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        e->ino = d->d_ino;
        e->source = source;
        memcpy(e->name, d->d_name, strlen(d->d_name) + 1);
        ++*n;
    }
    if (d)
        return; /* the batch is full */
    if (*n < BATCH && errno != 0 && !is_gone(errno))
        fail(s, "reading a folder", errno);
    source->read = *n < BATCH;
}

/* The next batch, from the source that is not at its end and from what is pending. */
static size_t gather(struct scan *s)
{
    size_t n = 0;

    if (s->nsources > 0)
        read_source(s, &s->sources[0], &n);
    while (n < BATCH && s->pending && s->nsources < SOURCES) {
        struct place *p = s->pending;
        unsigned before = s->nsources;

        s->pending = p->next;
        open_source(s, p, &n);
        free(p);
        if (s->nsources > before && n < BATCH && !s->sources[before].read)
            read_source(s, &s->sources[before], &n);
    }
    return n;
}

static void close_source(struct source *source)
{
    if (source->dir)
        closedir(source->dir);
    close(source->path);
}

/* Closes the sources; one that is not at its end becomes the first, unless `all`. */
static void close_sources(struct scan *s, bool all)
{
    struct source last = {.read = true};

    while (s->nsources > 0) {
        const struct source *source = &s->sources[--s->nsources];

        if (source->read || all)
            close_source(&s->sources[s->nsources]);
        else
            last = *source; /* the last one, or there is none */
    }
    if (!last.read)
        s->sources[s->nsources++] = last;
}

/* Takes at most half of a processor, however large the volume is. */
static void rest(struct scan *s, uint64_t since_ns)
{
    uint64_t busy = clock_mono_ns() - since_ns;

    job_rest(s->usage->scanner, &s->job, busy < REST_MAX_NS ? busy : REST_MAX_NS);
}

static void walk(struct scan *s)
{
    while ((s->nsources > 0 || s->pending) && may_go_on(s)) {
        uint64_t start = clock_mono_ns();
        size_t n = gather(s);

        if (n > 0 && wait_for_operations(s))
            for (size_t i = 0; i < n; i++)
                visit(s, &s->batch[i]);
        close_sources(s, false);
        rest(s, start);
    }
}

enum outcome { SCAN_GOES_ON, SCAN_FOUND, SCAN_FAILED, SCAN_STOPPED };

/* Ends the scan, unless something was renamed since it last looked. */
static enum outcome finish(struct scan *s)
{
    enum outcome outcome;

    pthread_mutex_lock(&s->lock);
    outcome = s->stopping  ? SCAN_STOPPED
              : s->failed  ? SCAN_FAILED
              : s->renamed ? SCAN_GOES_ON
                           : SCAN_FOUND;
    if (outcome == SCAN_GOES_ON) {
        s->pending = s->renamed;
        s->renamed = NULL;
    } else {
        s->active = false;
        s->usage->scanning = false;
        inoset_free(&s->counted);
    }
    if (outcome == SCAN_FOUND)
        usage_scanned(s->usage, s->found, s->start);
    pthread_mutex_unlock(&s->lock);
    return outcome;
}

static void run(struct job *job)
{
    struct scan *s = (struct scan *)((char *)job - offsetof(struct scan, job));
    uint64_t start = clock_mono_ns();
    enum outcome outcome;

    do {
        walk(s);
        /* What was renamed is told by the end of the rename; what was told may be visited after it.
         */
        wait_for_operations(s);
        outcome = finish(s);
    } while (outcome == SCAN_GOES_ON);
    close_sources(s, true);
    free(s->batch);
    s->batch = NULL;
    if (outcome == SCAN_FAILED)
        log_error(
            "usage scan: given up; the volume counts with an upper bound until it opens again");
    if (outcome == SCAN_FOUND)
        log_info("usage scan: %lld inodes, %lld bytes in %llu ms",
                 (long long)s->found[USAGE_INODES], (long long)s->found[USAGE_BYTES],
                 (unsigned long long)((clock_mono_ns() - start) / NS_PER_MS));
}

int scan_start(struct usage *u, int root)
{
    struct scan *s = calloc(1, sizeof(*s));
    struct stat st;

    if (!s)
        return -ENOMEM;
    s->usage = u;
    s->job.run = run;
    s->serial = atomic_fetch_add(&next_serial, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->left, NULL);
    for (int kind = 0; kind < USAGE_KINDS; kind++)
        s->start[kind] = u->gauges[kind].booked;
    u->scan = s;
    s->root = fcntl(root, F_DUPFD_CLOEXEC, 0);
    if (s->root < 0 || fstat(s->root, &st) != 0)
        return -errno;
    s->root_ino = st.st_ino;
    s->device = st.st_dev;
    s->batch = calloc(BATCH, sizeof(*s->batch));
    s->pending = place_of(s->root, "", AT_EMPTY_PATH);
    if (!s->batch || !s->pending)
        return s->batch ? -errno : -ENOMEM;
    s->active = true;
    u->scanning = true;
    job_queue(u->scanner, &s->job);
    return 0;
}

void scan_stop(struct scan *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->active = false;
    s->usage->scanning = false;
    pthread_cond_broadcast(&s->left);
    pthread_mutex_unlock(&s->lock);
    job_cancel(s->usage->scanner, &s->job);
}

static void free_places(struct place *p)
{
    while (p) {
        struct place *next = p->next;

        free(p);
        p = next;
    }
}

void scan_free(struct scan *s)
{
    free_places(s->pending);
    free_places(s->renamed);
    inoset_free(&s->counted);
    free(s->batch);
    if (s->root >= 0)
        close(s->root);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->left);
    free(s);
}
