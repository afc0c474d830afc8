/* The reconciler: entries by fileSystemId, a queue of what changed, a list of what is tried again
 * later. */
#include "agent/control/reconcile.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "agent/control/spec.h"
#include "common/clock.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"

#define BUCKETS      4096
#define MESSAGE_MAX  400 /* what the control plane keeps of one */
#define RETRY_MIN_NS NS_PER_S
#define RETRY_MAX_NS (60 * NS_PER_S)

enum place { PLACE_NONE, PLACE_QUEUE, PLACE_LATER };
enum outcome { OUTCOME_READY, OUTCOME_DELETED, OUTCOME_FAILED };

static const char *const outcome_names[] = {"ready", "deleted", "failed"};

struct report {
    bool pending;
    enum outcome outcome;
    int64_t generation;
    uint64_t serial; /* of this content: an acknowledgement of an older one does not count */
    char message[MESSAGE_MAX];
};

/*
 * What is known of a volume. Under the lock, but for what the applying thread alone writes (also
 * under the lock) and so may read without it: saved, marked, served, missing, held.
 */
struct entry {
    struct uuid fs_id;
    struct entry *next;             /* of the bucket */
    TAILQ_ENTRY(entry) link;        /* queue or later, as `place` says */
    TAILQ_ENTRY(entry) report_link; /* while report.pending */
    enum place place;
    bool busy; /* being applied: not to be freed */

    char *wanted; /* the spec to come to, NULL: nothing to do */
    int64_t generation;
    uint64_t wanted_serial;
    bool deletes; /* `wanted` is a deletion */
    bool retire;  /* no spec speaks of it any more */
    unsigned attempts;
    uint64_t retry_ns;
    uint64_t seen; /* the last full list it was in */

    char *saved; /* the record on disk, NULL: none */
    bool marked; /* the record is a deletion that is not finished */
    bool served;
    bool missing; /* there is a record, but no data */
    struct in_addr held[VOLUME_MAX_ENDPOINTS];
    size_t nheld;

    struct report report;
};

TAILQ_HEAD(entry_list, entry);

struct reconciler {
    struct reconciler_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    pthread_t thread;
    bool running, stopping, restored, recount;
    struct entry *buckets[BUCKETS];
    struct entry_list queue, later, reports;
    uint64_t full_lists, serial, orphans, applied, failures, rejected;
};

/* What one step found out, to be booked under the lock. */
struct step {
    struct entry *entry;
    char *wanted;
    int64_t generation;
    uint64_t wanted_serial;
    bool retire;
    bool hopeless; /* trying the same spec again cannot help */
    char message[MESSAGE_MAX];
};

/* ---- entries ---- */

static struct entry **bucket_of(struct reconciler *r, const struct uuid *fs_id)
{
    unsigned hash = (unsigned)fs_id->b[0] << 8 | fs_id->b[1];

    return &r->buckets[hash % BUCKETS];
}

static struct entry *find_entry(struct reconciler *r, const struct uuid *fs_id)
{
    struct entry *e = *bucket_of(r, fs_id);

    while (e && !uuid_equal(&e->fs_id, fs_id))
        e = e->next;
    return e;
}

static struct entry *get_entry(struct reconciler *r, const struct uuid *fs_id)
{
    struct entry *e = find_entry(r, fs_id), **bucket = bucket_of(r, fs_id);

    if (e)
        return e;
    e = xcalloc(1, sizeof(*e));
    e->fs_id = *fs_id;
    e->next = *bucket;
    *bucket = e;
    return e;
}

static void unplace(struct reconciler *r, struct entry *e)
{
    if (e->place == PLACE_QUEUE)
        TAILQ_REMOVE(&r->queue, e, link);
    else if (e->place == PLACE_LATER)
        TAILQ_REMOVE(&r->later, e, link);
    e->place = PLACE_NONE;
}

/* What takes a volume away comes before all that serves one: a new volume may have the path and
 * address of one that was deleted by force. */
