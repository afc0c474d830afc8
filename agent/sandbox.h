/* What the process may do (design D13): it starts as root and gives up what it does not use. */
#ifndef AGENT_SANDBOX_H
#define AGENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Raises the limit of open files to what the kernel allows, at most 1,048,576; warns when that is
 * too few for many clients. Before sandbox_drop. How many there may be, 0 when too few to serve
 * with, logged. */
uint64_t sandbox_raise_files(void);

/* Drops every capability but those that serving files as other users needs (and CAP_NET_ADMIN when
 * `add_addresses`), for good: out of the bounding set too, and no program that is started gets
 * more. Before any thread. 0 or -errno, logged. */
int sandbox_drop(bool add_addresses);

#endif
