/*
 * The reconciler against a simulated store: what is served, recorded and reported, also when the
 * agent dies between any two of its steps (docs/agent-protocol.md, design D1 and D2).
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control/reconcile.h"
#include "common/clock.h"
#include "common/json_util.h"

#define VOLUMES 8

/* The store and the table of exports. `disk` survives a kill, the rest does not. */
static struct {
    bool disk[VOLUMES], served[VOLUMES];
    uint64_t limit[VOLUMES];
    unsigned listening; /* addresses */
    int apply_error, listen_error;
    unsigned applies, creations, wakes;
    char order[64];          /* what was done, as "+1 -2 ~3 ": served, deleted, retired */
    void (*meanwhile)(void); /* happens once, while a spec is being applied */
    char dir[64];
} world;

static struct addresses allowed;
static struct desired *desired;
static struct endpoints *endpoints;
static struct reconciler *r;

static void note(char what, unsigned n)
{
    size_t used = strlen(world.order);

    snprintf(world.order + used, sizeof(world.order) - used, "%c%u ", what, n);
}

static int world_apply(void *arg, const struct volume_spec *spec, char *message, size_t size)
{
    unsigned n = spec->fs_id.b[15];
    void (*meanwhile)(void) = world.meanwhile;

    (void)arg;
    cr_assert_lt(n, VOLUMES);
    world.applies++;
    note(spec->deleted ? '-' : '+', n);
    world.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    if (world.apply_error != 0) {
        snprintf(message, size, "simulated");
        return world.apply_error;
    }
    if (spec->deleted) {
        bool there = world.disk[n];

        world.disk[n] = world.served[n] = false;
        return there ? 0 : -ENOENT;
    }
    world.creations += !world.disk[n];
    world.disk[n] = world.served[n] = true;
    world.limit[n] = spec->limit;
    return 0;
}

static int world_retire(void *arg, const struct uuid *fs_id)
{
    (void)arg;
    note('~', fs_id->b[15]);
    world.served[fs_id->b[15]] = false;
    return 0;
}

static int world_each(void *arg, storage_each_fn *fn, void *fn_arg)
{
    (void)arg;
    for (uint8_t n = 0; n < VOLUMES; n++) {
        struct uuid id = {{0}};

        id.b[15] = n;
        if (world.disk[n])
            fn(&id, fn_arg);
    }
    return 0;
}

static void world_wake(void *arg)
{
    (void)arg;
    world.wakes++;
}

static int world_listen(void *arg, const char *address)
{
    (void)arg;
    (void)address;
    world.listening += world.listen_error == 0;
    return world.listen_error;
}

static void world_unlisten(void *arg, const char *address)
{
    (void)arg;
    (void)address;
    world.listening--;
}

static bool world_has(struct in_addr a)
{
    (void)a;
    return true;
}

static const struct endpoint_ops endpoint_ops = {world_listen, world_unlisten, world_has, NULL,
                                                 NULL};
static const struct reconcile_ops ops = {world_apply, world_retire, world_each, world_wake};

/* A start of the agent: restores, but starts no thread. */
static void boot(void)
{
    cr_assert_eq(desired_open(world.dir, &desired), 0);
    cr_assert_eq(endpoints_open(&(struct endpoints_config){.allowed = &allowed,
                                                           .state_dir = world.dir,
                                                           .port = 2049,
                                                           .ops = &endpoint_ops},
                                &endpoints),
                 0);
    r = reconciler_new(
        &(struct reconciler_config){.desired = desired, .endpoints = endpoints, .ops = &ops});
    cr_assert_eq(reconciler_restore(r), 0);
}

/* The end of the process, whatever it was doing: memory and listening are gone, the disk stays. */
static void power_off(void)
{
    reconciler_free(r);
    endpoints_close(endpoints);
    desired_close(desired);
    memset(world.served, 0, sizeof(world.served));
    world.listening = 0;
}

static void set_up(void)
{
    char why[160];

    memset(&world, 0, sizeof(world));
    snprintf(world.dir, sizeof(world.dir), "/tmp/ctl-reconcile-XXXXXX");
    cr_assert(mkdtemp(world.dir));
    cr_assert(addresses_parse("127.77.0.0/24", &allowed, why, sizeof(why)));
    boot();
}

