/*
 * Who has mounted what: for DUMP, nothing depends on it (RFC 1813 I.4.2). In memory, bounded; when
 * full, the oldest entry goes. All functions may be called from any thread.
 */
#ifndef AGENT_MOUNT_MOUNT_LIST_H
#define AGENT_MOUNT_MOUNT_LIST_H

#include <netinet/in.h>
#include <stddef.h>

#define MOUNT_LIST_MAX  512
#define MOUNT_LIST_PATH 1025 /* MNTPATHLEN and a NUL */

struct mount_entry {
    struct in_addr client;
    char path[MOUNT_LIST_PATH];
};

/* Mounting the same path again changes nothing. */
void mount_list_add(struct in_addr client, const char *path);
void mount_list_remove(struct in_addr client, const char *path);
void mount_list_remove_all(struct in_addr client);
/* A copy, oldest first; the caller frees it. NULL when it is empty. */
struct mount_entry *mount_list_get(size_t *count);

#endif
