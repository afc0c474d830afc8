/* Matching paths: every route, in any case, and paths that somebody made up to do harm. */
#include "api/route.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#define S   "/subscriptions/00000000-0000-0000-0000-000000000001"
#define ACC S "/resourceGroups/rg/providers/Microsoft.NetApp/netAppAccounts"
#define VOL ACC "/a/capacityPools/p/volumes/v"

static const char *operation(const char *method, const char *path)
{
    struct route_match m;
    bool ok = route_find(method, path, &m);
    const char *name = !ok              ? "malformed"
                       : m.route        ? m.route->operation
                       : m.other_method ? "other method"
                                        : "none";

    route_match_clear(&m);
    return name;
}

Test(route, takes_names_out_of_the_path)
{
    struct route_match m;

    cr_assert(route_find("GET", VOL, &m));
    cr_assert_str_eq(m.route->operation, "Volumes_Get");
    cr_expect_str_eq(m.param[ARM_SUBSCRIPTION], "00000000-0000-0000-0000-000000000001");
    cr_expect_str_eq(m.param[ARM_GROUP], "rg");
    cr_expect_str_eq(m.param[ARM_ACCOUNT], "a");
    cr_expect_str_eq(m.param[ARM_POOL], "p");
    cr_expect_str_eq(m.param[ARM_VOLUME], "v");
    cr_expect_null(m.param[ARM_NAME]);
    route_match_clear(&m);
}

Test(route, matches_words_without_case_and_keeps_names_as_they_are)
{
    struct route_match m;

    cr_assert(route_find("GET",
                         "/SUBSCRIPTIONS/s/resourcegroups/MyGroup/PROVIDERS/microsoft.netapp/"
                         "NETAPPACCOUNTS/MyAccount",
                         &m));
    cr_assert_str_eq(m.route->operation, "Accounts_Get");
    cr_expect_str_eq(m.param[ARM_GROUP], "MyGroup");
    cr_expect_str_eq(m.param[ARM_ACCOUNT], "MyAccount");
    route_match_clear(&m);
}

Test(route, decodes_names)
{
    struct route_match m;

    cr_assert(route_find("GET", ACC "/%61b%2Dc", &m));
    cr_expect_str_eq(m.param[ARM_ACCOUNT], "ab-c");
    route_match_clear(&m);
}

Test(route, finds_every_route_of_the_table)
{
    size_t count;
    const struct arm_route *table = route_table(&count);

    for (size_t i = 0; i < count; i++) {
        char path[512] = "";
        for (const char *p = table[i].path; *p != '\0';) { /* {word} becomes x */
            size_t len = strcspn(p, "{");
            strncat(path, p, len);
            p += len;
            if (*p == '{') {
                strncat(path, "x", 2);
                p += strcspn(p, "}") + 1;
            }
        }
        cr_expect_str_eq(operation(table[i].method, path), table[i].operation, "%s %s",
                         table[i].method, path);
    }
}

Test(route, tells_an_unknown_path_from_an_unknown_method)
{
    static const struct {
        const char *method, *path, *want;
    } cases[] = {
        {"POST", ACC "/a", "other method"},
        {"get", ACC "/a", "other method"}, /* methods have their case (RFC 9110 9.1) */
        {"PUT", "/subscriptions", "other method"},
        {"GET", "/", "none"},
        {"GET", "", "none"},
        {"GET", "subscriptions", "none"},
        {"GET", S "/resourceGroups/rg/providers/Microsoft.NetApp/netAppWidgets/w", "none"},
        {"GET", VOL "/snapshots", "none"},
        {"GET", ACC "/a/", "Accounts_Get"}, /* one slash at the end is nothing */
        {"GET", ACC "//a", "none"},
        {"GET", "//subscriptions", "none"},
        {"GET", "/subscriptions//resourceGroups", "none"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_str_eq(operation(cases[i].method, cases[i].path), cases[i].want, "%s %s",
                         cases[i].method, cases[i].path);
    }
}

Test(route, names_the_methods_that_a_path_has)
{
    struct route_match m;

    cr_assert(route_find("POST", ACC "/a", &m));
    cr_expect(m.other_method);
    for (const char *const *method = (const char *const[]){"GET", "PUT", "PATCH", "DELETE", NULL};
         *method != NULL; method++) {
        cr_expect_not_null(strstr(m.allow, *method), "%s in %s", *method, m.allow);
    }
    route_match_clear(&m);
}

/* A name that could be mistaken for a path where ids are put together, or that is none. */
Test(route, refuses_names_that_are_none)
{
    static const char *const names[] = {"%",   "%4",    "%zz",       "%00", "a%00b",
                                        "%2f", "a%2Fb", "%0a",       "%0d", "%1b[2J",
                                        "%7f", "%2F..", "%2e%2e%2fb"};
    char path[256];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, ACC "/%s", names[i]);
        cr_expect_str_eq(operation("GET", path), "malformed", "%s", names[i]);
    }
}

Test(route, bounds_names_and_segments)
{
    char *path = calloc(1, 1 << 20);

    strcpy(path, ACC "/");
    memset(path + strlen(path), 'a', 600);
    cr_expect_str_eq(operation("GET", path), "malformed", "600 characters");
    memset(path, 0, 1 << 20);
    for (int i = 0; i < 100000; i++) {
        memcpy(path + 2 * i, "/a", 2);
    }
    cr_expect_str_eq(operation("GET", path), "none", "100,000 segments");
    memset(path, '/', (1 << 20) - 1);
    cr_expect_str_eq(operation("GET", path), "none", "a million slashes");
    free(path);
}

Test(route, has_no_two_routes_of_one_method_and_path)
{
    size_t count;
    const struct arm_route *table = route_table(&count);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            cr_expect_not(strcmp(table[i].method, table[k].method) == 0 &&
                              strcmp(table[i].path, table[k].path) == 0,
                          "%s %s", table[i].method, table[i].path);
            cr_expect(strcmp(table[i].operation, table[k].operation) != 0, "%s",
                      table[i].operation);
        }
    }
}