static void enqueue(struct reconciler *r, struct entry *e)
{
    bool first = e->deletes || e->retire;

    if (e->place == PLACE_QUEUE && !first)
        return;
    unplace(r, e);
    if (first)
        TAILQ_INSERT_HEAD(&r->queue, e, link);
    else
        TAILQ_INSERT_TAIL(&r->queue, e, link);
    e->place = PLACE_QUEUE;
}

static void clear_report(struct reconciler *r, struct entry *e)
{
    if (e->report.pending)
        TAILQ_REMOVE(&r->reports, e, report_link);
    e->report.pending = false;
}

static void remove_entry(struct reconciler *r, struct entry *e)
{
    struct entry **at = bucket_of(r, &e->fs_id);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unplace(r, e);
    clear_report(r, e);
    free(e->wanted);
    free(e->saved);
    free(e);
}

/* Forgets an entry that neither the disk nor the control plane has a use for. */
static void drop_if_idle(struct reconciler *r, struct entry *e)
{
    if (!e->busy && !e->wanted && !e->retire && !e->saved && !e->served && !e->report.pending)
        remove_entry(r, e);
}

static void report(struct reconciler *r, struct entry *e, enum outcome outcome, int64_t generation,
                   const char *message)
{
    if (!e->report.pending)
        TAILQ_INSERT_TAIL(&r->reports, e, report_link);
    e->report.pending = true;
    e->report.outcome = outcome;
    e->report.generation = generation;
    e->report.serial = ++r->serial;
    snprintf(e->report.message, sizeof(e->report.message), "%s", message);
}

/* A failure that the control plane knows of already is not told again at each try. */
static bool is_news(const struct entry *e, int64_t generation, const char *message)
{
    return e->report.serial == 0 || e->report.outcome != OUTCOME_FAILED ||
           e->report.generation != generation || strcmp(e->report.message, message) != 0;
}

/* ---- one step, on the applying thread without the lock ---- */

static bool is_held(const struct in_addr *list, size_t count, struct in_addr address)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].s_addr == address.s_addr)
            return true;
    return false;
}

/* Those of `list` that are not in `other`. */
static size_t difference(const struct in_addr *list, size_t count, const struct in_addr *other,
                         size_t nother, struct in_addr *out)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (!is_held(other, nother, list[i]))
            out[n++] = list[i];
    return n;
}

static void set_saved(struct reconciler *r, struct entry *e, const char *text, bool marked)
{
    pthread_mutex_lock(&r->lock);
    free(e->saved);
    e->saved = text ? xstrdup(text) : NULL;
    e->marked = marked;
    pthread_mutex_unlock(&r->lock);
}

static void set_served(struct reconciler *r, struct entry *e, const struct in_addr *held,
                       size_t nheld, bool served)
{
    pthread_mutex_lock(&r->lock);
    if (nheld > 0)
        memcpy(e->held, held, nheld * sizeof(e->held[0]));
    e->nheld = nheld;
    e->served = served;
    pthread_mutex_unlock(&r->lock);
}

static int save(struct reconciler *r, struct step *s, const char *text, bool marked)
{
    struct entry *e = s->entry;
    int rc = 0;

    if (!e->saved || strcmp(e->saved, text) != 0)
        rc = desired_save(r->config.desired, &e->fs_id, text);
    if (rc == 0)
        set_saved(r, e, text, marked);
    else
        snprintf(s->message, sizeof(s->message), "cannot record the volume's state on disk: %s",
                 strerror(-rc));
    return rc;
}

static int step_delete(struct reconciler *r, struct step *s, const struct volume_spec *spec)
{
    struct entry *e = s->entry;
    int rc = 0;

    /* An orphan's data has no record: it needs no mark, a crash leaves it as it was. */
    if (e->saved && !e->marked)
        rc = save(r, s, s->wanted, true);
    if (rc == 0) {
        rc = r->config.ops->apply(r->config.arg, spec, s->message, sizeof(s->message));
        if (rc == -ENOENT)
            rc = 0;
    }
    if (rc != 0)
        return rc;
    endpoints_drop(r->config.endpoints, e->held, e->nheld, clock_mono_ns());
    set_served(r, e, NULL, 0, false);
    e->missing = false;
    rc = desired_remove(r->config.desired, &e->fs_id);
    if (rc == 0)
        set_saved(r, e, NULL, false);
    else
        snprintf(s->message, sizeof(s->message), "cannot remove the volume's record: %s",
                 strerror(-rc));
    return rc;
}

