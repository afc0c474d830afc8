/*
 * The life of resources over the API, with the test as the agent: states, operations, conditions,
 * deletions. Values: anf-api.md C and D, the choices table of the design.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/resource.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "tests/unit/api/arm_fixture.h"

#define VOLUME POOL "/volumes/vol"

#define ASSERT_TEXT(path, want) cr_assert_str_eq(answer_text(path), (want))
#define STATE                   "properties.provisioningState"

static double number(const char *name)
{
    return json_get_number(json_object_get(answer, "properties"), name, -1);
}

TestSuite(resource, .init = arm_setup, .fini = plane_stop, .timeout = 60);

/* ---- states and operations ---- */

Test(resource, a_volume_is_succeeded_once_its_agent_serves_it)
{
    cr_assert_eq(arm_put(VOLUME, volume_body("vol", "")), 201);
    ASSERT_TEXT(STATE, "Creating");
    cr_assert_null(json_object_get(json_object_get(answer, "properties"), "mountTargets"));
    cr_assert_str_eq(answer_header("Location"), "", "a PUT has none");
    cr_assert_str_eq(answer_header("Retry-After"), "1");

    cr_assert_eq(follow("Azure-AsyncOperation"), 200);
    ASSERT_TEXT("status", "Creating");
    ASSERT_TEXT("endTime", "0001-01-01T00:00:00Z");
    ASSERT_TEXT("properties.action", "CREATE");
    ASSERT_TEXT("properties.resourceName", VOLUME);
    cr_assert_str_eq(answer_header("Retry-After"), "1");

    agent_apply("ready");
    cr_assert_eq(arm_get(VOLUME), 200);
    ASSERT_TEXT(STATE, "Succeeded");
    cr_assert_eq(
        json_array_size(json_object_get(json_object_get(answer, "properties"), "mountTargets")), 1);
    cr_assert_str_eq(answer_header("ETag"), answer_text("etag"));
}

Test(resource, what_the_agent_could_not_do_is_failed_with_its_name_and_reason)
{
    cr_assert_eq(arm_put(VOLUME, volume_body("vol", "")), 201);
    char url[512];
    snprintf(url, sizeof url, "%s",
             strstr(answer_header("Azure-AsyncOperation"), "/subscriptions"));
    agent_apply("failed");
    cr_assert_eq(plane_call("GET", url, NULL, NULL), 200);
    ASSERT_TEXT("status", "Failed");
    cr_assert_not_null(strstr(answer_text("error.message"), "host1"));
    cr_assert_not_null(strstr(answer_text("error.message"), "the disk is on fire"));
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Failed");

    agent_apply("ready"); /* late, but served */
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Succeeded");
    plane_call("GET", url, NULL, NULL);
    ASSERT_TEXT("status", "Failed");
}

Test(resource, the_same_put_again_retries_what_failed)
{
    arm_put(VOLUME, volume_body("vol", ""));
    agent_apply("failed");
    cr_assert_eq(arm_put(VOLUME, volume_body("vol", "")), 200);
    ASSERT_TEXT(STATE, "Updating");
    agent_apply("ready");
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Succeeded");
}

Test(resource, the_same_put_again_is_no_new_generation)
{
    make_volume(VOLUME, "vol", "");
    int64_t before = json_get_int(agent_spec("/vol"), "generation", -1);
    arm_get(VOLUME);
    char etag[80];
    snprintf(etag, sizeof etag, "%s", answer_text("etag"));
    cr_assert_eq(arm_put(VOLUME, volume_body("vol", "")), 200);
    ASSERT_TEXT(STATE, "Succeeded");
    ASSERT_TEXT("etag", etag);
    cr_assert_eq(json_get_int(agent_spec("/vol"), "generation", -1), before);
}

Test(resource, what_a_get_shows_can_be_put_back)
{
    make_volume(VOLUME, "vol", "");
    arm_get(VOLUME);
    char *seen = json_render(answer);
    cr_assert_eq(arm_put(VOLUME, seen), 200, "%s", answer_text("error.message"));
    char *again = json_render(answer);
    cr_assert_str_eq(seen, again);
    free(seen);
    free(again);
}