static void tear_down(void)
{
    char command[128];

    power_off();
    snprintf(command, sizeof(command), "rm -rf '%s'", world.dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(reconcile, .init = set_up, .fini = tear_down);

static json_t *spec(unsigned n, int generation, int limit)
{
    char id[40];

    snprintf(id, sizeof(id), "00000000-0000-0000-0000-%012u", n);
    return json_pack("{s:s, s:i, s:s, s:b, s:s, s:[s], s:b, s:I, s:I, s:i, s:s, s:s, s:b, s:[]}",
                     "fileSystemId", id, "generation", generation, "id",
                     "/subscriptions/s/volumes/v", "deleted", 0, "exportPath", "/vol", "endpoints",
                     "127.77.0.2", "breakthrough", 0, "quotaBytes", (json_int_t)1 << 30, "maxFiles",
                     (json_int_t)1000, "limitBytesPerSecond", limit, "handleKey",
                     "00112233445566778899aabbccddeeff", "unixPermissions", "0770",
                     "snapshotDirectoryVisible", 1, "rules");
}

static json_t *deletion(unsigned n, int generation)
{
    char id[40];

    snprintf(id, sizeof(id), "00000000-0000-0000-0000-%012u", n);
    return json_pack("{s:s, s:i, s:b}", "fileSystemId", id, "generation", generation, "deleted", 1);
}

/* Takes over `list`. */
static void offer(json_t *list, bool full)
{
    cr_assert(list);
    reconciler_offer(r, list, full);
    json_decref(list);
}

static void settle(void)
{
    while (reconciler_step(r, clock_mono_ns()))
        ;
}

/* The pending reports as "1:ready:3 2:failed:4(message) "; acknowledged when `ack`. */
static const char *reports(bool ack)
{
    static char out[1024];
    struct report_batch batch;
    size_t i, len = 0;
    json_t *o;

    reconciler_take_reports(r, &batch);
    out[0] = '\0';
    json_array_foreach(batch.observations, i, o)
    {
        const char *message = json_get_text(o, "message", NULL);

        len += (size_t)snprintf(out + len, sizeof(out) - len, "%s:%s:%lld%s%s%s ",
                                strrchr(json_get_text(o, "fileSystemId", ""), '-') + 12,
                                json_get_text(o, "state", ""),
                                (long long)json_get_int(o, "generation", 0), message ? "(" : "",
                                message ? message : "", message ? ")" : "");
    }
    if (ack)
        reconciler_acknowledge(r, &batch);
    json_decref(batch.observations);
    return out;
}

static struct reconciler_stats stats(void)
{
    struct reconciler_stats s;

    reconciler_get_stats(r, &s);
    return s;
}

Test(reconcile, a_spec_is_served_recorded_and_reported_until_acknowledged)
{
    offer(json_pack("[o, o]", spec(1, 1, 100), spec(2, 5, 200)), true);
    settle();
    cr_expect(world.served[1] && world.served[2]);
    cr_expect_eq(world.listening, 1, "they share the address");
    cr_expect_gt(world.wakes, 0);
    cr_expect_str_eq(reports(false), "1:ready:1 2:ready:5 ");
    cr_expect_str_eq(reports(true), "1:ready:1 2:ready:5 ", "again until acknowledged");
    cr_expect_str_eq(reports(false), "");
    power_off();
    boot();
    cr_expect(world.served[1] && world.served[2], "restored without the control plane");
    cr_expect_eq(stats().known, 2);
    cr_expect_eq(stats().served, 2);
}

Test(reconcile, only_the_latest_spec_of_a_volume_counts)
{
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    offer(json_pack("[o]", spec(1, 2, 200)), false);
    offer(json_pack("[o]", spec(1, 3, 300)), false);
    settle();
    cr_expect_eq(world.applies, 1);
    cr_expect_eq(world.limit[1], 300);
    cr_expect_str_eq(reports(true), "1:ready:3 ");
}

Test(reconcile, the_same_spec_again_is_reported_again_and_changes_nothing)
{
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    reports(true);
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    cr_expect_eq(world.applies, 1);
    cr_expect_str_eq(reports(true), "1:ready:1 ", "the control plane may have forgotten");
}

/* An acknowledgement of an older report must not swallow the newer one. */
Test(reconcile, an_acknowledgement_counts_for_what_was_sent)
{
    struct report_batch sent;

    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    reconciler_take_reports(r, &sent);
    offer(json_pack("[o]", spec(1, 2, 200)), false);
    settle();
    reconciler_acknowledge(r, &sent);
    json_decref(sent.observations);
    cr_expect_str_eq(reports(true), "1:ready:2 ");
}

Test(reconcile, a_failure_is_reported_once_and_tried_again_with_pauses)
{
    uint64_t now = clock_mono_ns();
    unsigned tries = 0;

    world.apply_error = -EIO;
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    cr_expect_str_eq(reports(true), "1:failed:1(simulated) ");
    for (int s = 0; s < 600; s++) /* ten minutes, looking twice a second */
        tries += reconciler_step(r, now += NS_PER_S / 2) ? 1 : 0;
    cr_expect(tries >= 8 && tries <= 12, "1, 2, 4 … 60 s apart: %u", tries);
    cr_expect_str_eq(reports(true), "", "nothing new");
    world.apply_error = 0;
    while (!reconciler_step(r, now += NS_PER_S))
        ;
    cr_expect_str_eq(reports(true), "1:ready:1 ", "a late success counts");
    cr_expect(world.served[1]);
}

Test(reconcile, an_address_that_cannot_be_bound_fails_with_its_name)
{
    world.listen_error = -EADDRINUSE;
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    cr_expect(strstr(reports(true), "127.77.0.2:2049: Address already in use"));
    cr_expect_not(world.served[1]);
    cr_expect_not(world.disk[1], "nothing was made");
}

Test(reconcile, an_impossible_spec_keeps_the_last_good_one)
{
    json_t *bad = spec(1, 2, 200);

    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    reports(true);
    json_object_set_new(bad, "quotaBytes", json_integer(-1));
    offer(json_pack("[o]", bad), false);
    settle();
    cr_expect(strstr(reports(true), "1:failed:2(impossible specification: quotaBytes"));
    cr_expect(world.served[1]);
    cr_expect_eq(world.limit[1], 100);
    cr_expect_not(reconciler_step(r, clock_mono_ns() + 3600 * NS_PER_S),
                  "trying again cannot help");
    power_off();
    boot();
    cr_expect(world.served[1]);
    cr_expect_eq(world.limit[1], 100);
}

Test(reconcile, a_deletion_takes_data_record_and_address)
{
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    reports(true);
    offer(json_pack("[o]", deletion(1, 2)), false);
    settle();
    cr_expect_not(world.disk[1]);
    cr_expect_eq(world.listening, 1, "for those who have it mounted");
    cr_expect_str_eq(reports(true), "1:deleted:2 ");
    cr_expect_eq(stats().known, 0);
    reconciler_step(r, clock_mono_ns() + ENDPOINT_LINGER_NS);
    cr_expect_eq(world.listening, 0);
    power_off();
    boot();
    cr_expect_eq(world.creations, 1, "not made anew");
}

/* Killed after the mark and before the data moved, and after the data moved: both end deleted,
 * never empty and served. */
Test(reconcile, a_deletion_that_was_cut_off_goes_on)
{
    for (int moved = 0; moved <= 1; moved++) {
        offer(json_pack("[o]", spec(1, 1, 100)), false);
        settle();
        world.apply_error = -EIO; /* the mark is written, the move fails */
        offer(json_pack("[o]", deletion(1, 2)), false);
        settle();
        power_off();
        world.apply_error = 0;
        world.creations = 0;
        if (moved)
            world.disk[1] = false;
        boot();
        settle();
        cr_expect_not(world.disk[1]);
        cr_expect_not(world.served[1]);
        cr_expect_eq(world.creations, 0);
        cr_expect_str_eq(reports(true), "1:deleted:2 ");
    }
}

/* Killed after the volume was made and before its record: nothing speaks of it, then the control
 * plane does again. */
Test(reconcile, a_creation_that_was_cut_off_is_taken_up_again)
{
    world.disk[1] = true; /* made by the killed run */
    power_off();
    boot();
    cr_expect_not(world.served[1]);
    cr_expect_eq(stats().orphans, 1);
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    cr_expect(world.served[1]);
    cr_expect_eq(world.creations, 0);
    cr_expect_eq(stats().orphans, 0);
}

Test(reconcile, deleting_what_is_not_there_is_done_at_once)
{
    offer(json_pack("[o]", deletion(5, 9)), true);
    settle();
    cr_expect_str_eq(reports(true), "5:deleted:9 ");
}

/* A control plane that was restored from an older backup: its full list lacks a volume. */
Test(reconcile, what_a_full_list_lacks_is_kept_and_not_served)
{
    offer(json_pack("[o, o]", spec(1, 1, 100), spec(2, 1, 100)), true);
    settle();
    reports(true);
    offer(json_pack("[o]", spec(2, 1, 100)), true);
    settle();
    cr_expect(world.disk[1], "the data is kept");
    cr_expect_not(world.served[1]);
    cr_expect(world.served[2]);
    cr_expect_eq(stats().orphans, 1);
    cr_expect_eq(stats().known, 1);
    cr_expect_str_eq(reports(true), "2:ready:1 ");
    power_off();
    boot();
    cr_expect_not(world.served[1], "not after a restart either");
    cr_expect_eq(stats().orphans, 1);
    offer(json_pack("[o, o]", spec(1, 3, 100), spec(2, 1, 100)), true);
    settle();
    cr_expect(world.served[1], "until a spec speaks of it again");
    cr_expect_eq(stats().orphans, 0);
}

/* A new volume may have the path and address of one that goes: that one must go first, whatever
 * the order in which they are named. */
Test(reconcile, what_goes_makes_room_for_what_comes)
{
    offer(json_pack("[o, o]", spec(1, 1, 100), spec(2, 1, 100)), true);
    settle();
    world.order[0] = '\0';
    offer(json_pack("[o, o, o]", spec(3, 1, 100), spec(2, 1, 100), deletion(1, 2)), true);
    settle();
    cr_expect_str_eq(world.order, "-1 +3 ");
    world.order[0] = '\0';
    offer(json_pack("[o, o]", spec(4, 1, 100), spec(3, 1, 100)), true);
    settle();
    cr_expect_str_eq(world.order, "~2 +4 ", "also what is only no longer served");
    world.order[0] = '\0';
    offer(json_pack("[o, o]", spec(5, 1, 100), spec(4, 2, 200)), false);
    offer(json_pack("[o]", deletion(4, 3)), false);
    settle();
    cr_expect_str_eq(world.order, "-4 +5 ", "also when it waits behind the new one already");
}

static void delete_1_for_2(void)
{
    offer(json_pack("[o, o]", deletion(1, 2), spec(2, 1, 100)), false);
}

static void lose_1_for_2(void)
{
    offer(json_pack("[o]", spec(2, 1, 100)), true);
}

Test(reconcile, what_goes_while_it_is_being_applied_makes_room_too)
{
    world.meanwhile = delete_1_for_2;
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    cr_expect_str_eq(world.order, "+1 -1 +2 ");
}

Test(reconcile, what_is_lost_while_it_is_being_applied_makes_room_too)
{
    world.meanwhile = lose_1_for_2;
    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    cr_expect_str_eq(world.order, "+1 ~1 +2 ");
}

Test(reconcile, a_partial_list_retires_nothing)
{
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    offer(json_array(), false);
    settle();
    cr_expect(world.served[1]);
}

/* Which volume does it speak of? Perhaps of one that is served. */
Test(reconcile, a_full_list_with_a_spec_of_nobody_retires_nothing)
{
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    offer(json_pack("[{s:s}]", "fileSystemId", "nonsense"), true);
    settle();
    cr_expect(world.served[1]);
    cr_expect_eq(stats().rejected, 1);
}

/* The store lost a folder that the records speak of: an empty volume in its place would be a lie.
 */
Test(reconcile, lost_data_is_not_replaced_by_an_empty_volume)
{
    offer(json_pack("[o]", spec(1, 1, 100)), true);
    settle();
    power_off();
    world.disk[1] = false;
    world.creations = 0;
    boot();
    offer(json_pack("[o]", spec(1, 2, 100)), true);
    settle();
    cr_expect_eq(world.creations, 0);
    cr_expect(strstr(reports(true), "missing from the store"));
    cr_expect_lt(stats().served, stats().known);
    offer(json_pack("[o]", deletion(1, 3)), true);
    settle();
    cr_expect_str_eq(reports(true), "1:deleted:3 ", "but it can be deleted");
}

Test(reconcile, a_damaged_record_costs_one_export_until_its_spec_comes)
{
    char path[160];
    FILE *f;

    offer(json_pack("[o, o]", spec(1, 1, 100), spec(2, 1, 100)), true);
    settle();
    power_off();
    snprintf(path, sizeof(path), "%s/volumes/00000000-0000-0000-0000-000000000001.json", world.dir);
    f = fopen(path, "we");
    cr_assert(f);
    fputs("{\"fileSyst", f);
    fclose(f);
    boot();
    cr_expect_not(world.served[1]);
    cr_expect(world.served[2]);
    cr_expect_eq(stats().known - stats().served, 1);
    offer(json_pack("[o, o]", spec(1, 1, 100), spec(2, 1, 100)), true);
    settle();
    cr_expect(world.served[1]);
    cr_expect_eq(stats().served, 2);
}

Test(reconcile, a_moved_endpoint_frees_the_old_address)
{
    json_t *moved = spec(1, 2, 100);

    offer(json_pack("[o]", spec(1, 1, 100)), false);
    settle();
    json_object_set_new(moved, "endpoints", json_pack("[s, s]", "127.77.0.3", "127.77.0.4"));
    offer(json_pack("[o]", moved), false);
    settle();
    cr_expect_eq(world.listening, 3);
    reconciler_step(r, clock_mono_ns() + ENDPOINT_LINGER_NS);
    cr_expect_eq(world.listening, 2);
    cr_expect_eq(endpoints_count(endpoints), 2);
}
