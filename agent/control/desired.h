/*
 * The agent's own record of what it serves (design D2): one file a volume, so that with 10,000
 * volumes a change of one costs one small atomic write, not the rewriting of megabytes, and a
 * damaged file takes one export with it, not all.
 *
 *     STATE/volumes/FSID.json   the SPEC as applied last (with the handle key: mode 0600)
 *     STATE/orphans/FSID.json   the last SPEC of a volume that the control plane no longer speaks
 * of: kept for whoever brings it back, never served
 *
 * A volume is in volumes/ exactly while a restart has to serve it. A deletion is written down as a
 * SPEC with `deleted` before the data moves, so that a crash between the two ends in a deletion and
 * never in an empty volume.
 *
 * No locks: only the reconciler's thread calls, and the start before it.
 */
#ifndef AGENT_CONTROL_DESIRED_H
#define AGENT_CONTROL_DESIRED_H

#include <stddef.h>

#include "common/uuid.h"

struct desired;

#define DESIRED_MAX_SPEC (1u << 20) /* bytes of one file that are read */

/* Makes the folders below `state_dir`. 0 or -errno. */
int desired_open(const char *state_dir, struct desired **out);
void desired_close(struct desired *d);

/* Replaces a volume's record; on 0 it survives a power cut. An orphan's record of the same volume
 * goes away. */
int desired_save(struct desired *d, const struct uuid *fs_id, const char *spec);
/* Removes a volume's record, for good once it returns 0; there being none is fine. */
int desired_remove(struct desired *d, const struct uuid *fs_id);
/* Moves a volume's record to the orphans. */
int desired_orphan(struct desired *d, const struct uuid *fs_id);

/* Calls `fn` for every record; `spec` is NULL for one that cannot be read (then `error` is its
 * -errno). Other files are left alone. 0 or -errno; a non-zero of `fn` stops and is returned. */
typedef int desired_fn(const struct uuid *fs_id, const char *spec, size_t len, int error,
                       void *arg);
int desired_each(struct desired *d, desired_fn *fn, void *arg);

#endif
