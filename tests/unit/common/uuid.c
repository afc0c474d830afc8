/* UUIDs: RFC 4122 layout and text. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "common/uuid.h"

Test(uuid, random_ones_differ_and_are_version_4)
{
    struct uuid a = uuid_random(), b = uuid_random();

    cr_assert_not(uuid_equal(&a, &b));
    cr_assert_eq(a.b[6] >> 4, 4);
    cr_assert_eq(a.b[8] >> 6, 2);
}

static void *make_one(void *arg)
{
    *(struct uuid *)arg = uuid_random();
    return NULL;
}

Test(uuid, the_first_call_may_come_from_many_threads)
{
    pthread_t threads[8];
    struct uuid made[8];

    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, make_one, &made[i]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 8; i++)
        cr_assert_not(uuid_equal(&made[0], &made[i]));
}

Test(uuid, derived_ones_depend_on_space_and_name_alone)
{
    struct uuid s1 = {{1}}, s2 = {{2}};
    struct uuid a = uuid_derive(&s1, "x"), b = uuid_derive(&s1, "x"), c = uuid_derive(&s1, "y"),
                d = uuid_derive(&s2, "x");

    cr_assert(uuid_equal(&a, &b));
    cr_assert_not(uuid_equal(&a, &c));
    cr_assert_not(uuid_equal(&a, &d));
    cr_assert_eq(a.b[6] >> 4, 8);
    cr_assert_eq(a.b[8] >> 6, 2);
}

Test(uuid, text_is_written_lower_case_and_read_in_both)
{
    struct uuid u;
    char out[UUID_TEXT_MAX];

    cr_assert(uuid_parse("00112233-4455-6677-8899-AabBCcDDeeFF", &u));
    cr_assert_eq(
        memcmp(u.b, "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16), 0);
    cr_assert_str_eq(uuid_format(&u, out), "00112233-4455-6677-8899-aabbccddeeff");
}

Test(uuid, anything_else_is_refused_and_leaves_the_target_alone)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "00112233-4455-6677-8899-aabbccddeef",
                                      "00112233-4455-6677-8899-aabbccddeeff0",
                                      "00112233-4455-6677-8899-aabbccddeefg",
                                      "00112233445566778899aabbccddeeff",
                                      "{0112233-4455-6677-8899-aabbccddeef}",
                                      "00112233-4455-6677-8899_aabbccddeeff",
                                      "0011223-34455-6677-8899-aabbccddeeff",
                                      " 0112233-4455-6677-8899-aabbccddeeff",
                                      "00112233-4455-6677-8899-aabbccddeeff "};
    struct uuid u = {{9}}, same = u;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_not(uuid_parse(bad[i], &u), "%s", bad[i]);
    cr_assert(uuid_equal(&u, &same));
}
