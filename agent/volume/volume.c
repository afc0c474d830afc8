/*
 * The table of served volumes, and bringing one to what its spec says: see volume.h.
 *
 * Lock order: change, then table, then a volume's spec lock. `change` makes volume_apply, the
 * resolver's news and taking out of service one at a time; it may be held during disk I/O. No call
 * ever takes it.
 *
 * References: the table has one of each volume it holds. Who drops the last one closes the volume,
 * which may write to the disk; calls leave that to a thread (`closer`).
 */
#include "agent/volume/volume.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/storage/job.h"
#include "agent/volume/export.h"
#include "agent/volume/resolve.h"
#include "agent/volume/table.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define FIRST_BUCKETS 64
#define QUOTA_MAX     ((uint64_t)INT64_MAX / 4) /* what the accounting can add up */

struct volume_private {
    struct volume *volume;
    struct volume_table *table;
    struct volume *next; /* in the bucket */
    atomic_uint refs;
    struct export_cell policy;
    struct job close_job;
    pthread_mutex_t spec_lock;
    struct volume_spec spec;
};

struct volume_table {
    pthread_mutex_t change;
    pthread_rwlock_t lock;
    struct volume **buckets;
    size_t nbuckets, count; /* a power of two */
    struct resolver *resolver;
    struct job_thread *closer;
};

struct volume_table *volume_table;

/* ---- specs ---- */

void volume_spec_clear(struct volume_spec *spec)
{
    free(spec->resource_id);
    for (size_t i = 0; i < spec->nrules; i++)
        free(spec->rules[i].clients);
    memset(spec, 0, sizeof(*spec));
}

