/* Endpoints: a use count an address. */
#include "agent/control/endpoints.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"

#define RECORD_MAX (1u << 20) /* bytes of addresses.json */

struct endpoint {
    struct in_addr address;
    unsigned uses;
    bool listening;     /* while used, and for a while after */
    uint64_t unused_ns; /* since when there is no use */
    char *interface;    /* that we added it to; NULL: it was there */
};

struct endpoints {
    struct endpoints_config config;
    char *record;
    struct endpoint *list;
    size_t count, capacity;
    atomic_uint listening;
};

static const char *format_address(struct in_addr address, char out[static INET_ADDRSTRLEN])
{
    return inet_ntop(AF_INET, &address, out, INET_ADDRSTRLEN);
}

static struct endpoint *find(struct endpoints *e, struct in_addr address)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->list[i].address.s_addr == address.s_addr)
            return &e->list[i];
    return NULL;
}

static struct endpoint *find_or_append(struct endpoints *e, struct in_addr address)
{
    struct endpoint *p = find(e, address);

    if (p)
        return p;
    if (e->count == e->capacity) {
        e->capacity = e->capacity > 0 ? e->capacity * 2 : 16;
        e->list = xrealloc(e->list, e->capacity * sizeof(*e->list));
    }
    p = &e->list[e->count++];
    *p = (struct endpoint){.address = address};
    return p;
}

static void forget(struct endpoints *e, struct endpoint *p)
{
    free(p->interface);
    *p = e->list[--e->count];
}

/* Writes down which addresses are ours to remove. */
static int save_record(const struct endpoints *e)
{
    json_t *list = json_array();
    char text[INET_ADDRSTRLEN];

    for (size_t i = 0; i < e->count; i++)
        if (e->list[i].interface)
            json_array_append_new(list, json_pack("{s:s, s:s}", "address",
                                                  format_address(e->list[i].address, text),
                                                  "interface", e->list[i].interface));
    char *body = json_render(list);
    int rc = fs_write_atomic(e->record, body, strlen(body), 0600);

    free(body);
    json_decref(list);
    return rc;
}

static int load_record(struct endpoints *e)
{
    char *text, why[160];
    size_t len, i;
    json_t *list, *item;
    int rc = fs_read_file(e->record, RECORD_MAX, &text, &len);

    if (rc == -ENOENT)
        return 0;
    if (rc != 0) {
        log_error("%s: %s", e->record, strerror(-rc));
        return rc;
    }
    list = json_parse(text, len, why, sizeof(why));
    free(text);
    if (!json_is_array(list)) {
        /* It only tells what to clean up: not a reason to serve nothing. */
        log_warn("%s is damaged; addresses that an earlier run added to an interface stay there",
                 e->record);
        json_decref(list);
        return 0;
    }
    json_array_foreach(list, i, item)
    {
        const char *interface = json_get_text(item, "interface", NULL);
        struct in_addr address;

        if (interface && inet_pton(AF_INET, json_get_text(item, "address", ""), &address) == 1 &&
            !find(e, address))
            find_or_append(e, address)->interface = xstrdup(interface);
    }
    json_decref(list);
    return 0;
}

int endpoints_open(const struct endpoints_config *config, struct endpoints **out)
{
    struct endpoints *e = xcalloc(1, sizeof(*e));
    int rc;

    e->config = *config;
    e->record = xasprintf("%s/addresses.json", config->state_dir);
    rc = load_record(e);
    if (rc != 0) {
        endpoints_close(e);
        return rc;
    }
    *out = e;
    return 0;
}

/* Takes an address that we added off its interface again. The record goes last: a crash in between
 * removes twice. */
static void remove_added(struct endpoints *e, struct endpoint *p)
{
    char text[INET_ADDRSTRLEN];
    int rc = e->config.ops->remove(p->interface, p->address);

    if (rc != 0 && rc != -EADDRNOTAVAIL && rc != -ENODEV)
        log_warn("cannot remove %s from %s: %s", format_address(p->address, text), p->interface,
                 strerror(-rc));
    else
        log_info("removed %s from %s", format_address(p->address, text), p->interface);
    free(p->interface);
    p->interface = NULL;
    rc = save_record(e);
    if (rc != 0)
        log_warn("%s: %s", e->record, strerror(-rc));
}

