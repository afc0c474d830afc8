/* Registration of NFS and MOUNT with the system's rpcbind (libtirpc). Blocking; for start and stop.
 */
#ifndef AGENT_PORTMAP_RPCBIND_H
#define AGENT_PORTMAP_RPCBIND_H

#include <stdint.h>

/* Registers NFS 3 and MOUNT 1, 3 over TCP at every address of the machine. 0; -EADDRINUSE when
 * another server is registered for one of them (logged; nothing is changed); -ECONNREFUSED when no
 * rpcbind answers; -EACCES when it refuses. */
int rpcbind_register(uint16_t port);
void rpcbind_unregister(void);

#endif
