/* The agents' channel (docs/agent-protocol.md) and the administrator's agent calls, over real
 * sockets and a real store. */
#include "api/agents.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/agents_internal.h"
#include "common/clock.h"
#include "tests/unit/api/control_plane.h"

#define CREDENTIAL_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define CREDENTIAL_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define FS_ID        "01234567-89ab-4cde-8f01-23456789abcd"
#define STATUS                                                                                     \
    "{\"version\":\"0.1.0\",\"storeSize\":1000,\"storeFree\":400,\"volumes\":3,\"connections\":9," \
    "\"opsPerSecond\":12,\"bytesPerSecond\":1.5%s}"

static void with_tokens(void)
{
    plane_start(AUTH_TOKEN);
}

static void open_to_all(void)
{
    plane_start(AUTH_NONE);
}

TestSuite(channel, .init = open_to_all, .fini = plane_stop, .timeout = 60);
TestSuite(enrolment, .init = with_tokens, .fini = plane_stop, .timeout = 60);
TestSuite(agent_admin, .init = open_to_all, .fini = plane_stop, .timeout = 60);

static int enroll(const char *token, const char *credential, const char *name)
{
    char body[600], field[100] = "";

    if (token != NULL) {
        snprintf(field, sizeof field, "\"token\":\"%s\",", token);
    }
    snprintf(body, sizeof body,
             "{%s\"credential\":\"%s\",\"name\":\"%s\",\"version\":\"0.1.0\",\"region\":\"East "
             "US\",\"zone\":\"\","
             "\"backend\":\"dir\",\"storeUuid\":\"" FS_ID "\",\"storeSize\":1000,\"storeFree\":500,"
             "\"addresses\":[\"127.77.0.0/24\"],\"nfsPort\":2049}",
             field, credential, name);
    return plane_call("POST", "/agents/v1/enroll", NULL, body);
}

static char *new_token(void)
{
    cr_assert_eq(plane_call("POST", "/admin/v1/enrollTokens", admin_token, NULL), 200);
    cr_assert_eq(strlen(answer_text("token")), 64);
    return strdup(answer_text("token"));
}

/* ---- enrolment ---- */

