/* Prometheus text exposition (format 0.0.4). No state. */
#include "common/prom.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/number.h"

/* Largest whole number that every double below it can hold exactly. */
#define EXACT_MAX 9007199254740992.0

static void add_escaped(struct buf *b, const char *text, bool quotes)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\n')
            buf_str(b, "\\n");
        else if (*p == '\\' || (*p == '"' && quotes))
            buf_printf(b, "\\%c", *p);
        else
            buf_add(b, p, 1);
    }
}

void prom_family(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s ", name);
    add_escaped(b, help, false);
    buf_printf(b, "\n# TYPE %s %s\n", name, type);
}

static void add_value(struct buf *b, double value)
{
    char text[NUMBER_TEXT_MAX];

    if (isnan(value))
        buf_str(b, "NaN");
    else if (isinf(value))
        buf_str(b, value > 0 ? "+Inf" : "-Inf");
    else if (fabs(value) <= EXACT_MAX && floor(value) == value)
        buf_printf(b, "%" PRId64, (int64_t)value);
    else
        buf_str(b, number_format(value, text));
}

void prom_sample(struct buf *b, const char *name, double value, ...)
{
    const char *label, *before = "{";
    va_list ap;

    buf_str(b, name);
    va_start(ap, value);
    while ((label = va_arg(ap, const char *)) != NULL) {
        buf_printf(b, "%s%s=\"", before, label);
        add_escaped(b, va_arg(ap, const char *), true);
        buf_str(b, "\"");
        before = ",";
    }
    va_end(ap);
    if (*before == ',')
        buf_str(b, "}");
    buf_str(b, " ");
    add_value(b, value);
    buf_str(b, "\n");
}
