/*
 * The agents' long polls (docs/agent-protocol.md). A poll looks at the change feed from its cursor;
 * when nothing changed it is parked in the registry and holds no thread. One list of held polls,
 * ordered by when they are due, is the timer: all agents wait about as long, so that a new poll
 * belongs at its end or near it. A change moves the agent's poll to the front with due time 0, and
 * the registry's thread looks at the feed again and answers.
 *
 * No wake-up is lost: agents_notify runs after the commit and counts; a poll is parked only if the
 * count is the one from before its look at the database.
 */
#include "api/agents_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/volume_spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/mem.h"

#define WAIT_MAX_S 30
#define CURSOR_MAX 128

/* ---- the list of held polls; the caller has the lock ---- */

static void list_insert(struct agent_registry *r, struct agent_entry *e)
{
    struct agent_entry *before = r->last_due;

    while (before != NULL && before->poll_due > e->poll_due) {
        before = before->earlier;
    }
    e->earlier = before;
    e->later = before == NULL ? r->first_due : before->later;
    *(e->earlier == NULL ? &r->first_due : &e->earlier->later) = e;
    *(e->later == NULL ? &r->last_due : &e->later->earlier) = e;
}

static void list_remove(struct agent_registry *r, struct agent_entry *e)
{
    *(e->earlier == NULL ? &r->first_due : &e->earlier->later) = e->later;
    *(e->later == NULL ? &r->last_due : &e->later->earlier) = e->earlier;
    e->earlier = e->later = NULL;
}

struct arm_call *poll_unpark(struct agent_registry *r, struct agent_entry *e)
{
    struct arm_call *call = e->poll;

    if (call != NULL) {
        list_remove(r, e);
        e->poll = NULL;
        r->held--;
    }
    return call;
}

void poll_wake(struct agent_registry *r, struct agent_entry *e)
{
    if (e->poll_due == 0) {
        return;
    }
    list_remove(r, e);
    e->poll_due = 0;
    e->later = r->first_due; /* straight to the front: the others' order does not matter to one that
                                is due */
    *(r->first_due == NULL ? &r->last_due : &r->first_due->earlier) = e;
    r->first_due = e;
}

/* ---- looking at the feed ---- */

struct delta {
    json_t *volumes;
    char *cursor;
    bool full;
};

struct look {
    struct db_conn *reader;
    json_t *volumes;
    int error;
};

static int add_placed(const struct db_resource *volume, void *arg)
{
    struct look *look = arg;
    json_t *spec = volume_agent_spec(look->reader, volume);

    if (spec == NULL) {
        look->error = -EIO;
        return 1;
    }
    json_array_append_new(look->volumes, spec);
    return 0;
}

static int add_tombstone(const char *fs_id, int64_t generation, void *arg)
{
    struct look *look = arg;

    json_array_append_new(look->volumes,
                          json_pack("{s:s, s:I, s:b}", "fileSystemId", fs_id, "generation",
                                    (json_int_t)generation, "deleted", 1));
    return 0;
}

/* All that the agent should have, and what it must still delete although its resource is gone. */
static int look_full(struct look *look, int64_t agent)
{
    int rc = db_resource_each_placed(look->reader, agent, add_placed, look);

    if (look->error != 0) {
        return look->error;
    }
    if (rc >= 0) {
        rc = db_tombstone_each(look->reader, agent, add_tombstone, look);
    }
    return rc < 0 ? rc : 0;
}

static int add_change(const char *fs_id, void *arg)
{
    json_array_append_new(arg, json_string(fs_id));
    return 0;
}

struct tombstone {
    const char *fs_id;
    int64_t generation;
    bool found;
};

static int match_tombstone(const char *fs_id, int64_t generation, void *arg)
{
    struct tombstone *t = arg;

    if (strcmp(fs_id, t->fs_id) == 0) {
        t->generation = generation;
        t->found = true;
    }
    return t->found;
}

/* One changed volume. Without a row and a tombstone it was deleted and the agent has said so:
 * nothing to send. */
static int look_one(struct look *look, int64_t agent, const char *fs_id)
{
    struct db_resource row = {0};
    int rc = db_resource_get_fs(look->reader, fs_id, &row);

    if (rc == 0) {
        if (row.agent == agent) {
            add_placed(&row, look);
        }
        db_resource_clear(&row);
        return look->error;
    }
    if (rc != -ENOENT) {
        return rc;
    }
    struct tombstone t = {.fs_id = fs_id};
    rc = db_tombstone_each(look->reader, agent, match_tombstone, &t);
    if (t.found) {
        add_tombstone(t.fs_id, t.generation, look);
    }
    return rc < 0 ? rc : 0;
}

/* What the agent gets for its cursor, from one snapshot. */
static int read_delta(struct agent_registry *r, int64_t agent, const char *cursor,
                      struct delta *out)
{
    struct look look = {.reader = db_read_begin(r->api->db), .volumes = json_array()};
    json_t *changed = json_array();

