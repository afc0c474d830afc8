/*
 * What the control plane knows of its agents: the live registry (last contact, load), the long
 * polls that wait, the handlers of the agents' channel and of the administrator's agent calls.
 */
#ifndef API_AGENTS_H
#define API_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"

/* An agent counts as live for this long after its last contact: a held poll of 30 s and some slack.
 */
#define AGENT_LIVE_NS UINT64_C(45000000000)

struct agent_registry *agents_new(struct api *api); /* loads the known agents */
/* Answers every waiting poll, so that the HTTP server can stop; further ones are answered at once.
 */
void agents_stop(struct agent_registry *r);
void agents_free(struct agent_registry *r);

/* Wakes the agent's poll; called after the commit that added the change. Any thread. */
void agents_notify(struct agent_registry *r, int64_t agent);
bool agents_is_live(struct agent_registry *r, int64_t agent, uint64_t now_ns);
/* Resolves an agent's bearer credential: its id, or 0. */
int64_t agents_authenticate(struct agent_registry *r, const char *credential);

/* Route handlers. */
void agents_enroll(struct arm_call *call);
void agents_poll(struct arm_call *call);
void agents_observed(struct arm_call *call);
void agents_status(struct arm_call *call);
void agents_admin_token(struct arm_call *call);  /* POST /admin/v1/enrollTokens */
void agents_admin_list(struct arm_call *call);   /* GET /admin/v1/agents */
void agents_admin_show(struct arm_call *call);   /* GET /admin/v1/agents/{name} */
void agents_admin_drain(struct arm_call *call);  /* POST /admin/v1/agents/{name}/drain */
void agents_admin_remove(struct arm_call *call); /* DELETE /admin/v1/agents/{name} */

#endif
