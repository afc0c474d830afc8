/*
 * GET and lists of every resource type, and how a resource looks. Handlers run on the server's
 * threads, read one snapshot and answer at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/etag.h"
#include "api/page.h"
#include "api/resource.h"
#include "api/volume_spec.h"
#include "common/buf.h"
#include "common/json_util.h"
#include "common/mem.h"

static const struct resource_type *const types[] = {&account_type, &pool_type, &volume_type};

const struct resource_type *resource_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (name != NULL && strcasecmp(types[i]->name, name) == 0) {
            return types[i];
        }
    }
    return NULL;
}

/* ---- names ---- */

const char *resource_path_of(const char *id)
{
    const char *found = strcasestr(id, "/providers/");

    return found == NULL ? id : found + strlen("/providers/");
}

char *resource_full_name(const char *id)
{
    struct buf b = {0};
    const char *p = strchr(resource_path_of(id), '/'); /* behind the namespace */

    /* type/name pairs: every second segment. */
    for (bool is_name = false; p != NULL && *p == '/'; is_name = !is_name) {
        size_t len = strcspn(p + 1, "/");
        if (is_name) {
            if (b.len > 0) {
                buf_str(&b, "/");
            }
            buf_add(&b, p + 1, len);
        }
        p += 1 + len;
    }
    return buf_take(&b);
}

char *resource_parent_id(const char *id)
{
    const char *end = id + strlen(id);

    for (int slashes = 0; slashes < 2 && end > id;) {
        slashes += *--end == '/';
    }
    return xstrndup(id, (size_t)(end - id));
}

char *location_normalise(const char *text)
{
    char *out = xcalloc(1, strlen(text) + 1), *to = out;

    for (const char *p = text; *p != '\0'; p++) {
        char c = (char)(*p >= 'A' && *p <= 'Z' ? *p + ('a' - 'A') : *p);
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        if (good) {
            *to++ = c;
        } else if (c != ' ') {
            to = out;
            break;
        }
    }
    if (to == out || to - out > 64) {
        free(out);
        return NULL;
    }
    *to = '\0';
    return out;
}

/* ---- how it looks ---- */

json_t *resource_render(struct db_conn *c, const struct db_resource *r, const char *version)
{
    const struct resource_type *type = resource_type_find(r->type);
    json_t *doc = json_loads(r->doc, 0, NULL);
    json_t *computed = type->computed(c, r, doc);
    json_t *properties = json_object_get(computed, "properties");
    char *name = resource_full_name(r->id), etag[ETAG_MAX];

    json_object_set_new(computed, "id", json_string(r->id));
    json_object_set_new(computed, "name", json_string(name));
    json_object_set_new(computed, "type", json_string(r->type));
    json_object_set_new(computed, "etag", json_string(etag_format(r->etag_ticks, etag)));
    json_object_set_new(computed, "location", json_string(r->location));
    json_object_set_new(properties, "provisioningState", json_string(resource_state(r)));
    free(name);

    json_t *shown = property_show(type->table, doc, computed, version);
    if (json_object_size(json_object_get(shown, "tags")) == 0) {
        json_object_del(shown, "tags");
    }
    json_decref(computed);
    json_decref(doc);
    return shown;
}

/* ---- what is not there ---- */

/* Says which of a resource's ancestors, or that it itself, is missing. */
int resource_not_found(struct db_conn *c, const struct arm_call *call,
                       const struct resource_type *type, struct arm_error *error)
{
    if (type->parent != NULL) {
        struct db_resource r = {0};
        char *parent = resource_parent_id(call->resource_id);
        int rc = db_resource_get(c, parent, &r);
        db_resource_clear(&r);
        if (rc == -ENOENT) {
            rc = resource_parent_missing(parent, error);
        }
        free(parent);
        if (rc != 0) {
            return rc;
        }
    }
    arm_error_set(error, 404, "ResourceNotFound", NULL,
                  "The Resource '%.300s' under resource group '%.90s' was not found.",
                  resource_path_of(call->resource_id), call->param[ARM_GROUP]);
    return REFUSED;
}

void resource_get(struct arm_call *call, const struct resource_type *type)
{
    struct arm_error error = {0};
    struct db_resource r = {0};
    json_t *body = NULL;
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = group_check(reader, call, false, &error);

    if (rc == 0) {
        rc = db_resource_get(reader, call->resource_id, &r);
    }
    if (rc == -ENOENT) {
        rc = resource_not_found(reader, call, type, &error);
    }
    if (rc == 0) {
        body = resource_render(reader, &r, call->api_version);
    }
    db_read_end(reader);
    if (rc == 0) {
        char etag[ETAG_MAX];
        http_set_header(call->http, "ETag", etag_format(r.etag_ticks, etag));
        arm_reply(call, 200, body);
    } else {
        fail_result(call, rc, &error);
    }
    db_resource_clear(&r);
}

/* ---- lists ---- */

struct listing {
    struct db_conn *reader;
    const char *version;
    struct page *page;
};

static int list_one(const struct db_resource *r, void *arg)
{
    struct listing *l = arg;

    return page_add(l->page, r->id, resource_render(l->reader, r, l->version));
}

/* The resource whose children are listed; its type's segment ends the path. */
static int find_container(struct db_conn *reader, struct arm_call *call, struct db_list *list,
                          struct arm_error *error)
{
    struct db_resource parent = {0};
    char *id = xstrdup(call->resource_id);

    *strrchr(id, '/') = '\0';
    int rc = db_resource_get(reader, id, &parent);
    if (rc == -ENOENT) {
        rc = resource_parent_missing(id, error);
    }
    list->parent = parent.rid;
    db_resource_clear(&parent);
    free(id);
    return rc;
}

void resource_list(struct arm_call *call, const struct resource_type *type)
{
    struct arm_error error = {0};
    struct page page;
    struct db_list list = {.type = type->name,
                           .subscription = call->param[ARM_SUBSCRIPTION],
                           .group = call->param[ARM_GROUP]};

    if (!page_begin(&page, call)) {
        return;
    }
    struct db_conn *reader = db_read_begin(call->api->db);
    struct listing l = {.reader = reader, .version = call->api_version, .page = &page};
    int rc = call->param[ARM_GROUP] == NULL ? 0 : group_check(reader, call, false, &error);
    if (rc == 0 && type->parent != NULL) {
        rc = find_container(reader, call, &list, &error);
    }
    if (rc == 0) {
        list.after = page.after;
        list.limit = (int)page.limit + 1; /* one more says whether there is another page */
        rc = db_resource_each(reader, &list, list_one, &l);
    }
    db_read_end(reader);
    if (rc < 0) {
        page_abandon(&page);
        fail_result(call, rc, &error);
    } else {
        page_reply(&page);
    }
}
