/*
 * Which agent serves a new volume, and on which addresses. The claim runs on the writer thread
 * inside the volume's transaction; address rows are unique in the store, so that two control planes
 * cannot give one address twice.
 */
#include "api/placement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/address_list.h"
#include "api/agents_internal.h"
#include "common/clock.h"
#include "common/mem.h"

#define BREAKTHROUGH_ENDPOINTS 6

static bool serves(const char *offered, const char *asked)
{
    return offered[0] == '\0' || asked[0] == '\0' || strcmp(offered, asked) == 0;
}

static bool better(const struct placement_candidate *a, const struct placement_candidate *b)
{
    if (a->store_free != b->store_free) {
        return a->store_free > b->store_free;
    }
    if (a->volumes != b->volumes) {
        return a->volumes < b->volumes;
    }
    return a->agent < b->agent;
}

int placement_choose(const struct placement_candidate *c, size_t count,
                     const struct placement_wish *wish, struct arm_error *error)
{
    enum { ANY, LIVE, REGION, ZONE, TAKING, NEEDS };
    size_t left[NEEDS] = {0};
    int best = -1;

    for (size_t i = 0; i < count; i++) {
        const bool holds[NEEDS] = {true, c[i].live, serves(c[i].region, wish->location),
                                   serves(c[i].zone, wish->zone), !c[i].draining};
        int need = 0;
        while (need < NEEDS && holds[need]) {
            left[need++]++;
        }
        if (need == NEEDS && (best < 0 || better(&c[i], &c[best]))) {
            best = (int)i;
        }
    }
    if (best >= 0) {
        return best;
    }

    const char *code = "NoAgentAvailable";
    if (left[ANY] == 0) {
        arm_error_set(error, 409, code, NULL,
                      "No agent can serve the volume: no agent is enrolled.");
    } else if (left[LIVE] == 0) {
        arm_error_set(error, 409, code, NULL,
                      "No agent can serve the volume: none of the %zu enrolled agents is live.",
                      left[ANY]);
    } else if (left[REGION] == 0) {
        arm_error_set(
            error, 409, code, "location",
            "No agent can serve the volume: none of the %zu live agents serves the region '%.64s'.",
            left[LIVE], wish->location);
    } else if (left[ZONE] == 0) {
        arm_error_set(error, 409, code, "zones",
                      "No agent can serve the volume: none of the %zu live agents of the region "
                      "'%.64s' serves the "
                      "zone '%.16s'.",
                      left[REGION], wish->location, wish->zone);
    } else {
        arm_error_set(error, 409, code, NULL,
                      "No agent can serve the volume: every agent that fits is draining (%zu).",
                      left[ZONE]);
    }
    return -1;
}

bool placement_address(const char *addresses_json, size_t n, char out[16])
{
    struct address_list list;
    json_t *array = json_loads(addresses_json, 0, NULL);
    bool ok = array != NULL && address_list_parse(array, &list, NULL, 0) &&
              address_list_at(&list, n, out);

    json_decref(array);
    return ok;
}

/* ---- the claim ---- */

struct candidates {
    struct agent_registry *registry;
    uint64_t now;
    struct db_agent *row;
    struct placement_candidate *c;
    size_t count;
};

static int collect(const struct db_agent *a, void *arg)
{
    struct candidates *all = arg;
    struct agent_entry live;

    if (!registry_copy(all->registry, a->id, &live)) {
        return 0; /* enrolled a moment ago: its first call comes after this transaction */
    }
    all->row = xrealloc(all->row, (all->count + 1) * sizeof *all->row);
    all->c = xrealloc(all->c, (all->count + 1) * sizeof *all->c);
    struct db_agent *row = &all->row[all->count];
    *row = (struct db_agent){.id = a->id,
                             .name = xstrdup(a->name),
                             .region = xstrdup(a->region),
                             .zone = xstrdup(a->zone),
                             .addresses = xstrdup(a->addresses)};
    all->c[all->count++] = (struct placement_candidate){
        .agent = a->id,
        .name = row->name,
        .region = row->region,
        .zone = row->zone,
        .live = agents_is_live(all->registry, a->id, all->now),
        .draining = a->draining,
        .store_free = live.load.store_free,
        .volumes = live.load.volumes + live.claimed,
    };
    return 0;
}

static void candidates_clear(struct candidates *all)
{
    for (size_t i = 0; i < all->count; i++) {
        db_agent_clear(&all->row[i]);
    }
    free(all->row);
    free(all->c);
}

/* Inserts `want`'s row with the agent's next free address; *n moves past it. -EADDRNOTAVAIL when
 * all are taken (-ENOSPC is a full disk). */
