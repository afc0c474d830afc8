/*
 * Reading an agent's JSON: every member is checked for type, range and form before it is used. A
 * reader collects the first fault, so that a handler checks once at its end. Pure.
 */
#ifndef API_AGENT_FIELDS_H
#define API_AGENT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_fields {
    const json_t *object; /* may be NULL: then everything is missing */
    const char *bad;      /* first member that is wrong, or NULL */
    const char *wants;    /* what it should have been */
};

/* A text of `min` to `max` characters, all of them letters, digits or in `also`. "" on a fault. */
const char *fields_text(struct agent_fields *f, const char *key, size_t min, size_t max,
                        const char *also);
/* Exactly 64 lower-case hex digits. */
const char *fields_secret(struct agent_fields *f, const char *key);
/* A UUID's text. */
const char *fields_uuid(struct agent_fields *f, const char *key);
/* An integer from `min` to `max`. `min` on a fault. */
int64_t fields_int(struct agent_fields *f, const char *key, int64_t min, int64_t max);
/* A finite number, 0 or more. */
double fields_number(struct agent_fields *f, const char *key);
/* An array of at most `max` members; NULL on a fault. */
const json_t *fields_array(struct agent_fields *f, const char *key, size_t max);
/* Exactly `count` integers, none negative. */
bool fields_counts(struct agent_fields *f, const char *key, uint64_t *out, size_t count);

#endif
