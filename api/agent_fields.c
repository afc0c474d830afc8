/* Checked access to the members of an agent's message. No state, no locks. */
#include "api/agent_fields.h"

#include <math.h>
#include <string.h>

#include "common/uuid.h"

static void fault(struct agent_fields *f, const char *key, const char *wants)
{
    if (f->bad == NULL) {
        f->bad = key;
        f->wants = wants;
    }
}

static bool alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

const char *fields_text(struct agent_fields *f, const char *key, size_t min, size_t max,
                        const char *also)
{
    const json_t *value = json_object_get(f->object, key);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (text == NULL || len < min || len > max) {
        fault(f, key, "a text within its length");
        return "";
    }
    for (size_t i = 0; i < len; i++) {
        if (!alphanumeric(text[i]) && (text[i] == '\0' || strchr(also, text[i]) == NULL)) {
            fault(f, key, "a text of plain characters");
            return "";
        }
    }
    return text;
}

const char *fields_secret(struct agent_fields *f, const char *key)
{
    const json_t *value = json_object_get(f->object, key);
    const char *text = json_string_value(value);

    if (text == NULL || json_string_length(value) != 64 || strspn(text, "0123456789abcdef") != 64) {
        fault(f, key, "64 lower-case hexadecimal digits");
        return "";
    }
    return text;
}

const char *fields_uuid(struct agent_fields *f, const char *key)
{
    const json_t *value = json_object_get(f->object, key);
    const char *text = json_string_value(value);
    struct uuid parsed;

    if (text == NULL || json_string_length(value) != UUID_TEXT_MAX - 1 ||
        !uuid_parse(text, &parsed)) {
        fault(f, key, "a UUID");
        return "";
    }
    return text;
}

int64_t fields_int(struct agent_fields *f, const char *key, int64_t min, int64_t max)
{
    const json_t *value = json_object_get(f->object, key);

    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        fault(f, key, "an integer within its range");
        return min;
    }
    return json_integer_value(value);
}

double fields_number(struct agent_fields *f, const char *key)
{
    const json_t *value = json_object_get(f->object, key);
    double number = json_number_value(value);

    if (!json_is_number(value) || !isfinite(number) || number < 0) {
        fault(f, key, "a number, 0 or more");
        return 0;
    }
    return number;
}

const json_t *fields_array(struct agent_fields *f, const char *key, size_t max)
{
    const json_t *value = json_object_get(f->object, key);

    if (!json_is_array(value) || json_array_size(value) > max) {
        fault(f, key, "an array within its length");
        return NULL;
    }
    return value;
}

bool fields_counts(struct agent_fields *f, const char *key, uint64_t *out, size_t count)
{
    const json_t *value = json_object_get(f->object, key);

    if (!json_is_array(value) || json_array_size(value) != count) {
        fault(f, key, "an array of its exact length");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *n = json_array_get(value, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0) {
            fault(f, key, "integers, 0 or more");
            return false;
        }
        out[i] = (uint64_t)json_integer_value(n);
    }
    return true;
}
