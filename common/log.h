/*
 * Log lines of both programs, to standard error: "TIME LEVEL message". Under systemd
 * (JOURNAL_STREAM set) the time is left out and the level becomes the journal's <N> prefix.
 * Thread-safe: one write(2) a line. Secrets (tokens, keys) are never passed in.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Levels above the given one are dropped. The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* For start-up and states that cannot be: logs at error level and exits with status 1. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
