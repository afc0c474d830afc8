/*
 * A volume as others need it: the SPEC that its agent gets
 * (docs/agent-protocol.md), its state, and what happens when an agent reports. Seam between the
 * resource types, the agents' channel and metrics.
 */
#ifndef API_VOLUME_SPEC_H
#define API_VOLUME_SPEC_H

#include "api/api.h"
#include "api/throughput.h"

/* provisioningState from desired against observed: "Creating", "Updating", "Patching", "Deleting",
 * "Succeeded", "Failed". */
const char *resource_state(const struct db_resource *r);

/* The agent's SPEC of a volume row; NULL when the database fails. New reference. */
json_t *volume_agent_spec(struct db_conn *c, const struct db_resource *volume);

/* Regular, large or breakthrough, from its document. */
enum volume_kind volume_kind_of_row(const struct db_resource *volume);

/* Its endpoint addresses: six of its own, or its subnet's one. New array of texts. */
json_t *volume_addresses(struct db_conn *c, const struct db_resource *volume);

/* What a volume's shared address is found under: "location/zone/subnet", lower case, from its
 * export key. Caller frees. */
char *volume_subnet_key(const struct db_resource *volume);

/* In a transaction: an agent reported a generation. `state` is "ready", "deleted" or "failed".
 * Updates the row, ends the operations that it decides, removes a deleted volume with its
 * addresses. */
int volume_observed(struct db_conn *txn, int64_t agent, const char *fs_id, int64_t generation,
                    const char *state, const char *message, int64_t now_ns);

/* In a transaction: what ran past its deadline becomes Failed, with the agent's name and reason. */
int operations_expire(struct api *api, struct db_conn *txn, int64_t now_ns);

#endif
