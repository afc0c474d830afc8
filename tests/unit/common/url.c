/* URLs from hostile clients: RFC 3986 percent-encoding, the query form, listen addresses. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/url.h"

static char out[64];

static long decode(const char *in)
{
    return url_decode(in, strlen(in), false, out, sizeof(out));
}

Test(url, escapes_are_decoded_in_both_cases)
{
    cr_assert_eq(decode("a%2Fb%2fc%C3%A9"), 7);
    cr_assert_str_eq(out, "a/b/c\xc3\xa9");
}

Test(url, a_decoded_escape_is_not_decoded_again)
{
    cr_assert_eq(decode("%2541"), 3);
    cr_assert_str_eq(out, "%41");
}

Test(url, plus_is_a_space_only_in_queries)
{
    cr_assert_eq(decode("a+b"), 3);
    cr_assert_str_eq(out, "a+b");
    cr_assert_eq(url_decode("a+b", 3, true, out, sizeof(out)), 3);
    cr_assert_str_eq(out, "a b");
}

Test(url, bad_escapes_and_an_encoded_nul_are_refused)
{
    static const char *const bad[] = {"%",    "%4",  "a%",    "%zz", "%4g", "%g4",
                                      "%%41", "%00", "a%00b", "%-1", "% 1"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(decode(bad[i]), -1, "%s", bad[i]);
}

Test(url, decoding_never_reads_past_the_length_given)
{
    /* The escape would be whole with the byte after the end. */
    cr_assert_eq(url_decode("%41", 2, false, out, sizeof(out)), -1);
    cr_assert_eq(url_decode("abc", 0, false, out, sizeof(out)), 0);
    cr_assert_str_eq(out, "");
}

Test(url, what_does_not_fit_is_refused_and_not_cut)
{
    char small[4];

    cr_assert_eq(url_decode("abc", 3, false, small, sizeof(small)), 3);
    cr_assert_eq(url_decode("abcd", 4, false, small, sizeof(small)), -1);
    cr_assert_eq(url_decode("", 0, false, small, 0), -1);
}

Test(url, query_names_match_decoded_and_without_case)
{
    cr_assert_eq(url_query_get("a=1&API%2dVersion=2026-05-01&b", "api-version", out, sizeof(out)),
                 1);
    cr_assert_str_eq(out, "2026-05-01");
}

Test(url, the_first_of_equal_query_names_counts)
{
    cr_assert_eq(url_query_get("x=1&x=2", "x", out, sizeof(out)), 1);
    cr_assert_str_eq(out, "1");
}

Test(url, query_values_may_be_empty_or_absent)
{
    cr_assert_eq(url_query_get("a=&b", "a", out, sizeof(out)), 1);
    cr_assert_str_eq(out, "");
    cr_assert_eq(url_query_get("a=&b", "b", out, sizeof(out)), 1);
    cr_assert_str_eq(out, "");
    cr_assert_eq(url_query_get("&&&", "b", out, sizeof(out)), 0);
    cr_assert_eq(url_query_get("", "b", out, sizeof(out)), 0);
    cr_assert_eq(url_query_get(NULL, "b", out, sizeof(out)), 0);
    cr_assert_eq(url_query_get("ab=1", "a", out, sizeof(out)), 0);
}

Test(url, a_value_keeps_further_equal_signs)
{
    cr_assert_eq(url_query_get("t=a=b==", "t", out, sizeof(out)), 1);
    cr_assert_str_eq(out, "a=b==");
}

Test(url, a_malformed_value_is_told_from_an_absent_one)
{
    cr_assert_eq(url_query_get("a=%zz", "a", out, sizeof(out)), -1);
    cr_assert_eq(url_query_get("%zz=1&a=2", "a", out, sizeof(out)), 1);
    cr_assert_eq(url_query_get("a=123", "a", out, 3), -1);
}

Test(url, encoding_leaves_only_unreserved_characters)
{
    char *text = url_encode("aZ09-._~ /?#%+\xc3\xa9");

    cr_assert_str_eq(text, "aZ09-._~%20%2F%3F%23%25%2B%C3%A9");
    free(text);
}

Test(url, host_and_port_are_split)
{
    static const struct {
        const char *text, *host;
        unsigned port;
    } good[] = {{"127.0.0.1:8443", "127.0.0.1", 8443},
                {"localhost:80", "localhost", 80},
                {"[::1]:65535", "::1", 65535},
                {"h:0", "h", 0}};
    uint16_t port;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(url_split_host_port(good[i].text, out, sizeof(out), &port), "%s", good[i].text);
        cr_expect_str_eq(out, good[i].host);
        cr_expect_eq(port, good[i].port);
    }
}

Test(url, wrong_listen_addresses_are_refused)
{
    static const char *const bad[] = {
        "",     ":",     ":80",     "h",     "h:",     "h:65536", "h:99999999999999999999",
        "h:-1", "h:+1",  "h: 1",    "h:1 ",  "h:0x10", "::1:80",  "[::1]",
        "[::1", "[]:80", "[::1]80", "a:b:80"};
    uint16_t port;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_not(url_split_host_port(bad[i], out, sizeof(out), &port), "%s", bad[i]);
    cr_assert_not(url_split_host_port("longer:80", out, 6, &port));
    cr_assert(url_split_host_port("short:80", out, 6, &port));
}