/* Gives an address up. */
static void release(struct endpoints *e, struct endpoint *p)
{
    char text[INET_ADDRSTRLEN];

    if (p->listening) {
        e->config.ops->unlisten(e->config.arg, format_address(p->address, text));
        atomic_fetch_sub(&e->listening, 1);
    }
    if (p->interface)
        remove_added(e, p);
    forget(e, p);
}

/* Makes the address one of this machine's. */
static int add_missing(struct endpoints *e, struct endpoint *p, char *message, size_t size)
{
    const char *interface = e->config.interface;
    char text[INET_ADDRSTRLEN];
    int rc;

    if (!interface || e->config.ops->has(p->address))
        return 0;
    format_address(p->address, text);
    free(p->interface);
    p->interface = xstrdup(interface);
    rc = save_record(e);
    if (rc != 0) {
        snprintf(message, size, "cannot write down that %s is added to %s: %s", text, interface,
                 strerror(-rc));
    } else if ((rc = e->config.ops->add(interface, p->address)) != 0) {
        snprintf(message, size, "cannot add %s to %s: %s", text, interface, strerror(-rc));
    } else {
        log_info("added %s to %s", text, interface);
        return 0;
    }
    free(p->interface);
    p->interface = NULL;
    (void)save_record(e); /* at worst a stop tries to remove what is not there */
    return rc;
}

static int start_listening(struct endpoints *e, struct endpoint *p, char *message, size_t size)
{
    char text[INET_ADDRSTRLEN];
    int rc = add_missing(e, p, message, size);

    if (rc != 0)
        return rc;
    rc = e->config.ops->listen(e->config.arg, format_address(p->address, text));
    if (rc != 0) {
        snprintf(message, size, "cannot listen on %s:%u: %s%s", text, e->config.port, strerror(-rc),
                 rc == -EADDRNOTAVAIL ? " (add the address to this machine or give --interface)"
                                      : "");
        return rc;
    }
    p->listening = true;
    atomic_fetch_add(&e->listening, 1);
    return 0;
}

static int start_use(struct endpoints *e, struct in_addr address, char *message, size_t size)
{
    struct endpoint *p;
    char text[INET_ADDRSTRLEN];
    int rc = 0;

    if (!addresses_contain(e->config.allowed, address)) {
        snprintf(message, size, "%s is not among this agent's --endpoints",
                 format_address(address, text));
        return -EADDRNOTAVAIL;
    }
    p = find_or_append(e, address);
    if (!p->listening)
        rc = start_listening(e, p, message, size);
    if (rc == 0)
        p->uses++;
    else
        release(e, p);
    return rc;
}

int endpoints_take(struct endpoints *e, const struct in_addr *addresses, size_t count,
                   char *message, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        int rc = start_use(e, addresses[i], message, size);

        if (rc == 0)
            continue;
        while (i-- > 0) { /* nobody can have come to know these yet */
            struct endpoint *p = find(e, addresses[i]);

            if (p && --p->uses == 0)
                release(e, p);
        }
        return rc;
    }
    return 0;
}

void endpoints_drop(struct endpoints *e, const struct in_addr *addresses, size_t count,
                    uint64_t now_ns)
{
    for (size_t i = 0; i < count; i++) {
        struct endpoint *p = find(e, addresses[i]);

        if (p && p->uses > 0 && --p->uses == 0)
            p->unused_ns = now_ns;
    }
}

void endpoints_expire(struct endpoints *e, uint64_t now_ns)
{
    for (size_t i = e->count; i-- > 0;) { /* backwards: the last one takes a released one's place */
        struct endpoint *p = &e->list[i];

        if (p->listening && p->uses == 0 && now_ns - p->unused_ns >= ENDPOINT_LINGER_NS)
            release(e, p);
    }
}

void endpoints_sweep(struct endpoints *e)
{
    for (size_t i = e->count; i-- > 0;)
        if (!e->list[i].listening)
            release(e, &e->list[i]);
}

unsigned endpoints_count(const struct endpoints *e)
{
    return atomic_load(&e->listening);
}

void endpoints_close(struct endpoints *e)
{
    if (!e)
        return;
    while (e->count > 0)
        release(e, &e->list[e->count - 1]);
    free(e->list);
    free(e->record);
    free(e);
}
