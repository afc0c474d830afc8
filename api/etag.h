/* ETags and conditional requests (anf-api.md B.0, D.3). */
#ifndef API_ETAG_H
#define API_ETAG_H

#include <stdbool.h>
#include <stdint.h>

/* W/"datetime'2026-05-13T14%3A48%3A52.4566679Z'" and its NUL. */
#define ETAG_MAX 64

/* `ticks` are 100 ns since the Unix epoch. Returns `out`. */
char *etag_format(int64_t ticks, char out[static ETAG_MAX]);

/* Whether the headers allow a write; either may be NULL. `etag` is the resource's, NULL when there
 * is none. Weak or not, the strings are compared as they are (the choices of the design). Pure. */
bool etag_allows(const char *if_match, const char *if_none_match, const char *etag);

#endif