static int step_serve(struct reconciler *r, struct step *s, const struct volume_spec *spec)
{
    struct entry *e = s->entry;
    struct in_addr added[VOLUME_MAX_ENDPOINTS], gone[VOLUME_MAX_ENDPOINTS];
    size_t nadded, ngone;
    int rc;

    if (e->missing) {
        /* Making it anew would show an empty volume where there was data. */
        snprintf(s->message, sizeof(s->message),
                 "the volume's data is missing from the store; restore it and restart the agent, "
                 "or delete the volume");
        return -ENODATA;
    }
    if (e->served && e->saved && !e->marked && strcmp(e->saved, s->wanted) == 0)
        return 0;
    nadded = difference(spec->endpoints, spec->nendpoints, e->held, e->nheld, added);
    ngone = difference(e->held, e->nheld, spec->endpoints, spec->nendpoints, gone);
    rc = endpoints_take(r->config.endpoints, added, nadded, s->message, sizeof(s->message));
    if (rc != 0)
        return rc;
    rc = r->config.ops->apply(r->config.arg, spec, s->message, sizeof(s->message));
    if (rc != 0) {
        endpoints_drop(r->config.endpoints, added, nadded, clock_mono_ns());
        return rc;
    }
    set_served(r, e, spec->endpoints, spec->nendpoints, true);
    endpoints_drop(r->config.endpoints, gone, ngone, clock_mono_ns());
    return save(r, s, s->wanted, false);
}

static int step_retire(struct reconciler *r, struct step *s)
{
    struct entry *e = s->entry;
    char id[UUID_TEXT_MAX];
    int rc = 0;

    if (e->served) {
        log_warn(
            "volume %s: the control plane does not know it; no longer served, its data is kept",
            uuid_format(&e->fs_id, id));
        rc = r->config.ops->retire(r->config.arg, &e->fs_id);
        if (rc != 0 && rc != -ENOENT) {
            snprintf(s->message, sizeof(s->message), "cannot stop serving: %s", strerror(-rc));
            return rc;
        }
        endpoints_drop(r->config.endpoints, e->held, e->nheld, clock_mono_ns());
        set_served(r, e, NULL, 0, false);
    }
    rc = desired_orphan(r->config.desired, &e->fs_id);
    if (rc == 0)
        set_saved(r, e, NULL, false);
    else
        snprintf(s->message, sizeof(s->message), "cannot set the record aside: %s", strerror(-rc));
    return rc;
}

/* 0 and the outcome, or -errno with a message. */
static int step_run(struct reconciler *r, struct step *s, enum outcome *outcome)
{
    struct volume_spec spec;
    char why[MESSAGE_MAX - 32];
    json_t *json;
    int rc;

    if (s->retire)
        return step_retire(r, s);
    assert(s->wanted); /* what is queued has one or the other */
    json = json_parse(s->wanted, strlen(s->wanted), why, sizeof(why));
    if (!json || !spec_parse(json, &spec, why, sizeof(why))) {
        snprintf(s->message, sizeof(s->message), "impossible specification: %s", why);
        s->hopeless = true;
        json_decref(json);
        return -EINVAL;
    }
    json_decref(json);
    *outcome = spec.deleted ? OUTCOME_DELETED : OUTCOME_READY;
    rc = spec.deleted ? step_delete(r, s, &spec) : step_serve(r, s, &spec);
    if (rc != 0 && s->message[0] == '\0')
        snprintf(s->message, sizeof(s->message), "%s", strerror(-rc));
    volume_spec_clear(&spec);
    return rc;
}

/* ---- bookkeeping around a step, under the lock ---- */

static struct entry *next_due(struct reconciler *r, uint64_t now_ns)
{
    struct entry *e = TAILQ_FIRST(&r->queue), *best = NULL;

