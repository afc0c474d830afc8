/*
 * GET /metrics and GET /healthz. The request counters are atomics that the dispatcher adds to;
 * everything else is read when it is asked for, from the database, the registry (a copy under its
 * lock) and /proc.
 */
#include "api/prom.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/agents_internal.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/prom.h"

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "unknown"
#endif

/* ---- requests ---- */

#define ROUTES_MAX 512 /* the last one stands for requests that no route matched */

static const unsigned statuses[] = {200, 201, 202, 204, 400, 401, 403, 404, 405,
                                    409, 412, 413, 415, 429, 500, 503, 507, 0};
#define STATUS_COUNT (sizeof statuses / sizeof statuses[0])

static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                0.25,  0.5,    1,     2.5,  5,     10,   30};
#define BOUND_COUNT (sizeof bounds / sizeof bounds[0])

static struct {
    atomic_uint_fast64_t by_status[STATUS_COUNT];
    atomic_uint_fast64_t by_bound[BOUND_COUNT + 1];
    atomic_uint_fast64_t total_ns;
} requests[ROUTES_MAX];

static size_t slot_of(const struct arm_route *route)
{
    size_t count;
    const struct arm_route *table = route_table(&count);

    return route == NULL || (size_t)(route - table) >= ROUTES_MAX - 1 ? ROUTES_MAX - 1
                                                                      : (size_t)(route - table);
}

void prom_request_done(const struct arm_route *route, unsigned status, uint64_t elapsed_ns)
{
    size_t slot = slot_of(route), s = 0, b = 0;

    while (statuses[s] != status && statuses[s] != 0) {
        s++;
    }
    while (b < BOUND_COUNT && (double)elapsed_ns > bounds[b] * (double)NS_PER_S) {
        b++;
    }
    atomic_fetch_add_explicit(&requests[slot].by_status[s], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&requests[slot].by_bound[b], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&requests[slot].total_ns, elapsed_ns, memory_order_relaxed);
}

static const char *slot_name(size_t slot)
{
    size_t count;
    const struct arm_route *table = route_table(&count);

    return slot < count ? table[slot].operation : "unmatched";
}

static void add_durations(struct buf *b, size_t slot)
{
    const char *operation = slot_name(slot);
    uint64_t count = 0;
    char le[32];

    for (size_t i = 0; i <= BOUND_COUNT; i++) {
        count += atomic_load_explicit(&requests[slot].by_bound[i], memory_order_relaxed);
        snprintf(le, sizeof le, "%g", i < BOUND_COUNT ? bounds[i] : 0);
        prom_sample(b, "spillway_http_request_duration_seconds_bucket", (double)count, "operation",
                    operation, "le", i < BOUND_COUNT ? le : "+Inf", NULL);
    }
    double seconds = (double)atomic_load_explicit(&requests[slot].total_ns, memory_order_relaxed) /
                     (double)NS_PER_S;
    prom_sample(b, "spillway_http_request_duration_seconds_sum", seconds, "operation", operation,
                NULL);
    prom_sample(b, "spillway_http_request_duration_seconds_count", (double)count, "operation",
                operation, NULL);
}

static bool slot_used(size_t slot)
{
    for (size_t i = 0; i <= BOUND_COUNT; i++) {
        if (atomic_load_explicit(&requests[slot].by_bound[i], memory_order_relaxed) > 0) {
            return true;
        }
    }
    return false;
}

static void add_requests(struct buf *b)
{
    char code[16];

    prom_family(b, "spillway_http_requests_total", "counter",
                "Answered requests by operation and status.");
    for (size_t slot = 0; slot < ROUTES_MAX; slot++) {
        for (size_t s = 0; s < STATUS_COUNT; s++) {
            uint64_t n = atomic_load_explicit(&requests[slot].by_status[s], memory_order_relaxed);
            if (n > 0) {
                snprintf(code, sizeof code, "%u", statuses[s]);
                prom_sample(b, "spillway_http_requests_total", (double)n, "operation",
                            slot_name(slot), "code", statuses[s] == 0 ? "other" : code, NULL);
            }
        }
    }
    prom_family(b, "spillway_http_request_duration_seconds", "histogram",
                "Time from a request's arrival to its answer, held polls included.");
    for (size_t slot = 0; slot < ROUTES_MAX; slot++) {
        if (slot_used(slot)) {
            add_durations(b, slot);
        }
    }
}

/* ---- the store ---- */

static void add_one(struct buf *b, const char *name, const char *type, const char *help,
                    double value)
{
    prom_family(b, name, type, help);
    prom_sample(b, name, value, NULL);
}