Test(enrolment, a_lost_answer_is_harmless)
{
    char *token = new_token();

    cr_assert_eq(enroll(token, CREDENTIAL_A, "host1"), 200);
    int64_t id = answer_int("agentId");
    cr_assert_gt(id, 0);
    cr_assert_eq(enroll(token, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(answer_int("agentId"), id);
    cr_assert_eq(plane_call("GET", "/admin/v1/agents", admin_token, NULL), 200);
    cr_assert_eq(json_array_size(json_object_get(answer, "value")), 1);
    free(token);
}

Test(enrolment, an_enrolled_agent_may_enrol_again_without_a_token)
{
    char *token = new_token();

    cr_assert_eq(enroll(token, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 200);
    free(token);
}

Test(enrolment, a_token_serves_one_agent)
{
    char *token = new_token();

    cr_assert_eq(enroll(token, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(enroll(token, CREDENTIAL_B, "host2"), 401);
    cr_assert_str_eq(answer_text("error.code"), "AuthenticationFailed");
    free(token);
}

Test(enrolment, needs_a_token_that_was_given)
{
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 401);
    cr_assert_eq(enroll(CREDENTIAL_B, CREDENTIAL_A, "host1"), 401);
}

Test(enrolment, a_taken_name_is_refused_and_spends_no_token)
{
    char *first = new_token(), *second = new_token();

    cr_assert_eq(enroll(first, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(enroll(second, CREDENTIAL_B, "host1"), 409);
    cr_assert_str_eq(answer_text("error.target"), "name");
    cr_assert_eq(enroll(second, CREDENTIAL_B, "host2"), 200);
    free(first);
    free(second);
}

Test(enrolment, one_credential_is_one_agent)
{
    char *first = new_token(), *second = new_token();

    cr_assert_eq(enroll(first, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(enroll(second, CREDENTIAL_A, "host2"), 409);
    cr_assert_str_eq(answer_text("error.target"), "credential");
    free(first);
    free(second);
}

Test(enrolment, the_administrators_calls_need_the_token)
{
    cr_assert_eq(plane_call("POST", "/admin/v1/enrollTokens", NULL, NULL), 401);
    cr_assert_eq(plane_call("POST", "/admin/v1/enrollTokens", CREDENTIAL_A, NULL), 401);
    cr_assert_eq(plane_call("GET", "/metrics", NULL, NULL), 401);
    cr_assert_eq(plane_call("GET", "/healthz", NULL, NULL), 200);
}

/* A message that is right but for one member: 400 with the member as the target. */
Test(channel, hostile_enrolment_is_refused_by_member)
{
    static const struct {
        const char *member, *value;
    } cases[] = {
        {"credential", "null"},
        {"credential", "\"AAAA\""},
        {"credential", "\"AAAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""},
        {"credential", "5"},
        {"name", "\"\""},
        {"name", "\"a/b\""},
        {"name", "\"a b\""},
        {"name", "\"\\u00e9\""},
        {"name", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""},
        {"version", "{}"},
        {"region", "7"},
        {"region", "\"a\\nb\""},
        {"zone", "\"12345678901234567\""},
        {"backend", "\"\""},
        {"storeUuid", "\"not-a-uuid\""},
        {"storeSize", "-1"},
        {"storeSize", "1.5"},
        {"storeSize", "\"1\""},
        {"storeFree", "1e300"},
        {"addresses", "\"10.0.0.1\""},
        {"addresses", "[]"},
        {"addresses", "[\"10.0.0.0/2\"]"},
        {"nfsPort", "0"},
        {"nfsPort", "65536"},
        {"token", "\"short\""},
    };
    json_t *good = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:[s],s:i}", "credential",
                             CREDENTIAL_A, "name", "host1", "version", "0.1.0", "region", "",
                             "zone", "", "backend", "dir", "storeUuid", FS_ID, "storeSize", 1,
                             "storeFree", 1, "addresses", "127.77.0.0/24", "nfsPort", 2049);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *bad = json_copy(good);
        json_object_set_new(bad, cases[i].member,
                            json_loads(cases[i].value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
        char *body = json_dumps(bad, 0);
        cr_assert_eq(plane_call("POST", "/agents/v1/enroll", NULL, body), 400, "%s: %s",
                     cases[i].member, cases[i].value);
        cr_assert_str_eq(answer_text("error.target"), cases[i].member);
        free(body);
        json_decref(bad);
    }
    char *body = json_dumps(good, 0);
    cr_assert_eq(plane_call("POST", "/agents/v1/enroll", NULL, body), 200);
    free(body);
    json_decref(good);
}

/* ---- polls ---- */

static int poll_for(const char *credential, const char *cursor, int wait)
{
    char body[256];

    snprintf(body, sizeof body, "{\"cursor\":\"%s\",\"wait\":%d}", cursor, wait);
    return plane_call("POST", "/agents/v1/poll", credential, body);
}

/* A change that needs no resource: the agent must delete a volume that is gone. */
struct change {
    int64_t agent, generation;
};

static int add_change(struct db_conn *txn, void *arg)
{
    const struct change *c = arg;

    db_tombstone_delete(txn, c->agent, FS_ID);
    int rc = db_tombstone_add(txn, c->agent, FS_ID, c->generation);
    return rc != 0 ? rc : db_change_add(txn, c->agent, FS_ID);
}

static void change(int64_t agent, int64_t generation)
{
    struct change c = {agent, generation};

    cr_assert_eq(db_submit_wait(plane->db,
                                &(struct db_request){.name = "test", .run = add_change, .arg = &c}),
                 0);
    agents_notify(plane->agents, agent);
}

/* A poll on a thread of its own. */
struct poller {
    pthread_t thread;
    char cursor[128];
    int wait, status;
    size_t volumes;
    int64_t generation; /* of the first one */
    uint64_t took_ns;
};

static void *poller_main(void *arg)
{
    struct poller *p = arg;
    uint64_t start = clock_mono_ns();

    p->status = poll_for(CREDENTIAL_A, p->cursor, p->wait);
    p->took_ns = clock_mono_ns() - start;
    const json_t *volumes = json_object_get(answer, "volumes");
    p->volumes = json_array_size(volumes);
    p->generation = json_integer_value(json_object_get(json_array_get(volumes, 0), "generation"));
    snprintf(p->cursor, sizeof p->cursor, "%s", answer_text("cursor"));
    json_decref(answer);
    answer = NULL;
    return NULL;
}

static size_t held(void)
{
    pthread_mutex_lock(&plane->agents->lock);
    size_t n = plane->agents->held;
    pthread_mutex_unlock(&plane->agents->lock);
    return n;
}

static void await_held(size_t n)
{
    while (held() != n) {
        sched_yield();
    }
}

/* Enrols an agent, reads its first list; the poller is ready to be started. */
static int64_t first_list(struct poller *p)
{
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 200);
    int64_t id = answer_int("agentId");
    cr_assert_eq(poll_for(CREDENTIAL_A, "", 30), 200);
    cr_assert(json_is_true(json_object_get(answer, "full")),
              "an empty cursor gets the full list at once");
    *p = (struct poller){.wait = 30};
    snprintf(p->cursor, sizeof p->cursor, "%s", answer_text("cursor"));
    return id;
}

Test(channel, a_poll_needs_a_credential)
{
    cr_assert_eq(poll_for(CREDENTIAL_A, "", 0), 401);
    cr_assert_eq(plane_call("POST", "/agents/v1/poll", NULL, "{\"cursor\":\"\",\"wait\":0}"), 401);
}

Test(channel, hostile_polls_are_refused)
{
    static const char *const bad[] = {"{}",
                                      "{\"cursor\":1,\"wait\":0}",
                                      "{\"cursor\":\"\",\"wait\":-1}",
                                      "{\"cursor\":\"\",\"wait\":\"30\"}",
                                      "{\"cursor\":\"\",\"wait\":1.5}",
                                      "{\"cursor\":\"\"}"};
    struct poller p;

    first_list(&p);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(plane_call("POST", "/agents/v1/poll", CREDENTIAL_A, bad[i]), 400, "%s",
                     bad[i]);
    }
    cr_assert_eq(poll_for(CREDENTIAL_A, "no:such:cursor", 30), 200);
    cr_assert(json_is_true(json_object_get(answer, "full")),
              "an unknown cursor gets the full list at once");
}

Test(channel, a_change_wakes_the_poll_that_waits)
{
    struct poller p;
    int64_t id = first_list(&p);

    cr_assert_eq(pthread_create(&p.thread, NULL, poller_main, &p), 0);
    await_held(1);
    change(id, 7);
    pthread_join(p.thread, NULL);
    cr_assert_eq(p.status, 200);
    cr_assert_eq(p.volumes, 1);
    cr_assert_eq(p.generation, 7);
    cr_assert_lt(p.took_ns, 10 * NS_PER_S, "it was not the time-out that answered");
    cr_assert_eq(held(), 0);
}

/* Changes and polls cross in every order: none may be lost. */
Test(channel, no_change_is_lost_between_two_polls)
{
    struct poller p;
    int64_t id = first_list(&p);

    for (int64_t i = 1; i <= 200; i++) {
        cr_assert_eq(pthread_create(&p.thread, NULL, poller_main, &p), 0);
        if (i % 3 == 0) {
            await_held(1);
        }
        change(id, i);
        pthread_join(p.thread, NULL);
        cr_assert_eq(p.volumes, 1);
        cr_assert_eq(p.generation, i);
        cr_assert_lt(p.took_ns, 10 * NS_PER_S);
    }
}

Test(channel, a_notice_without_a_change_leaves_the_poll_waiting)
{
    struct poller p;
    int64_t id = first_list(&p);

    cr_assert_eq(pthread_create(&p.thread, NULL, poller_main, &p), 0);
    await_held(1);
    agents_notify(plane->agents, id);
    await_held(1);
    change(id, 9);
    pthread_join(p.thread, NULL);
    cr_assert_eq(p.generation, 9);
}

Test(channel, a_poll_ends_when_its_time_is_over)
{
    struct poller p;

    first_list(&p);
    p.wait = 1;
    poller_main(&p);
    cr_assert_eq(p.status, 200);
    cr_assert_eq(p.volumes, 0);
    cr_assert_geq(p.took_ns, NS_PER_S);
    cr_assert_lt(p.took_ns, 10 * NS_PER_S);
}

Test(channel, a_newer_poll_displaces_the_older)
{
    struct poller old, new;
    int64_t id = first_list(&old);

    new = old;
    cr_assert_eq(pthread_create(&old.thread, NULL, poller_main, &old), 0);
    await_held(1);
    cr_assert_eq(pthread_create(&new.thread, NULL, poller_main, &new), 0);
    pthread_join(old.thread, NULL);
    cr_assert_eq(old.status, 200);
    cr_assert_eq(old.volumes, 0);
    change(id, 3);
    pthread_join(new.thread, NULL);
    cr_assert_eq(new.generation, 3);
}

Test(channel, a_stop_answers_the_polls)
{
    struct poller p;

    first_list(&p);
    cr_assert_eq(pthread_create(&p.thread, NULL, poller_main, &p), 0);
    await_held(1);
    agents_stop(plane->agents);
    pthread_join(p.thread, NULL);
    cr_assert_eq(p.status, 200);
    cr_assert_lt(p.took_ns, 10 * NS_PER_S);
    cr_assert_eq(poll_for(CREDENTIAL_A, p.cursor, 30), 200, "a later poll is not held");
}

Test(channel, a_removed_agents_poll_is_refused)
{
    struct poller p;

    first_list(&p);
    cr_assert_eq(pthread_create(&p.thread, NULL, poller_main, &p), 0);
    await_held(1);
    cr_assert_eq(plane_call("DELETE", "/admin/v1/agents/host1", NULL, NULL), 200);
    pthread_join(p.thread, NULL);
    cr_assert_eq(p.status, 401);
    cr_assert_eq(poll_for(CREDENTIAL_A, "", 0), 401);
}

Test(channel, a_confirmed_deletion_is_not_sent_again)
{
    struct poller p;
    int64_t id = first_list(&p);

    change(id, 4);
    cr_assert_eq(plane_call("POST", "/agents/v1/observed", CREDENTIAL_A,
                            "{\"observations\":[{\"fileSystemId\":\"" FS_ID
                            "\",\"generation\":4,\"state\":\"deleted\"}]}"),
                 200);
    cr_assert_eq(poll_for(CREDENTIAL_A, "", 0), 200);
    cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 0);
}

Test(channel, hostile_observations_are_refused)
{
    static const char *const bad[] = {
        "{}",
        "{\"observations\":{}}",
        "{\"observations\":[7]}",
        "{\"observations\":[{\"fileSystemId\":\"x\",\"generation\":1,\"state\":\"ready\"}]}",
        "{\"observations\":[{\"fileSystemId\":\"" FS_ID
        "\",\"generation\":0,\"state\":\"ready\"}]}",
        "{\"observations\":[{\"fileSystemId\":\"" FS_ID "\",\"generation\":1,\"state\":\"fine\"}]}",
        "{\"observations\":[{\"fileSystemId\":\"" FS_ID
        "\",\"generation\":1,\"state\":\"failed\",\"message\":3}]}",
    };
    struct poller p;

    first_list(&p);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(plane_call("POST", "/agents/v1/observed", CREDENTIAL_A, bad[i]), 400, "%s",
                     bad[i]);
    }
}

/* ---- status ---- */

static int status(const char *more)
{
    char body[1024];

    snprintf(body, sizeof body, STATUS, more);
    return plane_call("POST", "/agents/v1/status", CREDENTIAL_A, body);
}

Test(channel, a_status_is_seen_by_the_administrator)
{
    struct poller p;

    first_list(&p);
    cr_assert_eq(status(""), 200);
    cr_assert_eq(plane_call("GET", "/admin/v1/agents/host1", NULL, NULL), 200);
    cr_assert_eq(answer_int("storeFree"), 400);
    cr_assert_eq(answer_int("volumes"), 3);
    cr_assert_eq(answer_int("connections"), 9);
    cr_assert(json_is_true(json_object_get(answer, "live")));
    cr_assert_str_eq(answer_text("region"), "eastus", "regions are kept in ARM's normal form");
}

Test(channel, a_batch_is_acknowledged_as_often_as_it_is_sent)
{
    struct poller p;
    char batch[512];

    first_list(&p);
    snprintf(batch, sizeof batch,
             ",\"batch\":{\"run\":\"" FS_ID
             "\",\"number\":12,\"points\":[{\"fileSystemId\":\"" FS_ID
             "\",\"minute\":%lld,\"sums\":[1,2,3,4,5,6,7,8,9,10],\"gauges\":[1,2,3,4]}]}",
             (long long)clock_wall_ns() / (long long)NS_PER_S / 60 * 60);
    cr_assert_eq(status(batch), 200);
    cr_assert_eq(answer_int("batch"), 12);
    cr_assert_eq(status(batch), 200);
    cr_assert_eq(answer_int("batch"), 12);
    cr_assert_eq(plane->agents->counters.points_dropped, 2, "the volume is not this agent's");
}

Test(channel, hostile_batches_are_refused)
{
    static const char *const bad[] = {
        ",\"batch\":7",
        ",\"batch\":{}",
        ",\"batch\":{\"run\":\"x\",\"number\":1,\"points\":[]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":0,\"points\":[]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":1,\"points\":[{}]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":1,\"points\":[{\"fileSystemId\":\"" FS_ID
        "\",\"minute\":61,\"sums\":[1,2,3,4,5,6,7,8,9,10],\"gauges\":[1,2,3,4]}]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":1,\"points\":[{\"fileSystemId\":\"" FS_ID
        "\",\"minute\":9223372036854775800,\"sums\":[1,2,3,4,5,6,7,8,9,10],\"gauges\":[1,2,3,4]}]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":1,\"points\":[{\"fileSystemId\":\"" FS_ID
        "\",\"minute\":60,\"sums\":[1,2,3,4,5,6,7,8,9],\"gauges\":[1,2,3,4]}]}",
        ",\"batch\":{\"run\":\"" FS_ID "\",\"number\":1,\"points\":[{\"fileSystemId\":\"" FS_ID
        "\",\"minute\":60,\"sums\":[1,2,3,4,5,6,7,8,9,-10],\"gauges\":[1,2,3,4]}]}",
    };
    struct poller p;

    first_list(&p);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(status(bad[i]), 400, "%s", bad[i]);
    }
    cr_assert_eq(plane_call("POST", "/agents/v1/status", CREDENTIAL_A, "{\"version\":\"1\"}"), 400);
}

/* ---- liveness, administration ---- */

Test(channel, an_agent_is_live_for_45_seconds_after_its_last_contact)
{
    struct poller p;
    int64_t id = first_list(&p);
    uint64_t now = clock_mono_ns();

    cr_assert(agents_is_live(plane->agents, id, now));
    cr_assert(agents_is_live(plane->agents, id, now + 44 * NS_PER_S));
    cr_assert_not(agents_is_live(plane->agents, id, now + 46 * NS_PER_S));
    cr_assert_not(agents_is_live(plane->agents, id + 1, now));
}

Test(channel, a_restart_keeps_agents_and_expects_them_back)
{
    struct poller p;
    int64_t id = first_list(&p);

    cr_assert_eq(status(""), 200);
    plane_restart();
    cr_assert(agents_is_live(plane->agents, id, clock_mono_ns()));
    cr_assert_eq(poll_for(CREDENTIAL_A, p.cursor, 0), 200);
    cr_assert(json_is_false(json_object_get(answer, "full")), "a cursor outlives the server");
}

Test(agent_admin, drains_and_shows_it)
{
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(plane_call("POST", "/admin/v1/agents/host1/drain", NULL, "{\"draining\":true}"),
                 200);
    cr_assert(json_is_true(json_object_get(answer, "draining")));
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 200);
    cr_assert_eq(plane_call("GET", "/admin/v1/agents/host1", NULL, NULL), 200);
    cr_assert(json_is_true(json_object_get(answer, "draining")), "enrolling again does not end it");
    cr_assert_eq(plane_call("POST", "/admin/v1/agents/host1/drain", NULL, "{\"draining\":1}"), 400);
    cr_assert_eq(plane_call("POST", "/admin/v1/agents/host1/drain", NULL, NULL), 400);
    cr_assert_eq(plane_call("POST", "/admin/v1/agents/none/drain", NULL, "{\"draining\":true}"),
                 404);
}

Test(agent_admin, removes_an_agent_that_serves_nothing)
{
    cr_assert_eq(enroll(NULL, CREDENTIAL_A, "host1"), 200);
    change(answer_int("agentId"), 1);
    cr_assert_eq(plane_call("DELETE", "/admin/v1/agents/host1", NULL, NULL), 409,
                 "a deletion is outstanding");
    cr_assert_eq(plane_call("DELETE", "/admin/v1/agents/host1?force=perhaps", NULL, NULL), 400);
    cr_assert_eq(plane_call("DELETE", "/admin/v1/agents/host1?force=true", NULL, NULL), 200);
    cr_assert_eq(plane_call("GET", "/admin/v1/agents/host1", NULL, NULL), 404);
    cr_assert_eq(plane_call("DELETE", "/admin/v1/agents/host1", NULL, NULL), 404);
}
