/*
 * A volume as its agent sees it: what it is told, that its reports change only what they may, and
 * that callers at the same moment get no more than there is. Values: anf-api.md B.4, C.1, C.8, C.9.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_util.h"
#include "tests/unit/api/arm_fixture.h"

#define VOLUME POOL "/volumes/vol"
#define OTHER  POOL "/volumes/other"

static void lonely(void)
{
    plane_start(AUTH_NONE);
}

TestSuite(served, .init = arm_setup, .fini = plane_stop, .timeout = 60);
TestSuite(no_agent, .init = lonely, .fini = plane_stop, .timeout = 60);

static const char *state_of(const char *path)
{
    return arm_get(path) == 200 ? answer_text("properties.provisioningState") : "gone";
}

/* 100 GiB Premium: 6.25 MiB/s are 6,553,600 bytes; the default rule. */
Test(served, agent_is_told_all_of_a_new_volume)
{
    cr_assert_eq(arm_put(VOLUME, volume_body("data", "")), 201);
    const json_t *spec = agent_spec("/data");
    const json_t *rules = json_object_get(spec, "rules"), *rule = json_array_get(rules, 0);

    cr_assert_not_null(spec);
    cr_expect_str_eq(json_get_text(spec, "id", ""), VOLUME);
    cr_expect_eq(json_get_int(spec, "generation", 0), 1);
    cr_expect_eq(json_get_int(spec, "quotaBytes", 0), INT64_C(107374182400));
    cr_expect_eq(json_get_int(spec, "limitBytesPerSecond", 0), 6553600);
    cr_expect_eq(json_get_int(spec, "maxFiles", 0), 21251126);
    cr_expect_eq(strlen(json_get_text(spec, "handleKey", "")), 32);
    cr_expect_str_eq(json_get_text(spec, "unixPermissions", ""), "0770");
    cr_expect_eq(json_array_size(json_object_get(spec, "endpoints")), 1);
    cr_expect_not(json_get_bool(spec, "deleted", true));
    cr_expect_not(json_get_bool(spec, "breakthrough", true));
    cr_expect(json_get_bool(spec, "snapshotDirectoryVisible", false));
    cr_expect_eq(json_array_size(rules), 1);
    cr_expect_eq(json_get_int(rule, "ruleIndex", 0), 1);
    cr_expect_str_eq(json_get_text(rule, "clients", ""), "0.0.0.0/0");
    cr_expect_not(json_get_bool(rule, "readOnly", true));
    cr_expect(json_get_bool(rule, "readWrite", false));
    cr_expect(json_get_bool(rule, "rootAccess", false));
    cr_expect(json_get_bool(rule, "chownRestricted", false));
    cr_expect(json_get_bool(rule, "nfsv3", false));
}

/* Of another generation, twice, too late, of nothing, or a deletion that nobody asked for. */
Test(served, wrong_reports_change_nothing)
{
    cr_assert_eq(arm_put(VOLUME, volume_body("data", "")), 201);
    char *fs_id = strdup(json_get_text(agent_spec("/data"), "fileSystemId", ""));

    agent_report(fs_id, 7, "ready");
    agent_report(fs_id, 1, "deleted");
    agent_report("00000000-0000-4000-8000-000000000000", 1, "deleted");
    cr_expect_str_eq(state_of(VOLUME), "Creating");
    agent_report(fs_id, 1, "ready");
    cr_expect_str_eq(state_of(VOLUME), "Succeeded");
    char *etag = strdup(answer_text("etag"));
    agent_report(fs_id, 1, "ready");
    agent_report(fs_id, 1, "failed");
    cr_expect_str_eq(state_of(VOLUME), "Succeeded");
    cr_expect_str_eq(answer_text("etag"), etag);
    cr_assert_eq(arm_delete(VOLUME), 202);
    agent_report(fs_id, 2, "ready");
    agent_report(fs_id, 1, "deleted");
    cr_expect_str_eq(state_of(VOLUME), "Deleting");
    agent_report(fs_id, 2, "deleted");
    cr_expect_str_eq(state_of(VOLUME), "gone");
    agent_report(fs_id, 2, "deleted");
    free(etag);
    free(fs_id);
}

