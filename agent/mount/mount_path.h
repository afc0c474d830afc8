/* Paths of MOUNT calls: pure text, and their look-up below a volume's root. */
#ifndef AGENT_MOUNT_MOUNT_PATH_H
#define AGENT_MOUNT_MOUNT_PATH_H

#include <stddef.h>
#include <stdint.h>

#define MOUNT_PATH_MAX 1024 /* MNTPATHLEN, RFC 1813 I.3.1 */

/* Brings a path as it came (len bytes, no NUL at its end) into one form: absolute, single slashes,
 * no "." and no slash at its end; "/" for the top. 0, -ENAMETOOLONG (path or a name in it), -ENOENT
 * (not absolute, a NUL inside). */
int mount_path_clean(const uint8_t *path, size_t len, char out[static MOUNT_PATH_MAX + 1]);

/* Opens the folder `rest` below `root` (O_PATH); symbolic links are followed while they stay below
 * it. The descriptor, or -errno: -ENOTDIR for anything but a folder, -EXDEV for a way out. */
int mount_path_open(int root, const char *rest);

#endif