Test(resource, a_get_put_back_with_another_quota_changes_the_limit)
{
    make_volume(VOLUME, "vol", "");
    arm_get(VOLUME);
    cr_assert_eq(number("throughputMibps"), 6.25);
    json_object_set_new(json_object_get(answer, "properties"), "usageThreshold",
                        json_integer(INT64_C(2199023255552)));
    char *body = json_render(answer);
    cr_assert_eq(arm_put(VOLUME, body), 200, "%s", answer_text("error.message"));
    free(body);
    cr_assert_eq(number("actualThroughputMibps"), 128);
    cr_assert_eq(json_get_int(agent_spec("/vol"), "limitBytesPerSecond", -1), 128 * 1048576);
}

Test(resource, a_patch_of_tags_needs_no_agent)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_patch(VOLUME, "{\"tags\":{\"a\":\"1\",\"b\":\"2\"}}"), 200);
    ASSERT_TEXT(STATE, "Succeeded");
    cr_assert_eq(arm_patch(VOLUME, "{\"tags\":{\"b\":\"3\"}}"), 200);
    cr_assert_eq(json_object_size(json_object_get(answer, "tags")), 1, "the set is replaced");
    ASSERT_TEXT("tags.b", "3");
}

Test(resource, a_patch_that_an_agent_must_apply_is_202_with_both_headers)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_patch(VOLUME, "{\"properties\":{\"unixPermissions\":\"0755\"}}"), 202);
    ASSERT_TEXT(STATE, "Patching");
    char location[512];
    snprintf(location, sizeof location, "%s", strstr(answer_header("Location"), "/subscriptions"));
    cr_assert_neq(answer_header("Azure-AsyncOperation")[0], '\0');
    cr_assert_eq(plane_call("GET", location, NULL, NULL), 202);
    agent_apply("ready");
    cr_assert_eq(plane_call("GET", location, NULL, NULL), 200);
    ASSERT_TEXT("properties.unixPermissions", "0755");
}

Test(resource, an_empty_patch_and_one_of_what_is_there_are_200)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_patch(VOLUME, "{}"), 200);
    /* az sends these with every change (clients.md 4). */
    cr_assert_eq(arm_patch(VOLUME, "{\"location\":\"East US\",\"properties\":{\"serviceLevel\":"
                                   "\"premium\",\"usageThreshold\":" GIB_TEXT_100
                                   ",\"isDefaultQuotaEnabled\":false,\"defaultUserQuotaInKiBs\":0,"
                                   "\"dataProtection\":null,\"creationToken\":\"vol\"}}"),
                 200, "%s", answer_text("error.message"));
}

Test(resource, a_change_in_a_state_that_is_not_terminal_is_a_conflict)
{
    arm_put(VOLUME, volume_body("vol", ""));
    cr_assert_eq(arm_patch(VOLUME, "{\"tags\":{}}"), 409);
    ASSERT_TEXT("error.code", "Conflict");
    cr_assert_not_null(strstr(answer_text("error.message"), "Creating"));
    cr_assert_eq(arm_put(VOLUME, volume_body("vol", "")), 409);
}

Test(resource, accounts_and_pools_are_succeeded_at_once)
{
    cr_assert_eq(arm_put(ACCOUNTS "/a", "{\"location\":\"West Europe\"}"), 201);
    ASSERT_TEXT(STATE, "Succeeded");
    ASSERT_TEXT("location", "westeurope");
    ASSERT_TEXT("properties.encryption.keySource", "Microsoft.NetApp");
    cr_assert_str_eq(answer_header("Retry-After"), "");
    cr_assert_eq(follow("Azure-AsyncOperation"), 200);
    ASSERT_TEXT("status", "Succeeded");
    cr_assert_eq(arm_delete(ACCOUNTS "/a"), 202);
    cr_assert_eq(follow("Location"), 204);
    cr_assert_eq(arm_delete(ACCOUNTS "/a"), 204);
}

/* ---- conditions ---- */

Test(resource, conditions_are_those_of_the_table)
{
    static const struct {
        const char *method, *path, *headers;
        int status;
    } calls[] = {
        {"PUT", ACCOUNTS "/none", "If-Match: *\r\n", 412},
        {"PUT", ACCOUNTS "/none", "If-Match: W/\"x\"\r\n", 412},
        {"PUT", ACCOUNT, "If-Match: *\r\n", 200},
        {"PUT", ACCOUNT, "If-Match: W/\"x\"\r\n", 412},
        {"PUT", ACCOUNT, "If-None-Match: *\r\n", 412},
        {"PATCH", ACCOUNT, "If-Match: *\r\n", 200},
        {"PATCH", ACCOUNT, "If-Match: W/\"x\"\r\n", 412},
        {"PATCH", ACCOUNT, "If-None-Match: *\r\n", 412},
        {"DELETE", ACCOUNTS "/none", "", 204},
        {"DELETE", MANUAL, "If-Match: W/\"x\"\r\n", 412},
        {"DELETE", MANUAL, "If-Match: *\r\n", 202},
        {"PUT", ACCOUNTS "/none", "If-None-Match: *\r\n", 201},
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        request_headers = calls[i].headers;
        int status = arm_call_json(calls[i].method, calls[i].path,
                                   calls[i].method[0] == 'D' ? NULL : "{\"location\":\"eastus\"}");
        cr_expect_eq(status, calls[i].status, "%s %s %s: %d", calls[i].method, calls[i].path,
                     calls[i].headers, status);
    }
}

