/* Checked allocation for the control path. No state. */
#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);

    if (!p)
        fatal("out of memory: %zu times %zu bytes", n, size);
    return p;
}

void *xrealloc(void *p, size_t size)
{
    void *grown = realloc(p, size > 0 ? size : 1);

    if (!grown)
        fatal("out of memory: %zu bytes", size);
    return grown;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
    char *copy = strndup(s, n);

    if (!copy)
        fatal("out of memory: %zu bytes", n);
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *text;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        fatal("out of memory: formatting \"%s\"", fmt);
    return text;
}
