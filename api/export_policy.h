/* Export policies of volumes (anf-api.md B.4): their table and the rules that it cannot say. Pure.
 */
#ifndef API_EXPORT_POLICY_H
#define API_EXPORT_POLICY_H

#include "api/property.h"

#define EXPORT_RULES_MAX 5

extern const struct property export_policy_members[]; /* {rules: […]} */

/* The policy of a volume that says nothing of it: one rule, everybody reads and writes over NFSv3.
 * New reference. */
json_t *export_policy_default(void);
/* Checks the rules of a policy that the table has passed. False with `error`. */
bool export_policy_check(const json_t *rules, struct arm_error *error);
/* The rules as the agents' channel has them (docs/agent-protocol.md). New reference. */
json_t *export_policy_spec(const json_t *rules);

#endif
