/* A growing byte buffer. A buffer belongs to one thread at a time. */
#include "common/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

/* Room for `more` bytes and the NUL. */
static void buf_reserve(struct buf *b, size_t more)
{
    size_t cap = b->cap > 0 ? b->cap : 64;

    if (more > SIZE_MAX / 2 - b->len - 1)
        fatal("out of memory: a text of %zu bytes", more);
    while (cap < b->len + more + 1)
        cap *= 2;
    if (!b->data || cap != b->cap) {
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        fatal("cannot format \"%s\"", fmt);
    buf_reserve(b, (size_t)n);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

char *buf_take(struct buf *b)
{
    char *text;

    if (!b->data)
        buf_reserve(b, 0);
    text = b->data;
    text[b->len] = '\0';
    *b = (struct buf){0};
    return text;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}
