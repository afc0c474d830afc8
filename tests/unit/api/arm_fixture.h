/*
 * Resources over the whole control plane: calls by short paths, and an agent that the test plays
 * itself, so that each step of a volume's life is the test's to take.
 */
#ifndef TESTS_UNIT_API_ARM_FIXTURE_H
#define TESTS_UNIT_API_ARM_FIXTURE_H

#include "tests/unit/api/control_plane.h"

#define SUBSCRIPTION "/subscriptions/00000000-0000-0000-0000-000000000001"
#define GROUP        SUBSCRIPTION "/resourceGroups/rg"
#define ACCOUNTS     GROUP "/providers/Microsoft.NetApp/netAppAccounts"
#define ACCOUNT      ACCOUNTS "/eda"
#define POOL         ACCOUNT "/capacityPools/pool"   /* Premium, Auto, 4 TiB: 256 MiB/s */
#define MANUAL       ACCOUNT "/capacityPools/manual" /* Premium, Manual, 4 TiB */
#define VERSION      "api-version=2026-05-01"

#define GIB_TEXT_50   "53687091200"
#define GIB_TEXT_100  "107374182400"
#define GIB_TEXT_2400 "2576980377600"
#define TIB_TEXT_1    "1099511627776"
#define TIB_TEXT_2    "2199023255552"
#define TIB_TEXT_4    "4398046511104"

/* A control plane with the account and both pools, and an agent that is enrolled. */
void arm_setup(void);
void arm_enroll(void);

/* A call with the version of above; `path` may have a query. The status. */
int arm_call_json(const char *method, const char *path, const char *body);
int arm_put(const char *path, const char *body);
int arm_patch(const char *path, const char *body);
int arm_get(const char *path);
int arm_delete(const char *path);

/* A volume's body: its properties are the path, 100 GiB and `more` (", …" or ""). The text of the
 * last call. */
const char *volume_body(const char *token, const char *more);
/* PUTs a volume and lets the agent apply it. */
void make_volume(const char *path, const char *token, const char *more);

/* The agent takes its whole list and reports each of it ("ready", "failed"), the deleted ones as
 * deleted; how many specs it got. */
int agent_apply(const char *state);
/* One report of the agent, true or not. */
void agent_report(const char *fs_id, int64_t generation, const char *state);
/* The spec that the agent gets for a path ("/vol"); borrowed until the next call, or NULL. */
const json_t *agent_spec(const char *export_path);
/* Polls an operation's absolute URL from a header of the last answer. The status. */
int follow(const char *header);

#endif
