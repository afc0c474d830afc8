/*
 * The engine behind the tables. Pure; recursion goes as deep as the tables do, which are ours.
 */
#include "api/property.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json_util.h"

#define PATH_MAX_LEN 96 /* as long as a target can be */
#define QUOTED_MAX   60 /* of a value that is repeated in a message */

/* Tags (anf-api.md D.7 and the choices of the design). */
#define TAGS_MAX          50
#define TAG_NAME_LONGEST  512
#define TAG_VALUE_LONGEST 256

static const char invalid[] = "InvalidValueReceived";
static const char bad_shape[] = "InvalidRequestContent";

/* ---- names, paths, values ---- */

static void join(const char *path, const char *name, char out[static PATH_MAX_LEN])
{
    snprintf(out, PATH_MAX_LEN, "%s%s%s", path, path[0] == '\0' ? "" : ".", name);
}

static void join_index(const char *path, size_t i, char out[static PATH_MAX_LEN])
{
    snprintf(out, PATH_MAX_LEN, "%s[%zu]", path, i);
}

static const struct property *find(const struct property *table, const char *name)
{
    for (const struct property *p = table; p->name != NULL; p++) {
        if (strcasecmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

static const struct property_value *find_value(const struct property_value *values,
                                               const char *text)
{
    for (const struct property_value *v = values; v->name != NULL; v++) {
        if (strcasecmp(v->name, text) == 0) {
            return v;
        }
    }
    return NULL;
}

static bool text_same(const json_t *a, const json_t *b, bool nocase)
{
    const char *x = json_string_value(a), *y = json_string_value(b);

    return nocase ? strcasecmp(x, y) == 0 : strcmp(x, y) == 0;
}

static bool number_same(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        return json_integer_value(a) == json_integer_value(b);
    }
    return json_number_value(a) == json_number_value(b);
}

static bool members_same(const json_t *a, const json_t *b, bool nocase)
{
    const char *name;
    json_t *value, *object = (json_t *)(uintptr_t)a; /* iterating changes nothing */

    if (json_object_size(a) != json_object_size(b)) {
        return false;
    }
    json_object_foreach(object, name, value)
    {
        const json_t *other = json_object_get(b, name);
        if (other == NULL || !property_same(value, other, nocase)) {
            return false;
        }
    }
    return true;
}

static bool items_same(const json_t *a, const json_t *b, bool nocase)
{
    if (json_array_size(a) != json_array_size(b)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(a); i++) {
        if (!property_same(json_array_get(a, i), json_array_get(b, i), nocase)) {
            return false;
        }
    }
    return true;
}

bool property_same(const json_t *a, const json_t *b, bool nocase)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    if (json_is_number(a) && json_is_number(b)) {
        return number_same(a, b);
    }
    if (json_typeof(a) != json_typeof(b)) {
        return false;
    }
    if (json_is_string(a)) {
        return text_same(a, b, nocase);
    }
    if (json_is_array(a)) {
        return items_same(a, b, nocase);
    }
    return !json_is_object(a) || members_same(a, b, nocase);
}

/* null, "", {}, [] and objects of such. */
static bool is_empty(const json_t *value)
{
    const char *name;
    json_t *member, *object = (json_t *)(uintptr_t)value;

    if (value == NULL || json_is_null(value)) {
        return true;
    }
    if (json_is_string(value)) {
        return json_string_length(value) == 0;
    }
    if (json_is_array(value)) {
        return json_array_size(value) == 0;
    }
    if (!json_is_object(value)) {
        return false;
    }
    json_object_foreach(object, name, member)
    {
        if (!is_empty(member)) {
            return false;
        }
    }
    return true;
}

/* Whether a value asks for nothing: null, or an empty one of the property's own type. */
static bool says_nothing(const struct property *p, const json_t *value)
{
    bool fits = p->kind == PROPERTY_TEXT     ? json_is_string(value)
                : p->kind == PROPERTY_LIST   ? json_is_array(value)
                : p->kind == PROPERTY_OBJECT ? json_is_object(value)
                                             : false;

    return json_is_null(value) || (fits && is_empty(value));
}

/* JSON of a table, or NULL. New reference. */
static json_t *json_of(const char *text)
{
    return text == NULL ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
}

static json_t *default_of(const struct property *p)
{
    return json_of(p->otherwise);
}

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

/* ---- what is wrong with a value ---- */

/* Says of a value what it must be; always false. */
__attribute__((format(printf, 4, 5))) static bool
bad_value(struct arm_error *error, const char *path, const json_t *value, const char *fmt, ...)
{
    char must[320], *text = json_render(value);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(must, sizeof must, fmt, ap);
    va_end(ap);
    arm_error_set(error, 400, invalid, path,
                  "The value '%.*s' of '%s' is not valid: it must be %s.", QUOTED_MAX, text, path,
                  must);
    free(text);
    return false;
}

static bool refuse_feature(struct arm_error *error, const char *path, const char *feature)
{
    arm_error_set(error, 400, "FeatureNotSupported", path,
                  "'%s' asks for %s, which Spillway does not support.", path, feature);
    return false;
}

static bool missing(struct arm_error *error, const char *path)
{
    arm_error_set(error, 400, "BadRequest", path, "The required value '%s' is missing.", path);
    error->detail_code = "MissingValue";
    return false;
}

static bool read_integer(const struct property *p, const char *path, json_t **value,
                         struct arm_error *error)
{
    const char *unit = p->unit == NULL ? "" : p->unit, *of = p->unit == NULL ? "" : " of ",
               *space = p->unit == NULL ? "" : " ";
    double real = json_is_real(*value) ? json_real_value(*value) : 0;

    /* Beyond 2^53 a double is not exact: such a number was not meant as this integer. */
    if (json_is_real(*value) && floor(real) == real && fabs(real) <= 9007199254740992.0) {
        json_decref(*value);
        *value = json_integer((json_int_t)real);
    }
    bool whole = json_is_integer(*value);
    int64_t number = json_integer_value(*value);
    if (!whole || ((p->min != 0 || p->max != 0) && (number < p->min || number > p->max))) {
        return p->min == 0 && p->max == 0
                   ? bad_value(error, path, *value, "a whole number%s%s", of, unit)
                   : bad_value(error, path, *value,
                               "a whole number%s%s from %" PRId64 " to %" PRId64, of, unit, p->min,
                               p->max);
    }
    if (p->step != 0 && number % p->step != 0) {
        return bad_value(error, path, *value, "a multiple of %" PRId64 "%s%s", p->step, space,
                         unit);
    }
    return true;
}

static bool read_number(const struct property *p, const char *path, const json_t *value,
                        struct arm_error *error)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || !isfinite(number)) {
        return bad_value(error, path, value, "a number");
    }
    if ((p->min != 0 || p->max != 0) && (number < (double)p->min || number > (double)p->max)) {
        return bad_value(error, path, value, "from %" PRId64 " to %" PRId64 "%s%s", p->min, p->max,
                         p->unit == NULL ? "" : " ", p->unit == NULL ? "" : p->unit);
    }
    return true;
}