/* ---- deleting ---- */

Test(resource, a_volume_goes_when_its_agent_says_so)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_delete(VOLUME), 202);
    cr_assert_null(answer, "no body");
    char location[512];
    snprintf(location, sizeof location, "%s", strstr(answer_header("Location"), "/subscriptions"));
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Deleting");
    cr_assert_eq(arm_delete(VOLUME), 409);
    cr_assert_eq(arm_delete(POOL), 409);
    ASSERT_TEXT("error.code", "CannotDeleteResource");
    agent_apply("ready");
    cr_assert_eq(arm_get(VOLUME), 404);
    cr_assert_eq(plane_call("GET", location, NULL, NULL), 204);
    cr_assert_eq(arm_delete(POOL), 202, "at once when the child answers 404");
}

Test(resource, a_delete_cancels_what_runs)
{
    arm_put(VOLUME, volume_body("vol", ""));
    char url[512];
    snprintf(url, sizeof url, "%s",
             strstr(answer_header("Azure-AsyncOperation"), "/subscriptions"));
    cr_assert_eq(arm_delete(VOLUME), 202);
    plane_call("GET", url, NULL, NULL);
    ASSERT_TEXT("status", "Canceled");
    agent_apply("ready");
    cr_assert_eq(arm_get(VOLUME), 404);
}

Test(resource, a_forced_delete_leaves_a_tombstone_for_the_agent)
{
    make_volume(VOLUME, "vol", "");
    arm_delete(VOLUME); /* nobody confirms it */
    cr_assert_eq(arm_delete(VOLUME "?forceDelete=true"), 202);
    cr_assert_eq(follow("Azure-AsyncOperation"), 200);
    ASSERT_TEXT("status", "Succeeded");
    cr_assert_eq(arm_get(VOLUME), 404);
    cr_assert_eq(agent_apply("ready"), 1, "the agent is told");
    cr_assert_eq(agent_apply("ready"), 0, "once it has said so, no more");
    make_volume(VOLUME, "vol", ""); /* the path is free again */
}

/* Clients take half a minute where nobody says how long. */
Test(resource, every_202_says_when_to_ask)
{
    cr_assert_eq(arm_delete(MANUAL), 202, "gone at once");
    cr_assert_str_eq(answer_header("Retry-After"), "1");
    cr_assert_eq(plane_call("DELETE", GROUP "?api-version=2021-04-01", NULL, NULL), 202);
    cr_assert_str_eq(answer_header("Retry-After"), "1");
}

Test(resource, a_group_goes_with_all_that_is_in_it)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(plane_call("DELETE", GROUP "?api-version=2021-04-01", NULL, NULL), 202);
    char location[512];
    snprintf(location, sizeof location, "%s", strstr(answer_header("Location"), "/subscriptions"));
    cr_assert_eq(plane_call("GET", location, NULL, NULL), 202);
    cr_assert_eq(arm_put(ACCOUNTS "/late", "{\"location\":\"eastus\"}"), 409);
    ASSERT_TEXT("error.code", "ResourceGroupBeingDeleted");
    cr_assert_eq(arm_get(MANUAL), 404, "an empty pool goes at once");
    agent_apply("ready");
    cr_assert_eq(plane_call("GET", location, NULL, NULL), 204);
    cr_assert_eq(plane_call("HEAD", GROUP "?api-version=2021-04-01", NULL, NULL), 404);
    cr_assert_eq(arm_get(ACCOUNT), 404);
    ASSERT_TEXT("error.code", "ResourceGroupNotFound");
}

/* ---- pools ---- */

/* ---- metrics end with their volume, not before ---- */

static sem_t applied;

