/* Subscriptions: those that are registered in the store. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/arm_group.h"
#include "common/mem.h"

/* There is one tenant: this control plane. */
#define TENANT "00000000-0000-0000-0000-000000000000"

static json_t *render(const char *subscription, const char *display_name)
{
    char *id = xasprintf("/subscriptions/%s", subscription);
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:s, s:[]}", "id", id,
                  "subscriptionId", subscription, "tenantId", TENANT, "displayName", display_name,
                  "state", "Enabled", "subscriptionPolicies", "locationPlacementId",
                  "Internal_2014-09-01", "quotaId", "Internal_2014-09-01", "spendingLimit", "Off",
                  "authorizationSource", "RoleBased", "managedByTenants");

    free(id);
    return body;
}

static int list_one(const char *subscription, const char *display_name, void *arg)
{
    json_array_append_new(arg, render(subscription, display_name));
    return 0;
}

void subscription_list(struct arm_call *call)
{
    json_t *value = json_array();
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_subscription_each(reader, list_one, value);

    db_read_end(reader);
    if (rc < 0) {
        json_decref(value);
        fail_store(call, rc);
    } else {
        arm_reply(call, 200, json_pack("{s:o}", "value", value));
    }
}

struct search {
    const char *subscription;
    json_t *found;
};

static int match(const char *subscription, const char *display_name, void *arg)
{
    struct search *s = arg;

    if (strcasecmp(subscription, s->subscription) == 0) {
        s->found = render(subscription, display_name);
    }
    return s->found != NULL;
}

void subscription_get(struct arm_call *call)
{
    struct search s = {.subscription = call->param[ARM_SUBSCRIPTION]};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_subscription_each(reader, match, &s);

    db_read_end(reader);
    if (s.found != NULL) {
        arm_reply(call, 200, s.found);
    } else {
        fail_store(call, rc < 0 ? rc : -EIO); /* the dispatcher saw it a moment ago */
    }
}
