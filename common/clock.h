/*
 * Time. Intervals are nanoseconds of CLOCK_BOOTTIME; moments that users see are nanoseconds since
 * the Unix epoch (UTC).
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* "2026-05-13T14:48:52.4566679Z" and its NUL. */
#define CLOCK_ISO_MAX 32

uint64_t clock_mono_ns(void);
int64_t clock_wall_ns(void);

/* Writes `unix_ns` as ISO 8601 UTC with `digits` (0 to 9) fractional digits; returns `out`. */
char *clock_format_iso(int64_t unix_ns, int digits, char out[static CLOCK_ISO_MAX]);

/* Reads an ISO 8601 date-time: date, 'T' or ' ', hh:mm[:ss[.fraction]], then Z, an offset or
 * nothing (UTC). False when it is anything else or outside years 1970 to 2200. */
bool clock_parse_iso(const char *text, int64_t *unix_ns);

#endif
