/* Helpers over jansson. No state. */
#include "common/json_util.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/number.h"

static void render_string(struct buf *b, const char *text, size_t len)
{
    size_t done = 0;

    buf_add(b, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        buf_add(b, text + done, i - done);
        done = i + 1;
        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else
            buf_printf(b, "\\u%04x", c);
    }
    buf_add(b, text + done, len - done);
    buf_add(b, "\"", 1);
}

static void render_value(struct buf *b, const json_t *value);

/* jansson keeps members in the order they were first set, and iterates so; its iterator takes a
 * pointer that is not const but changes nothing. */
static void render_object(struct buf *b, json_t *object)
{
    const char *key, *comma = "";
    json_t *member;

    buf_add(b, "{", 1);
    json_object_foreach(object, key, member)
    {
        buf_str(b, comma);
        comma = ",";
        render_string(b, key, strlen(key));
        buf_add(b, ":", 1);
        render_value(b, member);
    }
    buf_add(b, "}", 1);
}

static void render_array(struct buf *b, const json_t *array)
{
    size_t count = json_array_size(array);

    buf_add(b, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add(b, ",", 1);
        render_value(b, json_array_get(array, i));
    }
    buf_add(b, "]", 1);
}

static void render_value(struct buf *b, const json_t *value)
{
    char number[NUMBER_TEXT_MAX];

    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        render_object(b, (json_t *)(uintptr_t)value);
        break;
    case JSON_ARRAY:
        render_array(b, value);
        break;
    case JSON_STRING:
        render_string(b, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL: /* always finite: jansson refuses the others */
        buf_str(b, number_format(json_real_value(value), number));
        break;
    case JSON_TRUE:
        buf_str(b, "true");
        break;
    case JSON_FALSE:
        buf_str(b, "false");
        break;
    case JSON_NULL:
    default:
        buf_str(b, "null");
        break;
    }
}

char *json_render(const json_t *value)
{
    struct buf b = {0};

    render_value(&b, value);
    return buf_take(&b);
}

/* jansson allows 2,048 levels, each a recursion here and in all who walk the tree: count them
 * before it parses. */
static bool depth_ok(const char *text, size_t len, char *error, size_t size)
{
    size_t depth = 0, line = 1, column = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        column++;
        if (c == '\n') {
            line++;
            column = 0;
        } else if (in_string && c == '\\') {
            i++;
            column++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '{' || c == '[') && ++depth > JSON_MAX_DEPTH) {
            snprintf(error, size, "line %zu, column %zu: more than %d levels", line, column,
                     JSON_MAX_DEPTH);
            return false;
        } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return true;
}

json_t *json_parse(const char *text, size_t len, char *error, size_t size)
{
    json_error_t e;
    json_t *value;

    if (!depth_ok(text, len, error, size))
        return NULL;
    value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    if (!value)
        snprintf(error, size, "line %d, column %d: %s", e.line, e.column, e.text);
    return value;
}

const char *json_get_text(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : otherwise;
}

int64_t json_get_int(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

double json_get_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

bool json_get_bool(const json_t *object, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

void json_merge_patch(json_t *target, const json_t *patch)
{
    json_t *object = (json_t *)(uintptr_t)patch; /* see render_object */
    json_t *change;
    const char *key;

    json_object_foreach(object, key, change)
    {
        if (json_is_null(change)) {
            json_object_del(target, key);
        } else if (json_is_object(change)) {
            if (!json_is_object(json_object_get(target, key)))
                json_object_set_new(target, key, json_object());
            json_merge_patch(json_object_get(target, key), change);
        } else {
            json_object_set_new(target, key, json_deep_copy(change));
        }
    }
}

json_t *json_object_get_nocase(const json_t *object, const char *key)
{
    json_t *member = json_object_get(object, key); /* the case as documented is the usual one */
    const char *name;

    if (member)
        return member;
    json_object_foreach((json_t *)(uintptr_t)object, name, member)
    {
        if (strcasecmp(name, key) == 0)
            return member;
    }
    return NULL;
}
