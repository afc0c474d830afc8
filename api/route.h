/*
 * The route table: every path that is answered, supported or refused by name. Matching is pure; the
 * contract test and the generated documentation walk the same table.
 */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

struct arm_call;

typedef void arm_handler(struct arm_call *call);

enum route_kind {
    ROUTE_ARM,     /* needs api-version and a token; ARM headers and envelope */
    ROUTE_AGENT,   /* the agents' channel: an agent's credential */
    ROUTE_OPEN,    /* /healthz: no token */
    ROUTE_PRIVATE, /* the wrapper's own calls and /metrics: a token, no api-version */
};

struct arm_route {
    const char *method;
    const char *path; /* "/subscriptions/{subscription}/resourceGroups/{group}/…"; fixed words match
                         without case */
    const char *operation; /* the contract's operationId: "Volumes_CreateOrUpdate" */
    enum route_kind kind;
    arm_handler *run;     /* NULL: refused, `refused` says which feature */
    const char *refused;  /* the feature's name in the error and the documentation, or NULL */
    const char *versions; /* key of the api-version set that is accepted (api/versions.c): "netapp",
                             "resources", "insights" */
};

/* All routes, in the order they are tried. */
const struct arm_route *route_table(size_t *count);

struct route_match {
    const struct arm_route *route; /* NULL: no such path */
    bool other_method;             /* the path exists with another method: 405 */
    char allow[40];                /* then: the methods it has, "GET, PUT" */
    char *param[8];                /* decoded, malloc'd; indexed by enum arm_param */
};
/* Pure. `path` is raw. False when a segment is malformed (bad escape, too long). */
bool route_find(const char *method, const char *path, struct route_match *out);
/* The ARM id that a path means: the route's words in their own case, the parameters as they came,
 * indexed by enum arm_param. Caller frees. */
char *route_resource_id(const struct arm_route *route, char *const param[]);
void route_match_clear(struct route_match *m);

#endif
