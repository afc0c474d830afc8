/*
 * Resource groups. A group's document holds its tags and, while the group is being deleted, the id
 * of that operation: its volumes go through their agents, and group_sweep takes parents and the
 * group itself away behind them.
 */
#include "api/arm_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/operation.h"
#include "api/page.h"
#include "api/property.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"

#define GROUP_NAME_LONGEST 90

static const struct property group_properties[] = {
    {.name = "provisioningState", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {0},
};

static const struct property group_table[] = {
    {.name = "id", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "name", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "type", .kind = PROPERTY_TEXT, .flags = PROPERTY_READ_ONLY},
    {.name = "location", .kind = PROPERTY_TEXT, .flags = PROPERTY_CREATE_ONLY},
    {.name = "managedBy", .kind = PROPERTY_TEXT, .refused = "managed resource groups"},
    {.name = "tags", .kind = PROPERTY_MAP, .flags = PROPERTY_PATCHABLE},
    {.name = "properties", .kind = PROPERTY_OBJECT, .members = group_properties},
    {0},
};

/* ---- what others ask ---- */

/* The operation that deletes the group, or "". Caller frees. */
static char *deletion_of(const struct db_group *group)
{
    json_t *doc = json_loads(group->doc, 0, NULL);
    char *id = xstrdup(json_get_text(doc, "_deleting", ""));

    json_decref(doc);
    return id;
}

static int fail_missing(const char *name, struct arm_error *error)
{
    arm_error_set(error, 404, "ResourceGroupNotFound", NULL,
                  "Resource group '%.90s' could not be found.", name);
    return REFUSED;
}

int group_check(struct db_conn *c, const struct arm_call *call, bool writing,
                struct arm_error *error)
{
    const char *name = call->param[ARM_GROUP];
    struct db_group group = {0};
    int rc = db_group_get(c, call->param[ARM_SUBSCRIPTION], name, &group);

    if (rc == -ENOENT) {
        return fail_missing(name, error);
    }
    if (rc == 0 && writing) {
        char *deletion = deletion_of(&group);
        if (deletion[0] != '\0') {
            arm_error_set(error, 409, "ResourceGroupBeingDeleted", NULL,
                          "The resource group '%.90s' is being deleted.", group.name);
            rc = REFUSED;
        }
        free(deletion);
    }
    db_group_clear(&group);
    return rc;
}

/* 1 to 90 letters, digits, '_', '-', '(', ')', '.', not a '.' at the end. */
static bool name_is_good(const char *name)
{
    size_t len = strlen(name);

    for (const char *p = name; *p != '\0'; p++) {
        bool alnum =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!alnum && strchr("_-().", *p) == NULL) {
            return false;
        }
    }
    return len > 0 && len <= GROUP_NAME_LONGEST && name[len - 1] != '.';
}

int group_make(struct db_conn *txn, const char *subscription, const char *name,
               const char *location, struct arm_error *error)
{
    if (!name_is_good(name)) {
        arm_error_set(error, 400, "InvalidResourceName", NULL,
                      "The resource group's name '%.100s' is not valid: 1 to 90 letters, digits, "
                      "'_', '-', '(', ')' and '.', not '.' at the end.",
                      name);
        return REFUSED;
    }
    return db_group_put(txn, subscription, name, location, "{}");
}

/* ---- showing ---- */

static json_t *render(const char *subscription, const struct db_group *group)
{
    json_t *doc = json_loads(group->doc, 0, NULL);
    const json_t *tags = json_object_get(doc, "tags");
    char *id = xasprintf("/subscriptions/%s/resourceGroups/%s", subscription, group->name);
    bool deleting = json_get_text(doc, "_deleting", NULL) != NULL;
    json_t *body = json_pack("{s:s, s:s, s:s, s:s}", "id", id, "name", group->name, "type",
                             "Microsoft.Resources/resourceGroups", "location", group->location);

    if (json_object_size(tags) > 0) {
        json_object_set_new(body, "tags", json_deep_copy(tags));
    }
    json_object_set_new(
        body, "properties",
        json_pack("{s:s}", "provisioningState", deleting ? "Deleting" : "Succeeded"));
    json_decref(doc);
    free(id);
    return body;
}

