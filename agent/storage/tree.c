/*
 * Removing a tree of any depth and width with a handful of descriptors: a folder that is not empty
 * is lifted to the top of the tree (a rename within it) instead of descended into. So every folder
 * is emptied as a child of the top, nothing is remembered, and a removal that was cut short goes on
 * with what it finds.
 *
 * Called by the trash's thread only. The tree is out of reach of new calls, but those that still
 * run may put something into it: a pass that found anything is followed by another.
 */
#include "agent/storage/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

/* Work this long, then rest as long. */
#define BURST_NS (10 * NS_PER_MS)

struct removal {
    const struct discard *how;
    int top;
    uint64_t since_ns; /* start of this burst */
    uint64_t lifted;   /* names given so far */
    uint64_t done;     /* removed or lifted in this pass */
    int error;         /* the first thing that could not be removed */
    char error_name[NAME_MAX + 1];
};

static void note_error(struct removal *r, const char *name, int error)
{
    if (r->error != 0)
        return;
    r->error = error;
    snprintf(r->error_name, sizeof(r->error_name), "%s", name);
}

static void note_removed(struct removal *r)
{
    r->done++;
    atomic_fetch_add_explicit(r->how->removed, 1, memory_order_relaxed);
}

/* False when told to stop. */
static bool pace(struct removal *r)
{
    uint64_t now = clock_mono_ns();

    if (now - r->since_ns >= BURST_NS) {
        job_rest(r->how->thread, r->how->job, now - r->since_ns);
        r->since_ns = clock_mono_ns();
    }
    return !r->how->job->stop;
}

static int open_folder(int parent, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));
}

/* Moves a folder to the top under a name of its own there. */
static int lift(struct removal *r, int dir, const char *name)
{
    char to[32];

    for (;;) {
        snprintf(to, sizeof(to), ".%llu", (unsigned long long)r->lifted++);
        if (renameat2(dir, name, r->top, to, RENAME_NOREPLACE) == 0) {
            r->done++;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
}

/* Unlinks, or removes an empty folder: 0, -ENOTEMPTY or another -errno. */
static int remove_one(struct removal *r, int dir, const struct dirent *d)
{
    int rc;

    if (d->d_type != DT_DIR) {
        rc = unlinkat(dir, d->d_name, 0) == 0 ? 0 : -errno;
        if (rc != -EISDIR)
            goto out;
    }
    rc = unlinkat(dir, d->d_name, AT_REMOVEDIR) == 0 ? 0 : -errno;
    if (rc == -EEXIST) /* POSIX allows either */
        rc = -ENOTEMPTY;
out:
    if (rc == 0)
        note_removed(r);
    return rc == -ENOENT ? 0 : rc;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Removes what is in a folder other than the top; folders in it that are not empty go to the top.
 */
static void empty_child(struct removal *r, const char *name)
{
    int fd = open_folder(r->top, name);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *d;

    if (!dir) {
        note_error(r, name, errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    while (pace(r) && (errno = 0, d = readdir(dir))) {
        int rc = is_dots(d->d_name) ? 0 : remove_one(r, fd, d);

        if (rc == -ENOTEMPTY)
            rc = lift(r, fd, d->d_name);
        if (rc != 0)
            note_error(r, d->d_name, -rc);
    }
    closedir(dir);
}

/* One pass over the top's entries. Returns how many it found, or -errno. */
static int pass(struct removal *r)
{
    int fd = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *d;
    int found = 0;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return -errno;
    }
    while (pace(r) && (errno = 0, d = readdir(dir))) {
        int rc;

        if (is_dots(d->d_name))
            continue;
        found = 1;
        rc = remove_one(r, r->top, d);
        if (rc == -ENOTEMPTY) {
            empty_child(r, d->d_name);
            rc = remove_one(r, r->top, d);
        }
        /* Still not empty: a call that runs was faster, or something in it has its error noted. */
        if (rc != 0 && rc != -ENOTEMPTY)
            note_error(r, d->d_name, -rc);
    }
    closedir(dir);
    return found;
}

int tree_remove(int parent, const char *name, const struct discard *how)
{
    struct removal r = {.how = how, .since_ns = clock_mono_ns()};
    int found, rc = 0;

    r.top = open_folder(parent, name);
    if (r.top < 0)
        return errno == ENOENT ? 0 : -errno;
    do {
        r.done = 0;
        r.error = 0;
        found = pass(&r);
        if (found < 0)
            rc = found;
        else if (how->job->stop)
            rc = -EINTR;
    } while (rc == 0 && found > 0 && r.done > 0);
    close(r.top);
    if (rc == 0 && r.error != 0) {
        log_error("trash: %s in %s stays: %s", r.error_name, name, strerror(r.error));
        rc = -r.error;
    }
    if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        rc = -errno;
    return rc;
}
