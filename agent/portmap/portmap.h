/*
 * Finding the ports: program 100000, versions 2 (portmap, RFC 1833 section 3) and 3, 4 (rpcbind,
 * section 2), answered over the same transport as NFS, and registration with a system's rpcbind
 * where one holds port 111.
 *
 * What is mapped is fixed: NFS 3 and MOUNT 1 and 3 over TCP at the agent's one port. Called by
 * agent/main.c and agent/control/ from one thread.
 */
#ifndef AGENT_PORTMAP_PORTMAP_H
#define AGENT_PORTMAP_PORTMAP_H

#include "agent/rpc/rpc.h"

#define PORTMAP_PORT 111

extern const struct rpc_program portmap_program;

/* Says where NFS and MOUNT are to be found from now on. 0. */
int portmap_start(struct rpc_server *server, uint16_t nfs_port);

/*
 * Answers at ADDRESS:111 (dotted IPv4). Where something else listens there, NFS and MOUNT are
 * registered with it, once for all addresses. Best effort: when neither works, it is logged with
 * the mount options that do without. 0 when clients of the address find the ports, else -errno
 * (-EADDRINUSE: another server is registered there).
 */
int portmap_endpoint(struct rpc_server *server, const char *address);
/* The endpoint goes away. */
void portmap_endpoint_gone(struct rpc_server *server, const char *address);

/* Takes back what was registered. Endpoints are closed by rpc_server_stop. */
void portmap_stop(void);

#endif
