/* Command lines: what is right fills the targets, what is wrong names the option and exits 2. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/options.h"

static const char *listen_on, *auth;
static uint64_t timeout;
static bool strict;

static const char *const auth_kinds[] = {"token", "none", NULL};
static const struct option_spec specs[] = {
    {.name = "listen",
     .arg = "ADDR:PORT",
     .kind = OPTION_TEXT,
     .target = &listen_on,
     .help = "where to listen"},
    {.name = "auth",
     .arg = "KIND",
     .kind = OPTION_TEXT,
     .target = &auth,
     .choices = auth_kinds,
     .help = "who may call"},
    {.name = "apply-timeout",
     .arg = "S",
     .kind = OPTION_UINT,
     .target = &timeout,
     .min = 1,
     .max = 3600,
     .help = "seconds until\nit failed"},
    {.name = "strict-groups", .kind = OPTION_FLAG, .target = &strict, .help = "no group is made"},
};
static const struct program_info program = {"prog", "Does a thing."};

#define PARSE(...)                                                                                 \
    do {                                                                                           \
        char *argv[] = {"prog", __VA_ARGS__, NULL};                                                \
        options_parse(&program, specs, sizeof(specs) / sizeof(specs[0]),                           \
                      (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);                            \
    } while (0)

static void set_defaults(void)
{
    listen_on = "127.0.0.1:8443";
    auth = "token";
    timeout = 60;
    strict = false;
}

/* After the test function: what it was wrong about stands on standard error, the exit status is
 * checked by Criterion. */
static void redirect(void)
{
    set_defaults();
    cr_redirect_stderr();
    cr_redirect_stdout();
}

TestSuite(options, .init = set_defaults);
TestSuite(wrong_options, .init = redirect);

Test(options, without_any_the_defaults_stay)
{
    char *argv[] = {"prog", NULL};

    options_parse(&program, specs, 4, 1, argv);
    cr_assert_str_eq(listen_on, "127.0.0.1:8443");
    cr_assert_eq(timeout, 60);
    cr_assert_not(strict);
}

Test(options, both_forms_of_a_value_are_taken)
{
    PARSE("--listen", "h:1", "--auth=none", "--apply-timeout=3600", "--strict-groups");
    cr_assert_str_eq(listen_on, "h:1");
    cr_assert_str_eq(auth, "none");
    cr_assert_eq(timeout, 3600);
    cr_assert(strict);
}

Test(options, a_value_may_look_like_an_option_or_hold_an_equals_sign)
{
    PARSE("--listen=--auth=x");
    cr_assert_str_eq(listen_on, "--auth=x");
}

Test(wrong_options, unknown, .exit_code = 2)
{
    PARSE("--lissen", "x");
}
Test(wrong_options, no_prefix_of_a_name_is_taken, .exit_code = 2)
{
    PARSE("--list", "x");
}
Test(wrong_options, bare_dashes, .exit_code = 2)
{
    PARSE("--");
}
Test(wrong_options, single_dash, .exit_code = 2)
{
    PARSE("-listen", "x");
}
Test(wrong_options, not_an_option, .exit_code = 2)
{
    PARSE("listen");
}
Test(wrong_options, value_missing, .exit_code = 2)
{
    PARSE("--listen");
}
Test(wrong_options, value_empty, .exit_code = 2)
{
    PARSE("--listen=");
}
Test(wrong_options, flag_with_a_value, .exit_code = 2)
{
    PARSE("--strict-groups=yes");
}
Test(wrong_options, given_twice, .exit_code = 2)
{
    PARSE("--listen=a:1", "--listen=b:1");
}
Test(wrong_options, not_among_the_choices, .exit_code = 2)
{
    PARSE("--auth=TOKEN");
}
Test(wrong_options, number_below_the_range, .exit_code = 2)
{
    PARSE("--apply-timeout", "0");
}
Test(wrong_options, number_above_the_range, .exit_code = 2)
{
    PARSE("--apply-timeout", "3601");
}
Test(wrong_options, number_negative, .exit_code = 2)
{
    PARSE("--apply-timeout", "-1");
}
Test(wrong_options, number_with_a_unit, .exit_code = 2)
{
    PARSE("--apply-timeout", "60s");
}
Test(wrong_options, number_with_a_space, .exit_code = 2)
{
    PARSE("--apply-timeout", " 60");
}
Test(wrong_options, number_that_wraps_around, .exit_code = 2)
{
    PARSE("--apply-timeout", "18446744073709551676"); /* 2^64 + 60 */
}
Test(wrong_options, number_in_hex, .exit_code = 2)
{
    PARSE("--apply-timeout", "0x10");
}

/* Ends the child before the leak check, which would write into what it said. */
static void leave(void)
{
    fflush(NULL);
    _exit(0);
}

/* Runs PARSE in a child whose two streams go to one file, to read what it said. */
#define SAID(text_, ...)                                                                           \
    do {                                                                                           \
        char said_[4096] = "";                                                                     \
        FILE *f_ = tmpfile();                                                                      \
        pid_t pid_ = fork();                                                                       \
        if (pid_ == 0) {                                                                           \
            dup2(fileno(f_), 1);                                                                   \
            dup2(fileno(f_), 2);                                                                   \
            atexit(leave);                                                                         \
            PARSE(__VA_ARGS__);                                                                    \
        }                                                                                          \
        waitpid(pid_, NULL, 0);                                                                    \
        rewind(f_);                                                                                \
        said_[fread(said_, 1, sizeof(said_) - 1, f_)] = '\0';                                      \
        fclose(f_);                                                                                \
        cr_expect_str_eq(said_, text_);                                                            \
    } while (0)

Test(options, errors_name_the_option_and_what_it_takes_on_one_line)
{
    SAID("prog: --apply-timeout takes a number from 1 to 3600, not \"0\"\n", "--apply-timeout=0");
    SAID("prog: --auth takes one of token, none, not \"x\"\n", "--auth", "x");
    SAID("prog: --listen takes ADDR:PORT\n", "--listen");
    SAID("prog: --strict-groups takes no value, not \"1\"\n", "--strict-groups=1");
    SAID("prog: unknown option --x; see --help\n", "--x=1");
    SAID("prog: --auth is given twice\n", "--auth=none", "--auth=none");
    SAID("prog: \"x\" is not an option; see --help\n", "x");
}

Test(options, help_shows_every_option_with_its_default_and_choices)
{
    SAID("Usage: prog [OPTION]...\n"
         "Does a thing.\n"
         "\n"
         "  --listen ADDR:PORT          where to listen (default 127.0.0.1:8443)\n"
         "  --auth KIND                 who may call: token, none (default token)\n"
         "  --apply-timeout S           seconds until\n"
         "                              it failed (default 60)\n"
         "  --strict-groups             no group is made\n"
         "  --help                      print this and exit\n"
         "  --version                   print the version and exit\n",
         "--help");
}

Test(options, version_names_the_program)
{
    SAID("prog " SPILLWAY_VERSION "\n", "--version");
}
