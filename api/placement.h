/*
 * Placement (design D10, D9): which agent serves a new volume and on which addresses. The choice is
 * pure; the claim runs inside the volume's transaction.
 */
#ifndef API_PLACEMENT_H
#define API_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"

/* Codes (ours; Azure places by itself): 409 NoAgentAvailable when no agent fits, with `location` or
 * `zones` as the target where that is what is missing; 409 EndpointAddressesExhausted when those
 * that fit have no addresses left. */

struct placement_candidate {
    int64_t agent;
    const char *name, *region, *zone;
    bool live, draining;
    int64_t store_free; /* bytes */
    int64_t volumes;    /* already placed */
};

struct placement_wish {
    const char *location; /* normalised */
    const char *zone;     /* "" none asked for */
};

/* Index of the chosen candidate (most free space, then fewest volumes, then lowest id), or -1 with
 * an error that says which is missing: any agent, a live one, the region, the zone, one that is not
 * draining. Pure. */
int placement_choose(const struct placement_candidate *c, size_t count,
                     const struct placement_wish *wish, struct arm_error *error);

/* Inside a transaction: chooses among the registry's agents, claims one shared or six own
 * addresses, writes the endpoint rows and sets r->agent. `subnet_key` is lower case and includes
 * the zone. False with `error` set: nothing claimed. */
bool placement_claim(struct api *api, struct db_conn *txn, struct db_resource *r, const char *zone,
                     const char *subnet_key, bool breakthrough, struct arm_error *error);
/* Gives a volume's addresses back. `subnet_key` is the one it was claimed with. */
int placement_release(struct db_conn *txn, const struct db_resource *r, const char *subnet_key);

/* The n-th usable host address of the offered list ("127.77.0.0/24" skips .0 and .255;
 * "10.0.0.1-10.0.0.9"; single ones); false past the end. Pure. */
bool placement_address(const char *addresses_json, size_t n, char out[16]);

#endif
