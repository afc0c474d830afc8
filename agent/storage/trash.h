/* The store's trash: volumes that were deleted, removed in the background, after a restart too. */
#ifndef AGENT_STORAGE_TRASH_H
#define AGENT_STORAGE_TRASH_H

#include "agent/storage/backend.h"
#include "common/uuid.h"

struct trash;

/* `fd` is the trash folder; it stays the caller's. What is in it starts to be removed. NULL:
 * logged. */
struct trash *trash_start(int fd, const struct storage_backend *backend);
/* Moves the folder `name` of `from` in, under the volume's id, so that a crash cannot bring it
 * back. 0, -ENOENT or -errno. */
int trash_take(struct trash *t, int from, const char *name, const struct uuid *fs_id);
void trash_stats(const struct trash *t, uint64_t *folders, uint64_t *removed);
/* Stops between two files. NULL is fine. */
void trash_stop(struct trash *t);

#endif
