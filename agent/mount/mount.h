/*
 * MOUNT (program 100005): versions 3, and of version 1 what clients still send (NULL, DUMP, UMNT,
 * UMNTALL, EXPORT). Answers on the NFS port. A client sees the exports of the endpoint it called,
 * and of those only what the export policy lets it mount.
 */
#ifndef AGENT_MOUNT_MOUNT_H
#define AGENT_MOUNT_MOUNT_H

#include "agent/rpc/rpc.h"

extern const struct rpc_program mount_program;

#endif
