/* --endpoints and the other options' checks. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "agent/control/addresses.h"
#include "agent/control/config.h"

static bool contains(const struct addresses *a, const char *text)
{
    struct in_addr address;

    cr_assert_eq(inet_pton(AF_INET, text, &address), 1);
    return addresses_contain(a, address);
}

Test(addresses, a_prefix_gives_its_hosts)
{
    struct addresses a;
    char why[160];

    cr_assert(addresses_parse("127.77.0.0/24", &a, why, sizeof(why)), "%s", why);
    cr_expect(contains(&a, "127.77.0.1"));
    cr_expect(contains(&a, "127.77.0.254"));
    cr_expect_not(contains(&a, "127.77.0.0"), "the network's address");
    cr_expect_not(contains(&a, "127.77.0.255"), "the broadcast address");
    cr_expect_not(contains(&a, "127.77.1.1"));
}

Test(addresses, lists_ranges_and_small_prefixes)
{
    struct addresses a;
    char why[160];
    json_t *json;

    cr_assert(
        addresses_parse("10.0.0.5,10.0.0.8-10.0.0.9,10.1.0.0/31,10.2.0.7/32", &a, why, sizeof(why)),
        "%s", why);
    cr_expect(contains(&a, "10.0.0.5"));
    cr_expect_not(contains(&a, "10.0.0.6"));
    cr_expect(contains(&a, "10.0.0.8") && contains(&a, "10.0.0.9"));
    cr_expect(contains(&a, "10.1.0.0") && contains(&a, "10.1.0.1"),
              "a /31 has two hosts (RFC 3021)");
    cr_expect(contains(&a, "10.2.0.7"));
    json = addresses_to_json(&a);
    cr_expect_eq(json_array_size(json), 4);
    cr_expect_str_eq(json_string_value(json_array_get(json, 1)), "10.0.0.8-10.0.0.9");
    json_decref(json);
}

Test(addresses, what_is_none_is_refused_with_the_entry_and_the_reason)
{
    static const char *const cases[][2] = {
        {"", "empty"},
        {"10.0.0.1,", "empty"},
        {",10.0.0.1", "empty"},
        {"10.0.0", "not an IPv4 address"},
        {"10.0.0.256", "not an IPv4 address"},
        {"fd00::1", "not an IPv4 address"},
        {"10.0.0.1 ", "not an IPv4 address"},
        {"127.77.0.5/24", "bits set behind"},
        {"10.0.0.0/7", "8 to 32"},
        {"10.0.0.0/33", "8 to 32"},
        {"10.0.0.0/", "8 to 32"},
        {"10.0.0.0/-8", "8 to 32"},
        {"10.0.0.0/24x", "8 to 32"},
        {"10.0.0.9-10.0.0.8", "backwards"},
        {"224.0.0.1", "multicast"},
        {"0.0.0.0", "multicast, reserved and 0.0.0.0/8"},
        {"10.0.0.0/24,10.0.0.7", "overlaps"},
        {"10.0.0.1-10.0.0.2-10.0.0.3", "not an IPv4 address"},
    };
    struct addresses a;
    char why[160];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_not(addresses_parse(cases[i][0], &a, why, sizeof(why)), "%s", cases[i][0]);
        cr_expect(strstr(why, cases[i][1]), "\"%s\": %s", cases[i][0], why);
    }
}

Test(config, the_control_planes_url)
{
    static const char *const good[] = {"https://127.0.0.1:8443", "https://control.example",
                                       "http://127.0.0.1:80", "http://localhost",
                                       "https://[::1]:8443"};
    static const char *const bad[] = {"",
                                      "127.0.0.1:8443",
                                      "ftp://h",
                                      "https://",
                                      "https://h:0",
                                      "https://h:70000",
                                      "https://h/path",
                                      "https://h?x",
                                      "http://10.0.0.1:8443",
                                      "http://control.example"};
    char why[512];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_expect_null(config_check_control(good[i], why, sizeof(why)), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_not_null(config_check_control(bad[i], why, sizeof(why)), "%s", bad[i]);
        cr_expect(strstr(why, "--control"), "%s", why);
    }
}

Test(config, the_status_port_stays_on_loopback)
{
    char why[512];

    cr_expect_null(config_check_status("127.0.0.1:8444", why, sizeof(why)));
    cr_expect_null(config_check_status("127.9.9.9:0", why, sizeof(why)));
    cr_expect_null(config_check_status("[::1]:8444", why, sizeof(why)));
    cr_assert_not_null(config_check_status("0.0.0.0:8444", why, sizeof(why)));
    cr_expect(strstr(why, "no authentication"), "%s", why);
    cr_expect_not_null(config_check_status("10.0.0.1:8444", why, sizeof(why)));
    cr_expect_not_null(config_check_status("8444", why, sizeof(why)));
}

Test(config, names_regions_and_zones_are_plain)
{
    char why[512];

    cr_expect_null(config_check_name("host1.example-2_x", why, sizeof(why)));
    cr_expect_not_null(config_check_name("", why, sizeof(why)));
    cr_expect_not_null(config_check_name("-x", why, sizeof(why)));
    cr_expect_not_null(config_check_name("a b", why, sizeof(why)));
    cr_expect_not_null(config_check_name(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", why, sizeof(why)));
    cr_expect_null(config_check_place("East US", "1", why, sizeof(why)));
    cr_expect_not_null(config_check_place("east\"us", "", why, sizeof(why)));
    cr_expect_not_null(config_check_place("", "zone/1", why, sizeof(why)));
}
