/*
 * PUT and PATCH of every resource type. The request's shape is checked on the server's thread; all
 * that depends on rows (conditions, state, the type's rules, sums against the parent) is checked
 * inside the one transaction that stores the result, under the parent's lock. What was found wrong
 * there is carried out of it in w->error and undoes it.
 *
 * If the program stops before the commit, nothing of the write is there and the client has no
 * answer; after it, the row, its operation and its change record are there together.
 */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/etag.h"
#include "api/operation.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"

struct write {
    struct resource_write w;
    json_t *spec_before; /* of a served resource that is there */
};

static void write_free(void *state)
{
    struct write *s = state;
    struct resource_write *w = &s->w;

    json_decref(w->given);
    json_decref(w->old);
    json_decref(w->doc);
    json_decref(w->body);
    json_decref(s->spec_before);
    db_resource_clear(&w->parent);
    db_resource_clear(&w->row);
    free(w->wake.list);
    free(s);
}

/* ---- what is there ---- */

/* The group of the path; a PUT of a top-level resource makes a missing one. */
static int settle_group(struct resource_write *w)
{
    const struct arm_call *call = w->call;
    const char *subscription = call->param[ARM_SUBSCRIPTION], *name = call->param[ARM_GROUP];
    bool makes = !w->patch && w->type->parent == NULL && !call->api->strict_groups;
    int rc = group_check(w->txn, call, true, &w->error);

    if (rc != REFUSED || !makes || strcmp(w->error.code, "ResourceGroupNotFound") != 0) {
        return rc;
    }
    const char *given = json_get_text(w->given, "location", "");
    char *location = location_normalise(given);
    if (location == NULL) {
        arm_error_set(&w->error, 400,
                      given[0] == '\0' ? "LocationRequired" : "InvalidValueReceived", "location",
                      "The resource needs a location, for example 'eastus'.");
        return REFUSED;
    }
    rc = group_make(w->txn, subscription, name, location, &w->error);
    free(location);
    return rc;
}

int resource_parent_missing(const char *parent, struct arm_error *error)
{
    arm_error_set(
        error, 404, "ParentResourceNotFound", NULL,
        "Can not perform requested operation on nested resource. Parent resource '%.300s' "
        "not found.",
        resource_path_of(parent));
    return REFUSED;
}

static int find_parent(struct resource_write *w)
{
    if (w->type->parent == NULL) {
        return 0;
    }
    char *id = resource_parent_id(w->call->resource_id);
    int rc = db_resource_get(w->txn, id, &w->parent);
    if (rc == -ENOENT) {
        rc = resource_parent_missing(id, &w->error);
    } else if (rc == 0) {
        rc = db_lock_resource(w->txn, w->parent.rid);
    }
    free(id);
    return rc;
}

/* The id of a new resource: its parent's, or its group's in the case that it was made with. */
static char *new_id(struct resource_write *w)
{
    const char *kind = strrchr(w->type->name, '/') + 1;
    const char *name = w->call->param[w->type->param];
    struct db_group group = {0};

    if (w->parent.rid != 0) {
        return xasprintf("%s/%s/%s", w->parent.id, kind, name);
    }
    db_group_get(w->txn, w->call->param[ARM_SUBSCRIPTION], w->call->param[ARM_GROUP], &group);
    char *id = xasprintf(
        "/subscriptions/%s/resourceGroups/%s/providers/%s/%s", w->call->param[ARM_SUBSCRIPTION],
        group.name == NULL ? w->call->param[ARM_GROUP] : group.name, w->type->name, name);
    db_group_clear(&group);
    return id;
}

static int find_stored(struct write *s)
{
    struct resource_write *w = &s->w;
    int rc = db_resource_get(w->txn, w->call->resource_id, &w->row);

    if (rc == -ENOENT && w->patch) {
        return resource_not_found(w->txn, w->call, w->type, &w->error);
    }
    if (rc == -ENOENT) {
        w->row = (struct db_resource){
            .parent = w->parent.rid,
            .type = xstrdup(w->type->name),
            .subscription = xstrdup(w->call->param[ARM_SUBSCRIPTION]),
            .group = xstrdup(w->call->param[ARM_GROUP]),
            .id = new_id(w),
            .name = xstrdup(w->call->param[w->type->param]),
        };
        return 0;
    }
    if (rc != 0) {
        return rc;
    }
    w->exists = true;
    w->old = json_loads(w->row.doc, 0, NULL);
    if (w->type->served) {
        s->spec_before = w->type->spec(w->txn, &w->row);
    }
    return db_lock_resource(w->txn, w->row.rid);
}

