/*
 * NFS file handles (design D7), at most 64 bytes:
 *
 *     0       version
 *     1..16   fileSystemId
 *     17      type of the kernel's handle, or HANDLE_ROOT for the volume's root
 *     18..    the kernel's handle (name_to_handle_at): inode and generation
 *     last 8  SipHash-2-4 of all before, keyed by the volume
 *
 * The same on every endpoint and after every restart, and nobody but the volume's agents can make
 * one. The root has a form of its own, which no restore of the store can make stale.
 */
#ifndef AGENT_FS_HANDLE_H
#define AGENT_FS_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/volume/volume.h"

#define FS_HANDLE_MAX  64 /* NFS3_FHSIZE, RFC 1813 2.4 */
#define FS_KERNEL_MAX  (FS_HANDLE_MAX - 18 - 8)
#define FS_HANDLE_ROOT 0xff

struct fs_handle {
    uint32_t len;
    uint8_t data[FS_HANDLE_MAX];
};

/* What a handle names inside its volume. */
struct fs_object {
    uint8_t type; /* of the kernel's handle, or FS_HANDLE_ROOT */
    uint8_t len;
    uint8_t bytes[FS_KERNEL_MAX];
};

int fs_handle_root(const struct volume *v, struct fs_handle *out);
/* The handle of an open file (O_PATH is enough) of the volume; the root as an ordinary folder. 0 or
 * -errno. */
int fs_handle_of(const struct volume *v, int fd, struct fs_handle *out);
void fs_handle_make(const struct volume *v, const struct fs_object *object, struct fs_handle *out);

/* The fileSystemId in a handle; false when no version of ours has this form. */
bool fs_handle_volume(const uint8_t *data, uint32_t len, struct uuid *fs_id);
/* What the handle names; false when the volume's key did not make it. */
bool fs_handle_check(const struct volume *v, const uint8_t *data, uint32_t len,
                     struct fs_object *out);

int fs_object_of(int fd, struct fs_object *out);
/* Opens the object with open(2) `flags`, as root. A descriptor, -ESTALE when the object is gone, or
 * -errno. */
int fs_object_open(const struct volume *v, const struct fs_object *object, int flags);

#endif
