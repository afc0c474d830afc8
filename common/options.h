/*
 * Command lines from one table: parsing, --help and --version of each program come from it, so that
 * no option can exist without its help. Long options only ("--name value" or "--name=value").
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_TEXT, /* target: const char **; points into argv */
    OPTION_FLAG, /* target: bool * */
    OPTION_UINT, /* target: uint64_t *; decimal, checked against min and max */
};

struct option_spec {
    const char *name; /* without the dashes */
    const char *arg;  /* the argument's name in --help; NULL for a flag */
    enum option_kind kind;
    void *target; /* holds the default when parsing starts */
    uint64_t min, max;
    const char *const *choices; /* OPTION_TEXT: NULL-terminated list of what is allowed, or NULL */
    const char *help;           /* may hold newlines */
};

struct program_info {
    const char *name;    /* "spillwayd" */
    const char *summary; /* one sentence for --help */
};

/* Fills the targets. --help prints to standard output and exits 0; --version too; an error prints
 * one line that names the option and what it takes, and exits 2. Arguments that are not options are
 * an error. */
void options_parse(const struct program_info *program, const struct option_spec *specs,
                   size_t count, int argc, char **argv);

#endif
