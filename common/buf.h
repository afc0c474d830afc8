/*
 * A growing byte buffer for building text (metrics, JSON, log lines). Out of memory is fatal: it is
 * for the control path only, the data path never grows a buffer.
 */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
    char *data; /* NUL-terminated once anything was added; NULL before */
    size_t len; /* without the NUL */
    size_t cap;
};

void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Gives the text away: the caller frees it, the buffer is empty again. Never NULL. */
char *buf_take(struct buf *b);
void buf_free(struct buf *b);

#endif
