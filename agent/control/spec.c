/* Reading a SPEC. Called by the control channel for what comes in and by the reconciler for what is
 * on disk; no state. */
#include "agent/control/spec.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/json_util.h"
#include "common/mem.h"
#include "common/number.h"

#define HANDLE_KEY_DIGITS 32
_Static_assert(HANDLE_KEY_DIGITS == 2 * VOLUME_HANDLE_KEY, "two digits a byte");

/* Where an error is put; its readers return false so that they chain. */
struct complaint {
    char *why;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool complain(const struct complaint *c,
                                                           const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->why, c->size, fmt, ap);
    va_end(ap);
    return false;
}

static bool read_bool(const json_t *o, const char *key, bool *out, const struct complaint *c)
{
    const json_t *v = json_object_get(o, key);

    if (!json_is_boolean(v))
        return complain(c, "%s is not true or false", key);
    *out = json_is_true(v);
    return true;
}

static bool read_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out,
                     const struct complaint *c)
{
    const json_t *v = json_object_get(o, key);

    if (!json_is_integer(v))
        return complain(c, "%s is not a whole number", key);
    *out = json_integer_value(v);
    if (*out < min || *out > max)
        return complain(c, "%s is %" PRId64 ", not %" PRId64 " to %" PRId64, key, *out, min, max);
    return true;
}

/* A text of 1 to `max` characters, none of them a control character. */
static const char *read_text(const json_t *o, const char *key, size_t max,
                             const struct complaint *c)
{
    const char *text = json_string_value(json_object_get(o, key));
    size_t len = text ? strlen(text) : 0;

    if (!text || len == 0 || len > max) {
        complain(c, "%s is not a text of 1 to %zu characters", key, max);
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            complain(c, "%s has a control character in it", key);
            return NULL;
        }
    }
    return text;
}

