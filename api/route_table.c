/*
 * Every path that is answered. The contract (openapi/spillway.yaml) has the same operations; a test
 * compares both ways.
 */
#include "api/agents.h"
#include "api/arm_group.h"
#include "api/arm_types.h"
#include "api/insights.h"
#include "api/operation.h"
#include "api/prom.h"
#include "api/route.h"

#define SUBSCRIPTION "/subscriptions/{subscription}"
#define GROUP        SUBSCRIPTION "/resourceGroups/{group}"
#define ACCOUNTS     GROUP "/providers/Microsoft.NetApp/netAppAccounts"
#define ACCOUNT      ACCOUNTS "/{account}"
#define POOLS        ACCOUNT "/capacityPools"
#define POOL         POOLS "/{pool}"
#define VOLUMES      POOL "/volumes"
#define VOLUME       VOLUMES "/{volume}"
#define INSIGHTS     "/providers/Microsoft.Insights"

#define ARM(verb, template, id, handler, set)                                                      \
    {                                                                                              \
        .method = (verb), .path = (template), .operation = (id), .kind = ROUTE_ARM,                \
        .run = (handler), .versions = (set)                                                        \
    }
#define OWN(verb, template, id, type, handler)                                                     \
    {                                                                                              \
        .method = (verb), .path = (template), .operation = (id), .kind = (type), .run = (handler)  \
    }

static const struct arm_route routes[] = {
    ARM("PUT", ACCOUNT, "Accounts_CreateOrUpdate", account_put, "netapp"),
    ARM("GET", ACCOUNT, "Accounts_Get", account_get, "netapp"),
    ARM("PATCH", ACCOUNT, "Accounts_Update", account_patch, "netapp"),
    ARM("DELETE", ACCOUNT, "Accounts_Delete", account_delete, "netapp"),
    ARM("GET", ACCOUNTS, "Accounts_List", account_list, "netapp"),
    ARM("GET", SUBSCRIPTION "/providers/Microsoft.NetApp/netAppAccounts",
        "Accounts_ListBySubscription", account_list, "netapp"),

    ARM("PUT", POOL, "Pools_CreateOrUpdate", pool_put, "netapp"),
    ARM("GET", POOL, "Pools_Get", pool_get, "netapp"),
    ARM("PATCH", POOL, "Pools_Update", pool_patch, "netapp"),
    ARM("DELETE", POOL, "Pools_Delete", pool_delete, "netapp"),
    ARM("GET", POOLS, "Pools_List", pool_list, "netapp"),

    ARM("PUT", VOLUME, "Volumes_CreateOrUpdate", volume_put, "netapp"),
    ARM("GET", VOLUME, "Volumes_Get", volume_get, "netapp"),
    ARM("PATCH", VOLUME, "Volumes_Update", volume_patch, "netapp"),
    ARM("DELETE", VOLUME, "Volumes_Delete", volume_delete, "netapp"),
    ARM("GET", VOLUMES, "Volumes_List", volume_list, "netapp"),

    ARM("GET",
        SUBSCRIPTION "/providers/Microsoft.NetApp/locations/{location}/operationResults/{name}",
        "OperationResults_Get", operation_get, "netapp"),
    ARM("GET", "/providers/Microsoft.NetApp/operations", "Operations_List", provider_operations,
        "netapp"),

    ARM("GET", POOL INSIGHTS "/metrics", "PoolMetrics_List", insights_metrics, "insights"),
    ARM("GET", POOL INSIGHTS "/metricDefinitions", "PoolMetricDefinitions_List",
        insights_definitions, "insights"),
    ARM("GET", VOLUME INSIGHTS "/metrics", "VolumeMetrics_List", insights_metrics, "insights"),
    ARM("GET", VOLUME INSIGHTS "/metricDefinitions", "VolumeMetricDefinitions_List",
        insights_definitions, "insights"),

    ARM("GET", "/subscriptions", "Subscriptions_List", subscription_list, "resources"),
    ARM("GET", SUBSCRIPTION, "Subscriptions_Get", subscription_get, "resources"),
    ARM("GET", SUBSCRIPTION "/resourceGroups", "ResourceGroups_List", group_list, "resources"),
    ARM("PUT", GROUP, "ResourceGroups_CreateOrUpdate", group_put, "resources"),
    ARM("GET", GROUP, "ResourceGroups_Get", group_get, "resources"),
    ARM("HEAD", GROUP, "ResourceGroups_CheckExistence", group_exists, "resources"),
    ARM("PATCH", GROUP, "ResourceGroups_Update", group_patch, "resources"),
    ARM("DELETE", GROUP, "ResourceGroups_Delete", group_delete, "resources"),
    ARM("GET", SUBSCRIPTION "/operationResults/{name}", "ResourceGroupOperationResults_Get",
        operation_get, "resources"),

    OWN("POST", "/agents/v1/enroll", "Agents_Enroll", ROUTE_AGENT, agents_enroll),
    OWN("POST", "/agents/v1/poll", "Agents_Poll", ROUTE_AGENT, agents_poll),
    OWN("POST", "/agents/v1/observed", "Agents_Observed", ROUTE_AGENT, agents_observed),
    OWN("POST", "/agents/v1/status", "Agents_Status", ROUTE_AGENT, agents_status),
    OWN("POST", "/admin/v1/enrollTokens", "Admin_CreateEnrollToken", ROUTE_PRIVATE,
        agents_admin_token),
    OWN("GET", "/admin/v1/agents", "Admin_ListAgents", ROUTE_PRIVATE, agents_admin_list),
    OWN("GET", "/admin/v1/agents/{name}", "Admin_GetAgent", ROUTE_PRIVATE, agents_admin_show),
    OWN("POST", "/admin/v1/agents/{name}/drain", "Admin_DrainAgent", ROUTE_PRIVATE,
        agents_admin_drain),
    OWN("DELETE", "/admin/v1/agents/{name}", "Admin_RemoveAgent", ROUTE_PRIVATE,
        agents_admin_remove),
    OWN("GET", "/metrics", "Metrics_Get", ROUTE_PRIVATE, prom_metrics),
    OWN("GET", "/healthz", "Health_Get", ROUTE_OPEN, health_get),
};

const struct arm_route *route_table(size_t *count)
{
    *count = sizeof routes / sizeof routes[0];
    return routes;
}