static bool pattern_matches(const struct property *p, const char *text)
{
    regex_t compiled;
    int flags = REG_EXTENDED | REG_NOSUB | (p->flags & PROPERTY_NOCASE ? REG_ICASE : 0);

    if (regcomp(&compiled, p->pattern, flags) != 0) {
        return false;
    }
    bool matches = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return matches;
}

static bool read_enum(const struct property *p, const char *path, json_t **value,
                      struct arm_error *error)
{
    const struct property_value *v = find_value(p->values, json_string_value(*value));
    char names[240] = "";

    if (v == NULL) {
        for (v = p->values; v->name != NULL; v++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", v->name);
        }
        return bad_value(error, path, *value, "one of %s", names);
    }
    if (v->refused != NULL) {
        return refuse_feature(error, path, v->refused);
    }
    if (strcmp(v->name, json_string_value(*value)) != 0) {
        json_decref(*value);
        *value = json_string(v->name);
    }
    return true;
}

static bool read_text(const struct property *p, const char *path, json_t **value,
                      struct arm_error *error)
{
    const char *text = json_string_value(*value);

    if (text == NULL) {
        return bad_value(error, path, *value, "a text");
    }
    if (p->values != NULL) {
        return read_enum(p, path, value, error);
    }
    if (p->longest != 0 && characters(text) > p->longest) {
        return bad_value(error, path, *value, "at most %zu characters long", p->longest);
    }
    if (p->pattern != NULL && !pattern_matches(p, text)) {
        return bad_value(error, path, *value, "of the form %s", p->pattern);
    }
    return true;
}