static bool read_handle_key(const json_t *o, uint8_t out[static VOLUME_HANDLE_KEY],
                            const struct complaint *c)
{
    const char *text = json_string_value(json_object_get(o, "handleKey"));

    /* The key is a secret: it never stands in a message. */
    if (!text || strlen(text) != HANDLE_KEY_DIGITS)
        return complain(c, "handleKey is not %d hex digits", HANDLE_KEY_DIGITS);
    for (size_t i = 0; i < VOLUME_HANDLE_KEY; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return complain(c, "handleKey is not %d hex digits", HANDLE_KEY_DIGITS);
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* "/" and a creation token (1 to 80 letters, digits, '-' and '_'). */
static bool read_export_path(const json_t *o, char out[static VOLUME_PATH_MAX],
                             const struct complaint *c)
{
    const char *text = read_text(o, "exportPath", VOLUME_PATH_MAX - 1, c);
    bool ok;

    if (!text)
        return false;
    ok = text[0] == '/' && text[1] != '\0';
    for (const char *p = text + 1; ok && *p != '\0'; p++)
        ok = is_name_char(*p);
    if (!ok)
        return complain(c, "exportPath \"%s\" is not / and a name", text);
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool read_endpoints(const json_t *o, struct volume_spec *out, const struct complaint *c)
{
    const json_t *list = json_object_get(o, "endpoints");
    size_t count = json_array_size(list);

    if (count < 1 || count > VOLUME_MAX_ENDPOINTS)
        return complain(c, "endpoints is not a list of 1 to %d addresses", VOLUME_MAX_ENDPOINTS);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (!text || inet_pton(AF_INET, text, &out->endpoints[i]) != 1)
            return complain(c, "endpoints[%zu] is not an IPv4 address", i);
        for (size_t k = 0; k < i; k++)
            if (out->endpoints[k].s_addr == out->endpoints[i].s_addr)
                return complain(c, "endpoints has %s twice", text);
    }
    out->nendpoints = count;
    return true;
}

/* unixPermissions: four octal digits. */
static bool read_mode(const json_t *o, unsigned *out, const struct complaint *c)
{
    const char *text = json_string_value(json_object_get(o, "unixPermissions"));

    if (!text || strlen(text) != 4 || strspn(text, "01234567") != 4)
        return complain(c, "unixPermissions is not four octal digits");
    *out = 0;
    for (const char *p = text; *p != '\0'; p++)
        *out = *out << 3 | (unsigned)(*p - '0');
    return true;
}

/* null is no limit. Absent is not null: forgetting it must not free a volume of its limit. */
static bool read_limit(const json_t *o, uint64_t *out, const struct complaint *c)
{
    int64_t value = 0;

    *out = 0;
    if (json_is_null(json_object_get(o, "limitBytesPerSecond")))
        return true;
    if (!read_int(o, "limitBytesPerSecond", 1, SPEC_MAX_LIMIT, &value, c))
        return false;
    *out = (uint64_t)value;
    return true;
}

static bool read_rule(const json_t *o, struct export_rule_spec *out, const struct complaint *c)
{
    int64_t index = 0;
    const char *clients;

    if (!read_int(o, "ruleIndex", 1, VOLUME_MAX_RULES, &index, c) ||
        !(clients = read_text(o, "clients", SPEC_MAX_CLIENTS, c)) ||
        !read_bool(o, "readOnly", &out->read_only, c) ||
        !read_bool(o, "readWrite", &out->read_write, c) ||
        !read_bool(o, "rootAccess", &out->root_access, c) ||
        !read_bool(o, "chownRestricted", &out->chown_restricted, c) ||
        !read_bool(o, "nfsv3", &out->nfsv3, c))
        return false;
    out->index = (unsigned)index;
    out->clients = xstrdup(clients);
    return true;
}

static bool read_rules(const json_t *o, struct volume_spec *out, const struct complaint *c)
{
    const json_t *list = json_object_get(o, "rules");
    size_t count = json_array_size(list);
    char inner[200];
    struct complaint nested = {inner, sizeof(inner)};

    if (!json_is_array(list) || count > VOLUME_MAX_RULES)
        return complain(c, "rules is not a list of at most %d", VOLUME_MAX_RULES);
    for (size_t i = 0; i < count; i++) {
        if (!read_rule(json_array_get(list, i), &out->rules[i], &nested))
            return complain(c, "rules[%zu]: %s", i, inner);
        out->nrules = i + 1;
        for (size_t k = 0; k < i; k++)
            if (out->rules[k].index == out->rules[i].index)
                return complain(c, "rules[%zu]: ruleIndex %u is there twice", i,
                                out->rules[i].index);
    }
    return true;
}

bool spec_identify(const json_t *json, struct uuid *fs_id, int64_t *generation)
{
    const char *id = json_string_value(json_object_get(json, "fileSystemId"));
    const json_t *number = json_object_get(json, "generation");

    if (!id || !uuid_parse(id, fs_id) || !json_is_integer(number) || json_integer_value(number) < 1)
        return false;
    *generation = json_integer_value(number);
    return true;
}

static bool read_body(const json_t *o, struct volume_spec *out, const struct complaint *c)
{
    int64_t quota = 0, files = 0;
    const char *id = read_text(o, "id", SPEC_MAX_ID, c);

    if (!id)
        return false;
    out->resource_id = xstrdup(id);
    if (!read_export_path(o, out->export_path, c) || !read_endpoints(o, out, c) ||
        !read_bool(o, "breakthrough", &out->breakthrough, c) ||
        !read_int(o, "quotaBytes", 1, INT64_MAX, &quota, c) ||
        !read_int(o, "maxFiles", 1, INT64_MAX, &files, c) || !read_limit(o, &out->limit, c) ||
        !read_handle_key(o, out->handle_key, c) || !read_mode(o, &out->root_mode, c) ||
        !read_bool(o, "snapshotDirectoryVisible", &out->snapshot_dir_visible, c) ||
        !read_rules(o, out, c))
        return false;
    out->quota_bytes = (uint64_t)quota;
    out->max_files = (uint64_t)files;
    return true;
}

bool spec_parse(const json_t *json, struct volume_spec *out, char *why, size_t size)
{
    struct complaint c = {why, size};
    const json_t *deleted = json_object_get(json, "deleted");

    *out = (struct volume_spec){0};
    if (!spec_identify(json, &out->fs_id, &out->generation))
        return complain(&c, "fileSystemId is not a UUID or generation not a positive whole number");
    if (deleted && !json_is_boolean(deleted))
        return complain(&c, "deleted is not true or false");
    out->deleted = json_is_true(deleted);
    if (out->deleted || read_body(json, out, &c))
        return true;
    volume_spec_clear(out);
    return false;
}
