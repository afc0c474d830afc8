/*
 * Who calls (design D13): bearer tokens, compared by their hashes. The administrator's token is the
 * file STATE/token; agents have credentials of their own (agents_authenticate). Service principals
 * and roles come in beside the administrator's token, behind auth_check.
 */
#ifndef API_AUTH_H
#define API_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/route.h"

enum auth_mode {
    AUTH_TOKEN, /* every call but /healthz and enrolment needs a bearer */
    AUTH_NONE,  /* everybody is the administrator; loopback only (main.c sees to it) */
};

#define SECRET_HEX_MAX                                                                             \
    65 /* 256 random bits as hex, and the NUL; their hashes have the same form                     \
        */

/* Reads DIR/token, or makes it (0600, 256 random bits) when it is absent. 0 and *out, or -errno,
 * logged. */
int auth_open(const char *dir, enum auth_mode mode, struct auth **out);
void auth_free(struct auth *auth);
enum auth_mode auth_mode(const struct auth *auth);

/* Decides whether the caller may use a route of this kind. True with `principal` set (for
 * systemData and the audit line); false with `error` (401 AuthenticationFailed) and the
 * WWW-Authenticate header set. The agents' routes pass: their handlers resolve the agent by its
 * bearer. */
bool auth_check(struct api *api, struct http_request *r, enum route_kind kind, char principal[129],
                struct arm_error *error);
/* The refusal itself, for handlers that resolve their bearer themselves: sets the header and
 * `error`. */
void auth_refuse(struct http_request *r, const char *message, struct arm_error *error);

/* The text after "Authorization: Bearer ", or NULL. Lives as long as the request. */
const char *auth_bearer(const struct http_request *r);

/* 256 random bits as lower-case hex. */
void secret_make(char out[static SECRET_HEX_MAX]);
/* SHA-256 of a secret as hex: what the store keeps. The secrets are random, so a fast hash is
 * enough. */
void secret_hash(const char *secret, char out[static SECRET_HEX_MAX]);
/* Compares two hashes in a time that does not depend on where they differ. */
bool secret_hash_equal(const char *a, const char *b);

#endif
