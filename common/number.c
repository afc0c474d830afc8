/* Numbers as text. No state. */
#include "common/number.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Significant digits without the point, and the exponent of the first: 1234.5 is "12345", 3. */
struct decimal {
    char digits[24];
    int count;
    int exponent;
};

/* As a whole number with an exponent, strtod needs no radix character, so no locale matters. */
static bool reads_back(const struct decimal *d, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%se%d", d->digits, d->exponent - d->count + 1);
    return strtod(text, NULL) == value;
}

/* The next larger decimal of as many digits. */
static void step_up(struct decimal *d)
{
    int i = d->count - 1;

    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->exponent++;
    }
}

/* Rounds `value` (positive) to `count` digits; true when that reads back as the same double. */
static bool round_to(double value, int count, struct decimal *d)
{
    char text[40];
    const char *p;
    int exponent;
    bool same;

    snprintf(text, sizeof(text), "%.*e", count - 1, value);
    d->count = 0;
    for (p = text; *p != 'e'; p++) /* takes the digits, whatever the radix character is */
        if (*p >= '0' && *p <= '9')
            d->digits[d->count++] = *p;
    d->digits[d->count] = '\0';
    d->exponent = (int)strtol(p + 1, NULL, 10);
    same = reads_back(d, value);
    /* Above a power of two the doubles lie twice as far apart as below: there a decimal that is not
     * the nearest may read back. */
    if (!same && frexp(value, &exponent) == 0.5) {
        step_up(d);
        same = reads_back(d, value);
    }
    while (d->count > 1 && d->digits[d->count - 1] == '0')
        d->count--;
    d->digits[d->count] = '\0';
    return same;
}

/* Plain for exponents that people read, as JavaScript and Python write them. */
static void layout(const struct decimal *d, char *out, size_t size)
{
    int e = d->exponent;

    if (e >= 0 && e < 16) {
        int whole = e + 1 < d->count ? e + 1 : d->count;

        snprintf(out, size, "%.*s%.*s.%s", whole, d->digits, e + 1 - whole, "0000000000000000",
                 d->count > whole ? d->digits + whole : "0");
    } else if (e < 0 && e >= -5) {
        snprintf(out, size, "0.%.*s%s", -e - 1, "00000", d->digits);
    } else {
        snprintf(out, size, "%c%s%se%d", d->digits[0], d->count > 1 ? "." : "", d->digits + 1, e);
    }
}

char *number_format(double value, char out[static NUMBER_TEXT_MAX])
{
    struct decimal d;
    char *p = out;

    if (signbit(value)) {
        *p++ = '-';
        value = -value;
    }
    if (value == 0) {
        memcpy(p, "0.0", 4);
        return out;
    }
    /* What fits in 15 digits shows there with trailing zeros, but for subnormal numbers, which have
     * fewer; 17 always suffice for a binary64. */
    for (int count = value < DBL_MIN ? 1 : 15; !round_to(value, count, &d) && count < 17; count++)
        ;
    layout(&d, p, NUMBER_TEXT_MAX - 1);
    return out;
}

int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}
