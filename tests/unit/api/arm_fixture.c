/* The fixture of the tests of resources. */
#include "tests/unit/api/arm_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json_util.h"

#define CREDENTIAL "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

int arm_call_json(const char *method, const char *path, const char *body)
{
    char url[2048];

    snprintf(url, sizeof url, "%s%s%s", path, strchr(path, '?') == NULL ? "?" : "&",
             strstr(path, "api-version=") == NULL ? VERSION : "");
    return plane_call(method, url, NULL, body);
}

int arm_put(const char *path, const char *body)
{
    return arm_call_json("PUT", path, body);
}

int arm_patch(const char *path, const char *body)
{
    return arm_call_json("PATCH", path, body);
}

int arm_get(const char *path)
{
    return arm_call_json("GET", path, NULL);
}

int arm_delete(const char *path)
{
    return arm_call_json("DELETE", path, NULL);
}

void arm_enroll(void)
{
    cr_assert_eq(
        plane_call("POST", "/agents/v1/enroll", NULL,
                   "{\"credential\":\"" CREDENTIAL "\",\"name\":\"host1\",\"version\":\"1\","
                   "\"region\":\"\",\"zone\":\"\",\"backend\":\"dir\",\"storeUuid\":"
                   "\"01234567-89ab-4cde-8f01-23456789abcd\",\"storeSize\":1000,\"storeFree\":900,"
                   "\"addresses\":[\"127.99.0.0/24\"],\"nfsPort\":2049}"),
        200);
    agent_apply("ready"); /* now it was heard of */
}

void arm_setup(void)
{
    plane_start(AUTH_NONE);
    arm_enroll();
    cr_assert_eq(arm_put(ACCOUNT, "{\"location\":\"eastus\"}"), 201);
    cr_assert_eq(arm_put(POOL, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_4
                               ",\"serviceLevel\":\"Premium\"}}"),
                 201);
    cr_assert_eq(arm_put(MANUAL, "{\"location\":\"eastus\",\"properties\":{\"size\":" TIB_TEXT_4
                                 ",\"serviceLevel\":\"Premium\",\"qosType\":\"Manual\"}}"),
                 201);
}

const char *volume_body(const char *token, const char *more)
{
    static char text[2048];

    snprintf(text, sizeof text,
             "{\"location\":\"eastus\",\"properties\":{\"creationToken\":\"%s\","
             "\"usageThreshold\":" GIB_TEXT_100 "%s}}",
             token, more);
    return text;
}

void make_volume(const char *path, const char *token, const char *more)
{
    cr_assert_eq(arm_put(path, volume_body(token, more)), 201, "%s", answer_text("error.message"));
    agent_apply("ready");
}

static void poll_all(void)
{
    cr_assert_eq(plane_call("POST", "/agents/v1/poll", CREDENTIAL, "{\"cursor\":\"\",\"wait\":0}"),
                 200);
}

int agent_apply(const char *state)
{
    struct buf b = {0};
    const json_t *volumes;

    poll_all();
    volumes = json_object_get(answer, "volumes");
    size_t count = json_array_size(volumes);
    buf_str(&b, "{\"observations\":[");
    for (size_t i = 0; i < count; i++) {
        const json_t *spec = json_array_get(volumes, i);
        bool deleted = json_get_bool(spec, "deleted", false);
        buf_printf(&b,
                   "%s{\"fileSystemId\":\"%s\",\"generation\":%lld,\"state\":\"%s\","
                   "\"message\":\"the disk is on fire\"}",
                   i == 0 ? "" : ",", json_get_text(spec, "fileSystemId", ""),
                   (long long)json_get_int(spec, "generation", 0), deleted ? "deleted" : state);
    }
    buf_str(&b, "]}");
    char *body = buf_take(&b);
    cr_assert_eq(plane_call("POST", "/agents/v1/observed", CREDENTIAL, body), 200);
    free(body);
    return (int)count;
}

void agent_report(const char *fs_id, int64_t generation, const char *state)
{
    char body[300];

    snprintf(body, sizeof body,
             "{\"observations\":[{\"fileSystemId\":\"%s\",\"generation\":%lld,\"state\":\"%s\"}]}",
             fs_id, (long long)generation, state);
    cr_assert_eq(plane_call("POST", "/agents/v1/observed", CREDENTIAL, body), 200);
}

const json_t *agent_spec(const char *export_path)
{
    const json_t *spec;
    size_t i;

    poll_all();
    json_array_foreach(json_object_get(answer, "volumes"), i, spec)
    {
        if (strcmp(json_get_text(spec, "exportPath", ""), export_path) == 0) {
            return spec;
        }
    }
    return NULL;
}

int follow(const char *header)
{
    const char *url = answer_header(header), *path;
    char copy[1024];

    path = strstr(url, "://127.0.0.1/");
    cr_assert_not_null(path, "no URL of this server in %s: '%s'", header, url);
    snprintf(copy, sizeof copy, "%s", path + strlen("://127.0.0.1"));
    return plane_call("GET", copy, NULL, NULL);
}
