/* Numbers as text, whatever the locale. For JSON and for metrics. */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#define NUMBER_TEXT_MAX 32

/* Writes the shortest decimal that reads back as the same double: "0.1", "21504.0", "1e300". A
 * whole number keeps ".0", so that a JSON reader sees a real again. `value` must be finite. Returns
 * `out`. */
char *number_format(double value, char out[static NUMBER_TEXT_MAX]);

/* 0 to 15 of a hexadecimal digit of either case, -1 for another character. */
int hex_value(char c);

#endif
