/* Files and folders of a program's state. No state but the locks taken, held for the life of the
 * process. */
#include "common/fsutil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int fs_mkdir_p(const char *path, mode_t mode)
{
    char *copy = xstrdup(path);
    int rc = 0;

    if (*path == '\0')
        rc = -ENOENT;
    for (char *p = copy + 1; rc == 0; p++) {
        char end = *p;

        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        if (mkdir(copy, mode) != 0 && !(errno == EEXIST && is_dir(copy)))
            rc = errno == EEXIST ? -ENOTDIR : -errno;
        *p = end;
        if (end == '\0')
            break;
    }
    free(copy);
    return rc;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int write_synced(const char *path, const void *data, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc;

    if (fd < 0)
        return -errno;
    rc = write_all(fd, data, len);
    if (rc == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
        rc = -errno;
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = !slash          ? xstrdup(".")
                : slash == path ? xstrdup("/")
                                : xstrndup(path, (size_t)(slash - path));
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fsync(fd) != 0)
        rc = -errno;
    if (fd >= 0)
        close(fd);
    free(dir);
    return rc;
}

int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode)
{
    /* A fixed name: what a crash leaves behind is overwritten by the next write. */
    char *tmp = xasprintf("%s.tmp", path);
    int rc = write_synced(tmp, data, len, mode);

    if (rc == 0 && rename(tmp, path) != 0)
        rc = -errno;
    if (rc != 0)
        unlink(tmp);
    else
        rc = sync_parent(path);
    free(tmp);
    return rc;
}

int fs_read_file(const char *path, size_t max, char **data, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *buf = NULL;
    size_t used = 0, cap = 0;
    int rc = 0;

    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n;

        if (used + 1 >= cap) {
            cap = cap > 0 ? cap * 2 : 4096;
            buf = xrealloc(buf, cap);
        }
        n = read(fd, buf + used, cap - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -errno;
        if (n <= 0)
            break;
        used += (size_t)n;
        if (used > max) {
            rc = -EFBIG;
            break;
        }
    }
    close(fd);
    if (rc != 0) {
        free(buf);
        return rc;
    }
    buf[used] = '\0';
    *data = buf;
    if (len)
        *len = used;
    return 0;
}

int fs_lock_dir(const char *dir)
{
    char *path = xasprintf("%s/lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = 0;

    free(path);
    if (fd < 0)
        return -errno;
    /* Kept open on purpose: the lock ends with the process, however it ends. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        rc = -errno;
        close(fd);
    }
    return rc;
}