static void on_applied(void *arg, int result)
{
    (void)arg;
    cr_assert_eq(result, 0);
    sem_post(&applied);
}

/* One operation in the minute before the last; returns once it, and all that was queued before it,
 * is done. */
static void record(const char *fs_id)
{
    static uint64_t number;
    struct metric_increment point = {.sum = {[METRIC_SUM_READ_OPS] = 1}};

    snprintf(point.fs_id, sizeof point.fs_id, "%s", fs_id);
    point.minute = (clock_wall_ns() / (int64_t)(60 * NS_PER_S) - 2) * (int64_t)(60 * NS_PER_S);
    sem_init(&applied, 0, 0);
    metrics_db_apply(plane->metrics, "1:test", ++number, &point, 1, on_applied, NULL);
    while (sem_wait(&applied) != 0)
        ;
}

static int add_operations(const struct metric_point *point, void *arg)
{
    *(uint64_t *)arg += point->sum[METRIC_SUM_READ_OPS];
    return 0;
}

static uint64_t recorded(const char *fs_id)
{
    const int64_t minute = (int64_t)(60 * NS_PER_S), now = clock_wall_ns() / minute * minute;
    uint64_t sum = 0;

    record("ffffffff-ffff-4fff-8fff-ffffffffffff"); /* behind what is queued */
    cr_assert_eq(metrics_db_read(plane->metrics, fs_id, now - 10 * minute, now, minute, now,
                                 add_operations, &sum),
                 0);
    return sum;
}

/* A volume with one operation on record; its fileSystemId. */
static const char *make_busy_volume(void)
{
    static char fs_id[UUID_TEXT_MAX];

    make_volume(VOLUME, "vol", "");
    cr_assert_eq(arm_get(VOLUME), 200);
    snprintf(fs_id, sizeof fs_id, "%s", answer_text("properties.fileSystemId"));
    record(fs_id);
    cr_assert_eq(recorded(fs_id), 1);
    return fs_id;
}

static int remove_and_fail(struct db_conn *txn, void *arg)
{
    struct db_resource r = {0};

    (void)arg;
    cr_assert_eq(db_resource_get(txn, VOLUME, &r), 0);
    cr_assert_eq(resource_remove(txn, &r), 0);
    db_resource_clear(&r);
    return -ENOSPC;
}

/* "The disk is full; nothing was changed": that must hold of the metrics too. */
Test(resource, a_removal_that_is_undone_keeps_the_metrics)
{
    const char *fs_id = make_busy_volume();

    cr_assert_eq(
        db_submit_wait(plane->db, &(struct db_request){.name = "test", .run = remove_and_fail}),
        -ENOSPC);
    cr_assert_eq(arm_get(VOLUME), 200);
    cr_expect_eq(recorded(fs_id), 1);
}

Test(resource, a_deletion_takes_the_metrics)
{
    const char *fs_id = make_busy_volume();

    cr_assert_eq(arm_delete(VOLUME), 202);
    cr_expect_eq(recorded(fs_id), 1, "not before its agent has deleted it");
    agent_report(fs_id, 1, "deleted");
    cr_expect_eq(recorded(fs_id), 1, "and not for a report of what it is not");
    agent_apply("ready");
    cr_assert_eq(arm_get(VOLUME), 404);
    cr_expect_eq(recorded(fs_id), 0);
}

Test(resource, a_forced_deletion_takes_the_metrics)
{
    const char *fs_id = make_busy_volume();

    cr_assert_eq(arm_delete(VOLUME "?forceDelete=true"), 202);
    cr_assert_eq(arm_get(VOLUME), 404);
    cr_expect_eq(recorded(fs_id), 0);
}

Test(resource, conversion_to_manual_keeps_each_volumes_throughput)
{
    make_volume(VOLUME, "vol", "");
    make_volume(POOL "/volumes/two", "two", "");
    int64_t before = json_get_int(agent_spec("/vol"), "generation", -1);
    cr_assert_eq(arm_patch(POOL, "{\"properties\":{\"qosType\":\"Manual\"}}"), 200);
    cr_assert_eq(number("utilizedThroughputMibps"), 12.5);
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Succeeded");
    cr_assert_eq(number("throughputMibps"), 6.25);
    cr_assert_eq(json_get_int(agent_spec("/vol"), "generation", -1), before, "same limit");
    cr_assert_eq(arm_patch(POOL, "{\"properties\":{\"qosType\":\"Auto\"}}"), 400);
    cr_assert_eq(arm_patch(VOLUME, "{\"properties\":{\"throughputMibps\":249.75}}"), 202);
    agent_apply("ready");
    cr_assert_eq(arm_patch(VOLUME, "{\"properties\":{\"throughputMibps\":249.76}}"), 400);
}

