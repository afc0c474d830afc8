/* Placement (design D10) and the lists of endpoint addresses (D9). */
#include "api/placement.h"

#include <criterion/criterion.h>
#include <string.h>

#include "api/address_list.h"

/* ---- the choice ---- */

static const struct placement_wish east = {.location = "eastus", .zone = ""};
static const struct placement_wish east1 = {.location = "eastus", .zone = "1"};

static struct placement_candidate agent(int64_t id, int64_t space)
{
    return (struct placement_candidate){
        .agent = id, .name = "a", .region = "", .zone = "", .live = true, .store_free = space};
}

static int choose(const struct placement_candidate *c, size_t count,
                  const struct placement_wish *wish)
{
    struct arm_error error = {0};
    int best = placement_choose(c, count, wish, &error);

    cr_assert_eq(error.status, best < 0 ? 409 : 0);
    return best;
}

static void refused(const struct placement_candidate *c, size_t count,
                    const struct placement_wish *wish, const char *why)
{
    struct arm_error error = {0};

    cr_assert_eq(placement_choose(c, count, wish, &error), -1);
    cr_assert_eq(error.status, 409);
    cr_assert_str_eq(error.code, "NoAgentAvailable");
    cr_assert(strstr(error.message, why) != NULL, "'%s' does not say '%s'", error.message, why);
}

Test(placement, takes_the_most_free_space)
{
    const struct placement_candidate c[] = {agent(1, 10), agent(2, 30), agent(3, 20)};

    cr_assert_eq(choose(c, 3, &east), 1);
}

Test(placement, breaks_ties_by_fewest_volumes_then_lowest_id)
{
    struct placement_candidate c[] = {agent(3, 10), agent(2, 10), agent(1, 10)};

    c[0].volumes = 4;
    c[1].volumes = 5;
    c[2].volumes = 5;
    cr_assert_eq(choose(c, 3, &east), 0);
    c[0].volumes = 5;
    cr_assert_eq(choose(c, 3, &east), 2);
}

Test(placement, takes_a_full_agent_rather_than_none)
{
    const struct placement_candidate c[] = {agent(1, 0)};

    cr_assert_eq(choose(c, 1, &east), 0, "volumes are thin: overcommitment is allowed");
}

Test(placement, an_agent_without_region_or_zone_serves_all)
{
    struct placement_candidate c[] = {agent(1, 90), agent(2, 10)};

    c[0].region = "westus";
    cr_assert_eq(choose(c, 2, &east1), 1);
}

Test(placement, a_volume_without_zone_goes_to_any_zone)
{
    struct placement_candidate c[] = {agent(1, 10)};

    c[0].zone = "3";
    cr_assert_eq(choose(c, 1, &east), 0);
}

Test(placement, never_takes_the_lost_the_draining_or_the_wrong_zone)
{
    struct placement_candidate c[] = {agent(1, 90), agent(2, 80), agent(3, 70), agent(4, 1)};

    c[0].live = false;
    c[1].draining = true;
    c[2].zone = "2";
    cr_assert_eq(choose(c, 4, &east1), 3);
}

Test(placement, says_that_no_agent_is_enrolled)
{
    refused(NULL, 0, &east, "no agent is enrolled");
}

Test(placement, says_that_no_agent_is_live)
{
    struct placement_candidate c[] = {agent(1, 1), agent(2, 1)};

    c[0].live = c[1].live = false;
    refused(c, 2, &east, "none of the 2 enrolled agents is live");
}

Test(placement, names_the_missing_region)
{
    struct placement_candidate c[] = {agent(1, 1), agent(2, 1)};

    c[0].region = "westus";
    c[1].live = false; /* would serve the region, but is lost */
    refused(c, 2, &east, "serves the region 'eastus'");
}

Test(placement, names_the_missing_zone)
{
    struct placement_candidate c[] = {agent(1, 1)};

    c[0].zone = "2";
    refused(c, 1, &east1, "serves the zone '1'");
}

Test(placement, says_that_all_are_draining)
{
    struct placement_candidate c[] = {agent(1, 1)};

    c[0].draining = true;
    refused(c, 1, &east, "draining");
}

/* ---- addresses ---- */

