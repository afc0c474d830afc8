/*
 * The control plane's shared context and what a route handler works with. Everything that faces a
 * client goes through struct arm_call: it carries the parsed request and gives the one answer.
 *
 * A handler runs on a server thread, may read the database (db_read_begin) and answers at once, or
 * submits a transaction and answers from its `done`. It never blocks on the agent or on a commit.
 */
#ifndef API_API_H
#define API_API_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/http_server.h"
#include "db/db.h"
#include "db/metrics_db.h"

struct agent_registry; /* api/agents.h */
struct auth;           /* api/auth.h */

struct api {
    struct db *db;
    struct metrics_db *metrics;
    struct agent_registry *agents;
    struct auth *auth;
    uint64_t apply_timeout_ns;
    bool strict_groups;
    char *fallback_host; /* for absolute URLs when a request has no Host header */
    char *instance;      /* UUID text of this start, for leases and logs */
};

/* Segments of the path that the route's template names, percent-decoded, in the case they came. */
enum arm_param {
    ARM_SUBSCRIPTION,
    ARM_GROUP,
    ARM_ACCOUNT,
    ARM_POOL,
    ARM_VOLUME,
    ARM_LOCATION,
    ARM_NAME, /* whatever else a template names: an operation id, a quota's name */
    ARM_PARAM_COUNT
};

struct arm_call {
    struct api *api;
    struct http_request *http;
    const struct arm_route *route; /* api/route.h */
    char *param[ARM_PARAM_COUNT];  /* NULL where the template has no such segment */
    char api_version[32];
    char principal[129]; /* who calls, for systemData and the audit line */
    json_t *body;        /* the parsed JSON body (object), or NULL when there was none */
    char request_id[37];
    char *resource_id;   /* the request's path as an ARM id, without query and trailing slash */
    uint64_t started_ns; /* clock_mono_ns of its arrival */
    void *state;         /* the handler's, across its transaction */
    void (*free_state)(void *state);
};

/* The answers; each ends the call (it is freed) and writes the audit line of a write. `body`
 * references are stolen. */
void arm_reply(struct arm_call *call, unsigned status, json_t *body);
/* An answer that is not JSON (/metrics); `body` is taken over. */
void arm_reply_text(struct arm_call *call, unsigned status, const char *content_type, char *body);
/* The error envelope. `target` may be NULL; the message is formatted. */
void arm_fail(struct arm_call *call, unsigned status, const char *code, const char *target,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* An error that a rule or a transaction found, to be answered later. Zero it before use. */
struct arm_error {
    unsigned status; /* 0: no error */
    const char *code;
    char target[96];
    char message[512];
    const char *detail_code; /* of one member of `details`, or NULL */
};
void arm_error_set(struct arm_error *e, unsigned status, const char *code, const char *target,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void arm_fail_error(struct arm_call *call, const struct arm_error *e);

/* What a rule or a transaction returns once it has set an arm_error: "no", not a fault. */
#define REFUSED (-ECANCELED)

/* What the store could not do (`result` is -errno, -ENOSPC for a full disk), as an error. */
void store_error(int result, struct arm_error *error);
void fail_store(struct arm_call *call, int result);
/* Answers with `error` where the result is REFUSED, else with what the store could not do. */
void fail_result(struct arm_call *call, int result, const struct arm_error *error);

/* Absolute URL of a path on this server, as the client reaches it (scheme and Host of the call).
 * Caller frees. */
char *arm_url(const struct arm_call *call, const char *path_and_query);

#endif