static void add_store(struct buf *b, struct api *api, struct db_conn *reader)
{
    static const char *const types[] = {"Microsoft.NetApp/netAppAccounts",
                                        "Microsoft.NetApp/netAppAccounts/capacityPools",
                                        "Microsoft.NetApp/netAppAccounts/capacityPools/volumes"};
    struct db_stats s = {0};

    db_get_stats(api->db, &s);
    add_one(b, "spillway_db_commits_total", "counter",
            "Commits of the database; each takes a group of transactions.", (double)s.commits);
    add_one(b, "spillway_db_commit_seconds_total", "counter", "Time spent committing.",
            (double)s.commit_ns / (double)NS_PER_S);
    add_one(b, "spillway_db_transactions_total", "counter", "Transactions run.",
            (double)s.transactions);
    add_one(b, "spillway_db_transactions_failed_total", "counter",
            "Transactions undone or not committed.", (double)s.failed);
    add_one(b, "spillway_db_queued_transactions", "gauge", "Transactions that wait for the writer.",
            (double)s.queued);
    prom_family(b, "spillway_resources", "gauge", "Resources by type.");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        prom_sample(b, "spillway_resources", (double)db_resource_count(reader, types[i]), "type",
                    types[i], NULL);
    }
}

/* ---- agents ---- */

struct agent_row {
    struct agent_entry entry;
    bool live, draining;
    double volumes, quota; /* placed on it */
};

struct agent_rows {
    struct api *api;
    uint64_t now;
    struct agent_row *list;
    size_t count;
};

static int add_quota(const struct db_resource *volume, void *arg)
{
    struct agent_row *row = arg;

    row->volumes += 1;
    row->quota += (double)volume->size;
    return 0;
}

static int add_agent(const struct db_agent *a, void *arg)
{
    struct agent_rows *rows = arg;
    struct agent_row row = {.draining = a->draining};

    if (registry_copy(rows->api->agents, a->id, &row.entry)) {
        row.live = agents_is_live(rows->api->agents, a->id, rows->now);
        rows->list = xrealloc(rows->list, (rows->count + 1) * sizeof *rows->list);
        rows->list[rows->count++] = row;
    }
    return 0;
}

static double agent_live(const struct agent_row *r)
{
    return r->live;
}

static double agent_draining(const struct agent_row *r)
{
    return r->draining;
}

static double agent_contact(const struct agent_row *r)
{
    return (double)r->entry.contact_wall / (double)NS_PER_S;
}

static double agent_size(const struct agent_row *r)
{
    return (double)r->entry.load.store_size;
}

static double agent_free(const struct agent_row *r)
{
    return (double)r->entry.load.store_free;
}

static double agent_volumes(const struct agent_row *r)
{
    return r->volumes;
}

static double agent_quota(const struct agent_row *r)
{
    return r->quota;
}

static double agent_overcommitment(const struct agent_row *r)
{
    return r->entry.load.store_size > 0 ? r->quota / (double)r->entry.load.store_size : 0;
}

static double agent_connections(const struct agent_row *r)
{
    return (double)r->entry.load.connections;
}

static double agent_ops(const struct agent_row *r)
{
    return r->entry.load.ops_per_second;
}

static double agent_bytes(const struct agent_row *r)
{
    return r->entry.load.bytes_per_second;
}

/* Gauges with a sample for each agent. */
static const struct {
    const char *name, *help;
    double (*value)(const struct agent_row *row);
} agent_families[] = {
    {"spillway_agent_live", "1 while the agent was heard of lately.", agent_live},
    {"spillway_agent_draining", "1 while the agent takes no new volumes.", agent_draining},
    {"spillway_agent_last_contact_timestamp_seconds", "When the agent was last heard of.",
     agent_contact},
    {"spillway_agent_store_size_bytes", "Size of the agent's store.", agent_size},
    {"spillway_agent_store_free_bytes", "Free space of the agent's store.", agent_free},
    {"spillway_agent_volumes", "Volumes placed on the agent.", agent_volumes},
    {"spillway_agent_volume_quota_bytes", "Sum of the quotas of the volumes placed on the agent.",
     agent_quota},
    {"spillway_agent_overcommitment_ratio",
     "Sum of the quotas over the size of the store; above 1 is overcommitted.",
     agent_overcommitment},
    {"spillway_agent_connections", "Client connections that the agent last reported.",
     agent_connections},
    {"spillway_agent_operations_per_second", "Operations per second that the agent last reported.",
     agent_ops},
    {"spillway_agent_throughput_bytes_per_second", "Bytes per second that the agent last reported.",
     agent_bytes},
};

