/* The throughput rules with the numbers of the reference, anf-api.md C. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "api/throughput.h"

Test(throughput, auto_limit_is_rate_times_quota)
{
    cr_assert(eq(dbl, auto_throughput_mibps("Premium", 100 * GIB, VOLUME_REGULAR), 6.25));
    cr_assert(eq(dbl, auto_throughput_mibps("Premium", 2 * TIB, VOLUME_REGULAR), 128));
    cr_assert(eq(dbl, auto_throughput_mibps("Standard", 100 * GIB, VOLUME_REGULAR), 1.5625));
    cr_assert(eq(dbl, auto_throughput_mibps("Ultra", 50 * GIB, VOLUME_REGULAR), 6.25));
    cr_assert(eq(dbl, auto_throughput_mibps("premium", 100 * GIB, VOLUME_REGULAR), 6.25));
}

Test(throughput, auto_limit_stops_at_the_ceiling_of_the_kind)
{
    cr_assert(eq(dbl, auto_throughput_mibps("Premium", 72 * TIB, VOLUME_REGULAR), 4500));
    cr_assert(eq(dbl, auto_throughput_mibps("Premium", 70 * TIB, VOLUME_REGULAR), 4480));
    cr_assert(eq(dbl, auto_throughput_mibps("Standard", 50 * TIB, VOLUME_LARGE), 800));
    cr_assert(eq(dbl, auto_throughput_mibps("Premium", 50 * TIB, VOLUME_LARGE), 3200));
    cr_assert(eq(dbl, auto_throughput_mibps("Ultra", 50 * TIB, VOLUME_LARGE), 6400));
    cr_assert(eq(dbl, auto_throughput_mibps("Ultra", 200 * TIB, VOLUME_LARGE), 12800));
}

Test(throughput, pool_total_is_rate_times_size_or_the_custom_value)
{
    cr_assert(eq(dbl, pool_total_mibps("Premium", 4 * TIB, 0), 256));
    cr_assert(eq(dbl, pool_total_mibps("Ultra", 10 * TIB, 0), 1280));
    cr_assert(eq(dbl, pool_total_mibps("Ultra", 4 * TIB, 0), 512));
    cr_assert(eq(dbl, pool_total_mibps("Flexible", 50 * TIB, 21504), 21504));
    cr_assert(eq(dbl, pool_total_mibps("Flexible", 4 * TIB, 0), 128));
}

Test(throughput, flexible_pool_takes_640_per_tib)
{
    cr_assert(eq(dbl, flexible_max_mibps(1 * TIB), 640));
    cr_assert(eq(dbl, flexible_max_mibps(2 * TIB), 1280));
    cr_assert(eq(dbl, flexible_max_mibps(4 * TIB), 2560));
    cr_assert(ge(dbl, flexible_max_mibps(50 * TIB), 21504));
}

Test(throughput, a_raise_blocks_lowering_for_24_hours)
{
    const int64_t hour = INT64_C(3600) * 1000000000, now = 1000 * hour;
    int64_t until = flexible_cooldown_after(128, 256, 0, now), wait;

    cr_assert(eq(i64, until, now + 24 * hour));
    cr_assert(not(flexible_change_allowed(256, 128, until, now + 23 * hour, &wait)));
    cr_assert(eq(i64, wait, hour));
    cr_assert(flexible_change_allowed(256, 512, until, now + hour, &wait));
    cr_assert(flexible_change_allowed(256, 128, until, now + 24 * hour, &wait));
    cr_assert(eq(i64, flexible_cooldown_after(256, 128, until, now + 24 * hour), until));
    cr_assert(flexible_change_allowed(256, 256, until, now, &wait));
}

Test(throughput, sums_of_decimal_fractions_fit_exactly)
{
    double sum = 0;

    for (int i = 0; i < 1280; i++)
        sum += 0.1; /* 128 on paper, a little more or less in binary */
    cr_assert(throughput_fits(sum, 128));
    cr_assert(not(throughput_fits(sum + 0.001, 128)));
    cr_assert(throughput_fits(38.4 * 3, 115.2));
}

Test(throughput, size_ranges_of_the_kinds)
{
    cr_assert(eq(i64, volume_size_min(VOLUME_REGULAR), INT64_C(53687091200)));
    cr_assert(eq(i64, volume_size_max(VOLUME_REGULAR), INT64_C(109951162777600)));
    cr_assert(eq(i64, volume_size_min(VOLUME_LARGE), INT64_C(54975581388800)));
    cr_assert(eq(i64, volume_size_max(VOLUME_LARGE), INT64_C(1125899906842624)));
    cr_assert(eq(i64, volume_size_min(VOLUME_BREAKTHROUGH), INT64_C(2576980377600)));
    cr_assert(eq(i64, volume_size_max(VOLUME_BREAKTHROUGH), INT64_C(2638827906662400)));
    cr_assert(eq(dbl, volume_ceiling_mibps(VOLUME_BREAKTHROUGH), 81920));
    cr_assert(eq(int, volume_kind_of(false, true), VOLUME_BREAKTHROUGH));
    cr_assert(eq(int, volume_kind_of(true, false), VOLUME_LARGE));
}

Test(throughput, conversion_keeps_what_a_volume_has)
{
    cr_assert(eq(dbl, converted_mibps(6.25, VOLUME_REGULAR), 6.25));
    cr_assert(eq(dbl, converted_mibps(0.78125, VOLUME_REGULAR),
                 1)); /* 50 GiB Standard: below what manual knows */
}

Test(throughput, limits_in_bytes_per_second)
{
    cr_assert(eq(i64, throughput_bytes_per_second(1), 1048576));
    cr_assert(eq(i64, throughput_bytes_per_second(21504), INT64_C(22548578304)));
    cr_assert(eq(i64, throughput_bytes_per_second(38.4), 40265318)); /* 40,265,318.4 */
    cr_assert(eq(i64, throughput_bytes_per_second(0), 1));
}

Test(throughput, files_of_the_published_sizes)
{
    cr_assert(eq(i64, volume_max_files(100 * GIB, VOLUME_REGULAR), 21251126));
    cr_assert(eq(i64, volume_max_files(1 * TIB, VOLUME_REGULAR), 31876709));
    cr_assert(eq(i64, volume_max_files(10 * TIB, VOLUME_REGULAR), 318767099));
    cr_assert(eq(i64, volume_max_files(50 * TIB, VOLUME_LARGE), 1593835519));
    cr_assert(eq(i64, volume_max_files(100 * TIB, VOLUME_REGULAR), INT64_C(2147483632)));
    cr_assert(eq(i64, volume_max_files(2400 * TIB, VOLUME_BREAKTHROUGH), INT64_C(15938355048)));
}