Test(resource, conversion_raises_what_is_below_the_least_manual_value)
{
    const char *path = ACCOUNT "/capacityPools/small";

    arm_put(path, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_1
                  ",\"serviceLevel\":\"Standard\"}}");
    /* 50 GiB of Standard: 16 x 50 / 1024 = 0.78125 MiB/s. */
    cr_assert_eq(arm_put(ACCOUNT "/capacityPools/small/volumes/v",
                         "{\"location\":\"eastus\",\"properties\":{\"creationToken\":\"v\","
                         "\"usageThreshold\":" GIB_TEXT_50 "}}"),
                 201);
    agent_apply("ready");
    arm_get(ACCOUNT "/capacityPools/small/volumes/v");
    cr_assert_eq(number("actualThroughputMibps"), 0.78125);
    char *seen = json_render(answer);
    cr_assert_eq(arm_put(ACCOUNT "/capacityPools/small/volumes/v", seen), 200, "as it was shown");
    free(seen);
    cr_assert_eq(arm_patch(path, "{\"properties\":{\"qosType\":\"Manual\"}}"), 200);
    arm_get(ACCOUNT "/capacityPools/small/volumes/v");
    ASSERT_TEXT(STATE, "Updating");
    agent_apply("ready");
    arm_get(ACCOUNT "/capacityPools/small/volumes/v");
    ASSERT_TEXT(STATE, "Succeeded");
    cr_assert_eq(number("throughputMibps"), 1);
}

Test(resource, a_flexible_pools_throughput_is_not_lowered_within_a_day_of_a_raise)
{
    const char *path = ACCOUNT "/capacityPools/flex";

    cr_assert_eq(arm_put(path, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_1
                               ",\"serviceLevel\":\"Flexible\"}}"),
                 201);
    ASSERT_TEXT("properties.qosType", "Manual");
    cr_assert_eq(answer_int("properties.customThroughputMibps"), 128);
    cr_assert_eq(number("totalThroughputMibps"), 128);
    cr_assert_eq(arm_patch(path, "{\"properties\":{\"customThroughputMibps\":640}}"), 200);
    cr_assert_eq(arm_patch(path, "{\"properties\":{\"customThroughputMibps\":641}}"), 400);
    cr_assert_eq(arm_patch(path, "{\"properties\":{\"customThroughputMibps\":300}}"), 400);
    ASSERT_TEXT("error.code", "PoolCustomThroughputCanNotBeDecreasedDuringCoolDownPeriod");
    cr_assert_not_null(strstr(answer_text("error.message"), "24 hours and 0 minutes"));
    cr_assert_eq(arm_put(path, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_2
                               ",\"serviceLevel\":\"Flexible\"}}"),
                 200, "left out, the throughput stays");
    cr_assert_eq(answer_int("properties.customThroughputMibps"), 640);
}

Test(resource, decimal_fractions_fill_a_pool_to_the_brim)
{
    const char *path = ACCOUNT "/capacityPools/decimal";
    char volume[256], token[8];

    /* Ten volumes of 6.4 MiB/s in 64: binary fractions must not say 64.00000000000001. */
    cr_assert_eq(arm_put(path, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_1
                               ",\"serviceLevel\":\"Premium\",\"qosType\":\"Manual\"}}"),
                 201);
    for (int i = 0; i < 10; i++) {
        snprintf(volume, sizeof volume, "%s/volumes/v%d", path, i);
        snprintf(token, sizeof token, "v%d", i);
        make_volume(volume, token, ",\"throughputMibps\":6.4");
    }
    arm_get(path);
    cr_assert_eq(number("utilizedThroughputMibps"), 64);
    arm_get(volume);
    cr_assert_eq(number("throughputMibps"), 6.4);
}

/* ---- lists and versions ---- */

