/* NetApp accounts: the description of the type and its handlers. */
#include "api/arm_types.h"
#include "api/resource.h"

static const struct property_value key_sources[] = {
    {.name = "Microsoft.NetApp"},
    {.name = "Microsoft.KeyVault", .refused = "customer-managed encryption keys"},
    {0},
};

static const struct property encryption[] = {
    {.name = "keySource",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_PATCHABLE,
     .otherwise = "\"Microsoft.NetApp\"",
     .values = key_sources},
    {.name = "keyVaultProperties",
     .kind = PROPERTY_OBJECT,
     .refused = "customer-managed encryption keys"},
    {.name = "identity", .kind = PROPERTY_OBJECT, .refused = "customer-managed encryption keys"},
    {0},
};

static const struct property properties[] = {
    {.name = "provisioningState", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "activeDirectories", .kind = PROPERTY_LIST, .refused = "Active Directory"},
    {.name = "encryption",
     .kind = PROPERTY_OBJECT,
     .flags = PROPERTY_PATCHABLE,
     .members = encryption},
    {.name = "disableShowmount",
     .kind = PROPERTY_BOOL,
     .flags = PROPERTY_READ_ONLY,
     .since = "2022-05-01"},
    {.name = "multiAdStatus", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "nfsV4IDDomain", .kind = PROPERTY_TEXT, .refused = "NFSv4 id mapping"},
    {0},
};

static const struct property table[] = {
    RESOURCE_ENVELOPE,
    {.name = "identity",
     .kind = PROPERTY_OBJECT,
     .since = "2022-05-01",
     .refused = "managed identities",
     .accepts = "{\"type\": \"None\"}"},
    {.name = "properties",
     .kind = PROPERTY_OBJECT,
     .flags = PROPERTY_PATCHABLE,
     .members = properties},
    {0},
};

static int rules(struct resource_write *w)
{
    (void)w; /* the table says it all */
    return 0;
}

static json_t *computed(struct db_conn *c, const struct db_resource *r, const json_t *doc)
{
    (void)c;
    (void)r;
    (void)doc;
    return json_pack("{s:{}}", "properties");
}

const struct resource_type account_type = {
    .name = TYPE_ACCOUNT,
    .param = ARM_ACCOUNT,
    .name_pattern = "^[a-zA-Z0-9][-a-zA-Z0-9_]{0,127}$",
    .table = table,
    .rules = rules,
    .computed = computed,
};

void account_put(struct arm_call *call)
{
    resource_put(call, &account_type);
}

void account_get(struct arm_call *call)
{
    resource_get(call, &account_type);
}

void account_patch(struct arm_call *call)
{
    resource_patch(call, &account_type);
}

void account_delete(struct arm_call *call)
{
    resource_delete(call, &account_type);
}

void account_list(struct arm_call *call)
{
    resource_list(call, &account_type);
}
