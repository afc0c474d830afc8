/*
 * Export policies: compiling, matching, publishing. See export.h for how a policy is read without a
 * lock.
 *
 * Semantics: rules are looked at in the order of their ruleIndex, the first whose client list has
 * the client decides alone. It gives nothing when it does not allow NFSv3: its owner wrote down
 * what these clients may use, and a later, wider rule is not meant for them (as ONTAP documents it
 * for a rule whose client matches and whose protocol does not).
 */
#include "agent/volume/export.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct net {
    in_addr_t address, mask; /* network order */
};

struct rule {
    unsigned index;
    struct export_access access;
    size_t first, count; /* of the policy's nets */
};

struct export_policy {
    struct export_policy *retired; /* next of those that wait to be freed */
    size_t nendpoints;
    struct in_addr endpoints[VOLUME_MAX_ENDPOINTS];
    size_t nrules;
    struct rule rules[VOLUME_MAX_RULES];
    size_t nnets, room;
    struct net *nets;
};

/* ---- compiling ---- */

struct compiler {
    struct export_policy *policy;
    export_lookup_fn *lookup;
    void *arg;
    char *message;
    size_t size;
};

static void add_net(struct export_policy *p, in_addr_t address, in_addr_t mask)
{
    if (p->nnets == p->room) {
        p->room = p->room > 0 ? p->room * 2 : 8;
        p->nets = xrealloc(p->nets, p->room * sizeof(*p->nets));
    }
    p->nets[p->nnets++] = (struct net){address & mask, mask};
}

/* The prefix length after the slash, or -1. */
static int parse_prefix(const char *text)
{
    int value = 0;

    if (*text == '\0' || strlen(text) > 2)
        return -1;
    for (; *text != '\0'; text++) {
        if (!isdigit((unsigned char)*text))
            return -1;
        value = value * 10 + (*text - '0');
    }
    return value <= 32 ? value : -1;
}

static in_addr_t mask_of(int prefix)
{
    return prefix == 0 ? 0 : htonl(UINT32_MAX << (32 - prefix));
}

/* RFC 952 and 1123, and the underscore that people use. What has digits and dots only is a bad
 * address. */
static bool is_host_name(const char *text)
{
    bool letter = false;

    if (*text == '\0' || strlen(text) >= EXPORT_NAME_MAX || *text == '-' || *text == '.')
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_' && *p != '.')
            return false;
        if (*p == '.' && p[1] == '.')
            return false;
        letter |= !isdigit((unsigned char)*p) && *p != '.';
    }
    return letter;
}

static bool add_client(struct compiler *c, unsigned index, char *text)
{
    char *slash = strchr(text, '/');
    struct in_addr address;
    int prefix = 32;

    if (strchr(text, ':')) {
        snprintf(c->message, c->size, "rule %u: \"%s\": IPv6 clients are not supported", index,
                 text);
        return false;
    }
    if (*text == '@') {
        snprintf(c->message, c->size, "rule %u: \"%s\": netgroups are not supported", index, text);
        return false;
    }
    if (slash) {
        *slash = '\0';
        prefix = parse_prefix(slash + 1);
    }
    if (prefix >= 0 && inet_pton(AF_INET, text, &address) == 1) {
        add_net(c->policy, address.s_addr, mask_of(prefix));
        return true;
    }
    if (!slash && is_host_name(text)) {
        struct in_addr found[EXPORT_NAME_ADDRESSES];
        size_t n = c->lookup ? c->lookup(c->arg, text, found, EXPORT_NAME_ADDRESSES) : 0;

        for (size_t i = 0; i < n; i++)
            add_net(c->policy, found[i].s_addr, INADDR_BROADCAST);
        return true;
    }
    snprintf(c->message, c->size, "rule %u: \"%.100s\" is no IPv4 address, CIDR block or host name",
             index, text);
    return false;
}

/* Calls `each` for every element of a comma list, blanks around it taken off. False ends it. */
static bool for_clients(const char *list, bool (*each)(void *arg, char *element), void *arg)
{
    char *copy = xstrdup(list), *rest = copy, *element;
    bool ok = true;

    while (ok && (element = strsep(&rest, ","))) {
        char *end;

        element += strspn(element, " \t");
        end = element + strlen(element);
        while (end > element && (end[-1] == ' ' || end[-1] == '\t'))
            *--end = '\0';
        ok = each(arg, element);
    }
    free(copy);
    return ok;
}

