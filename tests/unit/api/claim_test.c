/* Claiming and giving back an agent's addresses (design D9, D10), in real transactions. */
#include "api/placement.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/api/control_plane.h"

#define SUBNET "eastus//sub/default"

static void enroll(const char *name, char credential, int64_t space, const char *addresses)
{
    char body[600], secret[65];

    memset(secret, credential, 64);
    secret[64] = '\0';
    snprintf(body, sizeof body,
             "{\"credential\":\"%s\",\"name\":\"%s\",\"version\":\"1\",\"region\":\"\",\"zone\":"
             "\"\",\"backend\":"
             "\"dir\",\"storeUuid\":\"01234567-89ab-4cde-8f01-23456789abcd\",\"storeSize\":1000,"
             "\"storeFree\":%lld,"
             "\"addresses\":[\"%s\"],\"nfsPort\":2049}",
             secret, name, (long long)space, addresses);
    cr_assert_eq(plane_call("POST", "/agents/v1/enroll", NULL, body), 200);
}

static void setup(void)
{
    plane_start(AUTH_NONE);
    enroll("big", 'a', 900, "10.0.0.0/29"); /* 6 addresses */
    enroll("small", 'b', 100, "10.0.1.1-10.0.1.8");
}

TestSuite(claim, .init = setup, .fini = plane_stop, .timeout = 60);

struct claim {
    char fs_id[37];
    const char *subnet;
    bool breakthrough;
    bool ok;                /* out */
    int64_t agent;          /* out */
    struct arm_error error; /* out */
    size_t count;           /* out: its own endpoints */
    char address[8][16];    /* out: of them, or the subnet's */
};

static int see(const struct db_endpoint *e, void *arg)
{
    struct claim *c = arg;

    cr_assert_eq(e->ordinal, (int64_t)c->count);
    snprintf(c->address[c->count++], 16, "%s", e->address);
    return 0;
}

static int run(struct db_conn *txn, void *arg)
{
    struct claim *c = arg;
    char location[] = "eastus";
    struct db_resource r = {.location = location, .fs_id = c->fs_id};
    char *shared = NULL;

    c->ok = placement_claim(plane, txn, &r, "", c->subnet, c->breakthrough, &c->error);
    c->agent = r.agent;
    cr_assert_eq(db_endpoint_each_fs(txn, c->fs_id, see, c), 0);
    if (!c->breakthrough && c->ok) {
        cr_assert_eq(db_endpoint_of_subnet(txn, r.agent, c->subnet, &shared), 0);
        snprintf(c->address[0], 16, "%s", shared);
        free(shared);
    }
    return c->ok ? 0 : -EBUSY;
}

static struct claim claim(int volume, const char *subnet, bool breakthrough)
{
    struct claim c = {.subnet = subnet, .breakthrough = breakthrough};

    snprintf(c.fs_id, sizeof c.fs_id, "01234567-89ab-4cde-8f01-%012d", volume);
    db_submit_wait(plane->db, &(struct db_request){.name = "test", .run = run, .arg = &c});
    return c;
}

Test(claim, volumes_of_a_subnet_share_an_address)
{
    struct claim a = claim(1, SUBNET, false), b = claim(2, SUBNET, false),
                 c = claim(3, SUBNET "2", false);

    cr_assert(a.ok && b.ok && c.ok);
    cr_assert_str_eq(a.address[0], b.address[0]);
    cr_assert_str_neq(a.address[0], c.address[0], "another subnet has another address");
}

Test(claim, a_breakthrough_volume_has_six_of_its_own)
{
    struct claim c = claim(1, SUBNET, true);

    cr_assert(c.ok);
    cr_assert_eq(c.count, 6);
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < i; k++) {
            cr_assert_str_neq(c.address[i], c.address[k]);
        }
    }
}

Test(claim, a_full_agent_sends_it_to_the_next)
{
    struct claim first = claim(1, SUBNET, true), second = claim(2, SUBNET, true);

    cr_assert(first.ok && second.ok);
    cr_assert_neq(first.agent, second.agent);
    cr_assert_eq(strncmp(second.address[0], "10.0.1.", 7), 0);
}

Test(claim, an_exhausted_prefix_is_named_and_nothing_is_kept)
{
    claim(1, SUBNET, true);
    claim(2, SUBNET, true);
    struct claim c = claim(3, SUBNET, true);
    cr_assert_not(c.ok);
    cr_assert_eq(c.error.status, 409);
    cr_assert_str_eq(c.error.code, "EndpointAddressesExhausted");
    cr_assert(strstr(c.error.message, "10.0.1.1-10.0.1.8") != NULL, "%s", c.error.message);
    cr_assert_eq(c.count, 0, "two of the small agent's addresses were free, but none is kept");

    cr_assert(claim(4, SUBNET, false).ok, "one is enough for an ordinary volume");
}

static int release(struct db_conn *txn, void *arg)
{
    const struct claim *c = arg;
    char fs_id[37];

    memcpy(fs_id, c->fs_id, sizeof fs_id);
    return placement_release(txn, &(struct db_resource){.fs_id = fs_id, .agent = c->agent},
                             c->subnet);
}

Test(claim, released_addresses_are_taken_again)
{
    struct claim first = claim(1, SUBNET, true), second = claim(2, SUBNET, true);

    cr_assert(first.ok && second.ok);
    cr_assert_eq(
        db_submit_wait(plane->db,
                       &(struct db_request){.name = "test", .run = release, .arg = &first}),
        0);
    struct claim third = claim(3, SUBNET, true);
    cr_assert(third.ok);
    cr_assert_eq(third.agent, first.agent);
}

Test(claim, the_last_volume_of_a_subnet_gives_its_address_back)
{
    struct claim c = claim(1, SUBNET, false);
    char *address = NULL;

    cr_assert_eq(
        db_submit_wait(plane->db, &(struct db_request){.name = "test", .run = release, .arg = &c}),
        0);
    struct db_conn *reader = db_read_begin(plane->db);
    cr_assert_eq(db_endpoint_of_subnet(reader, c.agent, SUBNET, &address), -ENOENT);
    db_read_end(reader);
}

Test(claim, a_released_address_is_the_last_to_be_used_again)
{
    struct claim first = claim(1, SUBNET "1", false);

    cr_assert_eq(
        db_submit_wait(plane->db,
                       &(struct db_request){.name = "test", .run = release, .arg = &first}),
        0);
    struct claim second = claim(2, SUBNET "2", false);
    cr_assert_eq(second.agent, first.agent);
    cr_assert_str_neq(second.address[0], first.address[0],
                      "an old mount must not meet another volume");
}
