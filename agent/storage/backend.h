/*
 * What differs between the ways of keeping a volume; a table a backend, one file each. storage.c
 * has what does not: the store's layout, atomic creation and deletion, the trash. Snapshots,
 * reverting and cloning get their entries here when they come.
 */
#ifndef AGENT_STORAGE_BACKEND_H
#define AGENT_STORAGE_BACKEND_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/storage/job.h"

/* Removal in steps, in the background. */
struct discard {
    struct job_thread *thread;
    struct job *job;
    _Atomic uint64_t *removed; /* files and folders */
};

struct storage_backend {
    const char *name;
    /* Makes "data", the volume's root, of this mode and root's own, in the volume's folder;
     * fsynced. 0 or -errno. */
    int (*create)(int folder, mode_t root_mode);
    /* Tells the backend the quota, where it enforces one beside the agent's own accounting. NULL:
     * it does not. */
    int (*resize)(int folder, uint64_t quota_bytes, uint64_t max_files);
    /* Removes the volume's folder `name` from the trash; may be called again for what is left. 0,
     * -EINTR when told to stop, or -errno when something cannot be removed. */
    int (*discard)(int trash, const char *name, const struct discard *how);
};

extern const struct storage_backend storage_dir;

#endif
