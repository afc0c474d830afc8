/* Removing a folder with all that is in it, in the background. */
#ifndef AGENT_STORAGE_TREE_H
#define AGENT_STORAGE_TREE_H

#include "agent/storage/backend.h"

/* Removes the folder `name` of `parent`, as storage_backend.discard says. Follows no symbolic link
 * and crosses into no mounted file system: what is mounted inside stays, and makes it fail. */
int tree_remove(int parent, const char *name, const struct discard *how);

#endif