struct rule_compiler {
    struct compiler *c;
    unsigned index;
    size_t count;
};

static bool compile_client(void *arg, char *element)
{
    struct rule_compiler *r = arg;

    if (++r->count > EXPORT_CLIENTS_MAX) {
        snprintf(r->c->message, r->c->size, "rule %u: more than %d clients", r->index,
                 EXPORT_CLIENTS_MAX);
        return false;
    }
    return add_client(r->c, r->index, element);
}

static bool compile_rule(struct compiler *c, const struct export_rule_spec *spec)
{
    struct rule_compiler r = {.c = c, .index = spec->index};
    struct export_policy *p = c->policy;
    struct rule *rule = &p->rules[p->nrules++];

    rule->index = spec->index;
    rule->first = p->nnets;
    if (spec->nfsv3 && (spec->read_only || spec->read_write))
        rule->access = (struct export_access){
            .allowed = true,
            .writable = spec->read_write && !spec->read_only,
            .root = spec->root_access,
            .chown_restricted = spec->chown_restricted,
        };
    if (!for_clients(spec->clients ? spec->clients : "", compile_client, &r))
        return false;
    rule->count = p->nnets - rule->first;
    return true;
}

static int by_index(const void *a, const void *b)
{
    const struct rule *left = a, *right = b;

    return left->index < right->index ? -1 : left->index > right->index;
}

static bool check_rules(const struct export_policy *p, struct compiler *c)
{
    for (size_t i = 1; i < p->nrules; i++)
        if (p->rules[i].index == p->rules[i - 1].index) {
            snprintf(c->message, c->size, "rule %u is there twice", p->rules[i].index);
            return false;
        }
    return true;
}

struct export_policy *export_compile(const struct volume_spec *spec, export_lookup_fn *lookup,
                                     void *arg, char *message, size_t size)
{
    struct export_policy *p = xcalloc(1, sizeof(*p));
    struct compiler c = {p, lookup, arg, message, size};
    bool ok = spec->nrules <= VOLUME_MAX_RULES && spec->nendpoints <= VOLUME_MAX_ENDPOINTS;

    if (!ok)
        snprintf(message, size, "more than %d rules or %d endpoints", VOLUME_MAX_RULES,
                 VOLUME_MAX_ENDPOINTS);
    for (size_t i = 0; ok && i < spec->nrules; i++)
        ok = compile_rule(&c, &spec->rules[i]);
    if (ok) {
        qsort(p->rules, p->nrules, sizeof(p->rules[0]), by_index);
        ok = check_rules(p, &c);
    }
    if (!ok) {
        export_free(p);
        return NULL;
    }
    p->nendpoints = spec->nendpoints;
    memcpy(p->endpoints, spec->endpoints, spec->nendpoints * sizeof(spec->endpoints[0]));
    return p;
}

void export_free(struct export_policy *policy)
{
    if (!policy)
        return;
    free(policy->nets);
    free(policy);
}

static bool same_nets(const struct export_policy *a, const struct export_policy *b)
{
    if (a->nnets != b->nnets)
        return false;
    for (size_t i = 0; i < a->nnets; i++)
        if (a->nets[i].address != b->nets[i].address || a->nets[i].mask != b->nets[i].mask)
            return false;
    return true;
}

static bool same_rule(const struct rule *a, const struct rule *b)
{
    return a->index == b->index && a->first == b->first && a->count == b->count &&
           a->access.allowed == b->access.allowed && a->access.writable == b->access.writable &&
           a->access.root == b->access.root &&
           a->access.chown_restricted == b->access.chown_restricted;
}

bool export_equal(const struct export_policy *a, const struct export_policy *b)
{
    if (a->nrules != b->nrules || a->nendpoints != b->nendpoints || !same_nets(a, b))
        return false;
    for (size_t i = 0; i < a->nrules; i++)
        if (!same_rule(&a->rules[i], &b->rules[i]))
            return false;
    for (size_t i = 0; i < a->nendpoints; i++)
        if (a->endpoints[i].s_addr != b->endpoints[i].s_addr)
            return false;
    return true;
}