static int refuse(struct resource_write *w, unsigned status, const char *code, const char *message)
{
    arm_error_set(&w->error, status, code, NULL, "%s", message);
    return REFUSED;
}

static int check_conditions(struct resource_write *w)
{
    char etag[ETAG_MAX];
    bool allowed = etag_allows(http_header(w->call->http, "If-Match"),
                               http_header(w->call->http, "If-None-Match"),
                               w->exists ? etag_format(w->row.etag_ticks, etag) : NULL);

    return allowed
               ? 0
               : refuse(w, 412, "PreconditionFailed",
                        "The condition of the request's If-Match or If-None-Match header is not "
                        "met.");
}

static int check_state(struct resource_write *w)
{
    const char *state = resource_state(&w->row);

    if (!w->exists) {
        const char *parent = w->parent.rid == 0 ? "Succeeded" : resource_state(&w->parent);
        if (strcmp(parent, "Succeeded") == 0) {
            return 0;
        }
        arm_error_set(&w->error, 409, "PreconditionFailed", NULL,
                      "The parent resource '%.300s' is in the state '%s'; it must be Succeeded.",
                      resource_path_of(w->parent.id), parent);
        return REFUSED;
    }
    bool deletion = w->row.verb == DB_VERB_DELETING && w->row.observed < w->row.generation;
    bool terminal = strcmp(state, "Succeeded") == 0 || strcmp(state, "Failed") == 0;
    if (!deletion && terminal) {
        return 0;
    }
    arm_error_set(&w->error, 409, "Conflict", NULL,
                  "The resource '%.300s' cannot be changed in the state '%s'%s.",
                  resource_path_of(w->row.id), state,
                  deletion && terminal ? " of a deletion; delete it again" : "");
    return REFUSED;
}

/* ---- what it becomes ---- */

static int settle_location(struct resource_write *w)
{
    const char *text = json_get_text(w->given, "location", NULL);
    int rc = 0;

    if (text == NULL) {
        if (w->patch) {
            json_object_del(w->given, "location");
            return 0;
        }
        arm_error_set(&w->error, 400, "LocationRequired", "location",
                      "The location property is required for this definition.");
        return REFUSED;
    }
    char *location = location_normalise(text);
    if (location == NULL) {
        arm_error_set(&w->error, 400, "InvalidValueReceived", "location",
                      "The value of 'location' is not the name of a region.");
        return REFUSED;
    }
    const char *now = w->row.location == NULL ? location : w->row.location;
    const char *parent = w->parent.rid == 0 ? location : w->parent.location;
    if (strcmp(location, now) != 0) {
        arm_error_set(&w->error, 409, "InvalidResourceLocation", "location",
                      "The resource '%.200s' already exists in location '%s'. A resource with the "
                      "same name cannot be created in location '%s'.",
                      resource_path_of(w->row.id), now, location);
        rc = REFUSED;
    } else if (strcmp(location, parent) != 0) {
        arm_error_set(&w->error, 409, "InvalidResourceLocation", "location",
                      "The location '%s' is not that of the parent resource, '%s'.", location,
                      parent);
        rc = REFUSED;
    } else {
        json_object_set_new(w->given, "location", json_string(location));
    }
    if (rc == 0 && !w->exists) {
        w->row.location = location;
    } else {
        free(location);
    }
    return rc;
}

/* Members of the stored document that are the server's: systemData, and names with '_'. */
static void carry_over(const json_t *old, json_t *doc)
{
    const char *name;
    json_t *value, *object = (json_t *)(uintptr_t)old;

    json_object_foreach(object, name, value)
    {
        if (name[0] == '_' || strcmp(name, "systemData") == 0) {
            json_object_set(doc, name, value);
        }
    }
}