    if (e)
        return e;
    TAILQ_FOREACH(e, &r->later, link)
    if (e->retry_ns <= now_ns && (!best || e->retry_ns < best->retry_ns))
        best = e;
    return best;
}

static void book_failure(struct reconciler *r, const struct step *s, uint64_t now_ns)
{
    struct entry *e = s->entry;
    uint64_t delay = RETRY_MIN_NS << (e->attempts < 6 ? e->attempts : 6);
    char id[UUID_TEXT_MAX];

    r->failures++;
    if (!s->retire && is_news(e, s->generation, s->message)) {
        report(r, e, OUTCOME_FAILED, s->generation, s->message);
        log_error("volume %s generation %lld: %s", uuid_format(&e->fs_id, id),
                  (long long)s->generation, s->message);
    } else if (s->retire && e->attempts == 0) {
        log_error("volume %s: %s", uuid_format(&e->fs_id, id), s->message);
    }
    if (s->hopeless) {
        free(e->wanted);
        e->wanted = NULL;
        return;
    }
    e->attempts++;
    e->retry_ns = now_ns + (delay < RETRY_MAX_NS ? delay : RETRY_MAX_NS);
    TAILQ_INSERT_TAIL(&r->later, e, link);
    e->place = PLACE_LATER;
}

static void book(struct reconciler *r, const struct step *s, int result, enum outcome outcome,
                 uint64_t now_ns)
{
    struct entry *e = s->entry;

    e->busy = false;
    if (e->wanted_serial != s->wanted_serial) {
        enqueue(r, e); /* a newer spec came meanwhile: only that one counts */
        return;
    }
    if (result != 0) {
        book_failure(r, s, now_ns);
        return;
    }
    e->attempts = 0;
    r->recount = r->recount || s->retire || (outcome == OUTCOME_DELETED) || r->orphans > 0;
    if (s->retire) {
        e->retire = false;
    } else {
        r->applied++;
        free(e->wanted);
        e->wanted = NULL;
        report(r, e, outcome, s->generation, "");
    }
    drop_if_idle(r, e);
}

/* Applies `e` (the lock is held on entry and on return). */
static void run_entry(struct reconciler *r, struct entry *e, uint64_t now_ns)
{
    struct step s = {.entry = e,
                     .wanted = e->wanted ? xstrdup(e->wanted) : NULL,
                     .generation = e->generation,
                     .wanted_serial = e->wanted_serial,
                     .retire = e->retire};
    enum outcome outcome = OUTCOME_READY;
    int rc;

    unplace(r, e);
    e->busy = true;
    pthread_mutex_unlock(&r->lock);
    rc = step_run(r, &s, &outcome);
    pthread_mutex_lock(&r->lock);
    book(r, &s, rc, outcome, now_ns);
    free(s.wanted);
}

/* ---- orphans ---- */

struct census {
    struct reconciler *r;
    uint64_t orphans;
    bool mark_missing; /* at the restore: clears `missing` of what is there */
};

static int count_one(const struct uuid *fs_id, void *arg)
{
    struct census *c = arg;
    struct entry *e;

    pthread_mutex_lock(&c->r->lock);
    e = find_entry(c->r, fs_id);
    if (!e || (!e->saved && !e->served))
        c->orphans++;
    else if (c->mark_missing)
        e->missing = false;
    pthread_mutex_unlock(&c->r->lock);
    return 0;
}

