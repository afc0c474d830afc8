/* ISO 8601 in and out; the numbers are `date -u -d … +%s`. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/clock.h"

#define S INT64_C(1000000000)

static int64_t parse(const char *text)
{
    int64_t ns;

    return clock_parse_iso(text, &ns) ? ns : -1;
}

Test(clock, moments_are_formatted_with_the_digits_asked_for)
{
    char out[CLOCK_ISO_MAX];

    cr_assert_str_eq(clock_format_iso(0, 0, out), "1970-01-01T00:00:00Z");
    cr_assert_str_eq(clock_format_iso(1778683732 * S + 456667900, 7, out),
                     "2026-05-13T14:48:52.4566679Z");
    cr_assert_str_eq(clock_format_iso(1778683732 * S + 999999999, 3, out),
                     "2026-05-13T14:48:52.999Z");
    cr_assert_str_eq(clock_format_iso(1, 9, out), "1970-01-01T00:00:00.000000001Z");
    cr_assert_str_eq(clock_format_iso(-1, 9, out), "1969-12-31T23:59:59.999999999Z");
    cr_assert_str_eq(clock_format_iso(INT64_MAX, 9, out), "2262-04-11T23:47:16.854775807Z");
}

Test(clock, date_times_are_read)
{
    cr_assert_eq(parse("1970-01-01T00:00:00Z"), 0);
    cr_assert_eq(parse("2026-05-13T14:48:52.4566679Z"), 1778683732 * S + 456667900);
    cr_assert_eq(parse("2026-05-13 14:48"), 1778683680 * S);
    cr_assert_eq(parse("2024-02-29T00:00:00"), 1709164800 * S);
    cr_assert_eq(parse("2200-12-31T23:59:59.999999999Z"), INT64_C(7289654399) * S + 999999999);
}

Test(clock, offsets_count_against_utc)
{
    cr_assert_eq(parse("2026-05-13T14:48:52+02:00"), (1778683732 - 7200) * S);
    cr_assert_eq(parse("2026-05-13T14:48:52-0530"), (1778683732 + 19800) * S);
    cr_assert_eq(parse("1970-01-01T01:00:00+01:00"), 0);
}

Test(clock, digits_past_nanoseconds_are_dropped)
{
    cr_assert_eq(parse("1970-01-01T00:00:00.1234567899999999999999999999999Z"), 123456789);
}

Test(clock, anything_else_is_refused)
{
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-05-13",
                                      "2026-05-13T",
                                      "2026-05-13T14",
                                      "2026-05-13T14:48:",
                                      "2026-05-13T14:48:52.",
                                      "2026-05-13T14:48:52.Z",
                                      "2026-05-13T14:48:52X",
                                      "2026-05-13T14:48:52ZZ",
                                      "2026-05-13T14:48:52Z ",
                                      " 2026-05-13T14:48:52Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2100-02-29T00:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:60Z",
                                      "2026-01-01T00:00:00+24:00",
                                      "2026-01-01T00:00:00+1",
                                      "2026-01-01T00:00:00+01:60",
                                      "2026-01-01T00:00:00+01:",
                                      "+026-01-01T00:00:00Z",
                                      "2026-1-01T00:00:00Z",
                                      "2026-01-01T-1:00:00Z",
                                      "1969-12-31T23:59:59Z",
                                      "1970-01-01T00:00:00+01:00",
                                      "2201-01-01T00:00:00Z",
                                      "2200-12-31T23:59:59-01:00",
                                      "99999-01-01T00:00:00Z",
                                      "2026-05-13T14:48:52.1.2Z"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(parse(bad[i]), -1, "%s", bad[i]);
}

Test(clock, every_day_formats_and_reads_back)
{
    char out[CLOCK_ISO_MAX];

    for (int64_t s = 43200; s < INT64_C(7289654400); s += 86400)
        cr_assert_eq(parse(clock_format_iso(s * S, 0, out)), s * S, "%s", out);
}

Test(clock, the_monotonic_clock_goes_on)
{
    uint64_t before = clock_mono_ns();

    cr_assert_geq(clock_mono_ns(), before);
    cr_assert_gt(clock_wall_ns(), 1700000000 * S);
}
