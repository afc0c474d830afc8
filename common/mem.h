/* Allocation for the control path: out of memory is fatal. Not for the data path. */
#ifndef COMMON_MEM_H
#define COMMON_MEM_H

#include <stddef.h>

void *xcalloc(size_t n, size_t size) __attribute__((returns_nonnull, malloc));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((returns_nonnull, malloc));
char *xstrndup(const char *s, size_t n) __attribute__((returns_nonnull, malloc));
char *xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), returns_nonnull, malloc));

#endif
