/*
 * Matching a path against the route table: segment by segment, fixed words without case, `{name}`
 * takes one segment. Pure; everything in the path is hostile.
 */
#include "api/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "common/buf.h"
#include "common/mem.h"
#include "common/url.h"

#define SEGMENTS_MAX 24
#define SEGMENT_MAX  512 /* decoded, with the NUL */

_Static_assert(ARM_PARAM_COUNT <= sizeof((struct route_match *)0)->param / sizeof(char *),
               "a match has room for every parameter");

static const char *const param_names[ARM_PARAM_COUNT] = {
    [ARM_SUBSCRIPTION] = "{subscription}",
    [ARM_GROUP] = "{group}",
    [ARM_ACCOUNT] = "{account}",
    [ARM_POOL] = "{pool}",
    [ARM_VOLUME] = "{volume}",
    [ARM_LOCATION] = "{location}",
    [ARM_NAME] = "{name}",
};

struct segment {
    const char *at;
    size_t len;
};

/* The segments between slashes; a slash at the end is left out. -1 when there are too many. */
static int split(const char *path, struct segment out[SEGMENTS_MAX])
{
    int count = 0;

    while (*path == '/') {
        path++;
        size_t len = strcspn(path, "/");
        if (len == 0 && path[0] == '\0') {
            break;
        }
        if (count == SEGMENTS_MAX) {
            return -1;
        }
        out[count++] = (struct segment){path, len};
        path += len;
    }
    return *path == '\0' ? count : -1;
}

static bool matches(const struct segment *path, int count, const char *template)
{
    struct segment want[SEGMENTS_MAX];

    if (split(template, want) != count) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (path[i].len == 0) {
            return false;
        }
        if (want[i].at[0] != '{' &&
            (path[i].len != want[i].len || strncasecmp(path[i].at, want[i].at, want[i].len) != 0)) {
            return false;
        }
    }
    return true;
}

/* A name as it was sent, decoded. What could not be part of an id again is malformed. */
static char *decode(const struct segment *s)
{
    char text[SEGMENT_MAX];
    long len = url_decode(s->at, s->len, false, text, sizeof text);

    if (len <= 0) {
        return NULL;
    }
    for (long i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' || c == 0x7f || c == '/') {
            return NULL;
        }
    }
    return xstrdup(text);
}

static bool take_params(const struct segment *path, int count, const char *template,
                        struct route_match *out)
{
    struct segment want[SEGMENTS_MAX];

    split(template, want);
    for (int i = 0; i < count; i++) {
        for (size_t p = 0; want[i].at[0] == '{' && p < ARM_PARAM_COUNT; p++) {
            size_t len = strlen(param_names[p]);
            if (len == want[i].len && memcmp(param_names[p], want[i].at, len) == 0) {
                out->param[p] = decode(&path[i]);
                if (out->param[p] == NULL) {
                    return false;
                }
            }
        }
    }
    return true;
}

char *route_resource_id(const struct arm_route *route, char *const param[])
{
    struct buf b = {0};

    for (const char *p = route->path; *p != '\0';) {
        size_t len = strcspn(p, "{");
        buf_add(&b, p, len);
        p += len;
        for (size_t i = 0; *p == '{' && i < ARM_PARAM_COUNT; i++) {
            if (strncmp(p, param_names[i], strlen(param_names[i])) == 0) {
                buf_str(&b, param[i] == NULL ? "" : param[i]);
                p += strlen(param_names[i]);
                break;
            }
        }
    }
    return buf_take(&b);
}

bool route_find(const char *method, const char *path, struct route_match *out)
{
    struct segment segments[SEGMENTS_MAX];
    size_t routes;
    const struct arm_route *table = route_table(&routes);
    int count = split(path, segments);

    *out = (struct route_match){0};
    for (size_t i = 0; count >= 0 && i < routes; i++) {
        if (!matches(segments, count, table[i].path)) {
            continue;
        }
        if (strcmp(method, table[i].method) == 0) {
            out->route = &table[i];
            break;
        }
        out->other_method = true;
        size_t used = strlen(out->allow);
        snprintf(out->allow + used, sizeof out->allow - used, "%s%s", used == 0 ? "" : ", ",
                 table[i].method);
    }
    if (out->route == NULL) {
        return true;
    }
    if (!take_params(segments, count, out->route->path, out)) {
        route_match_clear(out);
        return false;
    }
    return true;
}

void route_match_clear(struct route_match *m)
{
    for (size_t i = 0; i < sizeof m->param / sizeof m->param[0]; i++) {
        free(m->param[i]);
    }
    *m = (struct route_match){0};
}
