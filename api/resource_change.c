/*
 * How rows of resources move: new generations, deletions, what goes with a row. Everything here
 * runs inside a transaction on the writer's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/agents.h"
#include "api/operation.h"
#include "api/placement.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/mem.h"

void agent_set_add(struct agent_set *set, int64_t agent)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->list[i] == agent) {
            return;
        }
    }
    set->list = xrealloc(set->list, (set->count + 1) * sizeof *set->list);
    set->list[set->count++] = agent;
}

void agent_set_wake(struct api *api, struct agent_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        agents_notify(api->agents, set->list[i]);
    }
    free(set->list);
    *set = (struct agent_set){0};
}

int resource_advance(struct api *api, struct db_conn *txn, struct db_resource *r, enum db_verb verb,
                     const char *action, int64_t now, struct agent_set *wake,
                     char operation[static UUID_TEXT_MAX])
{
    r->generation++;
    r->verb = verb;
    r->failed = 0;
    free(r->failure);
    r->failure = NULL;
    int rc = db_resource_update(txn, r);
    if (rc == 0) {
        rc = operation_begin(api, txn, r, action, resource_state(r), false, now, operation);
    }
    if (rc == 0) {
        rc = db_change_add(txn, r->agent, r->fs_id);
        agent_set_add(wake, r->agent);
    }
    return rc;
}

int resource_start_delete(struct api *api, struct db_conn *txn, struct db_resource *r, int64_t now,
                          struct agent_set *wake, char operation[static UUID_TEXT_MAX])
{
    int rc = operation_end_upto(txn, r->rid, INT64_MAX, "Canceled", NULL, now);

    return rc != 0
               ? rc
               : resource_advance(api, txn, r, DB_VERB_DELETING, "DELETE", now, wake, operation);
}

int resource_remove(struct db_conn *txn, const struct db_resource *r)
{
    int rc = 0;

    if (r->agent != 0) {
        char *subnet = volume_subnet_key(r);
        rc = placement_release(txn, r, subnet);
        free(subnet);
    }
    return rc == 0 ? db_resource_delete(txn, r->rid) : rc;
}
