/*
 * The time arguments of Azure Monitor: ISO 8601 durations, time spans, grains (anf-api.md E.3).
 * Pure; the text is a client's.
 */
#ifndef API_TIMESPAN_H
#define API_TIMESPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "PT5M", "PT1H30M", "P1D", "P1DT12H", "P2W" in ns. Whole numbers; no years or months, whose length
 * is not fixed. False for anything else, zero, and more than 1,000 days. */
bool duration_parse(const char *text, int64_t *ns);

/* "START/END", "START/DURATION", "DURATION/END" or "DURATION" (which ends at `now`). A value that a
 * client encoded twice is decoded once more. False when it is none of these, runs backwards, is
 * empty or starts before 1970. */
bool timespan_parse(const char *text, int64_t now, int64_t *start, int64_t *end);

/* The grains that the metrics have, ascending, by their ISO names. */
struct grain {
    const char *name;
    int64_t ns;
};
extern const struct grain grains[];
extern const size_t grain_count;
/* The grain of this length, or with `up` the next longer one; NULL when there is none. */
const struct grain *grain_find(int64_t ns, bool up);

#endif
