/* The mount list, see mount_list.h. Locking: one mutex, a leaf. */
#include "agent/mount/mount_list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mount_entry *entries; /* MOUNT_LIST_MAX, made with the first */
static size_t nentries;

static void remove_at(size_t i)
{
    memmove(&entries[i], &entries[i + 1], (--nentries - i) * sizeof(entries[0]));
}

static bool same(const struct mount_entry *e, struct in_addr client, const char *path)
{
    return e->client.s_addr == client.s_addr && strcmp(e->path, path) == 0;
}

void mount_list_add(struct in_addr client, const char *path)
{
    bool known = false;

    pthread_mutex_lock(&lock);
    if (entries == NULL)
        entries = xcalloc(MOUNT_LIST_MAX, sizeof(entries[0]));
    for (size_t i = 0; i < nentries && !known; i++)
        known = same(&entries[i], client, path);
    if (!known) {
        if (nentries == MOUNT_LIST_MAX)
            remove_at(0);
        entries[nentries].client = client;
        snprintf(entries[nentries].path, sizeof(entries[0].path), "%s", path);
        nentries++;
    }
    pthread_mutex_unlock(&lock);
}

static void remove_if(struct in_addr client, const char *path)
{
    pthread_mutex_lock(&lock);
    for (size_t i = nentries; i-- > 0;) {
        if (path == NULL ? entries[i].client.s_addr == client.s_addr
                         : same(&entries[i], client, path))
            remove_at(i);
    }
    pthread_mutex_unlock(&lock);
}

void mount_list_remove(struct in_addr client, const char *path)
{
    remove_if(client, path);
}

void mount_list_remove_all(struct in_addr client)
{
    remove_if(client, NULL);
}

struct mount_entry *mount_list_get(size_t *count)
{
    struct mount_entry *copy = NULL;

    pthread_mutex_lock(&lock);
    *count = nentries;
    if (nentries > 0) {
        copy = xcalloc(nentries, sizeof(copy[0]));
        memcpy(copy, entries, nentries * sizeof(copy[0]));
    }
    pthread_mutex_unlock(&lock);
    return copy;
}
