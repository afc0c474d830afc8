/*
 * What every request passes before its handler: route, token, api-version, subscription, body.
 * Called on the server's threads; no state of its own.
 */
#include "api/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/route.h"
#include "api/versions.h"
#include "common/json_util.h"
#include "common/mem.h"
#include "common/url.h"
#include "common/uuid.h"

static bool fail_no_route(struct arm_call *call, const struct route_match *m)
{
    const char *path = http_path(call->http);

    if (m->other_method) {
        http_set_header(call->http, "Allow", m->allow);
        arm_fail(call, 405, "MethodNotAllowed", NULL,
                 "The method '%.16s' is not supported here; supported are: %s.",
                 http_method(call->http), m->allow);
    } else if (strcasestr(path, "/providers/") != NULL) {
        arm_fail(call, 404, "InvalidResourceType", NULL,
                 "The resource type of '%.300s' could not be found.", path);
    } else {
        arm_fail(call, 404, "NotFound", NULL, "There is nothing at '%.300s'.", path);
    }
    return false;
}

/* False once the call was answered. */
static bool find_route(struct arm_call *call)
{
    struct route_match m;
    struct arm_error error = {0};
    bool sane = route_find(http_method(call->http), http_path(call->http), &m);

    call->route = m.route;
    for (size_t i = 0; i < ARM_PARAM_COUNT; i++) {
        call->param[i] = m.param[i];
    }
    if (m.route != NULL) {
        call->resource_id = route_resource_id(m.route, m.param);
    }
    /* Who has no token learns nothing of what is there. */
    if (!auth_check(call->api, call->http, m.route == NULL ? ROUTE_ARM : m.route->kind,
                    call->principal, &error)) {
        arm_fail_error(call, &error);
        return false;
    }
    if (!sane) {
        arm_fail(call, 400, "InvalidRequestUri", NULL,
                 "The path has a segment that is no name: badly encoded, too long, or with a slash "
                 "or a control character in it.");
        return false;
    }
    return m.route != NULL || fail_no_route(call, &m);
}

static bool check_version(struct arm_call *call)
{
    const char *set = call->route->versions;
    int found = url_query_get(http_query(call->http), "api-version", call->api_version,
                              sizeof call->api_version);

    if (found == 0) {
        arm_fail(call, 400, "MissingApiVersionParameter", NULL,
                 "The api-version query parameter (?api-version=) is required for all requests.");
        return false;
    }
    if (found < 0 || !version_is_well_formed(call->api_version)) {
        arm_fail(call, 400, "InvalidApiVersionParameter", NULL,
                 "The api-version is invalid: it must have the form YYYY-MM-DD or "
                 "YYYY-MM-DD-preview.");
        return false;
    }
    if (!version_accepted(set, call->api_version)) {
        char *list = version_list(set);
        arm_fail(call, 400, "NoRegisteredProviderFound", NULL,
                 "No registered resource provider found for API version '%s'. The supported "
                 "api-versions are '%s'.",
                 call->api_version, list);
        free(list);
        return false;
    }
    return true;
}

static bool check_subscription(struct arm_call *call)
{
    const char *subscription = call->param[ARM_SUBSCRIPTION];
    struct uuid id;

    if (subscription == NULL) {
        return true;
    }
    if (!uuid_parse(subscription, &id)) {
        arm_fail(call, 400, "InvalidSubscriptionId", NULL,
                 "The provided subscription identifier '%.64s' is malformed or invalid.",
                 subscription);
        return false;
    }
    struct db_conn *reader = db_read_begin(call->api->db);
    bool exists = db_subscription_exists(reader, subscription);
    db_read_end(reader);
    if (!exists) {
        arm_fail(call, 404, "SubscriptionNotFound", NULL,
                 "The subscription '%s' could not be found.", subscription);
    }
    return exists;
}

static bool read_body(struct arm_call *call)
{
    const char *method = http_method(call->http);
    bool needed = strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
    char why[160];
    size_t len;
    const char *text = http_body(call->http, &len);

    if (!needed && (len == 0 || strcmp(method, "POST") != 0)) {
        return true;
    }
    if (len == 0) {
        arm_fail(call, 400, "InvalidRequestContent", NULL,
                 "The request must have a JSON object as its body.");
        return false;
    }
    call->body = json_parse(text, len, why, sizeof why);
    if (call->body == NULL) {
        arm_fail(call, 400, "InvalidRequestContent", NULL,
                 "The request's content is not valid JSON: %s.", why);
        return false;
    }
    if (!json_is_object(call->body)) {
        arm_fail(call, 400, "InvalidRequestContent", NULL,
                 "The request's content must be a JSON object.");
        return false;
    }
    return true;
}

void dispatch_request(struct http_request *request, void *api)
{
    struct arm_call *call = arm_call_new(api, request);

    if (!find_route(call)) {
        return;
    }
    const struct arm_route *route = call->route;
    if (route->kind == ROUTE_ARM && (!check_version(call) || !check_subscription(call))) {
        return;
    }
    if (route->run == NULL) {
        arm_fail(call, 400, "FeatureNotSupported", NULL, "Spillway does not support %s.",
                 route->refused);
        return;
    }
    if (read_body(call)) {
        route->run(call);
    }
}

void dispatch_too_large(struct http_request *request, void *api)
{
    arm_fail(arm_call_new(api, request), 413, "RequestEntityTooLarge", NULL,
             "The request's body is larger than 1 MiB.");
}