    *out = (struct delta){.volumes = look.volumes};
    int rc = db_change_each(look.reader, agent, cursor, add_change, changed, &out->cursor);
    if (rc == -ESTALE) {
        out->full = true;
        rc = look_full(&look, agent);
    } else if (rc == 0) {
        size_t i;
        json_t *fs_id;
        json_array_foreach(changed, i, fs_id)
        {
            rc = look_one(&look, agent, json_string_value(fs_id));
            if (rc != 0) {
                break;
            }
        }
    }
    db_read_end(look.reader);
    json_decref(changed);
    if (rc != 0) {
        json_decref(out->volumes);
        free(out->cursor);
    }
    return rc;
}

/* ---- a poll's way ---- */

/* Takes over `volumes` and `cursor`. */
static void answer(struct agent_registry *r, struct arm_call *call, struct delta *d)
{
    pthread_mutex_lock(&r->lock);
    r->counters.specs_sent += json_array_size(d->volumes);
    r->counters.full_lists += d->full;
    pthread_mutex_unlock(&r->lock);
    arm_reply(call, 200,
              json_pack("{s:s, s:b, s:o}", "cursor", d->cursor, "full", (int)d->full, "volumes",
                        d->volumes));
    free(d->cursor);
}

static void answer_nothing(struct agent_registry *r, struct arm_call *call, char *cursor)
{
    answer(r, call, &(struct delta){.volumes = json_array(), .cursor = cursor});
}

/* An agent has one poll at most: the older one (of a connection that is dead, or of a run before)
 * comes back with its cursor, to be answered. */
static struct arm_call *park(struct agent_registry *r, struct agent_entry *e, struct arm_call *call,
                             char *cursor, uint64_t deadline, char **old_cursor)
{
    struct arm_call *old = poll_unpark(r, e);

    *old_cursor = e->poll_cursor;
    e->poll = call;
    e->poll_cursor = cursor;
    e->poll_deadline = e->poll_due = deadline;
    list_insert(r, e);
    r->held++;
    if (r->first_due == e) {
        pthread_cond_signal(&r->wake);
    }
    return old;
}

/* Answers the poll or parks it. Takes over `cursor`. Not under the lock. */
static void poll_look(struct agent_registry *r, int64_t agent, struct arm_call *call, char *cursor,
                      uint64_t deadline)
{
    bool parked = false;

    while (!parked) {
        struct delta d;
        pthread_mutex_lock(&r->lock);
        struct agent_entry *e = registry_find(r, agent);
        uint64_t seen = e == NULL ? 0 : e->changes;
        bool last = r->stopping || clock_mono_ns() >= deadline;
        pthread_mutex_unlock(&r->lock);
        if (e == NULL) {
            free(cursor);
            agent_refuse(call);
            return;
        }

        int rc = read_delta(r, agent, cursor, &d);
        free(cursor);
        if (rc != 0) {
            fail_store(call, rc);
            return;
        }
        if (last || d.full || json_array_size(d.volumes) > 0) {
            answer(r, call, &d);
            return;
        }
        json_decref(d.volumes);
        cursor = d.cursor;

        struct arm_call *old = NULL;
        char *old_cursor = NULL;
        pthread_mutex_lock(&r->lock);
        e = registry_find(r, agent);
        parked = e != NULL && e->changes == seen && !r->stopping;
        if (parked) {
            old = park(r, e, call, cursor, deadline, &old_cursor);
        }
        pthread_mutex_unlock(&r->lock);
        if (old != NULL) {
            answer_nothing(r, old, old_cursor);
        }
    }
}

void poll_run_due(struct agent_registry *r)
{
    while (r->first_due != NULL && r->first_due->poll_due <= clock_mono_ns()) {
        struct agent_entry *e = r->first_due;
        bool woken = e->poll_due == 0;
        int64_t agent = e->id;
        uint64_t deadline = e->poll_deadline;
        char *cursor = e->poll_cursor;
        struct arm_call *call = poll_unpark(r, e);
        e->poll_cursor = NULL;
        pthread_mutex_unlock(&r->lock);
        if (woken) {
            poll_look(r, agent, call, cursor, deadline);
        } else {
            answer_nothing(r, call, cursor);
        }
        pthread_mutex_lock(&r->lock);
    }
}

void agents_poll(struct arm_call *call)
{
    int64_t agent = agent_of_call(call);

    if (agent == 0) {
        return;
    }
    const json_t *cursor = json_object_get(call->body, "cursor");
    const json_t *wait = json_object_get(call->body, "wait");
    if (!json_is_string(cursor) || json_string_length(cursor) >= CURSOR_MAX) {
        arm_fail(call, 400, "InvalidValueReceived", "cursor",
                 "'cursor' must be a text of at most %d characters.", CURSOR_MAX - 1);
        return;
    }
    if (!json_is_integer(wait) || json_integer_value(wait) < 0) {
        arm_fail(call, 400, "InvalidValueReceived", "wait",
                 "'wait' must be a number of seconds, 0 or more.");
        return;
    }
    uint64_t seconds = (uint64_t)json_integer_value(wait);
    uint64_t held = (seconds < WAIT_MAX_S ? seconds : WAIT_MAX_S) * NS_PER_S;
    poll_look(call->api->agents, agent, call, xstrdup(json_string_value(cursor)),
              clock_mono_ns() + held);
}