static char *copy_text(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

void volume_spec_copy(struct volume_spec *to, const struct volume_spec *from)
{
    *to = *from;
    to->resource_id = copy_text(from->resource_id);
    for (size_t i = 0; i < from->nrules; i++)
        to->rules[i].clients = copy_text(from->rules[i].clients);
}

/* ---- the table ---- */

/* Ids are random; the table's size is what limits it. */
static struct volume **bucket(const struct volume_table *t, const struct uuid *fs_id)
{
    uint64_t high;

    memcpy(&high, fs_id->b, sizeof(high));
    return &t->buckets[(high ^ high >> 32) & (t->nbuckets - 1)];
}

static struct volume *find(const struct volume_table *t, const struct uuid *fs_id)
{
    struct volume *v = *bucket(t, fs_id);

    while (v && !uuid_equal(&v->fs_id, fs_id))
        v = v->private->next;
    return v;
}

static void link_volume(struct volume_table *t, struct volume *v)
{
    struct volume **head = bucket(t, &v->fs_id);

    v->private->next = *head;
    *head = v;
}

static void grow(struct volume_table *t)
{
    struct volume **old = t->buckets;
    size_t nold = t->nbuckets;

    t->nbuckets *= 2;
    t->buckets = xcalloc(t->nbuckets, sizeof(struct volume *));
    for (size_t i = 0; i < nold; i++)
        for (struct volume *v = old[i], *next; v; v = next) {
            next = v->private->next;
            link_volume(t, v);
        }
    free(old);
}

static void insert(struct volume_table *t, struct volume *v)
{
    pthread_rwlock_wrlock(&t->lock);
    if (t->count >= t->nbuckets)
        grow(t);
    link_volume(t, v);
    t->count++;
    pthread_rwlock_unlock(&t->lock);
}

static void take_out(struct volume_table *t, struct volume *v)
{
    struct volume **at;

    pthread_rwlock_wrlock(&t->lock);
    for (at = bucket(t, &v->fs_id); *at != v;)
        at = &(*at)->private->next;
    *at = v->private->next;
    t->count--;
    pthread_rwlock_unlock(&t->lock);
}

static struct volume *reference(struct volume *v)
{
    atomic_fetch_add_explicit(&v->private->refs, 1, memory_order_relaxed);
    return v;
}

struct volume *volume_get(struct volume_table *t, const struct uuid *fs_id)
{
    struct volume *v;

    pthread_rwlock_rdlock(&t->lock);
    v = find(t, fs_id);
    if (v)
        reference(v);
    pthread_rwlock_unlock(&t->lock);
    return v;
}

static void release_name(void *arg, const char *name)
{
    resolver_release(arg, name);
}

static void close_volume(struct volume *v)
{
    struct volume_private *p = v->private;

    if (v->throttle) {
        throttle_flush(v->throttle, clock_mono_ns());
        throttle_free(v->throttle);
    }
    if (v->store)
        storage_volume_close(v->store);
    export_publish(&p->policy, NULL);
    export_each_name(&p->spec, release_name, p->table->resolver);
    volume_spec_clear(&p->spec);
    pthread_mutex_destroy(&p->spec_lock);
    free(p);
    free(v);
}

static void close_job(struct job *job)
{
    struct volume_private *p =
        (struct volume_private *)((char *)job - offsetof(struct volume_private, close_job));

    close_volume(p->volume);
}

static bool drop_reference(struct volume *v)
{
    return atomic_fetch_sub_explicit(&v->private->refs, 1, memory_order_acq_rel) == 1;
}

void volume_put(struct volume *v)
{
    if (v && drop_reference(v))
        job_queue(v->private->table->closer, &v->private->close_job);
}

/* As volume_put, from a thread that may wait for the disk. */
static void put_here(struct volume *v)
{
    if (drop_reference(v))
        close_volume(v);
}

static int by_id(const void *a, const void *b)
{
    const struct volume *const *left = a, *const *right = b;

    return memcmp((*left)->fs_id.b, (*right)->fs_id.b, sizeof((*left)->fs_id.b));
}

struct volume **volume_list(struct volume_table *t, size_t *count)
{
    struct volume **list;
    size_t n = 0;

    pthread_rwlock_rdlock(&t->lock);
    list = xcalloc(t->count + 1, sizeof(struct volume *));
    for (size_t i = 0; i < t->nbuckets; i++)
        for (struct volume *v = t->buckets[i]; v; v = v->private->next)
            list[n++] = reference(v);
    pthread_rwlock_unlock(&t->lock);
    qsort(list, n, sizeof(struct volume *), by_id);
    *count = n;
    return list;
}

/* ---- finding by endpoint and path ---- */

static const char *skip_slashes(const char *p)
{
    for (;;) {
        if (*p == '/')
            p++;
        else if (*p == '.' && (p[1] == '/' || p[1] == '\0'))
            p++;
        else
            return p;
    }
}

static size_t component(const char *p)
{
    return strcspn(p, "/");
}

/* Whether `path` is `export` or below it, name by name. The rest points behind it into `path`. */
static bool is_below(const char *path, const char *export, const char **rest)
{
    path = skip_slashes(path);
    export = skip_slashes(export);
    while (*export != '\0') {
        size_t len = component(export);

        if (component(path) != len || strncmp(path, export, len) != 0)
            return false;
        path = skip_slashes(path + len);
        export = skip_slashes(export + len);
    }
    *rest = path;
    return true;
}

static bool has_dot_dot(const char *path)
{
    for (path = skip_slashes(path); *path != '\0'; path = skip_slashes(path + component(path)))
        if (component(path) == 2 && path[0] == '.' && path[1] == '.')
            return true;
    return false;
}

static bool spec_has_endpoint(const struct volume_spec *spec, struct in_addr endpoint)
{
    for (size_t i = 0; i < spec->nendpoints; i++)
        if (spec->endpoints[i].s_addr == endpoint.s_addr)
            return true;
    return false;
}

struct volume *volume_find_export(struct volume_table *t, struct in_addr endpoint, const char *path,
                                  const char **rest)
{
    struct volume *best = NULL;
    const char *below;

    if (*path != '/' || has_dot_dot(path))
        return NULL;
    pthread_rwlock_rdlock(&t->lock);
    for (size_t i = 0; i < t->nbuckets; i++)
        for (struct volume *v = t->buckets[i]; v; v = v->private->next) {
            struct volume_private *p = v->private;

            pthread_mutex_lock(&p->spec_lock);
            /* The longest export wins: it leaves the shortest rest. */
            if (spec_has_endpoint(&p->spec, endpoint) &&
                is_below(path, p->spec.export_path, &below) && (!best || below > *rest)) {
                best = v;
                *rest = below;
            }
            pthread_mutex_unlock(&p->spec_lock);
        }
    if (best)
        reference(best);
    pthread_rwlock_unlock(&t->lock);
    return best;
}

struct export_access volume_access(const struct volume *v, struct in_addr client)
{
    return export_cell_match(&v->private->policy, client);
}

bool volume_has_endpoint(const struct volume *v, struct in_addr endpoint)
{
    return export_cell_has_endpoint(&v->private->policy, endpoint);
}

void volume_get_spec(const struct volume *v, struct volume_spec *out)
{
    struct volume_private *p = v->private;

    pthread_mutex_lock(&p->spec_lock);
    volume_spec_copy(out, &p->spec);
    pthread_mutex_unlock(&p->spec_lock);
}

/* ---- the table's life ---- */

static size_t lookup_name(void *arg, const char *name, struct in_addr *out, size_t max)
{
    return resolver_lookup(arg, name, out, max);
}

static void count_name(void *arg, const char *name)
{
    (void)name;
    ++*(size_t *)arg;
}

/* Host names have other addresses: policies that name any are compiled again. */
static void names_changed(void *arg)
{
    struct volume_table *t = arg;
    struct volume **list;
    size_t n;

    pthread_mutex_lock(&t->change);
    list = volume_list(t, &n);
    for (size_t i = 0; i < n; i++) {
        struct volume_private *p = list[i]->private;
        struct export_policy *policy;
        char message[256];
        size_t names = 0;

        /* The spec changes under `change` only, which we have. */
        export_each_name(&p->spec, count_name, &names);
        policy = names > 0
                     ? export_compile(&p->spec, lookup_name, t->resolver, message, sizeof(message))
                     : NULL;
        if (policy)
            export_publish(&p->policy, policy);
        volume_put(list[i]);
    }
    free(list);
    pthread_mutex_unlock(&t->change);
}

struct volume_table *volume_table_with(resolve_fn *resolve)
{
    struct volume_table *t = xcalloc(1, sizeof(*t));

    pthread_mutex_init(&t->change, NULL);
    pthread_rwlock_init(&t->lock, NULL);
    t->nbuckets = FIRST_BUCKETS;
    t->buckets = xcalloc(t->nbuckets, sizeof(struct volume *));
    t->resolver = resolver_new(resolve, names_changed, t);
    t->closer = job_thread_start("volume-close");
    if (!t->closer)
        fatal("no thread to close volumes");
    return t;
}

struct volume_table *volume_table_new(void)
{
    return volume_table_with(resolve_system);
}

/* Any volume of the table, or NULL. Under `change`, which is what changes the table. */
static struct volume *any(const struct volume_table *t)
{
    for (size_t i = 0; i < t->nbuckets; i++)
        if (t->buckets[i])
            return t->buckets[i];
    return NULL;
}

void volume_close_all(struct volume_table *t)
{
    struct volume *v;

    pthread_mutex_lock(&t->change);
    while ((v = any(t))) {
        take_out(t, v);
        put_here(v);
    }
    pthread_mutex_unlock(&t->change);
    job_drain(t->closer);
}

void volume_table_free(struct volume_table *t)
{
    if (!t)
        return;
    volume_close_all(t);
    job_thread_stop(t->closer);
    resolver_stop(t->resolver);
    pthread_rwlock_destroy(&t->lock);
    pthread_mutex_destroy(&t->change);
    free(t->buckets);
    free(t);
}

/* ---- applying ---- */

struct report {
    char *message;
    size_t size;
};

static int refuse(const struct report *r, int error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const struct report *r, int error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->message, r->size, fmt, ap);
    va_end(ap);
    return error;
}

