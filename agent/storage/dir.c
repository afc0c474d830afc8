/*
 * The backend "dir": a volume's root is a plain folder, on any POSIX file system with file handles.
 * The quota is the agent's accounting alone (usage.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/storage/backend.h"
#include "agent/storage/tree.h"

static int dir_create(int folder, mode_t root_mode)
{
    int root, rc = 0;

    if (mkdirat(folder, "data", 0700) != 0)
        return -errno;
    root = openat(folder, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return -errno;
    /* The owner first: changing it may clear set-id bits. */
    if (fchown(root, 0, 0) != 0 || fchmod(root, root_mode) != 0 || fsync(root) != 0)
        rc = -errno;
    close(root);
    return rc;
}

const struct storage_backend storage_dir = {
    .name = "dir",
    .create = dir_create,
    .discard = tree_remove,
};
