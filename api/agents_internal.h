/*
 * The inside of the agent registry, shared by its files: agents.c (who is known and live),
 * agent_poll.c (held polls), agent_channel.c (enrolment, observations, status), agent_admin.c and
 * prom.c (what is shown).
 *
 * Locking: `lock` guards every field below and is a leaf: nothing is called under it that locks,
 * blocks, reads the database or answers a request. Entries are found by id or credential under the
 * lock and never kept across it, so that an agent may be removed at any time.
 */
#ifndef API_AGENTS_INTERNAL_H
#define API_AGENTS_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/agents.h"
#include "api/auth.h"

#define AGENT_NAME_MAX    65 /* with the NUL */
#define AGENT_VERSION_MAX 33
#define AGENT_BUCKETS     1024

/* What an agent last said of itself. */
struct agent_load {
    int64_t store_size, store_free; /* bytes */
    int64_t volumes, connections;
    double ops_per_second, bytes_per_second;
    char version[AGENT_VERSION_MAX];
};

struct agent_entry {
    int64_t id;
    char name[AGENT_NAME_MAX];
    char credential_hash[SECRET_HEX_MAX];
    uint64_t contact_ns;  /* clock_mono_ns of the last contact, 0: none yet */
    int64_t contact_wall; /* the same moment for people */
    bool contact_dirty;   /* not yet in the store */
    struct agent_load load;
    int64_t claimed;       /* volumes placed on it since its last report of `volumes` */
    uint64_t address_next; /* where the search for a free address starts */

    /* The held poll. `changes` counts agents_notify: a poll is parked only if no change came since
     * before its look at the database. */
    uint64_t changes;
    struct arm_call *poll; /* NULL: none held */
    char *poll_cursor;
    uint64_t poll_deadline, poll_due;    /* due: 0 once woken, else the deadline */
    struct agent_entry *earlier, *later; /* held polls by `poll_due` */

    struct agent_entry *next_by_id, *next_by_hash;
};

struct agent_counters {
    uint64_t specs_sent, full_lists, points_taken, points_dropped;
};

struct agent_registry {
    struct api *api;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* CLOCK_MONOTONIC */
    pthread_t thread;
    bool stopping;
    size_t count;
    struct agent_entry *by_id[AGENT_BUCKETS], *by_hash[AGENT_BUCKETS];
    struct agent_entry *first_due, *last_due;
    size_t held;
    uint64_t
        persist_at; /* clock_mono_ns when contacts are written to the store, 0: nothing to write */
    struct agent_counters counters;
};

/* The caller holds the lock. */
struct agent_entry *registry_find(struct agent_registry *r, int64_t id);
void registry_touch(struct agent_registry *r, struct agent_entry *e);

/* Adds an agent or takes over its new row. */
void registry_put(struct agent_registry *r, const struct db_agent *a);
/* Forgets an agent; its held poll is answered 401. */
void registry_remove(struct agent_registry *r, int64_t id);
/* A copy of an agent's entry (its poll fields mean nothing there, but that `poll` is NULL or not).
 */
bool registry_copy(struct agent_registry *r, int64_t id, struct agent_entry *out);

/* Where the next free address of an agent is looked for, and that it was found. */
uint64_t registry_address_hint(struct agent_registry *r, int64_t id);
void registry_claimed(struct agent_registry *r, int64_t id, uint64_t address_next);

/* The agent of a call by its bearer, touched and named as the call's principal; 0 once the call was
 * answered 401. */
int64_t agent_of_call(struct arm_call *call);
void agent_refuse(struct arm_call *call);

/* Takes the held poll of an entry out; the caller holds the lock and answers it after. */
struct arm_call *poll_unpark(struct agent_registry *r, struct agent_entry *e);
void poll_wake(struct agent_registry *r, struct agent_entry *e); /* the caller holds the lock */
/* Answers the polls that are woken or due until none is; called and returns with the lock held. */
void poll_run_due(struct agent_registry *r);

#endif
