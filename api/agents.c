/*
 * The registry of agents: who is enrolled, by id and by credential, when each was last heard of,
 * and what it said of its load. Liveness is memory only; the last contact goes to the store once a
 * minute, so that a restarted control plane knows whom to expect. One thread answers the held polls
 * (agent_poll.c) and writes the contacts; it sleeps until one of the two is due. For the locking
 * see agents_internal.h.
 */
#include "api/agents_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define PERSIST_EVERY_NS (60 * NS_PER_S)

/* ---- entries ---- */

static struct agent_entry **id_bucket(struct agent_registry *r, int64_t id)
{
    return &r->by_id[(uint64_t)id % AGENT_BUCKETS];
}

/* The hash is hex of SHA-256: its first digits are spread evenly. */
static struct agent_entry **hash_bucket(struct agent_registry *r, const char *hash)
{
    char head[5];

    snprintf(head, sizeof head, "%.4s", hash);
    return &r->by_hash[strtoul(head, NULL, 16) % AGENT_BUCKETS];
}

struct agent_entry *registry_find(struct agent_registry *r, int64_t id)
{
    struct agent_entry *e = *id_bucket(r, id);

    while (e != NULL && e->id != id) {
        e = e->next_by_id;
    }
    return e;
}

static struct agent_entry *find_hash(struct agent_registry *r, const char *hash)
{
    struct agent_entry *e = *hash_bucket(r, hash);

    while (e != NULL && !secret_hash_equal(e->credential_hash, hash)) {
        e = e->next_by_hash;
    }
    return e;
}

static void unlink_entry(struct agent_registry *r, struct agent_entry *e)
{
    struct agent_entry **p = id_bucket(r, e->id);

    while (*p != e) {
        p = &(*p)->next_by_id;
    }
    *p = e->next_by_id;
    p = hash_bucket(r, e->credential_hash);
    while (*p != e) {
        p = &(*p)->next_by_hash;
    }
    *p = e->next_by_hash;
    r->count--;
}

/* `known_ns`: since when it counts as live, 0 for not yet. */
static void put_entry(struct agent_registry *r, const struct db_agent *a, uint64_t known_ns)
{
    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = registry_find(r, a->id);
    if (e == NULL) {
        e = xcalloc(1, sizeof *e);
        e->id = a->id;
        e->contact_wall = a->last_contact;
        e->contact_ns = known_ns;
        snprintf(e->credential_hash, sizeof e->credential_hash, "%s", a->credential_hash);
        struct agent_entry **id = id_bucket(r, e->id), **hash = hash_bucket(r, e->credential_hash);
        e->next_by_id = *id;
        *id = e;
        e->next_by_hash = *hash;
        *hash = e;
        r->count++;
    }
    snprintf(e->name, sizeof e->name, "%s", a->name);
    snprintf(e->load.version, sizeof e->load.version, "%s", a->version);
    e->load.store_size = a->store_size;
    e->load.store_free = a->store_free;
    pthread_mutex_unlock(&r->lock);
}

void registry_put(struct agent_registry *r, const struct db_agent *a)
{
    put_entry(r, a, clock_mono_ns());
}

void registry_remove(struct agent_registry *r, int64_t id)
{
    struct arm_call *poll = NULL;

    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = registry_find(r, id);
    if (e != NULL) {
        poll = poll_unpark(r, e);
        unlink_entry(r, e);
        free(e->poll_cursor);
        free(e);
    }
    pthread_mutex_unlock(&r->lock);
    if (poll != NULL) {
        agent_refuse(poll);
    }
}

bool registry_copy(struct agent_registry *r, int64_t id, struct agent_entry *out)
{
    pthread_mutex_lock(&r->lock);
    const struct agent_entry *e = registry_find(r, id);
    if (e != NULL) {
        *out = *e;
    }
    pthread_mutex_unlock(&r->lock);
    return e != NULL;
}