static int get(struct arm_call *call, json_t **body, struct arm_error *error)
{
    struct db_group group = {0};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_group_get(reader, call->param[ARM_SUBSCRIPTION], call->param[ARM_GROUP], &group);

    db_read_end(reader);
    if (rc == 0) {
        *body = render(call->param[ARM_SUBSCRIPTION], &group);
    }
    db_group_clear(&group);
    return rc == -ENOENT ? fail_missing(call->param[ARM_GROUP], error) : rc;
}

void group_get(struct arm_call *call)
{
    struct arm_error error = {0};
    json_t *body = NULL;
    int rc = get(call, &body, &error);

    if (rc == 0) {
        arm_reply(call, 200, body);
    } else {
        fail_result(call, rc, &error);
    }
}

void group_exists(struct arm_call *call)
{
    struct arm_error error = {0};
    json_t *body = NULL;
    int rc = get(call, &body, &error);

    json_decref(body);
    if (rc == 0 || rc == REFUSED) {
        arm_reply(call, rc == 0 ? 204 : 404, NULL);
    } else {
        fail_store(call, rc);
    }
}

struct listing {
    const char *subscription;
    struct page *page;
};

static int list_one(const struct db_group *group, void *arg)
{
    struct listing *l = arg;

    return page_add(l->page, group->name, render(l->subscription, group));
}

void group_list(struct arm_call *call)
{
    struct page page;

    if (!page_begin(&page, call)) {
        return;
    }
    struct listing l = {.subscription = call->param[ARM_SUBSCRIPTION], .page = &page};
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_group_each(reader, l.subscription, page.after, list_one, &l);
    db_read_end(reader);
    if (rc < 0) {
        page_abandon(&page);
        fail_store(call, rc);
    } else {
        page_reply(&page);
    }
}

/* ---- PUT, PATCH ---- */

struct group_write {
    struct arm_call *call;
    bool patch;
    json_t *given;
    char *location; /* normalised; NULL in a PATCH without one */
    struct arm_error error;
    unsigned status;
    json_t *body;
};

static void group_write_free(void *state)
{
    struct group_write *w = state;

    json_decref(w->given);
    json_decref(w->body);
    free(w->location);
    free(w);
}

static int check_write(struct group_write *w, struct db_conn *txn, const struct db_group *old)
{
    json_t *shown = old == NULL ? NULL : render(w->call->param[ARM_SUBSCRIPTION], old);
    bool fixed = property_drop_fixed(group_table, "", w->given, shown, &w->error);

    json_decref(shown);
    if (!fixed) {
        return REFUSED;
    }
    if (old != NULL && w->location != NULL && strcmp(old->location, w->location) != 0) {
        arm_error_set(&w->error, 409, "InvalidResourceGroupLocation", "location",
                      "Invalid resource group location '%s'. The resource group already exists in "
                      "location '%s'.",
                      w->location, old->location);
        return REFUSED;
    }
    return old == NULL ? group_make(txn, w->call->param[ARM_SUBSCRIPTION],
                                    w->call->param[ARM_GROUP], w->location, &w->error)
                       : group_check(txn, w->call, true, &w->error);
}

static int group_write_run(struct db_conn *txn, void *arg)
{
    struct group_write *w = arg;
    const char *subscription = w->call->param[ARM_SUBSCRIPTION], *name = w->call->param[ARM_GROUP];
    struct db_group group = {0};
    int rc = db_group_get(txn, subscription, name, &group);
    bool exists = rc == 0;

    if (rc != 0 && rc != -ENOENT) {
        return rc;
    }
    if (!exists && w->patch) {
        return fail_missing(name, &w->error);
    }
    rc = check_write(w, txn, exists ? &group : NULL);
    if (rc == 0 && !exists) {
        rc = db_group_get(txn, subscription, name, &group);
    }
    const json_t *tags = json_object_get(w->given, "tags");
    if (rc == 0 && (!w->patch || tags != NULL)) {
        json_t *doc = json_object();
        if (json_is_object(tags)) {
            json_object_set_new(doc, "tags", json_deep_copy(tags));
        }
        free(group.doc);
        group.doc = json_render(doc);
        json_decref(doc);
        rc = db_group_put(txn, subscription, group.name, group.location, group.doc);
    }
    if (rc == 0) {
        w->status = exists ? 200 : 201;
        w->body = render(subscription, &group);
    }
    db_group_clear(&group);
    return rc;
}