Test(addresses, a_prefix_leaves_out_its_edges)
{
    char a[16];

    cr_assert(placement_address("[\"127.77.0.0/24\"]", 0, a));
    cr_assert_str_eq(a, "127.77.0.1");
    cr_assert(placement_address("[\"127.77.0.0/24\"]", 253, a));
    cr_assert_str_eq(a, "127.77.0.254");
    cr_assert_not(placement_address("[\"127.77.0.0/24\"]", 254, a));
}

Test(addresses, small_prefixes_have_no_edges)
{
    char a[16];

    cr_assert(placement_address("[\"10.0.0.4/31\"]", 1, a));
    cr_assert_str_eq(a, "10.0.0.5");
    cr_assert_not(placement_address("[\"10.0.0.4/31\"]", 2, a));
    cr_assert(placement_address("[\"10.0.0.4/32\"]", 0, a));
    cr_assert_str_eq(a, "10.0.0.4");
    cr_assert_not(placement_address("[\"10.0.0.4/32\"]", 1, a));
}

Test(addresses, a_list_is_walked_in_its_order)
{
    static const char list[] = "[\"10.0.1.7\", \"10.0.0.254-10.0.1.1\", \"10.9.0.0/30\"]";
    static const char *const want[] = {"10.0.1.7", "10.0.0.254", "10.0.0.255", "10.0.1.0",
                                       "10.0.1.1", "10.9.0.1",   "10.9.0.2"};
    char a[16];

    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        cr_assert(placement_address(list, i, a));
        cr_assert_str_eq(a, want[i]);
    }
    cr_assert_not(placement_address(list, sizeof want / sizeof want[0], a));
    cr_assert_not(placement_address(list, SIZE_MAX, a));
}

Test(addresses, the_largest_prefix_counts_right)
{
    struct address_list list;
    json_t *array = json_pack("[s]", "127.0.0.0/8");

    cr_assert(address_list_parse(array, &list, NULL, 0));
    cr_assert_eq(address_list_size(&list), (UINT64_C(1) << 24) - 2);
    json_decref(array);
}

Test(addresses, hostile_text_is_refused)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "null",
        "\"10.0.0.1\"",
        "[1]",
        "[null]",
        "[[\"10.0.0.1\"]]",
        "[\"\"]",
        "[\"/24\"]",
        "[\"-\"]",
        "[\"10.0.0.1-\"]",
        "[\"-10.0.0.1\"]",
        "[\"10.0.0.0/\"]",
        "[\"10.0.0.0/ 24\"]",
        "[\"10.0.0.0/+24\"]",
        "[\"10.0.0.0/-24\"]",
        "[\"10.0.0.0/33\"]",
        "[\"10.0.0.0/7\"]",
        "[\"0.0.0.0/0\"]",
        "[\"10.0.0.0/24x\"]",
        "[\"10.0.0.0/99999999999999999999\"]",
        "[\"10.0.0.1/24\"]",
        "[\"10.0.0.9-10.0.0.1\"]",
        "[\"10.0.0.1/24-2\"]",
        "[\"10.0.0.1-10.0.0.2-10.0.0.3\"]",
        "[\"010.0.0.1\"]",
        "[\"10.0.0\"]",
        "[\"10.0.0.256\"]",
        "[\" 10.0.0.1\"]",
        "[\"0.0.0.1\"]",
        "[\"224.0.0.1\"]",
        "[\"255.255.255.255\"]",
        "[\"223.0.0.1-224.0.0.1\"]",
        "[\"::1\"]",
        "[\"10.0.0.1\", \"x\"]",
        "[\"10.0.0.1\\u0000\"]",
        "[\"1111111111111111111111111111111111111111111111111111111111111111\"]",
        "not json",
        "",
    };
    char a[16];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(placement_address(bad[i], 0, a), "accepted: %s", bad[i]);
    }
}

Test(addresses, the_number_of_entries_is_bounded)
{
    struct address_list list;
    char why[64];
    json_t *array = json_array();

    for (int i = 0; i < ADDRESS_RANGES_MAX; i++) {
        json_array_append_new(array, json_string("10.0.0.1"));
    }
    cr_assert(address_list_parse(array, &list, why, sizeof why));
    json_array_append_new(array, json_string("10.0.0.1"));
    cr_assert_not(address_list_parse(array, &list, why, sizeof why));
    cr_assert_str_eq(why, "a list of 1 to 64 entries");
    json_decref(array);
}