/* Without the lock. */
static int take_census(struct reconciler *r, bool mark_missing)
{
    struct census c = {.r = r, .mark_missing = mark_missing};
    int rc = r->config.ops->each_on_disk(r->config.arg, count_one, &c);

    if (rc != 0) {
        log_warn("cannot list the store's volumes: %s", strerror(-rc));
        return rc;
    }
    pthread_mutex_lock(&r->lock);
    if (c.orphans > 0 && c.orphans != r->orphans)
        log_warn("%llu volumes in the store are in no specification: kept, not served",
                 (unsigned long long)c.orphans);
    r->orphans = c.orphans;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* ---- the public side ---- */

struct reconciler *reconciler_new(const struct reconciler_config *config)
{
    struct reconciler *r = xcalloc(1, sizeof(*r));
    pthread_condattr_t attr;

    r->config = *config;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    TAILQ_INIT(&r->queue);
    TAILQ_INIT(&r->later);
    TAILQ_INIT(&r->reports);
    return r;
}

static void want(struct reconciler *r, struct entry *e, const json_t *spec, int64_t generation)
{
    free(e->wanted);
    e->wanted = json_render(spec);
    e->deletes = json_get_bool(spec, "deleted", false);
    e->generation = generation;
    e->wanted_serial = ++r->serial;
    e->retire = false;
    e->attempts = 0;
    if (!e->report.pending)
        e->report.serial = 0; /* who sends a spec wants to hear of it, also what was said before */
    if (!e->busy)
        enqueue(r, e);
}

/* A record of the last run. What cannot be read leaves its volume unserved until its spec comes. */
static int restore_one(const struct uuid *fs_id, const char *spec, size_t len, int error, void *arg)
{
    struct reconciler *r = arg;
    struct entry *e;
    char id[UUID_TEXT_MAX], why[160] = "";
    json_t *json = spec ? json_parse(spec, len, why, sizeof(why)) : NULL;
    struct uuid inside;
    int64_t generation;

    pthread_mutex_lock(&r->lock); /* /healthz looks on */
    e = get_entry(r, fs_id);
    e->missing = true; /* until the census finds its data */
    if (spec && json && spec_identify(json, &inside, &generation) && uuid_equal(&inside, fs_id)) {
        e->saved = xstrndup(spec, len);
        e->marked = json_get_bool(json, "deleted", false);
        e->missing = !e->marked;
        want(r, e, json, generation);
    } else {
        e->saved = xstrdup("");
        log_error("volume %s: its record in the state folder is damaged (%s); not served until the "
                  "control plane sends "
                  "its specification",
                  uuid_format(fs_id, id),
                  error != 0 ? strerror(-error)
                  : why[0]   ? why
                             : "another volume's");
    }
    pthread_mutex_unlock(&r->lock);
    json_decref(json);
    return 0;
}

int reconciler_restore(struct reconciler *r)
{
    uint64_t now = clock_mono_ns();
    int rc = desired_each(r->config.desired, restore_one, r);

    if (rc == 0)
        rc = take_census(r, true);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&r->lock);
    while (!TAILQ_EMPTY(&r->queue))
        run_entry(r, TAILQ_FIRST(&r->queue), now);
    r->restored = true;
    pthread_mutex_unlock(&r->lock);
    endpoints_sweep(r->config.endpoints);
    return 0;
}

bool reconciler_step(struct reconciler *r, uint64_t now_ns)
{
    struct entry *e;
    bool recount = false, reports;

    endpoints_expire(r->config.endpoints, now_ns);
    pthread_mutex_lock(&r->lock);
    e = next_due(r, now_ns);
    if (e)
        run_entry(r, e, now_ns);
    if (TAILQ_EMPTY(&r->queue)) {
        recount = r->recount;
        r->recount = false;
    }
    reports = !TAILQ_EMPTY(&r->reports);
    pthread_mutex_unlock(&r->lock);
    if (recount)
        (void)take_census(r, false);
    if (e && reports)
        r->config.ops->wake(r->config.arg);
    return e != NULL;
}

/* Sleeps until something is queued or the next retry is due. */
static void wait_for_work(struct reconciler *r, uint64_t now_ns)
{
    uint64_t next = now_ns + RETRY_MAX_NS;
    const struct entry *e;
    struct timespec until;

    TAILQ_FOREACH(e, &r->later, link)
    if (e->retry_ns < next)
        next = e->retry_ns;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (next > now_ns) {
        uint64_t wait = next - now_ns + (uint64_t)until.tv_nsec;

        until.tv_sec += (time_t)(wait / NS_PER_S);
        until.tv_nsec = (long)(wait % NS_PER_S);
    }
    pthread_cond_timedwait(&r->changed, &r->lock, &until);
}

