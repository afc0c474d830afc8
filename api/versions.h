/* The api-versions that are accepted (anf-api.md A.1, D.1). Pure. */
#ifndef API_VERSIONS_H
#define API_VERSIONS_H

#include <stdbool.h>

/* "YYYY-MM-DD" or "YYYY-MM-DD-preview". */
bool version_is_well_formed(const char *version);
/* `set` is the key of a route: "netapp", "resources", "insights". */
bool version_accepted(const char *set, const char *version);
/* The versions of a set, "2021-10-01, 2022-01-01, …"; the caller frees it. */
char *version_list(const char *set);
/* The newest of a set: what URLs say that are made without a request. */
const char *version_newest(const char *set);

#endif
