/*
 * The export policy of a volume, compiled: rules as address and mask arrays, and the endpoints that
 * it is reached by. A policy never changes; a volume has a cell that points to its present one.
 *
 * Reading is per call, so it takes no lock: the reader announces the pointer it is about to use in
 * a record of its thread (a hazard pointer), and looks whether it still is the present one. Who
 * publishes a new policy frees the old one when no record announces it, and keeps it for later
 * otherwise. The announcement and the second look, and the exchange and the look at the records,
 * are sequentially consistent: one of the two sees the other.
 */
#ifndef AGENT_VOLUME_EXPORT_H
#define AGENT_VOLUME_EXPORT_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/volume/volume.h"

#define EXPORT_NAME_MAX       254  /* a host name and its NUL, RFC 1035 */
#define EXPORT_CLIENTS_MAX    1024 /* elements of one rule's list */
#define EXPORT_NAME_ADDRESSES 16   /* of one host name; more are not used */

struct export_policy;

/* Gives the addresses of a host name, from memory: how many of the `max` it filled in, 0 when
 * unknown. */
typedef size_t export_lookup_fn(void *arg, const char *name, struct in_addr *out, size_t max);

/* Compiles the rules and endpoints of a spec. NULL with `message` when something in them is not
 * supported or wrong. */
struct export_policy *export_compile(const struct volume_spec *spec, export_lookup_fn *lookup,
                                     void *arg, char *message, size_t size);
void export_free(struct export_policy *policy);
struct export_access export_match(const struct export_policy *policy, struct in_addr client);
bool export_equal(const struct export_policy *a, const struct export_policy *b);
/* Calls `each` for every host name of a spec's rules (checked before by export_compile). */
typedef void export_name_fn(void *arg, const char *name);
void export_each_name(const struct volume_spec *spec, export_name_fn *each, void *arg);

/* A volume's pointer to its policy. */
struct export_cell {
    struct export_policy *_Atomic now;
};

/* Publishes a policy (the cell takes it over, NULL at the end) and frees the one before, now or
 * later. */
void export_publish(struct export_cell *cell, struct export_policy *policy);
/* What the present policy says; no access when there is none. */
struct export_access export_cell_match(const struct export_cell *cell, struct in_addr client);
bool export_cell_has_endpoint(const struct export_cell *cell, struct in_addr endpoint);

#endif