/* "/" and names without "." and "..", as the export is compared and listed. */
static bool is_export_path(const char path[VOLUME_PATH_MAX])
{
    if (!memchr(path, '\0', VOLUME_PATH_MAX) || *path != '/' || has_dot_dot(path))
        return false;
    for (const char *p = path; *p == '/';) {
        size_t len = component(++p);

        if (len == 0 || (len == 1 && *p == '.'))
            return false;
        p += len;
        if (*p == '\0')
            return true;
    }
    return false;
}

static int check_spec(const struct volume_spec *spec, const struct report *r)
{
    if (!is_export_path(spec->export_path))
        return refuse(r, -EINVAL, "exportPath is no absolute path of plain names");
    if (spec->nendpoints < 1 || spec->nendpoints > VOLUME_MAX_ENDPOINTS)
        return refuse(r, -EINVAL, "a volume has 1 to %d endpoints", VOLUME_MAX_ENDPOINTS);
    for (size_t i = 0; i < spec->nendpoints; i++)
        for (size_t k = 0; k < i; k++)
            if (spec->endpoints[i].s_addr == spec->endpoints[k].s_addr)
                return refuse(r, -EINVAL, "an endpoint is there twice");
    if (spec->quota_bytes < 1 || spec->quota_bytes > QUOTA_MAX)
        return refuse(r, -ERANGE, "quotaBytes is not within 1 and %llu",
                      (unsigned long long)QUOTA_MAX);
    if (spec->max_files < 1 || spec->max_files > QUOTA_MAX)
        return refuse(r, -ERANGE, "maxFiles is not within 1 and %llu",
                      (unsigned long long)QUOTA_MAX);
    if (spec->limit > INT64_MAX)
        return refuse(r, -ERANGE, "limitBytesPerSecond is too large");
    if (spec->root_mode > 07777)
        return refuse(r, -ERANGE, "unixPermissions is not within 0000 and 7777");
    return 0;
}