Test(resource, lists_come_in_pages_that_join_to_the_whole)
{
    char path[160];
    int seen = 0, pages = 0;

    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, ACCOUNTS "/p%d", i);
        arm_put(path, "{\"location\":\"eastus\"}");
    }
    cr_assert_eq(arm_get(ACCOUNTS "?$top=4"), 200);
    for (;;) {
        pages++;
        seen += (int)json_array_size(json_object_get(answer, "value"));
        const char *next = answer_text("nextLink");
        if (next[0] == '\0') {
            break;
        }
        char copy[1024];
        snprintf(copy, sizeof copy, "%s", strstr(next, "/subscriptions"));
        cr_assert_eq(plane_call("GET", copy, NULL, NULL), 200);
    }
    cr_assert_eq(pages, 2);
    cr_assert_eq(seen, 6);
    cr_assert_eq(arm_get(ACCOUNTS "?$top=0"), 400);
    cr_assert_eq(arm_get(ACCOUNTS "/none/capacityPools"), 404);
    ASSERT_TEXT("error.code", "ParentResourceNotFound");
}

Test(resource, an_older_version_shows_what_it_knows)
{
    const char *old = VOLUME "?api-version=2021-10-01";

    make_volume(VOLUME, "vol", "");
    cr_assert_eq(plane_call("GET", old, NULL, NULL), 200);
    const json_t *p = json_object_get(answer, "properties");
    cr_assert_null(json_object_get(p, "breakthroughMode"));
    cr_assert_null(json_object_get(p, "isLargeVolume"));
    cr_assert_null(json_object_get(p, "actualThroughputMibps"));
    cr_assert_not_null(json_object_get(p, "maximumNumberOfFiles"));
    char *seen = json_render(answer);
    cr_assert_eq(plane_call("PUT", old, NULL, seen), 200, "%s", answer_text("error.message"));
    free(seen);
}

Test(resource, what_was_committed_is_there_after_a_restart)
{
    arm_put(VOLUME, volume_body("vol", ""));
    plane_restart();
    cr_assert_eq(arm_get(VOLUME), 200);
    ASSERT_TEXT(STATE, "Creating");
    agent_apply("ready");
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Succeeded");
}

/* ---- time-outs ---- */

static void short_setup(void)
{
    plane_apply_timeout_s = 1;
    arm_setup();
}

TestSuite(overdue, .init = short_setup, .fini = plane_stop, .timeout = 60);

static void await_state(const char *path, const char *state)
{
    uint64_t until = clock_mono_ns() + 20 * NS_PER_S;

    do {
        cr_assert_lt(clock_mono_ns(), until, "%s did not become %s", path, state);
        arm_get(path);
    } while (strcmp(answer_text(STATE), state) != 0);
}

Test(overdue, a_silent_agent_is_named_and_can_still_be_right)
{
    arm_put(VOLUME, volume_body("vol", ""));
    char url[512];
    snprintf(url, sizeof url, "%s",
             strstr(answer_header("Azure-AsyncOperation"), "/subscriptions"));
    await_state(VOLUME, "Failed");
    plane_call("GET", url, NULL, NULL);
    ASSERT_TEXT("status", "Failed");
    ASSERT_TEXT("error.code", "OperationTimedOut");
    cr_assert_not_null(strstr(answer_text("error.message"), "'host1'"));
    agent_apply("ready");
    arm_get(VOLUME);
    ASSERT_TEXT(STATE, "Succeeded");
}

Test(overdue, a_deletion_stays_wanted)
{
    make_volume(VOLUME, "vol", "");
    arm_delete(VOLUME);
    await_state(VOLUME, "Failed");
    cr_assert_eq(arm_patch(VOLUME, "{\"tags\":{}}"), 409, "its data may be gone");
    cr_assert_eq(arm_delete(VOLUME), 202, "again");
    agent_apply("ready");
    cr_assert_eq(arm_get(VOLUME), 404);
}

Test(overdue, a_group_whose_deletion_failed_can_be_used_again)
{
    make_volume(VOLUME, "vol", "");
    cr_assert_eq(plane_call("DELETE", GROUP "?api-version=2021-04-01", NULL, NULL), 202);
    char url[512];
    snprintf(url, sizeof url, "%s",
             strstr(answer_header("Azure-AsyncOperation"), "/subscriptions"));
    await_state(VOLUME, "Failed");
    cr_assert_eq(plane_call("GET", url, NULL, NULL), 200);
    ASSERT_TEXT("status", "Failed");
    cr_assert_eq(arm_put(ACCOUNTS "/late", "{\"location\":\"eastus\"}"), 201);
    cr_assert_eq(plane_call("DELETE", GROUP "?api-version=2021-04-01", NULL, NULL), 202);
    agent_apply("ready");
    cr_assert_eq(arm_get(ACCOUNT), 404);
}