static bool read_map(const char *path, const json_t *value, struct arm_error *error)
{
    const char *name;
    json_t *member, *object = (json_t *)(uintptr_t)value;

    if (!json_is_object(value)) {
        return bad_value(error, path, value, "an object of texts");
    }
    if (json_object_size(value) > TAGS_MAX) {
        arm_error_set(error, 400, invalid, path, "'%s' has %zu members; at most %d are allowed.",
                      path, json_object_size(value), TAGS_MAX);
        return false;
    }
    json_object_foreach(object, name, member)
    {
        const char *text = json_string_value(member);
        if (text == NULL || name[0] == '\0' || characters(name) > TAG_NAME_LONGEST ||
            characters(text) > TAG_VALUE_LONGEST) {
            arm_error_set(error, 400, invalid, path,
                          "'%.64s' in '%s' is not valid: names are 1 to %d characters long, values "
                          "are texts of at most %d characters.",
                          name, path, TAG_NAME_LONGEST, TAG_VALUE_LONGEST);
            return false;
        }
    }
    return true;
}

/* ---- reading a request ---- */

static bool read_value(const struct property *p, const char *path, json_t **value,
                       const char *version, struct arm_error *error);

/* Replaces *value by its items as read; objects get their defaults, lists are replaced whole. */
static bool read_list(const struct property *p, const char *path, json_t **value,
                      const char *version, struct arm_error *error)
{
    struct property item = *p;
    json_t *out;

    if (!json_is_array(*value)) {
        return bad_value(error, path, *value, "a list");
    }
    if (p->longest != 0 && json_array_size(*value) > p->longest) {
        arm_error_set(error, 400, invalid, path, "'%s' has %zu items; at most %zu are allowed.",
                      path, json_array_size(*value), p->longest);
        return false;
    }
    item.kind = p->members == NULL ? PROPERTY_TEXT : PROPERTY_OBJECT;
    item.longest = 0;
    out = json_array();
    for (size_t i = 0; i < json_array_size(*value); i++) {
        char at[PATH_MAX_LEN];
        join_index(path, i, at);
        json_t *read = json_incref(json_array_get(*value, i)), *whole = NULL;
        if (read_value(&item, p->members == NULL ? path : at, &read, version, error)) {
            whole = p->members == NULL ? json_incref(read)
                                       : property_replace(p->members, at, read, NULL, error);
        }
        json_decref(read);
        if (whole == NULL) {
            json_decref(out);
            return false;
        }
        json_array_append_new(out, whole);
    }
    json_decref(*value);
    *value = out;
    return true;
}

static bool read_object(const struct property *p, const char *path, json_t **value,
                        const char *version, struct arm_error *error)
{
    if (!json_is_object(*value)) {
        return bad_value(error, path, *value, "an object");
    }
    json_t *out = property_read(p->members, path, *value, version, error);
    if (out == NULL) {
        return false;
    }
    json_decref(*value);
    *value = out;
    return true;
}

/* Checks a value that is not null; *value may be replaced by its proper spelling. */
static bool read_value(const struct property *p, const char *path, json_t **value,
                       const char *version, struct arm_error *error)
{
    if (p->flags & PROPERTY_READ_ONLY) {
        return true; /* compared later, with what is shown */
    }
    if (p->refused != NULL) {
        json_t *only = default_of(p), *also = json_of(p->accepts);
        bool harmless = says_nothing(p, *value) || property_same(*value, only, true) ||
                        property_same(*value, also, true);
        if (harmless) {
            json_decref(*value);
            *value = json_null();
        }
        json_decref(only);
        json_decref(also);
        return harmless || refuse_feature(error, path, p->refused);
    }
    switch (p->kind) {
    case PROPERTY_TEXT:
        return read_text(p, path, value, error);
    case PROPERTY_INTEGER:
        return read_integer(p, path, value, error);
    case PROPERTY_NUMBER:
        return read_number(p, path, *value, error);
    case PROPERTY_BOOL:
        return json_is_boolean(*value) || bad_value(error, path, *value, "true or false");
    case PROPERTY_OBJECT:
        return read_object(p, path, value, version, error);
    case PROPERTY_LIST:
        return read_list(p, path, value, version, error);
    case PROPERTY_MAP:
        return read_map(path, *value, error);
    case PROPERTY_ANY:
        break;
    }
    return true;
}

