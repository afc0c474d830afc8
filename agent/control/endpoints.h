/*
 * The addresses that volumes are served on (design D9): which ones are in use, listening on them,
 * and, with --interface, adding them to this machine and removing exactly those again, after a kill
 * -9 too.
 *
 * An address stays for ENDPOINT_LINGER_NS after its last use: a client that still has a deleted
 * volume mounted is told STALE then; of an address that is gone it would only see silence, and
 * hang.
 *
 * What was added is written to STATE/addresses.json before it is added. An address that was there
 * already is never recorded, so it is never removed.
 *
 * Locking: none; the reconciler's thread calls, and the start and the stop around it.
 * endpoints_count may be called from any thread.
 */
#ifndef AGENT_CONTROL_ENDPOINTS_H
#define AGENT_CONTROL_ENDPOINTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/control/addresses.h"
#include "common/clock.h"

#define ENDPOINT_LINGER_NS (600 * NS_PER_S)

struct endpoints;

/* What endpoints need of the machine and the transport; a test has its own. `arg` is the config's.
 */
struct endpoint_ops {
    int (*listen)(void *arg, const char *address); /* 0 or -errno */
    void (*unlisten)(void *arg, const char *address);
    bool (*has)(struct in_addr address);
    int (*add)(const char *interface, struct in_addr address);
    int (*remove)(const char *interface, struct in_addr address);
};

struct endpoints_config {
    const struct addresses *allowed; /* stays valid */
    const char *interface;           /* NULL: nothing is added */
    const char *state_dir;
    uint16_t port; /* for messages */
    const struct endpoint_ops *ops;
    void *arg;
};

/* Reads what an earlier run added. 0 or -errno, logged. */
int endpoints_open(const struct endpoints_config *config, struct endpoints **out);
/* Stops listening everywhere, removes the added addresses, frees. NULL is allowed. */
void endpoints_close(struct endpoints *e);

/* Uses all of the addresses once more: adds and listens where it is the first use. All or none: 0,
 * or -errno with a message that names the address and the reason. */
int endpoints_take(struct endpoints *e, const struct in_addr *addresses, size_t count,
                   char *message, size_t size);
/* Ends one use of each, at `now_ns`. */
void endpoints_drop(struct endpoints *e, const struct in_addr *addresses, size_t count,
                    uint64_t now_ns);
/* Stops listening on what has not been used for long, and removes it where it was added. */
void endpoints_expire(struct endpoints *e, uint64_t now_ns);
/* Removes addresses of an earlier run that nobody took since. */
void endpoints_sweep(struct endpoints *e);

unsigned endpoints_count(const struct endpoints *e); /* listened on now */

#endif