static int make_document(struct resource_write *w)
{
    int rc = settle_location(w);

    if (rc != 0) {
        return rc;
    }
    /* No zone and nothing said of zones are one. */
    if (json_array_size(json_object_get(w->given, "zones")) == 0) {
        json_object_del(w->given, "zones");
    }
    json_t *shown = w->exists ? resource_render(w->txn, &w->row, w->call->api_version) : NULL;
    bool fixed = property_drop_fixed(w->type->table, "", w->given, shown, &w->error);
    json_decref(shown);
    if (!fixed) {
        return REFUSED;
    }
    w->doc = w->patch ? property_merge(w->type->table, "", w->given, w->old, &w->error)
                      : property_replace(w->type->table, "", w->given, w->old, &w->error);
    if (w->doc == NULL) {
        return REFUSED;
    }
    carry_over(w->old, w->doc);
    return 0;
}

/* ---- storing it ---- */

static void stamp(struct resource_write *w)
{
    json_t *data = json_object_get(w->doc, "systemData");
    char now[CLOCK_ISO_MAX];
    const char *who = w->call->principal;

    clock_format_iso(w->now, 7, now);
    data = data == NULL ? json_object() : json_deep_copy(data);
    if (json_object_get(data, "createdAt") == NULL) {
        json_object_set_new(data, "createdBy", json_string(who));
        json_object_set_new(data, "createdByType", json_string("Key"));
        json_object_set_new(data, "createdAt", json_string(now));
    }
    json_object_set_new(data, "lastModifiedBy", json_string(who));
    json_object_set_new(data, "lastModifiedByType", json_string("Key"));
    json_object_set_new(data, "lastModifiedAt", json_string(now));
    json_object_set_new(w->doc, "systemData", data);
    free(w->row.doc);
    w->row.doc = json_render(w->doc);
}

static int store_new(struct resource_write *w)
{
    struct db_resource *r = &w->row;

    r->generation = 1;
    r->observed = w->type->served ? 0 : 1;
    r->verb = DB_VERB_CREATING;
    int rc = db_resource_insert(w->txn, r);
    if (rc == 0) {
        rc = operation_begin(w->call->api, w->txn, r, "CREATE", "Creating", !w->type->served,
                             w->now, w->operation);
    }
    if (rc == 0 && w->type->served) {
        rc = db_change_add(w->txn, r->agent, r->fs_id);
        agent_set_add(&w->wake, r->agent);
        w->pending = true;
    }
    return rc;
}

/* Whether an agent has something to do: what it is told became different, or it failed before. */
static bool needs_agent(struct write *s)
{
    struct resource_write *w = &s->w;

    if (!w->type->served || strcmp(resource_state(&w->row), "Failed") == 0) {
        return w->type->served;
    }
    json_t *after = w->type->spec(w->txn, &w->row);
    bool same = property_same(s->spec_before, after, false);
    json_decref(after);
    return !same;
}

static int store_changed(struct write *s)
{
    struct resource_write *w = &s->w;
    struct db_resource *r = &w->row;
    const char *action = w->patch ? "PATCH" : "UPDATE";
    enum db_verb verb = w->patch ? DB_VERB_PATCHING : DB_VERB_UPDATING;

    if (needs_agent(s)) {
        w->pending = true;
        return resource_advance(w->call->api, w->txn, r, verb, action, w->now, &w->wake,
                                w->operation);
    }
    if (!w->type->served) {
        r->observed = ++r->generation;
    }
    int rc = db_resource_update(w->txn, r);
    if (rc == 0 && !w->patch) {
        rc = operation_begin(w->call->api, w->txn, r, action, "", true, w->now, w->operation);
    }
    return rc;
}

static int store(struct write *s)
{
    struct resource_write *w = &s->w;

    if (!w->exists) {
        stamp(w);
        return store_new(w);
    }
    bool retry = !w->patch && w->type->served && strcmp(resource_state(&w->row), "Failed") == 0;
    if (property_same(w->doc, w->old, false) && !retry) {
        return 0;
    }
    stamp(w);
    return store_changed(s);
}

