/* The growing buffer and checked allocation. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"

Test(buf, an_empty_buffer_gives_an_empty_text)
{
    struct buf b = {0};
    char *text = buf_take(&b);

    cr_assert_str_eq(text, "");
    free(text);
    buf_free(&b);
}

Test(buf, pieces_of_every_kind_join)
{
    struct buf b = {0};

    buf_str(&b, "a");
    buf_add(&b, "\0b", 2);
    buf_printf(&b, "%d-%s", 42, "x");
    cr_assert_eq(b.len, 7);
    cr_assert_eq(memcmp(b.data, "a\0b42-x", 8), 0);
    buf_free(&b);
    cr_assert_null(b.data);
}

Test(buf, growth_keeps_what_is_there_and_taking_empties)
{
    struct buf b = {0};
    char *text;

    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "%04d", i);
    cr_assert_eq(b.len, 40000);
    text = buf_take(&b);
    cr_assert_eq(strlen(text), 40000);
    cr_assert_eq(memcmp(text + 4 * 9876, "9876", 4), 0);
    cr_assert_eq(b.len, 0);
    free(text);
    buf_str(&b, "again");
    cr_assert_str_eq(b.data, "again");
    buf_free(&b);
}

Test(mem, copies_and_formatting)
{
    char *a = xstrdup("abc"), *b = xstrndup("abc", 2), *c = xasprintf("%s-%d", a, 1);
    unsigned char *zero = xcalloc(0, 0);

    cr_assert_str_eq(a, "abc");
    cr_assert_str_eq(b, "ab");
    cr_assert_str_eq(c, "abc-1");
    cr_assert_eq(*zero, 0);
    free(a);
    free(b);
    free(c);
    free(zero);
}
