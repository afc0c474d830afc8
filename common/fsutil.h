/* Files and folders of a program's state. */
#ifndef COMMON_FSUTIL_H
#define COMMON_FSUTIL_H

#include <stddef.h>
#include <sys/types.h>

/* Makes the folder and its missing parents; 0 or -errno. Existing ones are left as they are. */
int fs_mkdir_p(const char *path, mode_t mode);

/* Replaces `path` whole or not at all, surviving a power cut once it returned 0: writes a temporary
 * file beside it (PATH.tmp: one writer of a path at a time), fsyncs, renames, fsyncs the folder. 0,
 * or -errno: the old content is then intact, or, where only the folder's fsync failed, the new one
 * is in place but may not survive. */
int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode);

/* Reads a whole file of at most `max` bytes; NUL-terminates. 0 (caller frees *data), -EFBIG, or
 * -errno. */
int fs_read_file(const char *path, size_t max, char **data, size_t *len);

/* Takes an exclusive lock on DIR/lock for the life of the process, so that two servers never share
 * a state folder. Returns 0, -EWOULDBLOCK when another process has it, or -errno. */
int fs_lock_dir(const char *dir);

#endif