static void prepare_answer(struct resource_write *w)
{
    w->status = !w->exists ? 201 : w->patch && w->pending ? 202 : 200;
    w->body = resource_render(w->txn, &w->row, w->call->api_version);
    w->etag_ticks = w->row.etag_ticks;
}

static int write_run(struct db_conn *txn, void *arg)
{
    struct write *s = arg;
    struct resource_write *w = &s->w;
    int rc;

    w->txn = txn;
    w->now = clock_wall_ns();
    if ((rc = settle_group(w)) != 0 || (rc = find_parent(w)) != 0 || (rc = find_stored(s)) != 0 ||
        (rc = check_conditions(w)) != 0 || (rc = check_state(w)) != 0 ||
        (rc = make_document(w)) != 0 || (rc = w->type->rules(w)) != 0) {
        return rc;
    }
    if (!w->exists && w->type->create != NULL && (rc = w->type->create(w)) != 0) {
        return rc;
    }
    rc = store(s);
    if (rc == 0) {
        prepare_answer(w);
    }
    return rc;
}

static void write_done(void *arg, int result)
{
    struct resource_write *w = &((struct write *)arg)->w;
    struct arm_call *call = w->call;

    if (result != 0) {
        fail_result(call, result, &w->error);
        return;
    }
    agent_set_wake(call->api, &w->wake);
    if (w->operation[0] != '\0') {
        char *collection = operation_collection(w->row.subscription, w->row.location);
        operation_set_headers(call, collection, w->operation,
                              OPERATION_ASYNC | (w->patch ? OPERATION_LOCATION : 0) |
                                  (w->pending ? OPERATION_RUNNING : 0));
        free(collection);
    }
    char etag[ETAG_MAX];
    http_set_header(call->http, "ETag", etag_format(w->etag_ticks, etag));
    json_t *body = w->body;
    w->body = NULL;
    arm_reply(call, w->status, body);
}

/* ---- the handlers ---- */

static bool name_is_good(struct arm_call *call, const struct resource_type *type)
{
    const char *name = call->param[type->param];
    regex_t compiled;
    bool good = regcomp(&compiled, type->name_pattern, REG_EXTENDED | REG_NOSUB) == 0;

    if (good) {
        good = regexec(&compiled, name, 0, NULL, 0) == 0;
        regfree(&compiled);
    }
    for (const char *const *r = type->reserved; good && r != NULL && *r != NULL; r++) {
        good = strcasecmp(*r, name) != 0;
    }
    if (!good) {
        arm_fail(call, 400, "InvalidResourceName", NULL,
                 "The name '%.140s' is not valid for the type '%s': it must be of the form %s and "
                 "not reserved.",
                 name, type->name, type->name_pattern);
    }
    return good;
}

static void submit(struct arm_call *call, const struct resource_type *type, bool patch)
{
    struct arm_error error = {0};
    json_t *given = property_read(type->table, "", call->body, call->api_version, &error);

    if (given == NULL) {
        arm_fail_error(call, &error);
        return;
    }
    struct write *s = xcalloc(1, sizeof *s);
    s->w = (struct resource_write){.call = call, .type = type, .patch = patch, .given = given};
    call->state = s;
    call->free_state = write_free;
    if (type->look != NULL) {
        struct db_resource r = {0};
        struct db_conn *reader = db_read_begin(call->api->db);
        int rc = db_resource_get(reader, call->resource_id, &r);
        db_read_end(reader);
        if (rc == 0) {
            type->look(&s->w, &r);
        }
        db_resource_clear(&r);
    }
    db_submit(call->api->db, &(struct db_request){.name = patch ? "resource patch" : "resource put",
                                                  .run = write_run,
                                                  .done = write_done,
                                                  .arg = s});
}

void resource_put(struct arm_call *call, const struct resource_type *type)
{
    if (name_is_good(call, type)) {
        submit(call, type, false);
    }
}

void resource_patch(struct arm_call *call, const struct resource_type *type)
{
    submit(call, type, true);
}