/* Read, change nothing, write back: every type, in the oldest and the newest version. */
Test(served, what_any_version_shows_can_be_put_back_in_it)
{
    static const char *const versions[] = {"2021-10-01", "2022-05-01", "2025-06-01", "2026-07-01"};
    static const char *const resources[] = {ACCOUNT, POOL, MANUAL, VOLUME};
    char path[400];

    make_volume(VOLUME, "data", "");
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        for (size_t k = 0; k < sizeof resources / sizeof resources[0]; k++) {
            snprintf(path, sizeof path, "%s?api-version=%s", resources[k], versions[i]);
            cr_assert_eq(plane_call("GET", path, NULL, NULL), 200);
            char *was = json_render(answer);
            cr_expect_eq(plane_call("PUT", path, NULL, was), 200, "%s: %s", path,
                         answer_text("error.message"));
            cr_expect_str_eq(answer_header("Azure-AsyncOperation"), "", "nothing was to be done");
            cr_assert_eq(plane_call("GET", path, NULL, NULL), 200);
            char *is = json_render(answer);
            cr_expect_str_eq(is, was, "%s: the ETag too", path);
            free(was);
            free(is);
        }
    }
    cr_expect_eq(json_get_int(agent_spec("/data"), "generation", 0), 1);
}

Test(served, path_is_unique_in_its_subnet_whatever_its_case)
{
    cr_assert_eq(arm_put(VOLUME, volume_body("data", "")), 201);
    cr_expect_eq(arm_put(OTHER, volume_body("DATA", "")), 400);
    cr_expect_str_eq(answer_text("error.target"), "properties.creationToken");
    cr_expect_eq(arm_put(OTHER, volume_body("DATA", ",\"subnetId\":\"" GROUP
                                                    "/providers/Microsoft.Network/virtualNetworks/"
                                                    "vnet/subnets/other\"")),
                 201, "%s", answer_text("error.message"));
}

/* ---- at the same moment */

#define RACERS 8

struct racer {
    char path[300], body[400];
    int status;
};

static void *race(void *arg)
{
    struct racer *r = arg;

    r->status = arm_put(r->path, r->body);
    json_decref(answer);
    answer = NULL;
    return NULL;
}

/* 3 TiB each in a pool of 4 TiB: one of them, whoever is first. */
Test(served, pool_is_never_given_away_twice)
{
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    int made = 0;

    for (int i = 0; i < RACERS; i++) {
        snprintf(racers[i].path, sizeof racers[i].path, POOL "/volumes/v%d", i);
        snprintf(racers[i].body, sizeof racers[i].body,
                 "{\"location\":\"eastus\",\"properties\":{\"creationToken\":\"t%d\","
                 "\"usageThreshold\":3298534883328}}",
                 i);
    }
    for (int i = 0; i < RACERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(racers[i].status == 201 || racers[i].status == 400, "%d", racers[i].status);
        made += racers[i].status == 201;
    }
    cr_expect_eq(made, 1);
}

/* One name, many creators: one 201, the others change what is there or wait for it. */
Test(served, one_name_is_created_once)
{
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    int made = 0;

    for (int i = 0; i < RACERS; i++) {
        snprintf(racers[i].path, sizeof racers[i].path, VOLUME);
        snprintf(racers[i].body, sizeof racers[i].body, "%s", volume_body("data", ""));
        cr_assert_eq(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(racers[i].status == 201 || racers[i].status == 409, "%d", racers[i].status);
        made += racers[i].status == 201;
    }
    cr_expect_eq(made, 1);
}

/* ---- nobody there */

Test(no_agent, volume_is_refused_and_nothing_is_stored)
{
    cr_assert_eq(arm_put(ACCOUNT, "{\"location\":\"eastus\"}"), 201);
    cr_assert_eq(arm_put(POOL, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_4
                               ",\"serviceLevel\":\"Premium\"}}"),
                 201);
    cr_expect_eq(arm_put(VOLUME, volume_body("data", "")), 409);
    cr_expect_str_eq(answer_text("error.code"), "NoAgentAvailable");
    cr_expect_eq(arm_get(VOLUME), 404);
    cr_expect_eq(arm_delete(POOL), 202, "the pool is empty");
}