/* Two volumes must not answer to one path at one address. */
static int check_taken(struct volume_table *t, const struct volume_spec *spec,
                       const struct report *r)
{
    int rc = 0;

    pthread_rwlock_rdlock(&t->lock);
    for (size_t i = 0; rc == 0 && i < t->nbuckets; i++)
        for (struct volume *v = t->buckets[i]; rc == 0 && v; v = v->private->next) {
            const struct volume_spec *other = &v->private->spec;
            char id[UUID_TEXT_MAX], address[INET_ADDRSTRLEN];

            if (uuid_equal(&v->fs_id, &spec->fs_id) ||
                strcmp(other->export_path, spec->export_path) != 0)
                continue;
            for (size_t k = 0; rc == 0 && k < spec->nendpoints; k++)
                if (spec_has_endpoint(other, spec->endpoints[k]))
                    rc = refuse(r, -EEXIST, "%s at %s is volume %s already", spec->export_path,
                                inet_ntop(AF_INET, &spec->endpoints[k], address, sizeof(address)),
                                uuid_format(&v->fs_id, id));
        }
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

static void hold_name(void *arg, const char *name)
{
    resolver_hold(arg, name);
}

/* The new spec becomes the applied one. */
static void keep_spec(struct volume_table *t, struct volume *v, const struct volume_spec *spec)
{
    struct volume_private *p = v->private;
    struct volume_spec old = p->spec, new;

    volume_spec_copy(&new, spec);
    export_each_name(&new, hold_name, t->resolver);
    pthread_mutex_lock(&p->spec_lock);
    p->spec = new;
    pthread_mutex_unlock(&p->spec_lock);
    export_each_name(&old, release_name, t->resolver);
    volume_spec_clear(&old);
    v->snapshot_dir_visible = spec->snapshot_dir_visible;
}

/* fattr3.fsid tells volumes apart; 0 is what some clients take for "none". */
static uint64_t fsid_of(const struct uuid *fs_id)
{
    uint64_t halves[2], fsid;

    memcpy(halves, fs_id->b, sizeof(halves));
    fsid = halves[0] ^ halves[1];
    return fsid != 0 ? fsid : 1;
}

static struct volume *make_volume(struct volume_table *t, const struct volume_spec *spec)
{
    struct volume *v = aligned_alloc(_Alignof(struct volume), sizeof(*v));

    if (!v)
        return NULL;
    memset(v, 0, sizeof(*v));
    v->fs_id = spec->fs_id;
    v->fsid = fsid_of(&spec->fs_id);
    memcpy(v->handle_key, spec->handle_key, sizeof(v->handle_key));
    v->private = xcalloc(1, sizeof(*v->private));
    v->private->volume = v;
    v->private->table = t;
    v->private->refs = 1;
    v->private->close_job.run = close_job;
    pthread_mutex_init(&v->private->spec_lock, NULL);
    return v;
}

/* Gives the root its mode when the spec's has changed since it was last given: a client's own chmod
 * stays. */
static int apply_mode(struct volume *v, const struct volume_spec *spec, const struct report *r)
{
    int rc;

    if (storage_volume_root_mode(v->store) == spec->root_mode)
        return 0;
    rc = storage_volume_chmod(v->store, spec->root_mode);
    return rc == 0 ? 0 : refuse(r, rc, "unixPermissions: %s", strerror(-rc));
}

static int create(struct volume_table *t, struct storage *storage, const struct volume_spec *spec,
                  struct export_policy *policy, const struct report *r)
{
    struct volume *v = make_volume(t, spec);
    int rc;

    if (!v) {
        export_free(policy);
        return refuse(r, -ENOMEM, "out of memory");
    }
    export_publish(&v->private->policy, policy);
    rc = storage_volume_open(storage, &spec->fs_id, spec->root_mode, spec->quota_bytes,
                             spec->max_files, &v->store);
    if (rc != 0)
        refuse(r, rc, "the store: %s", strerror(-rc));
    if (rc == 0)
        rc = apply_mode(v, spec, r);
    if (rc == 0) {
        v->throttle = throttle_new(spec->limit, &rpc_throttle_owner);
        if (!v->throttle)
            rc = refuse(r, -ENOMEM, "out of memory");
    }
    if (rc != 0) {
        close_volume(v);
        return rc;
    }
    keep_spec(t, v, spec);
    insert(t, v);
    return 0;
}

static int change(struct volume_table *t, struct volume *v, const struct volume_spec *spec,
                  struct export_policy *policy, const struct report *r)
{
    struct volume_private *p = v->private;
    int rc = 0;

    if (memcmp(v->handle_key, spec->handle_key, sizeof(v->handle_key)) != 0)
        rc = refuse(r, -EINVAL, "handleKey cannot change: it would make every handle stale");
    if (rc == 0)
        rc = apply_mode(v, spec, r);
    if (rc == 0) {
        rc = storage_volume_resize(v->store, spec->quota_bytes, spec->max_files);
        if (rc != 0)
            refuse(r, rc, "quotaBytes: %s", strerror(-rc));
    }
    if (rc != 0) {
        export_free(policy);
        return rc;
    }
    if (p->spec.limit != spec->limit)
        throttle_set_rate(v->throttle, spec->limit, clock_mono_ns());
    export_publish(&p->policy, policy);
    keep_spec(t, v, spec);
    return 0;
}

static void (*retire_hook)(const struct uuid *fs_id);

void volume_on_retire(void (*hook)(const struct uuid *fs_id))
{
    retire_hook = hook;
}

/* Out of the table, nothing waits at its limit any more. The table's reference is the caller's
 * then. */
static void take_out_of_service(struct volume_table *t, struct volume *v)
{
    v->gone = true; /* before the table: who has it already must see it */
    take_out(t, v);
    throttle_flush(v->throttle, clock_mono_ns());
    if (retire_hook)
        retire_hook(&v->fs_id);
}

static int delete (struct volume_table *t, struct storage *storage, struct volume *v,
                   const struct volume_spec *spec, const struct report *r)
{
    int rc;

    if (v)
        take_out_of_service(t, v);
    /* Calls that run keep their descriptors, so it is not closed here; it lies in the trash by
     * then. */
    rc = storage_volume_delete(storage, &spec->fs_id, NULL);
    if (v)
        put_here(v);
    if (rc != 0 && rc != -ENOENT)
        return refuse(r, rc, "the store: %s", strerror(-rc));
    return 0;
}

int volume_apply(struct volume_table *t, struct storage *storage, const struct volume_spec *spec,
                 char *message, size_t size)
{
    const struct report r = {message, size};
    struct export_policy *policy;
    struct volume *v;
    int rc;

    pthread_mutex_lock(&t->change);
    v = find(t, &spec->fs_id); /* nobody else changes the table */
    if (spec->deleted) {
        rc = delete (t, storage, v, spec, &r);
        goto out;
    }
    rc = check_spec(spec, &r);
    if (rc == 0)
        rc = check_taken(t, spec, &r);
    if (rc != 0)
        goto out;
    policy = export_compile(spec, lookup_name, t->resolver, message, size);
    if (!policy)
        rc = -EINVAL;
    else
        rc = v ? change(t, v, spec, policy, &r) : create(t, storage, spec, policy, &r);
out:
    pthread_mutex_unlock(&t->change);
    return rc;
}

int volume_retire(struct volume_table *t, const struct uuid *fs_id)
{
    struct volume *v;

    pthread_mutex_lock(&t->change);
    v = find(t, fs_id);
    if (v) {
        take_out_of_service(t, v);
        put_here(v);
    }
    pthread_mutex_unlock(&t->change);
    return v ? 0 : -ENOENT;
}

/* ---- counters ---- */

/* A slot is its thread's own but for the first, which all foreign threads share. */
static void add(_Atomic uint64_t *counter, uint64_t value, unsigned slot)
{
    if (slot == 0)
        atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                              memory_order_relaxed);
}

