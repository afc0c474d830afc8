/* Pages of lists; see the header. No state. */
#include "api/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/url.h"

static bool refuse(struct page *page, const char *name, const char *must)
{
    arm_fail(page->call, 400, "InvalidValueReceived", name, "'%s' must be %s.", name, must);
    return false;
}

bool page_begin(struct page *page, struct arm_call *call)
{
    const char *query = http_query(call->http);
    char top[8];

    *page = (struct page){.call = call, .limit = PAGE_SIZE};
    int found = url_query_get(query, "$top", top, sizeof top);
    if (found != 0) {
        bool digits = found > 0 && top[0] != '\0' && strspn(top, "0123456789") == strlen(top);
        long number = digits ? strtol(top, NULL, 10) : 0;
        if (number < 1 || number > PAGE_MAX) {
            return refuse(page, "$top", "a number from 1 to 1000");
        }
        page->limit = (size_t)number;
    }
    if (url_query_get(query, "$filter", page->after, sizeof page->after) != 0) {
        arm_fail(call, 400, "FeatureNotSupported", "$filter",
                 "'$filter' asks for a filtered list, which Spillway does not support.");
        return false;
    }
    page->after[0] = '\0';
    if (url_query_get(query, "$skipToken", page->after, sizeof page->after) < 0) {
        return refuse(page, "$skipToken", "that of a nextLink, as it was");
    }
    page->value = json_array();
    return true;
}

int page_add(struct page *page, const char *key, json_t *item)
{
    if (json_array_size(page->value) == page->limit) {
        page->more = true;
        json_decref(item);
        return 1;
    }
    free(page->last);
    page->last = xstrdup(key);
    json_array_append_new(page->value, item);
    return 0;
}

void page_abandon(struct page *page)
{
    free(page->last);
    json_decref(page->value);
    *page = (struct page){0};
}

void page_reply(struct page *page)
{
    struct arm_call *call = page->call;
    json_t *body = json_object();

    json_object_set(body, "value", page->value);
    if (page->more) {
        char *token = url_encode(page->last);
        char *path = page->limit == PAGE_SIZE
                         ? xasprintf("%s?api-version=%s&$skipToken=%s", http_path(call->http),
                                     call->api_version, token)
                         : xasprintf("%s?api-version=%s&$top=%zu&$skipToken=%s",
                                     http_path(call->http), call->api_version, page->limit, token);
        char *url = arm_url(call, path);
        json_object_set_new(body, "nextLink", json_string(url));
        free(token);
        free(path);
        free(url);
    }
    page_abandon(page);
    arm_reply(call, 200, body);
}
