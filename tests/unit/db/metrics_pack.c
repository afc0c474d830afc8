/* Packing a volume's hour: there and back; bytes that are damaged or made up never unpack wrongly.
 */
#include "db/metrics_pack.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct metrics_hour full_hour(unsigned minutes)
{
    struct metrics_hour h = {.minutes = minutes};

    for (unsigned i = 0; i < METRICS_SLOTS / minutes; i++) {
        h.slot[i].used = true;
        h.slot[i].has_gauge = i % 3 != 0;
        for (size_t k = 0; k < METRIC_SUM_COUNT; k++)
            h.slot[i].sum[k] = UINT64_MAX >> (i + k) % 64;
        for (size_t k = 0; h.slot[i].has_gauge && k < METRIC_GAUGE_COUNT; k++)
            h.slot[i].gauge[k] = UINT64_MAX - i;
    }
    return h;
}

Test(metrics_pack, an_hour_unpacks_as_it_was_packed)
{
    static const unsigned minutes[] = {1, 5};

    for (size_t i = 0; i < 2; i++) {
        struct metrics_hour in = full_hour(minutes[i]), out;
        uint8_t packed[METRICS_PACK_MAX];
        size_t len = metrics_pack(&in, packed);

        cr_assert_leq(len, METRICS_PACK_MAX);
        cr_assert(metrics_unpack(packed, len, &out));
        cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
    }
}

Test(metrics_pack, the_largest_hour_fits)
{
    struct metrics_hour h = {.minutes = 1}, out;
    uint8_t *packed = malloc(METRICS_PACK_MAX);

    for (unsigned i = 0; i < METRICS_SLOTS; i++) {
        memset(&h.slot[i], 0xff, sizeof h.slot[i]);
        h.slot[i].used = h.slot[i].has_gauge = true;
    }
    cr_assert(metrics_unpack(packed, metrics_pack(&h, packed), &out));
    free(packed);
}

Test(metrics_pack, a_quiet_hour_is_small)
{
    struct metrics_hour h = {.minutes = 1};
    uint8_t packed[METRICS_PACK_MAX];

    h.slot[7].used = true;
    h.slot[7].sum[0] = 127;
    cr_assert_eq(metrics_pack(&h, packed), 2 + 2 + METRIC_SUM_COUNT, "one byte a small number");
}

Test(metrics_pack, a_cut_row_does_not_unpack)
{
    struct metrics_hour in = full_hour(5), out;
    uint8_t packed[METRICS_PACK_MAX];
    size_t len = metrics_pack(&in, packed), whole = 0;

    for (size_t cut = 0; cut < len; cut++) {
        /* In memory of just its size, for the address sanitizer. */
        uint8_t *copy = malloc(cut ? cut : 1);

        memcpy(copy, packed, cut);
        whole += metrics_unpack(copy, cut, &out);
        free(copy);
    }
    cr_assert_eq(whole, 12, "a cut between two of the 12 slots cannot be told");
}

Test(metrics_pack, made_up_bytes_never_leave_the_hour)
{
    static const uint8_t bad[][5] = {
        {0, 1},         /* no such version */
        {2, 1},         /* a later one */
        {1, 0},         /* a slot of no minutes */
        {1, 7},         /* or of seven */
        {1, 1, 60, 0},  /* past the hour */
        {1, 5, 12, 0},  /* past the hour of twelve */
        {1, 1, 255, 0}, /* */
        {1, 1, 0, 2},   /* an unknown flag */
    };
    struct metrics_hour out;
    uint8_t longest[2 + 2 + 10 + METRIC_SUM_COUNT - 1] = {1, 1, 0, 0, [13] = 2};
    uint8_t twice[4 + 2 * (2 + METRIC_SUM_COUNT)] = {1, 1}, wide[2 + 2 + 11] = {1, 1, 0, 0};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(metrics_unpack(bad[i], sizeof bad[i], &out), "%zu", i);
    cr_expect_not(metrics_unpack(NULL, 0, &out));
    cr_expect_not(metrics_unpack(twice, 2 + 2 * (2 + METRIC_SUM_COUNT), &out), "a slot twice");
    memset(wide + 4, 0xff, 11);
    cr_expect_not(metrics_unpack(wide, sizeof wide, &out), "a number without an end");
    memset(longest + 4, 0xff, 9);
    cr_expect_not(metrics_unpack(longest, sizeof longest, &out), "a number past 64 bits");
    longest[13] = 1;
    cr_expect(metrics_unpack(longest, sizeof longest, &out), "the largest number");
    srand(1);
    for (int i = 0; i < 100000; i++) {
        uint8_t noise[64];

        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)rand();
        noise[0] = 1;
        noise[1] = i % 2 ? 1 : 5;
        metrics_unpack(noise, (size_t)rand() % sizeof noise, &out);
    }
}

Test(metrics_pack, sums_stay_at_the_largest_number)
{
    struct metrics_hour h = {.minutes = 1};
    struct metric_increment i = {0};

    i.sum[0] = UINT64_MAX - 1;
    metrics_add(&h, 3, &i);
    metrics_add(&h, 3, &i);
    metrics_add(&h, 4, &i);
    cr_assert_eq(h.slot[3].sum[0], UINT64_MAX);
    metrics_fold(&h);
    cr_assert_eq(h.slot[0].sum[0], UINT64_MAX);
}
