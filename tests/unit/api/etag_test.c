/* ETags, their conditions, and api-versions: anf-api.md B.0, D.1, D.3. */
#include "api/etag.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/versions.h"

/* date -u -d @1778683732 gives 2026-05-13T14:48:52; the form is a recorded one. */
Test(etag, has_the_recorded_form)
{
    char etag[ETAG_MAX];

    cr_expect_str_eq(etag_format(INT64_C(17786837324566679), etag),
                     "W/\"datetime'2026-05-13T14%3A48%3A52.4566679Z'\"");
    cr_expect_str_eq(etag_format(INT64_C(17786837320000000), etag),
                     "W/\"datetime'2026-05-13T14%3A48%3A52.0000000Z'\"");
}

/* The table of D.3: rows absent and present, columns of If-Match and If-None-Match. */
Test(etag, conditions_decide_as_the_table_says)
{
    static const char tag[] = "W/\"datetime'1'\"";
    static const struct {
        const char *match, *none_match, *etag;
        bool allowed;
    } cases[] = {
        {NULL, NULL, NULL, true},
        {NULL, NULL, tag, true},
        {"*", NULL, NULL, false},
        {tag, NULL, NULL, false},
        {"*", NULL, tag, true},
        {tag, NULL, tag, true},
        {"W/\"datetime'2'\"", NULL, tag, false},
        {"W/\"x\", W/\"datetime'1'\"", NULL, tag, true},
        {" W/\"datetime'1'\" ", NULL, tag, true},
        {"\"datetime'1'\"", NULL, tag, false}, /* the string is compared, weak as it is */
        {"", NULL, tag, false},
        {",,", NULL, tag, false},
        {NULL, "*", NULL, true},
        {NULL, "*", tag, false},
        {NULL, tag, tag, false},
        {NULL, "W/\"x\"", tag, true},
        {tag, "*", tag, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(etag_allows(cases[i].match, cases[i].none_match, cases[i].etag),
                     cases[i].allowed, "case %zu", i);
    }
}

Test(versions, have_a_form)
{
    static const char *const good[] = {"2026-05-01", "2026-05-15-preview", "9999-99-99"};
    static const char *const bad[] = {
        "",         "2026",       "2026-5-1",    "2026-05-01 ", "2026-05-01-",    "2026-05-0a",
        "tomorrow", "2026/05/01", "2026-05-011", "-preview",    "2026-05-01-beta"};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(version_is_well_formed(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_not(version_is_well_formed(bad[i]), "%s", bad[i]);
    }
}

/* All stable ones from 2021-10-01 on (A.1), what the wrapper, az and the SDKs send, no others. */
Test(versions, accepts_the_stable_line)
{
    static const char *const netapp[] = {"2021-10-01", "2022-05-01", "2023-05-01", "2025-06-01",
                                         "2026-01-01", "2026-05-01", "2026-07-01"};
    static const char *const other[] = {"2021-08-01", "2026-02-01", "2026-08-01",
                                        "2026-05-15-preview"};
    static const char *const resources[] = {"2019-11-01", "2021-04-01", "2020-01-01"};

    for (size_t i = 0; i < sizeof netapp / sizeof netapp[0]; i++) {
        cr_expect(version_accepted("netapp", netapp[i]), "%s", netapp[i]);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        cr_expect_not(version_accepted("netapp", other[i]), "%s", other[i]);
    }
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        cr_expect(version_accepted("resources", resources[i]), "%s", resources[i]);
    }
    cr_expect(version_accepted("insights", "2018-01-01"));
    cr_expect(version_accepted("insights", "2024-02-01"));
    cr_expect_not(version_accepted("nothing", "2026-05-01"));
}

Test(versions, are_listed_oldest_first)
{
    char *list = version_list("netapp");

    cr_expect_eq(strncmp(list, "2021-10-01, 2022-01-01, ", 24), 0, "%s", list);
    cr_expect_not_null(strstr(list, "2026-06-01, 2026-07-01"));
    cr_expect_str_eq(version_newest("netapp"), "2026-07-01");
    free(list);
}