static void group_write_done(void *arg, int result)
{
    struct group_write *w = arg;

    if (result != 0) {
        fail_result(w->call, result, &w->error);
        return;
    }
    json_t *body = w->body;
    w->body = NULL;
    arm_reply(w->call, w->status, body);
}

static void group_submit(struct arm_call *call, bool patch)
{
    struct arm_error error = {0};
    json_t *given = property_read(group_table, "", call->body, call->api_version, &error);
    const char *text = json_get_text(given, "location", NULL);
    char *location = text == NULL ? NULL : location_normalise(text);

    if (given == NULL) {
        arm_fail_error(call, &error);
        return;
    }
    struct group_write *w = xcalloc(1, sizeof *w);
    *w = (struct group_write){.call = call, .patch = patch, .given = given, .location = location};
    call->state = w;
    call->free_state = group_write_free;
    if (text == NULL && !patch) {
        arm_fail(call, 400, "LocationRequired", "location",
                 "The location property is required for this definition.");
    } else if (text != NULL && location == NULL) {
        arm_fail(call, 400, "InvalidValueReceived", "location",
                 "The value of 'location' is not the name of a region.");
    } else {
        db_submit(call->api->db, &(struct db_request){.name = "group put",
                                                      .run = group_write_run,
                                                      .done = group_write_done,
                                                      .arg = w});
    }
}

void group_put(struct arm_call *call)
{
    group_submit(call, false);
}

void group_patch(struct arm_call *call)
{
    group_submit(call, true);
}

/* ---- DELETE ---- */

struct group_removal {
    struct arm_call *call;
    int64_t now;
    struct agent_set wake;
    struct arm_error error;
    char operation[UUID_TEXT_MAX];
};

static void group_removal_free(void *state)
{
    struct group_removal *d = state;

    free(d->wake.list);
    free(d);
}

struct tree {
    struct group_removal *d;
    struct db_conn *txn;
    int rc;
};

/* Deletes what is below a resource, then it: served ones are asked for, the others go once they
 * have no children. */
static int delete_tree(const struct db_resource *r, void *arg)
{
    struct tree *t = arg;
    struct api *api = t->d->call->api;
    const struct resource_type *type = resource_type_find(r->type);

    t->rc =
        db_resource_each(t->txn, &(struct db_list){.parent = r->rid, .after = ""}, delete_tree, t);
    if (t->rc != 0 || db_resource_has_children(t->txn, r->rid)) {
        return t->rc;
    }
    if (!type->served) {
        t->rc = resource_remove(t->txn, r);
    } else if (strcmp(resource_state(r), "Deleting") != 0) {
        struct db_resource copy;
        char operation[UUID_TEXT_MAX];
        db_resource_copy(&copy, r);
        t->rc = resource_start_delete(api, t->txn, &copy, t->d->now, &t->d->wake, operation);
        db_resource_clear(&copy);
    }
    return t->rc;
}

static int see_any(const struct db_resource *r, void *arg)
{
    (void)r;
    *(bool *)arg = true;
    return 1;
}

static int is_empty(struct db_conn *c, const char *subscription, const char *group, bool *empty)
{
    bool any = false;
    struct db_list list = {.type = TYPE_ACCOUNT,
                           .subscription = subscription,
                           .group = group,
                           .after = "",
                           .limit = 1};
    int rc = db_resource_each(c, &list, see_any, &any);

    *empty = !any;
    return rc < 0 ? rc : 0;
}

/* Marks the group, so that nothing new comes into it until the operation ends. */
static int mark(struct db_conn *txn, const char *subscription, const struct db_group *group,
                const char *operation)
{
    json_t *doc = json_loads(group->doc, 0, NULL);

    if (operation == NULL) {
        json_object_del(doc, "_deleting");
    } else {
        json_object_set_new(doc, "_deleting", json_string(operation));
    }
    char *text = json_render(doc);
    int rc = db_group_put(txn, subscription, group->name, group->location, text);
    free(text);
    json_decref(doc);
    return rc;
}

