/* Azure Monitor's time arguments, as clients send them (anf-api.md E.3, clients.md 5). */
#include "api/timespan.h"

#include <criterion/criterion.h>
#include <string.h>

#define S   INT64_C(1000000000)
#define NOW (INT64_C(1780000000) * S) /* 2026-05-28T20:26:40Z */

static void lasts(const char *text, int64_t seconds)
{
    int64_t ns = -1;

    cr_assert(duration_parse(text, &ns), "refused: %s", text);
    cr_assert_eq(ns, seconds * S, "%s is %lld ns", text, (long long)ns);
}

Test(duration, iso_forms)
{
    lasts("PT1M", 60);
    lasts("PT5M", 300);
    lasts("pt1h", 3600);
    lasts("PT1H30M", 5400);
    lasts("PT90M", 5400);
    lasts("P1D", 86400);
    lasts("P1DT12H", 129600);
    lasts("P2W", 1209600);
    lasts("PT1S", 1);
    lasts("P1000D", 86400000);
}

Test(duration, everything_else_is_refused)
{
    static const char *const bad[] = {
        "",
        "P",
        "PT",
        "P1",
        "PT1",
        "1H",
        "T1H",
        "PTH",
        "P1DT",
        "P1M",
        "P1Y",
        "P1H",
        "PT1D",
        "PT1M1H",
        "PT1H1H",
        "PT-1M",
        "PT+1M",
        "PT 1M",
        "PT1.5H",
        "PT0M",
        "PT1M ",
        "P1001D",
        "PT999999999999M",
        "P999999999W",
        "PT9223372036854775807S",
        "-P1D",
        "PTT1H",
        "P1DD",
        "FULL",
        "PT1M/PT1M",
    };
    int64_t ns;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(duration_parse(bad[i], &ns), "accepted: %s", bad[i]);
    }
}

static void spans(const char *text, int64_t start, int64_t end)
{
    int64_t from = -1, to = -1;

    cr_assert(timespan_parse(text, NOW, &from, &to), "refused: %s", text);
    cr_assert_eq(from, start, "%s starts at %lld", text, (long long)from);
    cr_assert_eq(to, end, "%s ends at %lld", text, (long long)to);
}

Test(timespan, two_moments)
{
    spans("2026-05-28T20:00:00Z/2026-05-28T20:26:40Z", NOW - 1600 * S, NOW);
    spans("2026-05-28T22:00:00+02:00/2026-05-28T20:26:40Z", NOW - 1600 * S, NOW);
}

Test(timespan, a_duration_beside_a_moment)
{
    spans("2026-05-28T20:26:40Z/PT1H", NOW, NOW + 3600 * S);
    spans("PT1H/2026-05-28T20:26:40Z", NOW - 3600 * S, NOW);
}

Test(timespan, a_duration_ends_now)
{
    spans("PT1H", NOW - 3600 * S, NOW);
    spans("P7D", NOW - S * 7 * 86400, NOW);
}

/* az encodes twice: after one decoding "%3A" and "%2F" are left. */
Test(timespan, encoded_twice)
{
    spans("2026-05-28T20%3A00%3A00.000000%2F2026-05-28T20%3A26%3A40.000000", NOW - 1600 * S, NOW);
}

Test(timespan, a_plus_that_became_a_space)
{
    spans("2026-05-28T22:00:00 02:00/2026-05-28T22:26:40 02:00", NOW - 1600 * S, NOW);
}

Test(timespan, everything_else_is_refused)
{
    static const char *const bad[] = {
        "",
        "/",
        "//",
        "PT1H/PT1H",
        "PT1H/",
        "/PT1H",
        "2026-05-28T20:00:00Z",
        "2026-05-28T20:00:00Z/",
        "2026-05-28T20:00:00Z/2026-05-28T20:00:00Z",
        "2026-05-28T20:00:01Z/2026-05-28T20:00:00Z",
        "2026-05-28T20:00:00Z/2026-05-28T21:00:00Z/2026-05-28T22:00:00Z",
        "1970-01-01T00:00:01Z/PT0S",
        "PT1H/1970-01-01T00:30:00Z",
        "%",
        "%zz",
        "%00",
        "2026-05-28T20:00:00Z%",
        "yesterday/today",
        "9999-12-31T00:00:00Z/PT1H",
        "2026-02-30T00:00:00Z/PT1H",
    };
    int64_t from, to;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(timespan_parse(bad[i], NOW, &from, &to), "accepted: %s", bad[i]);
    }
}

Test(timespan, overlong_text_is_refused)
{
    char text[1000];
    int64_t from, to;

    for (size_t len = 20; len < sizeof text; len++) {
        memset(text, '1', len);
        memcpy(text, "PT", 2);
        text[len] = '\0';
        cr_assert_not(timespan_parse(text, NOW, &from, &to));
    }
}

Test(grains, exact_or_the_next_longer)
{
    cr_assert_str_eq(grain_find(60 * S, false)->name, "PT1M");
    cr_assert_str_eq(grain_find(86400 * S, false)->name, "P1D");
    cr_assert_null(grain_find(120 * S, false));
    cr_assert_str_eq(grain_find(120 * S, true)->name, "PT5M");
    cr_assert_null(grain_find(86401 * S, true));
}
