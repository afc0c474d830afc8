/* Command lines from one table. Runs once, before any thread. */
#include "common/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "unknown"
#endif

/* Column where the help texts start. */
#define HELP_COLUMN 30

static void print_choices(FILE *to, const char *const *choices)
{
    for (size_t i = 0; choices[i]; i++)
        fprintf(to, "%s%s", i > 0 ? ", " : "", choices[i]);
}

static void print_default(const struct option_spec *s)
{
    const char *text;

    if (s->kind == OPTION_UINT) {
        printf(" (default %llu)", (unsigned long long)*(const uint64_t *)s->target);
    } else if (s->kind == OPTION_TEXT) {
        text = *(const char *const *)s->target;
        if (text && *text != '\0')
            printf(" (default %s)", text);
    }
}

static void print_option(const struct option_spec *s)
{
    int used = printf("  --%s%s%s", s->name, s->arg ? " " : "", s->arg ? s->arg : "");

    if (used > HELP_COLUMN - 2) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", HELP_COLUMN - used, "");
    for (const char *p = s->help; *p != '\0'; p++) {
        putchar(*p);
        if (*p == '\n')
            printf("%*s", HELP_COLUMN, "");
    }
    if (s->choices) {
        fputs(": ", stdout);
        print_choices(stdout, s->choices);
    }
    print_default(s);
    putchar('\n');
}

_Noreturn static void print_help(const struct program_info *program,
                                 const struct option_spec *specs, size_t count)
{
    printf("Usage: %s [OPTION]...\n%s\n\n", program->name, program->summary);
    for (size_t i = 0; i < count; i++)
        print_option(&specs[i]);
    print_option(
        &(struct option_spec){.name = "help", .kind = OPTION_FLAG, .help = "print this and exit"});
    print_option(&(struct option_spec){
        .name = "version", .kind = OPTION_FLAG, .help = "print the version and exit"});
    exit(0);
}

/* What a wrong value is answered with: the option and what it takes, on one line. */
_Noreturn static void refuse_value(const struct program_info *program, const struct option_spec *s,
                                   const char *value)
{
    fprintf(stderr, "%s: --%s ", program->name, s->name);
    if (s->kind == OPTION_UINT)
        fprintf(stderr, "takes a number from %llu to %llu", (unsigned long long)s->min,
                (unsigned long long)s->max);
    else if (s->choices) {
        fputs("takes one of ", stderr);
        print_choices(stderr, s->choices);
    } else
        fprintf(stderr, "takes %s", s->arg ? s->arg : "no value");
    if (value)
        fprintf(stderr, ", not \"%s\"", value);
    fputc('\n', stderr);
    exit(2);
}

static bool parse_uint(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (*p < '0' || *p > '9' || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return value >= min && value <= max;
}

static bool is_choice(const char *const *choices, const char *value)
{
    for (size_t i = 0; choices[i]; i++)
        if (strcmp(choices[i], value) == 0)
            return true;
    return false;
}

static bool set_value(const struct option_spec *s, const char *value)
{
    uint64_t number;

    switch (s->kind) {
    case OPTION_FLAG:
        *(bool *)s->target = true;
        return true;
    case OPTION_UINT:
        if (!parse_uint(value, s->min, s->max, &number))
            return false;
        *(uint64_t *)s->target = number;
        return true;
    case OPTION_TEXT:
        if (*value == '\0' || (s->choices && !is_choice(s->choices, value)))
            return false;
        *(const char **)s->target = value;
        return true;
    }
    return false;
}

static const struct option_spec *find_option(const struct option_spec *specs, size_t count,
                                             const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(specs[i].name) == len && memcmp(specs[i].name, name, len) == 0)
            return &specs[i];
    return NULL;
}

void options_parse(const struct program_info *program, const struct option_spec *specs,
                   size_t count, int argc, char **argv)
{
    bool *seen = xcalloc(count, sizeof(*seen));

    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + 2, *equals, *value;
        const struct option_spec *s;
        size_t len;

        if (strcmp(argv[i], "--help") == 0)
            print_help(program, specs, count);
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %s\n", program->name, SPILLWAY_VERSION);
            exit(0);
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            fprintf(stderr, "%s: \"%s\" is not an option; see --help\n", program->name, argv[i]);
            exit(2);
        }
        equals = strchr(name, '=');
        len = equals ? (size_t)(equals - name) : strlen(name);
        s = find_option(specs, count, name, len);
        if (!s) {
            fprintf(stderr, "%s: unknown option --%.*s; see --help\n", program->name, (int)len,
                    name);
            exit(2);
        }
        if (seen[s - specs]) {
            fprintf(stderr, "%s: --%s is given twice\n", program->name, s->name);
            exit(2);
        }
        seen[s - specs] = true;
        value = equals ? equals + 1 : NULL;
        if (s->kind == OPTION_FLAG ? value != NULL : !value && !(value = argv[++i]))
            refuse_value(program, s, value);
        if (!set_value(s, value))
            refuse_value(program, s, value);
    }
    free(seen);
}
