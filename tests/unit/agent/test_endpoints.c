/* Use counts of addresses, and that exactly what was added is removed again, after a kill too. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control/endpoints.h"

/* A machine of a test: addresses 10.0.0.1 to 10.0.0.9. */
static struct {
    bool present[10], listening[10];
    int add_error, listen_error, adds, removes;
    char dir[64];
} world;

static unsigned number(const char *text)
{
    return (unsigned)atoi(strrchr(text, '.') + 1);
}

static int world_listen(void *arg, const char *address)
{
    (void)arg;
    if (world.listen_error != 0)
        return world.listen_error;
    if (!world.present[number(address)])
        return -EADDRNOTAVAIL;
    world.listening[number(address)] = true;
    return 0;
}

static void world_unlisten(void *arg, const char *address)
{
    (void)arg;
    world.listening[number(address)] = false;
}

static unsigned index_of(struct in_addr a)
{
    return ntohl(a.s_addr) & 0xff;
}

static bool world_has(struct in_addr a)
{
    return world.present[index_of(a)];
}

static int world_add(const char *interface, struct in_addr a)
{
    cr_expect_str_eq(interface, "eth7");
    if (world.add_error != 0)
        return world.add_error;
    world.present[index_of(a)] = true;
    world.adds++;
    return 0;
}

static int world_remove(const char *interface, struct in_addr a)
{
    cr_expect_str_eq(interface, "eth7");
    world.removes++;
    if (!world.present[index_of(a)])
        return -EADDRNOTAVAIL;
    world.present[index_of(a)] = false;
    return 0;
}

static const struct endpoint_ops ops = {world_listen, world_unlisten, world_has, world_add,
                                        world_remove};
static struct addresses allowed;

static void set_up(void)
{
    char why[160];

    memset(&world, 0, sizeof(world));
    snprintf(world.dir, sizeof(world.dir), "/tmp/ctl-endpoints-XXXXXX");
    cr_assert(mkdtemp(world.dir));
    cr_assert(addresses_parse("10.0.0.1-10.0.0.8", &allowed, why, sizeof(why)));
}

