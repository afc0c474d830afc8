/*
 * The trash folder and its thread. A folder that cannot be removed is left and tried again with the
 * next one that comes, or the next start. State: counters only, atomic.
 */
#include "agent/storage/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"

struct trash {
    int fd;
    const struct storage_backend *backend;
    struct job_thread *thread;
    struct job job;
    _Atomic uint64_t folders, removed;
};

/* Calls `each` for every entry; it returns false to stop. Entries that come meanwhile may be seen
 * or not. */
static void for_entries(struct trash *t, bool (*each)(struct trash *t, const char *name))
{
    int fd = openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *d;

    if (!dir) {
        log_error("trash: %m");
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 && !each(t, d->d_name))
            break;
    closedir(dir);
}

static bool count_one(struct trash *t, const char *name)
{
    (void)name;
    t->folders++;
    return true;
}

static bool remove_one(struct trash *t, const char *name)
{
    const struct discard how = {.thread = t->thread, .job = &t->job, .removed = &t->removed};
    int rc = t->backend->discard(t->fd, name, &how);

    if (rc == 0)
        t->folders--;
    else if (rc != -EINTR)
        log_error("trash: %s is not removed yet: %s", name, strerror(-rc));
    return !t->job.stop;
}

static void empty(struct job *job)
{
    for_entries((struct trash *)((char *)job - offsetof(struct trash, job)), remove_one);
}

struct trash *trash_start(int fd, const struct storage_backend *backend)
{
    struct trash *t = xcalloc(1, sizeof(*t));

    t->fd = fd;
    t->backend = backend;
    t->job.run = empty;
    t->thread = job_thread_start("trash");
    if (!t->thread) {
        log_error("trash: no thread");
        free(t);
        return NULL;
    }
    for_entries(t, count_one);
    if (t->folders > 0)
        job_queue(t->thread, &t->job);
    return t;
}

int trash_take(struct trash *t, int from, const char *name, const struct uuid *fs_id)
{
    char text[UUID_TEXT_MAX], to[UUID_TEXT_MAX + 24];

    uuid_format(fs_id, text);
    t->folders++;
    for (unsigned long n = 0;; n++) {
        snprintf(to, sizeof(to), "%s.%lu", text, n);
        if (renameat2(from, name, t->fd, to, RENAME_NOREPLACE) == 0)
            break;
        if (errno != EEXIST) {
            int rc = -errno;

            t->folders--;
            return rc;
        }
    }
    job_queue(t->thread, &t->job);
    /* The target first: between the two there may be both names, never none. */
    if (fsync(t->fd) != 0 || fsync(from) != 0)
        return -errno;
    return 0;
}

void trash_stats(const struct trash *t, uint64_t *folders, uint64_t *removed)
{
    *folders = t->folders;
    *removed = t->removed;
}

void trash_stop(struct trash *t)
{
    if (!t)
        return;
    job_thread_stop(t->thread);
    free(t);
}
