/* JSON in and out: numbers read back as put, hostile documents, RFC 7396 with the RFC's own table.
 */
#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_util.h"
#include "common/number.h"

static char error[256];

static json_t *parse(const char *text)
{
    return json_parse(text, strlen(text), error, sizeof(error));
}

/* Parses and renders. */
static void expect_render(const char *in, const char *want)
{
    json_t *value = parse(in);
    char *text;

    cr_assert_not_null(value, "%s: %s", in, error);
    text = json_render(value);
    cr_expect_str_eq(text, want);
    free(text);
    json_decref(value);
}

Test(json, numbers_read_back_as_they_were_put)
{
    expect_render("[21504,128.5,0.1,-0.25,1e2,5.0,0,-0.0]",
                  "[21504,128.5,0.1,-0.25,100.0,5.0,0,-0.0]");
    expect_render("[9223372036854775807,-9223372036854775808]",
                  "[9223372036854775807,-9223372036854775808]");
    expect_render("[1e300,1.7976931348623157e308,5e-324,0.00001,0.000001]",
                  "[1e300,1.7976931348623157e308,5e-324,0.00001,1e-6]");
    expect_render("[9007199254740993.0,123456789012345680.0,1e15,1e16]",
                  "[9007199254740992.0,1.2345678901234568e17,1000000000000000.0,1e16]");
}

Test(json, every_double_is_rendered_to_itself)
{
    uint64_t bits = 1;
    char text[NUMBER_TEXT_MAX];

    for (int i = 0; i < 200000; i++) {
        double value;

        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        number_format(value, text);
        cr_assert_eq(strtod(text, NULL), value, "%s", text);
        cr_assert_lt(strlen(text), NUMBER_TEXT_MAX);
    }
}

Test(json, decimals_of_up_to_15_digits_are_rendered_as_written)
{
    char want[64], text[NUMBER_TEXT_MAX];

    for (int i = 1; i < 100000; i += 7) {
        snprintf(want, sizeof(want), "%d.%03d1", i, i % 1000);
        cr_assert_str_eq(number_format(strtod(want, NULL), text), want);
    }
}

Test(json, powers_of_two_are_rendered_shortest)
{
    char text[NUMBER_TEXT_MAX];

    /* The nearest 16-digit decimal (…801e-14) is another double here; the next one is shortest. */
    cr_assert_str_eq(number_format(0x1p-44, text), "5.684341886080802e-14");
    cr_assert_str_eq(number_format(0x1p-1022, text), "2.2250738585072014e-308");
    for (int e = -1074; e < 1024; e++)
        cr_assert_eq(strtod(number_format(ldexp(1, e), text), NULL), ldexp(1, e), "%s", text);
}

Test(json, rendering_does_not_depend_on_the_locale)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        cr_skip_test("no locale with a decimal comma is installed");
    expect_render("[0.5,1e-9]", "[0.5,1e-9]");
}

Test(json, strings_are_escaped_and_order_is_kept)
{
    expect_render("{\"z\":\"a\\\"b\\\\c\\n\\u0001/"
                  "\",\"a\":[true,false,null,{}],\"m\":\"\\u00e9\\ud83d\\ude00\"}",
                  "{\"z\":\"a\\\"b\\\\c\\u000a\\u0001/"
                  "\",\"a\":[true,false,null,{}],\"m\":\"\xc3\xa9\xf0\x9f\x98\x80\"}");
    expect_render("{\"a\\\"\":1}", "{\"a\\\"\":1}");
}

Test(json, no_value_is_null)
{
    char *text = json_render(NULL);

    cr_assert_str_eq(text, "null");
    free(text);
}

static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);

    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

Test(json, more_than_32_levels_are_refused)
{
    char *good = nested(32), *bad = nested(33), *huge = nested(1000000);
    json_t *value = parse(good);

    cr_assert_not_null(value);
    json_decref(value);
    cr_assert_null(parse(bad));
    cr_assert_str_eq(error, "line 1, column 33: more than 32 levels");
    cr_assert_null(parse(huge));
    free(good);
    free(bad);
    free(huge);
}

Test(json, brackets_in_strings_are_not_levels)
{
    static const char text[] = "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\",\"\\\"[[[[[[[[[[[[[[["
                               "[[[[[[[[[[[[[[[[[[[[[[[[[\"]";

    expect_render(text, text);
}

