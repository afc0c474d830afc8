/* Addresses of this machine's network interfaces, by rtnetlink (RFC 3549). Called by endpoints.c;
 * no state, no locks. */
#ifndef AGENT_CONTROL_NETIF_H
#define AGENT_CONTROL_NETIF_H

#include <netinet/in.h>
#include <stdbool.h>

/* Whether any interface has the address, or it is one of 127.0.0.0/8, which are all there. */
bool netif_has(struct in_addr address);
/* Adds the address as a /32 (it brings no route with it). 0, -EEXIST, -ENODEV, -EPERM or another
 * -errno. */
int netif_add(const char *interface, struct in_addr address);
/* -EADDRNOTAVAIL when the interface does not have it, -ENODEV when there is no such interface. */
int netif_remove(const char *interface, struct in_addr address);

#endif