uint64_t registry_address_hint(struct agent_registry *r, int64_t id)
{
    pthread_mutex_lock(&r->lock);
    const struct agent_entry *e = registry_find(r, id);
    uint64_t next = e == NULL ? 0 : e->address_next;
    pthread_mutex_unlock(&r->lock);
    return next;
}

void registry_claimed(struct agent_registry *r, int64_t id, uint64_t address_next)
{
    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = registry_find(r, id);
    if (e != NULL) {
        e->claimed++;
        e->address_next = address_next;
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- contact ---- */

void registry_touch(struct agent_registry *r, struct agent_entry *e)
{
    e->contact_ns = clock_mono_ns();
    e->contact_wall = clock_wall_ns();
    e->contact_dirty = true;
    if (r->persist_at == 0) {
        r->persist_at = e->contact_ns + PERSIST_EVERY_NS;
        pthread_cond_signal(&r->wake);
    }
}

bool agents_is_live(struct agent_registry *r, int64_t agent, uint64_t now_ns)
{
    pthread_mutex_lock(&r->lock);
    const struct agent_entry *e = registry_find(r, agent);
    bool live = e != NULL && e->contact_ns != 0 && now_ns < e->contact_ns + AGENT_LIVE_NS;
    pthread_mutex_unlock(&r->lock);
    return live;
}

int64_t agents_authenticate(struct agent_registry *r, const char *credential)
{
    char hash[SECRET_HEX_MAX];
    int64_t id = 0;

    secret_hash(credential, hash);
    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = find_hash(r, hash);
    if (e != NULL) {
        registry_touch(r, e);
        id = e->id;
    }
    pthread_mutex_unlock(&r->lock);
    return id;
}

void agent_refuse(struct arm_call *call)
{
    struct arm_error error = {0};

    auth_refuse(call->http,
                "Authentication failed. The credential is not that of an enrolled agent.", &error);
    arm_fail_error(call, &error);
}

int64_t agent_of_call(struct arm_call *call)
{
    struct agent_registry *r = call->api->agents;
    const char *bearer = auth_bearer(call->http);
    int64_t id = bearer == NULL ? 0 : agents_authenticate(r, bearer);
    struct agent_entry e;

    if (id == 0 || !registry_copy(r, id, &e)) {
        agent_refuse(call);
        return 0;
    }
    snprintf(call->principal, sizeof call->principal, "agent/%s", e.name);
    return id;
}

/* Contacts on their way to the store. */
struct contact {
    int64_t id, wall;
    struct agent_load load;
};

struct contacts {
    size_t count;
    struct contact *list;
};

static int write_contacts(struct db_conn *txn, void *arg)
{
    const struct contacts *all = arg;
    int rc = 0;

    for (size_t i = 0; i < all->count && rc == 0; i++) {
        const struct contact *c = &all->list[i];
        struct db_agent a = {0};
        rc = db_agent_get(txn, c->id, &a);
        if (rc == 0) {
            a.last_contact = c->wall;
            a.store_size = c->load.store_size;
            a.store_free = c->load.store_free;
            free(a.version);
            a.version = xstrdup(c->load.version);
            rc = db_agent_update(txn, &a);
        } else if (rc == -ENOENT) {
            rc = 0; /* removed meanwhile */
        }
        db_agent_clear(&a);
    }
    return rc;
}

static void contacts_written(void *arg, int result)
{
    struct contacts *all = arg;

    if (result != 0) {
        log_warn("the agents' last contacts could not be stored: %s", strerror(-result));
    }
    free(all->list);
    free(all);
}

/* Called and returns with the lock held; lets it go to queue the transaction. */
static void persist_contacts(struct agent_registry *r)
{
    struct contacts *all = xcalloc(1, sizeof *all);

    r->persist_at = 0;
    all->list = xcalloc(r->count + 1, sizeof *all->list);
    for (size_t i = 0; i < AGENT_BUCKETS; i++) {
        for (struct agent_entry *e = r->by_id[i]; e != NULL; e = e->next_by_id) {
            if (e->contact_dirty) {
                e->contact_dirty = false;
                all->list[all->count++] =
                    (struct contact){.id = e->id, .wall = e->contact_wall, .load = e->load};
            }
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (all->count > 0) {
        db_submit(r->api->db, &(struct db_request){.name = "agent contacts",
                                                   .run = write_contacts,
                                                   .done = contacts_written,
                                                   .arg = all});
    } else {
        contacts_written(all, 0);
    }
    pthread_mutex_lock(&r->lock);
}

/* ---- the thread ---- */

/* Waits until clock_mono_ns reaches `due` (0: for a signal only). The condition variable knows no
 * CLOCK_BOOTTIME; after a suspend the wait ends late by the time slept, which a poll survives. */
static void wait_until(struct agent_registry *r, uint64_t due)
{
    struct timespec t;
    uint64_t now = clock_mono_ns();

    if (due == 0) {
        pthread_cond_wait(&r->wake, &r->lock);
    } else if (due > now) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        uint64_t at = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec + (due - now);
        t.tv_sec = (time_t)(at / NS_PER_S);
        t.tv_nsec = (long)(at % NS_PER_S);
        pthread_cond_timedwait(&r->wake, &r->lock, &t);
    }
}

static void *registry_main(void *arg)
{
    struct agent_registry *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stopping || r->held > 0) {
        poll_run_due(r);
        if (r->persist_at != 0 && r->persist_at <= clock_mono_ns()) {
            persist_contacts(r);
            continue;
        }
        if (r->stopping || (r->first_due != NULL && r->first_due->poll_due == 0)) {
            continue;
        }
        uint64_t due = r->persist_at;
        if (r->first_due != NULL && (due == 0 || r->first_due->poll_due < due)) {
            due = r->first_due->poll_due;
        }
        wait_until(r, due);
    }
    persist_contacts(r);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* An agent that was there shortly before this start is expected back at once: it counts as live for
 * one more period, so that a restart of the control plane refuses no volume. */
static int load_agent(const struct db_agent *a, void *arg)
{
    struct agent_registry *r = arg;
    int64_t age = clock_wall_ns() - a->last_contact;
    bool recent = age >= 0 && age < (int64_t)(PERSIST_EVERY_NS + AGENT_LIVE_NS);

    put_entry(r, a, recent ? clock_mono_ns() : 0);
    return 0;
}

struct agent_registry *agents_new(struct api *api)
{
    struct agent_registry *r = xcalloc(1, sizeof *r);
    pthread_condattr_t attr;

    r->api = api;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);

    struct db_conn *reader = db_read_begin(api->db);
    int rc = db_agent_each(reader, load_agent, r);
    db_read_end(reader);
    if (rc != 0) {
        fatal("cannot read the agents: %s", strerror(-rc));
    }
    rc = pthread_create(&r->thread, NULL, registry_main, r);
    if (rc != 0) {
        fatal("cannot start the agents' thread: %s", strerror(rc));
    }
    return r;
}

void agents_notify(struct agent_registry *r, int64_t agent)
{
    pthread_mutex_lock(&r->lock);
    struct agent_entry *e = registry_find(r, agent);
    if (e != NULL) {
        e->changes++;
        if (e->poll != NULL) {
            poll_wake(r, e);
            pthread_cond_signal(&r->wake);
        }
    }
    pthread_mutex_unlock(&r->lock);
}

void agents_stop(struct agent_registry *r)
{
    pthread_mutex_lock(&r->lock);
    bool first = !r->stopping;
    r->stopping = true;
    while (r->last_due != NULL && r->last_due->poll_due != 0) {
        poll_wake(r, r->last_due);
    }
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    if (first) {
        pthread_join(r->thread, NULL);
    }
}

void agents_free(struct agent_registry *r)
{
    if (r == NULL) {
        return;
    }
    agents_stop(r);
    for (size_t i = 0; i < AGENT_BUCKETS; i++) {
        while (r->by_id[i] != NULL) {
            struct agent_entry *e = r->by_id[i];
            r->by_id[i] = e->next_by_id;
            free(e->poll_cursor);
            free(e);
        }
    }
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