static void *run(void *arg)
{
    struct reconciler *r = arg;
    bool stop = false;

    while (!stop) {
        uint64_t now = clock_mono_ns();
        bool worked = reconciler_step(r, now);

        pthread_mutex_lock(&r->lock);
        if (!worked && !r->stopping && TAILQ_EMPTY(&r->queue))
            wait_for_work(r, now);
        stop = r->stopping;
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

int reconciler_start(struct reconciler *r)
{
    int rc = pthread_create(&r->thread, NULL, run, r);

    r->running = rc == 0;
    return -rc;
}

void reconciler_stop(struct reconciler *r)
{
    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->running = false;
}

void reconciler_free(struct reconciler *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (r->buckets[i])
            remove_entry(r, r->buckets[i]);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* What a full list does not speak of is no longer served. A deletion that has begun goes on. */
static void retire_unseen(struct reconciler *r)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry *e = r->buckets[i], *next; e; e = next) {
            next = e->next;
            if (e->seen == r->full_lists || e->marked)
                continue;
            free(e->wanted);
            e->wanted = NULL;
            e->wanted_serial = ++r->serial;
            clear_report(r, e);
            unplace(r, e);
            if (e->busy || e->saved || e->served) {
                e->retire = true;
                e->attempts = 0;
                if (!e->busy)
                    enqueue(r, e);
            } else {
                remove_entry(r, e);
            }
        }
    }
    r->recount = true;
}

void reconciler_offer(struct reconciler *r, const json_t *volumes, bool full)
{
    bool all_told = true;
    size_t i;
    json_t *spec;

    pthread_mutex_lock(&r->lock);
    if (full)
        r->full_lists++;
    json_array_foreach(volumes, i, spec)
    {
        struct uuid fs_id;
        int64_t generation;
        struct entry *e;

        if (!spec_identify(spec, &fs_id, &generation)) {
            log_error("the control plane sent a specification without a proper fileSystemId and "
                      "generation");
            r->rejected++;
            all_told = false;
            continue;
        }
        e = get_entry(r, &fs_id);
        e->seen = r->full_lists;
        want(r, e, spec, generation);
    }
    if (full && all_told)
        retire_unseen(r);
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void reconciler_take_reports(struct reconciler *r, struct report_batch *out)
{
    const struct entry *e;

    out->count = 0;
    out->observations = json_array();
    pthread_mutex_lock(&r->lock);
    TAILQ_FOREACH(e, &r->reports, report_link)
    {
        char id[UUID_TEXT_MAX];
        json_t *o;

        if (out->count == REPORTS_MAX)
            break;
        o = json_pack("{s:s, s:I, s:s}", "fileSystemId", uuid_format(&e->fs_id, id), "generation",
                      (json_int_t)e->report.generation, "state", outcome_names[e->report.outcome]);
        if (e->report.outcome == OUTCOME_FAILED)
            json_object_set_new(o, "message", json_string(e->report.message));
        json_array_append_new(out->observations, o);
        out->item[out->count].fs_id = e->fs_id;
        out->item[out->count].serial = e->report.serial;
        out->count++;
    }
    pthread_mutex_unlock(&r->lock);
}

void reconciler_acknowledge(struct reconciler *r, const struct report_batch *batch)
{
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < batch->count; i++) {
        struct entry *e = find_entry(r, &batch->item[i].fs_id);

        if (!e || !e->report.pending || e->report.serial != batch->item[i].serial)
            continue;
        clear_report(r, e);
        drop_if_idle(r, e);
    }
    pthread_mutex_unlock(&r->lock);
}

void reconciler_get_stats(struct reconciler *r, struct reconciler_stats *out)
{
    const struct entry *e;

    *out = (struct reconciler_stats){0};
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (e = r->buckets[i]; e; e = e->next) {
            out->known += e->saved && !e->marked;
            out->served += e->served && e->saved && !e->marked;
            out->failing += e->report.serial != 0 && e->report.outcome == OUTCOME_FAILED;
            out->queued += e->wanted || e->retire;
            out->reports += e->report.pending;
        }
    }
    out->orphans = r->orphans;
    out->applied = r->applied;
    out->failures = r->failures;
    out->rejected = r->rejected;
    out->restored = r->restored;
    pthread_mutex_unlock(&r->lock);
}
