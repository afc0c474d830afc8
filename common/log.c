/*
 * Log lines. The level is the only shared state (atomic); a line is built on the stack and leaves
 * in one write(2), so lines of several threads never mix and no lock is held.
 */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define LINE_MAX_BYTES 4096

static atomic_int log_level = LOG_LEVEL_INFO;

static const struct {
    const char *name;
    int journal; /* syslog(3) priority, as sd-daemon(3) reads it from "<N>" */
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", 3},
    [LOG_LEVEL_WARN] = {"warn", 4},
    [LOG_LEVEL_INFO] = {"info", 6},
    [LOG_LEVEL_DEBUG] = {"debug", 7},
};

void log_set_level(enum log_level level)
{
    atomic_store(&log_level, (int)level);
}

static size_t put_prefix(enum log_level level, char *line, size_t size)
{
    char time[CLOCK_ISO_MAX];
    int n;

    if (getenv("JOURNAL_STREAM"))
        n = snprintf(line, size, "<%d>", levels[level].journal);
    else
        n = snprintf(line, size, "%s %-5s ", clock_format_iso(clock_wall_ns(), 3, time),
                     levels[level].name);
    return (size_t)n;
}

static void log_line(enum log_level level, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void log_line(enum log_level level, const char *fmt, va_list ap)
{
    char line[LINE_MAX_BYTES];
    size_t start, len;
    int n;

    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
        return;
    start = put_prefix(level, line, sizeof(line));
    n = vsnprintf(line + start, sizeof(line) - start, fmt, ap);
    if (n < 0)
        return;
    len = start + strlen(line + start);
    /* What a client sent may stand in a message: it must not be able to start a line of its own. */
    for (size_t i = start; i < len; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[len++] = '\n'; /* in the NUL's place */
    while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
        ;
}

void log_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_LEVEL_ERROR, fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_LEVEL_WARN, fmt, ap);
    va_end(ap);
}

void log_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_LEVEL_INFO, fmt, ap);
    va_end(ap);
}

void log_debug(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_LEVEL_DEBUG, fmt, ap);
    va_end(ap);
}

void fatal(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_LEVEL_ERROR, fmt, ap);
    va_end(ap);
    exit(1);
}