static void tear_down(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", world.dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(endpoints, .init = set_up, .fini = tear_down);

static struct endpoints *open_on(const char *interface)
{
    struct endpoints *e;

    cr_assert_eq(endpoints_open(&(struct endpoints_config){.allowed = &allowed,
                                                           .interface = interface,
                                                           .state_dir = world.dir,
                                                           .port = 2049,
                                                           .ops = &ops},
                                &e),
                 0);
    return e;
}

static struct in_addr address(unsigned n)
{
    return (struct in_addr){.s_addr = htonl(0x0a000000 | n)};
}

static int take(struct endpoints *e, unsigned n, char *message)
{
    struct in_addr a = address(n);

    return endpoints_take(e, &a, 1, message, 200);
}

/* A client that has the deleted volume mounted must be told so: silence would hang it. */
Test(endpoints, a_shared_address_is_listened_on_for_a_while_after_its_last_use)
{
    char message[200];
    struct endpoints *e = open_on(NULL);
    struct in_addr a = address(2);

    world.present[2] = true;
    cr_assert_eq(take(e, 2, message), 0);
    cr_assert_eq(take(e, 2, message), 0);
    cr_expect_eq(endpoints_count(e), 1);
    endpoints_drop(e, &a, 1, 1000);
    endpoints_expire(e, 1000 + 2 * ENDPOINT_LINGER_NS);
    cr_expect(world.listening[2], "one use is left");
    endpoints_drop(e, &a, 1, 5000);
    endpoints_expire(e, 5000 + ENDPOINT_LINGER_NS - 1);
    cr_expect(world.listening[2]);
    endpoints_expire(e, 5000 + ENDPOINT_LINGER_NS);
    cr_expect_not(world.listening[2]);
    cr_expect_eq(endpoints_count(e), 0);
    endpoints_close(e);
}

Test(endpoints, an_address_that_is_used_again_stays)
{
    char message[200];
    struct endpoints *e = open_on("eth7");
    struct in_addr a = address(2);

    cr_assert_eq(take(e, 2, message), 0);
    endpoints_drop(e, &a, 1, 1000);
    cr_assert_eq(take(e, 2, message), 0);
    endpoints_expire(e, 1000 + 2 * ENDPOINT_LINGER_NS);
    cr_expect(world.listening[2]);
    cr_expect_eq(world.adds, 1);
    endpoints_drop(e, &a, 1, 2000);
    endpoints_expire(e, 2000 + ENDPOINT_LINGER_NS);
    cr_expect_not(world.present[2], "and an added one goes in the end");
    endpoints_close(e);
    cr_expect_eq(world.removes, 1);
}

Test(endpoints, all_or_none_with_the_address_and_the_reason)
{
    char message[200];
    struct endpoints *e = open_on(NULL);
    struct in_addr three[] = {address(1), address(2), address(3)};

    world.present[1] = world.present[2] = true;
    cr_expect_eq(endpoints_take(e, three, 3, message, sizeof(message)), -EADDRNOTAVAIL);
    cr_expect(strstr(message, "10.0.0.3:2049") && strstr(message, "--interface"), "%s", message);
    cr_expect_not(world.listening[1] || world.listening[2]);
    endpoints_close(e);
}

Test(endpoints, an_address_outside_the_option_is_never_served_on)
{
    char message[200];
    struct endpoints *e = open_on("eth7");

    cr_expect_lt(take(e, 9, message), 0);
    cr_expect(strstr(message, "10.0.0.9 is not among this agent's --endpoints"), "%s", message);
    cr_expect_eq(world.adds, 0);
    endpoints_close(e);
}

Test(endpoints, what_was_added_is_removed_and_nothing_else)
{
    char message[200];
    struct endpoints *e = open_on("eth7");
    struct in_addr one = address(1);

    world.present[1] = true; /* somebody else's */
    cr_assert_eq(take(e, 1, message), 0);
    cr_assert_eq(take(e, 2, message), 0);
    cr_expect_eq(world.adds, 1);
    endpoints_drop(e, &one, 1, 0);
    endpoints_expire(e, ENDPOINT_LINGER_NS);
    cr_expect(world.present[1]);
    endpoints_close(e);
    cr_expect(world.present[1], "was there before");
    cr_expect_not(world.present[2], "was added");
}

/* Killed with two added addresses: the next run takes one over and removes both in the end. */
Test(endpoints, an_earlier_runs_additions_are_still_ours)
{
    char message[200];
    static struct endpoints *killed; /* never closed: kill -9 */
    struct endpoints *e;

    killed = open_on("eth7");
    cr_assert_eq(take(killed, 2, message), 0);
    cr_assert_eq(take(killed, 3, message), 0);
    e = open_on(NULL); /* even without --interface now */
    cr_assert_eq(take(e, 2, message), 0);
    endpoints_sweep(e);
    cr_expect(world.present[2], "in use");
    cr_expect_not(world.present[3], "nobody took it");
    endpoints_close(e);
    cr_expect_not(world.present[2]);
}

/* Killed between the record and the addition: nothing to remove, and an address that appears
 * meanwhile stays ours only if we add it. */
Test(endpoints, a_failed_addition_leaves_no_record)
{
    char message[200];
    struct endpoints *e = open_on("eth7");

    world.add_error = -EPERM;
    cr_expect_eq(take(e, 2, message), -EPERM);
    cr_expect(strstr(message, "cannot add 10.0.0.2 to eth7"), "%s", message);
    endpoints_close(e);
    world.present[2] = true; /* the operator does it */
    e = open_on("eth7");
    world.add_error = 0;
    cr_assert_eq(take(e, 2, message), 0);
    endpoints_close(e);
    cr_expect(world.present[2]);
}

Test(endpoints, a_listening_that_fails_takes_the_addition_back)
{
    char message[200];
    struct endpoints *e = open_on("eth7");

    world.listen_error = -EADDRINUSE;
    cr_expect_eq(take(e, 2, message), -EADDRINUSE);
    cr_expect(strstr(message, "Address already in use"), "%s", message);
    cr_expect_not(world.present[2]);
    endpoints_close(e);
}

Test(endpoints, a_damaged_record_does_not_stop_the_start)
{
    char message[200], path[128];
    struct endpoints *e;
    FILE *f;

    snprintf(path, sizeof(path), "%s/addresses.json", world.dir);
    f = fopen(path, "we");
    cr_assert(f);
    fputs("[{\"address\":", f);
    fclose(f);
    e = open_on(NULL);
    world.present[2] = true;
    cr_expect_eq(take(e, 2, message), 0);
    endpoints_close(e);
    cr_expect(world.present[2]);
}