static int delete_all(struct db_conn *txn, struct group_removal *d, const struct db_group *group)
{
    char *subscription = d->call->param[ARM_SUBSCRIPTION];
    char *id = xasprintf("/subscriptions/%s/resourceGroups/%s", subscription, group->name);
    struct tree tree = {.d = d, .txn = txn};
    struct db_list list = {
        .type = TYPE_ACCOUNT, .subscription = subscription, .group = group->name, .after = ""};
    bool empty = false;

    int rc = db_resource_each(txn, &list, delete_tree, &tree);
    rc = rc < 0 ? rc : tree.rc;
    if (rc == 0) {
        rc = is_empty(txn, subscription, group->name, &empty);
    }
    /* The operation is the group's: no row, no generation. */
    struct db_resource row = {.subscription = subscription, .location = group->location, .id = id};
    if (rc == 0) {
        rc = operation_begin(d->call->api, txn, &row, "DELETE", "Deleting", empty, d->now,
                             d->operation);
    }
    free(id);
    if (rc != 0) {
        return rc;
    }
    return empty ? db_group_delete(txn, subscription, group->name)
                 : mark(txn, subscription, group, d->operation);
}

static int group_removal_run(struct db_conn *txn, void *arg)
{
    struct group_removal *d = arg;
    const char *name = d->call->param[ARM_GROUP];
    struct db_group group = {0};
    int rc = db_group_get(txn, d->call->param[ARM_SUBSCRIPTION], name, &group);

    d->now = clock_wall_ns();
    if (rc == -ENOENT) {
        return fail_missing(name, &d->error);
    }
    if (rc == 0) {
        rc = group_check(txn, d->call, true, &d->error);
    }
    if (rc == 0) {
        rc = delete_all(txn, d, &group);
    }
    db_group_clear(&group);
    return rc;
}

static void group_removal_done(void *arg, int result)
{
    struct group_removal *d = arg;
    struct arm_call *call = d->call;

    if (result != 0) {
        fail_result(call, result, &d->error);
        return;
    }
    agent_set_wake(call->api, &d->wake);
    char *collection =
        xasprintf("/subscriptions/%s/operationResults", call->param[ARM_SUBSCRIPTION]);
    operation_set_headers(call, collection, d->operation,
                          OPERATION_ASYNC | OPERATION_LOCATION | OPERATION_RUNNING);
    free(collection);
    arm_reply(call, 202, NULL);
}

void group_delete(struct arm_call *call)
{
    struct group_removal *d = xcalloc(1, sizeof *d);

    d->call = call;
    call->state = d;
    call->free_state = group_removal_free;
    db_submit(call->api->db, &(struct db_request){.name = "group delete",
                                                  .run = group_removal_run,
                                                  .done = group_removal_done,
                                                  .arg = d});
}

/* Takes away the ancestors that have no children left. */
static int sweep_up(struct db_conn *txn, int64_t rid)
{
    int rc = 0;

    while (rc == 0 && rid != 0 && !db_resource_has_children(txn, rid)) {
        struct db_resource r = {0};
        rc = db_resource_get_rid(txn, rid, &r);
        if (rc == 0) {
            rid = r.parent;
            rc = resource_remove(txn, &r);
        }
        db_resource_clear(&r);
    }
    return rc;
}

int group_sweep(struct db_conn *txn, const struct db_resource *gone, int64_t now)
{
    struct db_group group = {0};
    bool empty = false;
    int rc = db_group_get(txn, gone->subscription, gone->group, &group);

    if (rc != 0) {
        return rc == -ENOENT ? 0 : rc;
    }
    char *operation = deletion_of(&group);
    if (operation[0] != '\0') {
        rc = sweep_up(txn, gone->parent);
        if (rc == 0) {
            rc = is_empty(txn, gone->subscription, gone->group, &empty);
        }
        if (rc == 0 && empty) {
            rc = db_group_delete(txn, gone->subscription, group.name);
        }
        if (rc == 0 && empty) {
            rc = db_operation_end(txn, operation, "Succeeded", NULL, now);
        }
    }
    free(operation);
    db_group_clear(&group);
    return rc;
}

int group_undelete(struct db_conn *txn, const char *subscription, const char *name,
                   const char *operation)
{
    struct db_group group = {0};
    int rc = db_group_get(txn, subscription, name, &group);

    if (rc != 0) {
        return rc == -ENOENT ? 0 : rc;
    }
    char *current = deletion_of(&group);
    if (strcmp(current, operation) == 0) {
        rc = mark(txn, subscription, &group, NULL);
    }
    free(current);
    db_group_clear(&group);
    return rc;
}