Test(json, hostile_documents_are_refused_with_the_place)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":{\"b\":1,\"b\":1}}",
                                      "[1,]",
                                      "{\"a\"}",
                                      "{'a':1}",
                                      "[01]",
                                      "[+1]",
                                      "[1.]",
                                      "[.5]",
                                      "[1e]",
                                      "[NaN]",
                                      "[Infinity]",
                                      "[1e999]",
                                      "[-1e999]",
                                      "[9223372036854775808]",
                                      "[99999999999999999999999999999999999999]",
                                      "[\"\\u0000\"]",
                                      "[\"\\ud800\"]",
                                      "[\"\xff\"]",
                                      "[\"\xc0\x80\"]",
                                      "[\"a\nb\"]",
                                      "[\"a",
                                      "[\"a\\",
                                      "[] []",
                                      "[]x",
                                      "]",
                                      "[tru]",
                                      "{\"a\":1}}",
                                      "// x\n[]"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        *error = '\0';
        cr_expect_null(parse(bad[i]), "%s", bad[i]);
        cr_expect(strstr(error, "line ") && strstr(error, "column "), "%s: %s", bad[i], error);
    }
    cr_assert_null(json_parse("[]\0[]", 5, error, sizeof(error)));
}

Test(json, every_cut_of_a_document_is_refused_without_reading_past_it)
{
    static const char text[] = "{\"a\":[1,2.5e3,\"x\\u00e9\\\"\"],\"b\":{\"c\":null}}";

    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *cut = malloc(len + 1); /* exactly sized, so that the sanitizer sees a read past it */
        json_t *value;

        memcpy(cut, text, len);
        value = json_parse(cut, len, error, sizeof(error));
        cr_expect_null(value, "%zu bytes", len);
        free(cut);
    }
}

Test(json, members_of_another_type_give_the_default)
{
    json_t *o = parse("{\"t\":\"x\",\"i\":7,\"r\":2.5,\"b\":true,\"n\":null}");

    cr_assert_str_eq(json_get_text(o, "t", "d"), "x");
    cr_assert_str_eq(json_get_text(o, "i", "d"), "d");
    cr_assert_str_eq(json_get_text(NULL, "t", "d"), "d");
    cr_assert_eq(json_get_int(o, "i", -1), 7);
    cr_assert_eq(json_get_int(o, "r", -1), -1);
    cr_assert_eq(json_get_int(o, "n", -1), -1);
    cr_assert_eq(json_get_number(o, "i", -1), 7);
    cr_assert_eq(json_get_number(o, "r", -1), 2.5);
    cr_assert_eq(json_get_number(o, "t", -1), -1);
    cr_assert_eq(json_get_bool(o, "b", false), true);
    cr_assert_eq(json_get_bool(o, "n", true), true);
    json_decref(o);
}

Test(json, merge_patch_does_what_rfc_7396_appendix_a_shows)
{
    static const char *const table[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        json_t *target = parse(table[i][0]), *patch = parse(table[i][1]);
        char *text;

        json_merge_patch(target, patch);
        text = json_render(target);
        cr_expect_str_eq(text, table[i][2]);
        free(text);
        json_decref(target);
        json_decref(patch);
    }
}

Test(json, a_merged_value_does_not_change_with_the_patch)
{
    json_t *target = parse("{}"), *patch = parse("{\"a\":[1]}");
    char *text;

    json_merge_patch(target, patch);
    json_array_append_new(json_object_get(patch, "a"), json_integer(2));
    text = json_render(target);
    cr_assert_str_eq(text, "{\"a\":[1]}");
    free(text);
    json_decref(target);
    json_decref(patch);
}

Test(json, members_are_found_without_case_but_exact_ones_first)
{
    json_t *o = parse("{\"SERVICELEVEL\":1,\"serviceLevel\":2,\"Other\":3}");

    cr_assert_eq(json_integer_value(json_object_get_nocase(o, "serviceLevel")), 2);
    cr_assert_eq(json_integer_value(json_object_get_nocase(o, "otheR")), 3);
    cr_assert_null(json_object_get_nocase(o, "othe"));
    cr_assert_null(json_object_get_nocase(NULL, "x"));
    json_decref(o);
}
