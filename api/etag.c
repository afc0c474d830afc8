/* ETags: the moment of the last change, as the service that this follows writes it. */
#include "api/etag.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

char *etag_format(int64_t ticks, char out[static ETAG_MAX])
{
    char iso[CLOCK_ISO_MAX];

    clock_format_iso(ticks * 100, 7, iso);
    /* "2026-05-13T14:48:52.4566679Z": two colons, percent-encoded. */
    snprintf(out, ETAG_MAX, "W/\"datetime'%.13s%%3A%.2s%%3A%s'\"", iso, iso + 14, iso + 17);
    return out;
}

/* Whether a header's comma-separated list has "*" or the ETag; `etag` NULL: only "*" counts. */
static bool list_has(const char *list, const char *etag)
{
    while (*list != '\0') {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, ",");
        size_t item = len;
        while (item > 0 && (list[item - 1] == ' ' || list[item - 1] == '\t')) {
            item--;
        }
        if (item == 1 && list[0] == '*') {
            return true;
        }
        if (etag != NULL && item == strlen(etag) && memcmp(list, etag, item) == 0) {
            return true;
        }
        list += len;
    }
    return false;
}

bool etag_allows(const char *if_match, const char *if_none_match, const char *etag)
{
    if (if_match != NULL && (etag == NULL || !list_has(if_match, etag))) {
        return false;
    }
    return if_none_match == NULL || etag == NULL || !list_has(if_none_match, etag);
}
