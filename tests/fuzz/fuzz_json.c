/* libFuzzer: JSON bodies. What is taken has few levels, renders, and its rendering parses to an
 * equal value; as a merge patch applied twice it changes nothing the second time. */
#include <stdlib.h>
#include <string.h>

#include "common/json_util.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int depth_of(const json_t *value)
{
    int deepest = 0;
    size_t i;
    const char *key;
    json_t *member;

    if (!json_is_object(value) && !json_is_array(value))
        return 0;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        int depth = depth_of(member);

        deepest = depth > deepest ? depth : deepest;
    }
    json_array_foreach(value, i, member)
    {
        int depth = depth_of(member);

        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[160] = "", *text;
    json_t *json = json_parse((const char *)data, size, why, sizeof(why)), *again, *target;

    if (!json) {
        require(why[0] != '\0');
        return 0;
    }
    require(depth_of(json) <= JSON_MAX_DEPTH);
    text = json_render(json);
    again = json_parse(text, strlen(text), why, sizeof(why));
    require(again && json_equal(json, again));
    if (json_is_object(json)) {
        target = json_object();
        json_merge_patch(target, json);
        json_merge_patch(again, json);
        json_merge_patch(again, json);
        require(json_equal(target, again));
        json_decref(target);
    }
    json_decref(again);
    json_decref(json);
    free(text);
    return 0;
}
