/*
 * Helpers over jansson. Rendering is our own in one point: numbers read back as they were put (the
 * shortest decimal that is the same double, an integer stays an integer), which jansson's fixed
 * precision cannot do.
 */
#ifndef COMMON_JSON_UTIL_H
#define COMMON_JSON_UTIL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Compact JSON text, keys in insertion order; the caller frees it. */
char *json_render(const json_t *value);

/* Parses a document: duplicate keys and more than JSON_MAX_DEPTH levels refused. NULL on error with
 * a message that names line and column in `error` (of `size` bytes). */
#define JSON_MAX_DEPTH 32
json_t *json_parse(const char *text, size_t len, char *error, size_t size);

/* Members of an object, with a default when absent, null or of another type. `object` may be NULL.
 */
const char *json_get_text(const json_t *object, const char *key, const char *otherwise);
int64_t json_get_int(const json_t *object, const char *key, int64_t otherwise);
double json_get_number(const json_t *object, const char *key, double otherwise);
bool json_get_bool(const json_t *object, const char *key, bool otherwise);

/* RFC 7396: changes `target` (an object) by `patch` (an object); null removes. */
void json_merge_patch(json_t *target, const json_t *patch);

/* Like json_object_get, the key compared without case (ASCII). */
json_t *json_object_get_nocase(const json_t *object, const char *key);

#endif