static int take_address(struct db_conn *txn, const struct address_list *list, uint64_t *n,
                        struct db_endpoint *want)
{
    char address[ADDRESS_TEXT_MAX];
    uint64_t size = address_list_size(list);

    for (uint64_t tries = 0; tries < size; tries++) {
        bool found = address_list_at(list, (*n)++ % size, address);
        if (!found || db_endpoint_taken(txn, address)) {
            continue;
        }
        want->address = address;
        int rc = db_endpoint_insert(txn, want);
        want->address = NULL;
        if (rc != -EEXIST) {
            return rc;
        }
    }
    return -EADDRNOTAVAIL;
}

static int claim_on(struct api *api, struct db_conn *txn, const struct db_agent *agent,
                    const char *fs_id, const char *subnet_key, bool breakthrough)
{
    struct address_list list;
    char *shared = NULL;

    if (!breakthrough && db_endpoint_of_subnet(txn, agent->id, subnet_key, &shared) == 0) {
        free(shared);
        registry_claimed(api->agents, agent->id, registry_address_hint(api->agents, agent->id));
        return 0;
    }
    json_t *array = json_loads(agent->addresses, 0, NULL);
    bool ok = array != NULL && address_list_parse(array, &list, NULL, 0);
    json_decref(array);
    if (!ok) {
        return -EINVAL;
    }

    uint64_t next = registry_address_hint(api->agents, agent->id);
    int rc = 0;
    if (breakthrough) {
        for (int i = 0; i < BREAKTHROUGH_ENDPOINTS && rc == 0; i++) {
            char *fs = xstrdup(fs_id);
            struct db_endpoint e = {.agent = agent->id, .fs_id = fs, .ordinal = i};
            rc = take_address(txn, &list, &next, &e);
            free(fs);
        }
        if (rc != 0) {
            db_endpoint_delete_fs(txn, fs_id);
        }
    } else {
        char *key = xstrdup(subnet_key);
        struct db_endpoint e = {.agent = agent->id, .subnet_key = key};
        rc = take_address(txn, &list, &next, &e);
        free(key);
    }
    if (rc == 0) {
        registry_claimed(api->agents, agent->id, next);
    }
    return rc;
}

bool placement_claim(struct api *api, struct db_conn *txn, struct db_resource *r, const char *zone,
                     const char *subnet_key, bool breakthrough, struct arm_error *error)
{
    struct candidates all = {.registry = api->agents, .now = clock_mono_ns()};
    struct placement_wish wish = {.location = r->location, .zone = zone == NULL ? "" : zone};
    struct arm_error exhausted = {0};
    bool claimed = false;

    int rc = db_agent_each(txn, collect, &all);
    if (rc != 0) {
        store_error(rc, error);
        goto out;
    }
    for (;;) {
        int best = placement_choose(all.c, all.count, &wish, error);
        if (best < 0) {
            break;
        }
        rc = claim_on(api, txn, &all.row[best], r->fs_id, subnet_key, breakthrough);
        if (rc == 0) {
            r->agent = all.row[best].id;
            claimed = true;
            break;
        }
        if (rc != -EADDRNOTAVAIL) {
            store_error(rc, error);
            goto out;
        }
        /* Its addresses are used up: the next best may still have some. */
        arm_error_set(
            &exhausted, 409, "EndpointAddressesExhausted", NULL,
            "Agent '%s' has not the %d free endpoint address%s that the volume needs in %.200s.",
            all.row[best].name, breakthrough ? BREAKTHROUGH_ENDPOINTS : 1, breakthrough ? "es" : "",
            all.row[best].addresses);
        all.c[best].draining = true;
    }
    if (!claimed && exhausted.status != 0) {
        *error = exhausted;
    }
out:
    candidates_clear(&all);
    return claimed;
}

static int seen_endpoint(const struct db_endpoint *e, void *arg)
{
    (void)e;
    *(bool *)arg = true;
    return 1;
}

int placement_release(struct db_conn *txn, const struct db_resource *r, const char *subnet_key)
{
    struct db_resource row = {0};
    bool own = false;
    int rc = db_endpoint_each_fs(txn, r->fs_id, seen_endpoint, &own);

    if (rc < 0) {
        return rc;
    }
    if (own) {
        return db_endpoint_delete_fs(txn, r->fs_id);
    }
    /* The subnet's address goes with its last volume; this one may still be counted. */
    rc = db_resource_get_rid(txn, r->rid, &row);
    bool counted = rc == 0 && row.agent == r->agent;
    db_resource_clear(&row);
    if (db_endpoint_users(txn, r->agent, subnet_key) > (counted ? 1 : 0)) {
        return 0;
    }
    rc = db_endpoint_delete_subnet(txn, r->agent, subnet_key);
    return rc == -ENOENT ? 0 : rc;
}