static void add_agents(struct buf *b, struct api *api, struct db_conn *reader)
{
    struct agent_rows rows = {.api = api, .now = clock_mono_ns()};
    size_t live = 0;

    db_agent_each(reader, add_agent, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        db_resource_each_placed(reader, rows.list[i].entry.id, add_quota, &rows.list[i]);
        live += rows.list[i].live;
    }
    prom_family(b, "spillway_agents", "gauge",
                "Enrolled agents by whether they were heard of lately.");
    prom_sample(b, "spillway_agents", (double)live, "state", "live", NULL);
    prom_sample(b, "spillway_agents", (double)(rows.count - live), "state", "lost", NULL);
    for (size_t f = 0; f < sizeof agent_families / sizeof agent_families[0] && rows.count > 0;
         f++) {
        prom_family(b, agent_families[f].name, "gauge", agent_families[f].help);
        for (size_t i = 0; i < rows.count; i++) {
            prom_sample(b, agent_families[f].name, agent_families[f].value(&rows.list[i]), "agent",
                        rows.list[i].entry.name, NULL);
        }
    }
    free(rows.list);
}

static void add_feed(struct buf *b, struct agent_registry *r)
{
    pthread_mutex_lock(&r->lock);
    struct agent_counters c = r->counters;
    size_t held = r->held;
    pthread_mutex_unlock(&r->lock);

    add_one(b, "spillway_agent_polls_held", "gauge", "Long polls of agents that wait for a change.",
            (double)held);
    add_one(b, "spillway_agent_specs_sent_total", "counter",
            "Volume specifications sent to agents.", (double)c.specs_sent);
    add_one(b, "spillway_agent_full_lists_total", "counter",
            "Polls answered with the whole list: a new agent, or one whose cursor is unknown.",
            (double)c.full_lists);
    add_one(b, "spillway_metric_points_total", "counter", "Metric points taken from agents.",
            (double)c.points_taken);
    add_one(b, "spillway_metric_points_dropped_total", "counter",
            "Metric points of volumes that are not the sender's, or of a time that is not kept.",
            (double)c.points_dropped);
}

/* ---- the process ---- */

static void add_process(struct buf *b)
{
    long pages = 0;
    double fds = 0;
    FILE *statm = fopen("/proc/self/statm", "re");

    if (statm != NULL) {
        if (fscanf(statm, "%*s %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(statm);
    }
    DIR *dir = opendir("/proc/self/fd");
    if (dir != NULL) {
        while (readdir(dir) != NULL) {
            fds++;
        }
        closedir(dir);
        fds -= 3; /* ".", ".." and the folder itself */
    }
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    add_one(b, "process_cpu_seconds_total", "counter", "CPU time used.",
            (double)cpu.tv_sec + (double)cpu.tv_nsec / (double)NS_PER_S);
    add_one(b, "process_resident_memory_bytes", "gauge", "Resident memory.",
            (double)pages * (double)sysconf(_SC_PAGESIZE));
    add_one(b, "process_open_fds", "gauge", "Open file descriptors.", fds);
}

void prom_metrics(struct arm_call *call)
{
    struct buf b = {0};
    struct db_conn *reader = db_read_begin(call->api->db);

    prom_family(&b, "spillway_build_info", "gauge", "The program's version.");
    prom_sample(&b, "spillway_build_info", 1, "version", SPILLWAY_VERSION, NULL);
    add_requests(&b);
    add_store(&b, call->api, reader);
    add_agents(&b, call->api, reader);
    db_read_end(reader);
    add_feed(&b, call->api->agents);
    add_process(&b);
    arm_reply_text(call, 200, "text/plain; version=0.0.4; charset=utf-8", buf_take(&b));
}

static int seen_subscription(const char *subscription, const char *display_name, void *arg)
{
    (void)subscription;
    (void)display_name;
    *(bool *)arg = true;
    return 1;
}

void health_get(struct arm_call *call)
{
    bool seen = false;
    struct db_conn *reader = db_read_begin(call->api->db);
    int rc = db_subscription_each(reader, seen_subscription, &seen);

    db_read_end(reader);
    if (rc < 0 || !seen) {
        arm_fail(call, 503, "ServiceUnavailable", NULL, "The database does not answer.");
    } else {
        arm_reply(call, 200, json_pack("{s:s}", "status", "ok"));
    }
}