/* The property of a member's name, or NULL with `error`. */
static const struct property *known(const struct property *table, const char *path,
                                    const char *name, const char *version, struct arm_error *error)
{
    const struct property *p = find(table, name);
    char at[PATH_MAX_LEN];

    join(path, p == NULL ? name : p->name, at);
    if (p == NULL) {
        arm_error_set(error, 400, bad_shape, at, "'%s' is not a known property.", at);
        return NULL;
    }
    /* Versions compare as texts: YYYY-MM-DD. */
    if (p->since != NULL && strcmp(version, p->since) < 0) {
        arm_error_set(error, 400, bad_shape, at,
                      "'%s' is not known to api-version %s; the first version that has it is %s.",
                      at, version, p->since);
        return NULL;
    }
    return p;
}

json_t *property_read(const struct property *table, const char *path, const json_t *input,
                      const char *version, struct arm_error *error)
{
    json_t *out = json_object(), *value, *object = (json_t *)(uintptr_t)input;
    const char *name;

    json_object_foreach(object, name, value)
    {
        const struct property *p = known(table, path, name, version, error);
        char at[PATH_MAX_LEN];
        if (p == NULL) {
            goto fail;
        }
        join(path, p->name, at);
        if (json_object_get(out, p->name) != NULL) {
            arm_error_set(error, 400, bad_shape, at, "'%s' is there twice.", at);
            goto fail;
        }
        json_t *read = json_incref(value);
        if (!json_is_null(read) && !read_value(p, at, &read, version, error)) {
            json_decref(read);
            goto fail;
        }
        json_object_set_new(out, p->name, read);
    }
    return out;
fail:
    json_decref(out);
    return NULL;
}

bool property_drop_fixed(const struct property *table, const char *path, json_t *given,
                         const json_t *shown, struct arm_error *error)
{
    for (const struct property *p = table; p->name != NULL; p++) {
        json_t *value = json_object_get(given, p->name);
        const json_t *now = json_object_get(shown, p->name);
        char at[PATH_MAX_LEN];
        if (value == NULL) {
            continue;
        }
        join(path, p->name, at);
        if (p->kind == PROPERTY_OBJECT && p->members != NULL && json_is_object(value)) {
            if (!property_drop_fixed(p->members, at, value, now, error)) {
                return false;
            }
        }
        if (!(p->flags & PROPERTY_READ_ONLY)) {
            continue;
        }
        if (!json_is_null(value) && !property_same(value, now, true)) {
            arm_error_set(error, 400, invalid, at,
                          "'%s' is read-only and is not what the resource has.", at);
            return false;
        }
        json_object_del(given, p->name);
    }
    return true;
}

/* ---- PUT, PATCH, GET ---- */

static bool unchangeable(struct arm_error *error, const char *path, const char *how)
{
    arm_error_set(error, 400, invalid, path, "'%s' cannot be changed %s.", path, how);
    return false;
}

static bool is_object_of_members(const struct property *p)
{
    return p->kind == PROPERTY_OBJECT && p->members != NULL && p->refused == NULL;
}