struct name_finder {
    export_name_fn *each;
    void *arg;
};

static bool find_name(void *arg, char *element)
{
    struct name_finder *f = arg;

    if (is_host_name(element))
        f->each(f->arg, element);
    return true;
}

void export_each_name(const struct volume_spec *spec, export_name_fn *each, void *arg)
{
    struct name_finder f = {each, arg};

    for (size_t i = 0; i < spec->nrules; i++)
        if (spec->rules[i].clients)
            for_clients(spec->rules[i].clients, find_name, &f);
}

/* ---- matching ---- */

struct export_access export_match(const struct export_policy *p, struct in_addr client)
{
    for (size_t i = 0; i < p->nrules; i++) {
        const struct rule *rule = &p->rules[i];
        const struct net *net = p->nets + rule->first;

        for (size_t n = 0; n < rule->count; n++, net++)
            if ((client.s_addr & net->mask) == net->address)
                return rule->access;
    }
    return (struct export_access){0};
}

/* ---- publishing ---- */

/* A thread's announcement. Never freed: a thread that ends leaves its record to the next. */
struct hazard {
    _Alignas(64) const struct export_policy *_Atomic using;
    atomic_bool taken;
    struct hazard *next;
};

static struct hazard *_Atomic hazards; /* only ever grows, at its head */
static _Thread_local struct hazard *own;
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct export_policy *retired;

static void leave_record(void *arg)
{
    struct hazard *h = arg;

    h->taken = false;
}

static void make_key(void)
{
    pthread_key_create(&own_key, leave_record);
}

/* Once a thread. */
static struct hazard *take_record(void)
{
    struct hazard *h;

    pthread_once(&own_once, make_key);
    for (h = hazards; h; h = h->next) {
        bool free_record = false;

        if (atomic_compare_exchange_strong(&h->taken, &free_record, true))
            break;
    }
    if (!h) {
        h = aligned_alloc(_Alignof(struct hazard), sizeof(*h));
        if (!h)
            abort(); /* less than a page; nothing else would work either */
        memset(h, 0, sizeof(*h));
        h->taken = true;
        h->next = hazards;
        while (!atomic_compare_exchange_weak(&hazards, &h->next, h))
            ;
    }
    pthread_setspecific(own_key, h);
    own = h;
    return h;
}

static const struct export_policy *protect(const struct export_cell *cell, struct hazard *h)
{
    const struct export_policy *p = atomic_load_explicit(&cell->now, memory_order_relaxed), *again;

    for (;; p = again) {
        h->using = p; /* before the second look: sequentially consistent */
        again = cell->now;
        if (again == p)
            return p;
    }
}

static void unprotect(struct hazard *h)
{
    atomic_store_explicit(&h->using, NULL, memory_order_release);
}

struct export_access export_cell_match(const struct export_cell *cell, struct in_addr client)
{
    struct hazard *h = own ? own : take_record();
    const struct export_policy *p = protect(cell, h);
    struct export_access access = p ? export_match(p, client) : (struct export_access){0};

    unprotect(h);
    return access;
}

bool export_cell_has_endpoint(const struct export_cell *cell, struct in_addr endpoint)
{
    struct hazard *h = own ? own : take_record();
    const struct export_policy *p = protect(cell, h);
    bool found = false;

    for (size_t i = 0; p && !found && i < p->nendpoints; i++)
        found = p->endpoints[i].s_addr == endpoint.s_addr;
    unprotect(h);
    return found;
}

static bool is_used(const struct export_policy *p)
{
    for (struct hazard *h = hazards; h; h = h->next)
        if (h->using == p)
            return true;
    return false;
}

void export_publish(struct export_cell *cell, struct export_policy *policy)
{
    struct export_policy *old = atomic_exchange(&cell->now, policy), **at;

    pthread_mutex_lock(&retired_lock);
    if (old) {
        old->retired = retired;
        retired = old;
    }
    for (at = &retired; *at;) {
        struct export_policy *p = *at;

        if (is_used(p)) {
            at = &p->retired;
        } else {
            *at = p->retired;
            export_free(p);
        }
    }
    pthread_mutex_unlock(&retired_lock);
}
