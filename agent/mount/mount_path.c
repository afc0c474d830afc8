/* Paths of MOUNT calls, see mount_path.h. */
#include "agent/mount/mount_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME_LEN_MAX 255

int mount_path_clean(const uint8_t *path, size_t len, char out[static MOUNT_PATH_MAX + 1])
{
    size_t n = 0;

    if (len > MOUNT_PATH_MAX)
        return -ENAMETOOLONG;
    if (len == 0 || path[0] != '/' || memchr(path, '\0', len) != NULL)
        return -ENOENT;
    for (size_t i = 0; i < len;) {
        const uint8_t *slash;
        size_t name;

        if (path[i] == '/') {
            i++;
            continue;
        }
        slash = memchr(path + i, '/', len - i);
        name = slash != NULL ? (size_t)(slash - path) - i : len - i;
        if (name > NAME_LEN_MAX)
            return -ENAMETOOLONG;
        if (name != 1 || path[i] != '.') {
            out[n++] = '/';
            memcpy(out + n, path + i, name);
            n += name;
        }
        i += name;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
    return 0;
}

int mount_path_open(int root, const char *rest)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, root, rest[0] == '\0' ? "." : rest, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}