/* What a PUT makes of one property; *out stays NULL where it is left out. */
static bool replace_one(const struct property *p, const char *at, const json_t *given,
                        const json_t *stored, bool creating, json_t **out, struct arm_error *error)
{
    bool absent = given == NULL || json_is_null(given);
    bool keeps = !creating && (p->flags & (PROPERTY_CREATE_ONLY | PROPERTY_KEEP));

    if (is_object_of_members(p)) {
        *out = property_replace(p->members, at, absent ? NULL : given, creating ? NULL : stored,
                                error);
        return *out != NULL;
    }
    if (!absent) {
        *out = json_deep_copy(given);
    } else if (keeps && stored != NULL) {
        *out = json_deep_copy(stored);
    } else if (p->flags & PROPERTY_REQUIRED) {
        return missing(error, at);
    } else {
        *out = default_of(p);
    }
    if (!creating && (p->flags & PROPERTY_CREATE_ONLY) && !absent &&
        !property_same(*out, stored, p->flags & PROPERTY_NOCASE)) {
        /* What was left out at creation has its default. */
        json_t *initial = stored == NULL ? default_of(p) : NULL;
        bool same = initial != NULL && property_same(*out, initial, true);
        json_decref(initial);
        if (!same) {
            json_decref(*out);
            *out = NULL;
            return unchangeable(error, at, "after the creation");
        }
    }
    return true;
}

json_t *property_replace(const struct property *table, const char *path, const json_t *given,
                         const json_t *stored, struct arm_error *error)
{
    json_t *out = json_object();

    for (const struct property *p = table; p->name != NULL; p++) {
        json_t *value = NULL;
        char at[PATH_MAX_LEN];
        if (p->flags & PROPERTY_READ_ONLY) {
            continue;
        }
        join(path, p->name, at);
        if (!replace_one(p, at, json_object_get(given, p->name), json_object_get(stored, p->name),
                         stored == NULL, &value, error)) {
            json_decref(out);
            return NULL;
        }
        if (value != NULL) {
            json_object_set_new(out, p->name, value);
        }
    }
    return out;
}

static bool merge_one(const struct property *p, const char *at, json_t *target, const json_t *given,
                      struct arm_error *error)
{
    const json_t *stored = json_object_get(target, p->name);
    json_t *value;

    if (is_object_of_members(p)) {
        value = json_is_null(given) ? property_replace(p->members, at, NULL, NULL, error)
                                    : property_merge(p->members, at, given, stored, error);
        return value != NULL && json_object_set_new(target, p->name, value) == 0;
    }
    if (json_is_null(given) && (p->flags & PROPERTY_REQUIRED)) {
        return missing(error, at); /* its default is documentation */
    }
    value = json_is_null(given) ? default_of(p) : json_deep_copy(given);
    if (property_same(value, stored, p->flags & PROPERTY_NOCASE)) {
        json_decref(value); /* repeats what is there: clients send what they read */
        return true;
    }
    json_t *initial = stored == NULL ? default_of(p) : NULL;
    bool same = initial != NULL && property_same(value, initial, true);
    json_decref(initial);
    if (!same && !(p->flags & PROPERTY_PATCHABLE)) {
        json_decref(value);
        return unchangeable(error, at, "by a PATCH");
    }
    if (value == NULL) {
        json_object_del(target, p->name);
    } else {
        json_object_set_new(target, p->name, value);
    }
    return true;
}

json_t *property_merge(const struct property *table, const char *path, const json_t *given,
                       const json_t *stored, struct arm_error *error)
{
    json_t *out = stored == NULL ? json_object() : json_deep_copy(stored);

    for (const struct property *p = table; p->name != NULL; p++) {
        const json_t *value = json_object_get(given, p->name);
        char at[PATH_MAX_LEN];
        if (value == NULL || (p->flags & PROPERTY_READ_ONLY)) {
            continue;
        }
        join(path, p->name, at);
        if (!merge_one(p, at, out, value, error)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

json_t *property_show(const struct property *table, const json_t *stored, const json_t *computed,
                      const char *version)
{
    json_t *out = json_object();

    for (const struct property *p = table; p->name != NULL; p++) {
        json_t *kept = json_object_get(stored, p->name);
        json_t *made = json_object_get(computed, p->name);
        json_t *value;
        if (p->since != NULL && strcmp(version, p->since) < 0) {
            continue;
        }
        if (is_object_of_members(p)) {
            value = property_show(p->members, kept, made, version);
        } else if (made != NULL || kept != NULL) {
            value = json_incref(made != NULL ? made : kept);
        } else {
            value = p->flags & PROPERTY_REQUIRED ? NULL : default_of(p);
        }
        if (value != NULL) {
            json_object_set_new(out, p->name, value);
        }
    }
    return out;
}
