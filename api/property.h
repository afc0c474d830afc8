/*
 * One description per resource type (design D3): a table of properties says what is accepted, what
 * is filled in and what is shown. Everything here is pure and works on jansson objects:
 *
 *   property_read       a request's members against the table: names, types, values, versions
 *   property_drop_fixed the read-only ones among them: equal to what is shown, or refused
 *   property_replace    PUT: the full replacement, with defaults
 *   property_merge      PATCH: JSON merge-patch (RFC 7396) of what may be patched
 *   property_show       GET: what a version of the API shows, in the table's order
 *
 * Names and enumerated values are compared without case and become the table's spelling. Errors
 * have the choices table's codes and the member's path as target: "properties.size",
 * "properties.exportPolicy.rules[0].ruleIndex".
 */
#ifndef API_PROPERTY_H
#define API_PROPERTY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"

enum property_kind {
    PROPERTY_TEXT,
    PROPERTY_INTEGER, /* 64 bits; a real that is whole is one */
    PROPERTY_NUMBER,
    PROPERTY_BOOL,
    PROPERTY_OBJECT, /* of `members` */
    PROPERTY_LIST,   /* of objects with `members`, or of texts */
    PROPERTY_MAP,    /* names to texts: tags */
    PROPERTY_ANY,    /* read-only things that are only compared */
};

enum property_flag {
    PROPERTY_REQUIRED = 1 << 0,    /* absent is an error; `otherwise` is documentation then */
    PROPERTY_READ_ONLY = 1 << 1,   /* the server's */
    PROPERTY_CREATE_ONLY = 1 << 2, /* may not change; absent in a later PUT it stays */
    PROPERTY_KEEP = 1 << 3,        /* may change; absent in a later PUT it stays */
    PROPERTY_PATCHABLE = 1 << 4,   /* PATCH may change it, not only repeat it */
    PROPERTY_NOCASE = 1 << 5,      /* values that differ in case only are the same: ARM ids */
};

struct property_value {
    const char *name;    /* NULL ends the list */
    const char *refused; /* the feature that this value would need, or NULL */
};

struct property {
    const char *name; /* NULL ends a table */
    enum property_kind kind;
    unsigned flags;
    const char *unit;
    const char *otherwise;               /* default, as JSON */
    const struct property_value *values; /* of a text, or of a list's texts */
    int64_t min, max;                    /* of a number; both 0: any */
    int64_t step;                        /* an integer is a multiple of it; 0: any */
    size_t longest;                      /* characters of a text, items of a list; 0: any */
    const char *pattern;                 /* of a text, whole: POSIX extended */
    const char *since;                   /* first api-version that has it; NULL: all */
    const char *refused;                 /* the feature that it needs and that is not there: only
                                            `otherwise` or nothing is accepted */
    const char *accepts;                 /* with `refused`: JSON that says as little as nothing */
    const struct property *members;      /* of an object or of a list's objects */
};

/* `path` is put before the names in targets: "" for the envelope. `input` may be NULL. Returns a
 * new object in the table's spelling, explicit nulls kept; NULL with `error`. */
json_t *property_read(const struct property *table, const char *path, const json_t *input,
                      const char *version, struct arm_error *error);

/* Takes the read-only members out of `given`. `shown` is what a GET shows now, NULL when the
 * resource is not there yet. False with `error` when one differs. */
bool property_drop_fixed(const struct property *table, const char *path, json_t *given,
                         const json_t *shown, struct arm_error *error);

/* `stored` is NULL at creation. New object, or NULL with `error`. */
json_t *property_replace(const struct property *table, const char *path, const json_t *given,
                         const json_t *stored, struct arm_error *error);
json_t *property_merge(const struct property *table, const char *path, const json_t *given,
                       const json_t *stored, struct arm_error *error);

/* `computed` (may be NULL) goes before `stored`: what the server makes up for a GET. New object. */
json_t *property_show(const struct property *table, const json_t *stored, const json_t *computed,
                      const char *version);

/* Whether two values are the same: numbers by value, members in any order. */
bool property_same(const json_t *a, const json_t *b, bool nocase);

#endif
