/* The text exposition format 0.0.4. */
#include <criterion/criterion.h>
#include <math.h>

#include "common/prom.h"

Test(prom, a_family_is_announced_once_and_samples_carry_escaped_labels)
{
    struct buf b = {0};

    prom_family(&b, "spillway_ops_total", "counter", "Calls\nwith a \\ and \"quotes\".");
    prom_sample(&b, "spillway_ops_total", 12345678901, "volume", "a\"b\\c\nd", "proc", "READ",
                NULL);
    prom_sample(&b, "spillway_ops_total", 0, NULL);
    cr_assert_str_eq(b.data,
                     "# HELP spillway_ops_total Calls\\nwith a \\\\ and \"quotes\".\n"
                     "# TYPE spillway_ops_total counter\n"
                     "spillway_ops_total{volume=\"a\\\"b\\\\c\\nd\",proc=\"READ\"} 12345678901\n"
                     "spillway_ops_total 0\n");
    buf_free(&b);
}

Test(prom, values_are_integers_where_they_are_and_exact_elsewhere)
{
    struct buf b = {0};

    prom_sample(&b, "m", 0.1, NULL);
    prom_sample(&b, "m", -2, NULL);
    prom_sample(&b, "m", 9007199254740992.0, NULL);
    prom_sample(&b, "m", 1e300, NULL);
    prom_sample(&b, "m", INFINITY, NULL);
    prom_sample(&b, "m", -INFINITY, NULL);
    prom_sample(&b, "m", NAN, NULL);
    cr_assert_str_eq(b.data, "m 0.1\nm -2\nm 9007199254740992\nm 1e300\nm +Inf\nm -Inf\nm NaN\n");
    buf_free(&b);
}