void volume_count_read(struct volume *v, uint64_t bytes, uint64_t ns)
{
    unsigned slot = rpc_thread_slot();
    struct volume_counters *c = &v->counters[slot];

    add(&c->read_bytes, bytes, slot);
    add(&c->read_ops, 1, slot);
    add(&c->read_ns, ns, slot);
}

void volume_count_write(struct volume *v, uint64_t bytes, uint64_t ns)
{
    unsigned slot = rpc_thread_slot();
    struct volume_counters *c = &v->counters[slot];

    add(&c->write_bytes, bytes, slot);
    add(&c->write_ops, 1, slot);
    add(&c->write_ns, ns, slot);
}

void volume_count_other(struct volume *v, uint64_t bytes)
{
    unsigned slot = rpc_thread_slot();
    struct volume_counters *c = &v->counters[slot];

    add(&c->other_bytes, bytes, slot);
    add(&c->other_ops, 1, slot);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void volume_get_totals(struct volume *v, uint64_t now_ns, struct volume_totals *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < RPC_MAX_THREADS; i++) {
        const struct volume_counters *c = &v->counters[i];

        out->read_bytes += get(&c->read_bytes);
        out->write_bytes += get(&c->write_bytes);
        out->other_bytes += get(&c->other_bytes);
        out->read_ops += get(&c->read_ops);
        out->write_ops += get(&c->write_ops);
        out->other_ops += get(&c->other_ops);
        out->read_ns += get(&c->read_ns);
        out->write_ns += get(&c->write_ns);
    }
    throttle_get_stats(v->throttle, now_ns, &out->throttle);
    usage_get(v->store->usage, &out->usage);
}
