/*
 * What all resource types have in common: PUT, GET, PATCH, DELETE and lists, driven by one
 * description per type (design D3). A type adds its property table and the rules that no table can
 * say, as functions that run inside the transaction.
 */
#ifndef API_RESOURCE_H
#define API_RESOURCE_H

#include "api/api.h"
#include "api/property.h"
#include "common/uuid.h"

#define TYPE_ACCOUNT "Microsoft.NetApp/netAppAccounts"
#define TYPE_POOL    TYPE_ACCOUNT "/capacityPools"
#define TYPE_VOLUME  TYPE_POOL "/volumes"

/* Agents whose polls must be woken after a commit. */
struct agent_set {
    int64_t *list;
    size_t count;
};
void agent_set_add(struct agent_set *set, int64_t agent);
/* Wakes them and empties the set. After the commit. */
void agent_set_wake(struct api *api, struct agent_set *set);

/* One PUT or PATCH inside its transaction. */
struct resource_write {
    struct arm_call *call;
    const struct resource_type *type;
    bool patch;
    json_t *given; /* the request as property_read gave it */
    int64_t used;  /* bytes that a volume holds, as last reported; 0 unknown */

    struct db_conn *txn;
    int64_t now;
    bool exists;
    struct db_resource parent; /* rid 0 for a top-level type */
    struct db_resource row;    /* as stored; rules write their columns here */
    json_t *old;               /* the stored document, NULL when there is none */
    json_t *doc;               /* the document to come; rules may change it */
    struct agent_set wake;
    struct arm_error error;

    /* The answer. */
    unsigned status;
    json_t *body;
    int64_t etag_ticks;
    char operation[UUID_TEXT_MAX]; /* "" when there is none */
    bool pending;                  /* an agent must apply it */
};

struct resource_type {
    const char *name; /* TYPE_… */
    const struct resource_type *parent;
    enum arm_param param;         /* names the resource in a path */
    const char *name_pattern;     /* POSIX extended */
    const char *const *reserved;  /* names that are refused, NULL-ended, or NULL */
    const struct property *table; /* the envelope with its properties */
    bool served;                  /* by an agent, which must observe each generation */

    /* In a PUT's or PATCH's transaction: checks and completes w->doc, sets the columns of w->row
     * that queries need. Returns 0, or REFUSED with w->error, or another -errno. */
    int (*rules)(struct resource_write *w);
    /* After the rules of a creation, before the insert: what only a new one needs. May be NULL. */
    int (*create)(struct resource_write *w);
    /* What a GET shows beside the document: an object for property_show, new reference. */
    json_t *(*computed)(struct db_conn *c, const struct db_resource *r, const json_t *doc);
    /* What its agent is told of a served one, to see whether a write changes anything for it. */
    json_t *(*spec)(struct db_conn *c, const struct db_resource *r);
    /* Before the transaction of a write to an existing one, for what other stores know. May be
     * NULL. */
    void (*look)(struct resource_write *w, const struct db_resource *r);
};

/* Members that every tracked resource has before its properties. */
#define RESOURCE_ENVELOPE                                                                          \
    {.name = "id", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},                            \
        {.name = "name", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},                      \
        {.name = "type", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},                      \
        {.name = "etag", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},                      \
        {.name = "location", .kind = PROPERTY_TEXT, .flags = PROPERTY_CREATE_ONLY},                \
        {.name = "tags", .kind = PROPERTY_MAP, .flags = PROPERTY_PATCHABLE},                       \
    {                                                                                              \
        .name = "systemData", .kind = PROPERTY_ANY, .flags = PROPERTY_READ_ONLY                    \
    }

extern const struct resource_type account_type, pool_type, volume_type;
/* By name (without case), or NULL. */
const struct resource_type *resource_type_find(const char *name);

/* Handlers of the routes of a type. */
void resource_put(struct arm_call *call, const struct resource_type *type);
void resource_patch(struct arm_call *call, const struct resource_type *type);
void resource_get(struct arm_call *call, const struct resource_type *type);
void resource_delete(struct arm_call *call, const struct resource_type *type);
/* Children of the resource that the path names, or the account lists of a group or subscription. */
void resource_list(struct arm_call *call, const struct resource_type *type);

/* The document of a GET. New reference. */
json_t *resource_render(struct db_conn *c, const struct db_resource *r, const char *version);
/* "netAppAccounts/a/capacityPools/p" of an ARM id, behind its "/providers/"; points into `id`. */
const char *resource_path_of(const char *id);
/* "a/p/v": what ARM calls the name of a child. Caller frees. */
char *resource_full_name(const char *id);
/* The id of the parent: without the last two segments. Caller frees. */
char *resource_parent_id(const char *id);
/* Lower case without spaces ("East US" is "eastus"); NULL when it can be no location. Caller frees.
 */
char *location_normalise(const char *text);

/* ParentResourceNotFound; returns REFUSED. */
int resource_parent_missing(const char *parent, struct arm_error *error);
/* The 404 of the resource that the call's path names: itself, or an ancestor; REFUSED or another
 * -errno. */
int resource_not_found(struct db_conn *c, const struct arm_call *call,
                       const struct resource_type *type, struct arm_error *error);

/* In a transaction. A new generation of a served resource: the row is written (the caller has set
 * what differs), a change is recorded for its agent, `operation` gets the id of the new operation.
 * Operations that run already go on: they end when this generation is observed. */
int resource_advance(struct api *api, struct db_conn *txn, struct db_resource *r, enum db_verb verb,
                     const char *action, int64_t now, struct agent_set *wake,
                     char operation[static UUID_TEXT_MAX]);
/* Asks a served resource's agent to delete it. */
int resource_start_delete(struct api *api, struct db_conn *txn, struct db_resource *r, int64_t now,
                          struct agent_set *wake, char operation[static UUID_TEXT_MAX]);
/* Takes a resource out of the store, with its addresses. A volume's metrics are a store of their
 * own, so the caller forgets them (metrics_db_forget) once the transaction is committed. */
int resource_remove(struct db_conn *txn, const struct db_resource *r);

/* Fails with ResourceGroupNotFound or ResourceGroupBeingDeleted; `writing` also for the latter.
 * 0 or -errno with `error` set. */
int group_check(struct db_conn *c, const struct arm_call *call, bool writing,
                struct arm_error *error);
/* In a transaction: makes a group that is not there. 0, or REFUSED with `error`, or -errno. */
int group_make(struct db_conn *txn, const char *subscription, const char *name,
               const char *location, struct arm_error *error);
/* In a transaction, after a resource of the group went away: continues a deletion of the group that
 * waits for it (parents first lose their children, then go, then the group). */
int group_sweep(struct db_conn *txn, const struct db_resource *gone, int64_t now);
/* In a transaction: a deletion of the group failed; the group can be used again. */
int group_undelete(struct db_conn *txn, const char *subscription, const char *group,
                   const char *operation);

#endif
