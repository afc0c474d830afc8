/* The status port's two pages. Handlers run on the HTTP server's thread and block on nothing but
 * leaf locks. */
#include "agent/control/status_page.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/nfs/nfs.h"
#include "common/clock.h"
#include "common/http_server.h"
#include "common/mem.h"
#include "common/prom.h"

struct status_page {
    struct status_sources sources;
    struct http_server *http;
};

/* ---- /healthz ---- */

/* What is not right yet, "ok" for nothing. An agent that never was enrolled has nothing to serve
 * and takes no volume yet; one that was needs no control plane. */
static const char *health(const struct reconciler_stats *r, const struct channel_stats *c)
{
    if (!r->restored)
        return "restoring";
    if (r->served != r->known)
        return "degraded";
    return c->agent_id == 0 ? "enrolling" : "ok";
}

static void answer_health(struct http_request *r, const struct status_sources *s)
{
    struct reconciler_stats stats;
    struct channel_stats channel;
    struct buf b = {0};
    const char *status;
    size_t len;

    reconciler_get_stats(s->reconciler, &stats);
    channel_get_stats(s->channel, &channel);
    status = health(&stats, &channel);
    buf_printf(&b, "{\"status\":\"%s\",\"exports\":%llu,\"served\":%llu}\n", status,
               (unsigned long long)stats.known, (unsigned long long)stats.served);
    len = b.len;
    http_set_header(r, "Content-Type", "application/json");
    http_respond(r, strcmp(status, "ok") == 0 ? 200 : 503, buf_take(&b), len);
}

/* ---- /metrics ---- */

/* A volume as it is shown: its labels and a reading of its counters. */
struct reading {
    char id[UUID_TEXT_MAX];
    char export_path[VOLUME_PATH_MAX];
    struct volume_totals totals;
};

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Every volume metric: where its figure is in struct volume_totals, and the label `op` where it has
 * one. Rows of one family stand together; only the first has the help. */
struct volume_metric {
    const char *name, *type, *help, *op;
    size_t offset;
    bool is_time; /* ns, shown in seconds */
};

#define AT(field) offsetof(struct volume_totals, field)

static const struct volume_metric volume_metrics[] = {
    {"spillway_volume_bytes_total", "counter", "Payload bytes moved.", "read", AT(read_bytes),
     false},
    {"spillway_volume_bytes_total", NULL, NULL, "write", AT(write_bytes), false},
    {"spillway_volume_bytes_total", NULL, NULL, "other", AT(other_bytes), false},
    {"spillway_volume_ops_total", "counter", "Calls answered.", "read", AT(read_ops), false},
    {"spillway_volume_ops_total", NULL, NULL, "write", AT(write_ops), false},
    {"spillway_volume_ops_total", NULL, NULL, "other", AT(other_ops), false},
    {"spillway_volume_latency_seconds_total", "counter",
     "Time from the arrival of calls to their replies, summed up.", "read", AT(read_ns), true},
    {"spillway_volume_latency_seconds_total", NULL, NULL, "write", AT(write_ns), true},
    {"spillway_volume_limit_bytes_per_second", "gauge",
     "Throughput limit of reads and writes together; 0 is none.", NULL, AT(throttle.rate), false},
    {"spillway_volume_charged_bytes_total", "counter", "Bytes charged against the limit.", NULL,
     AT(throttle.charged), false},
    {"spillway_volume_throttled_requests_total", "counter",
     "Reads and writes that waited for the limit.", NULL, AT(throttle.parked_total), false},
    {"spillway_volume_throttle_wait_seconds_total", "counter",
     "Time that reads and writes waited for the limit, summed up.", NULL, AT(throttle.waited_ns),
     true},
    {"spillway_volume_limited_seconds_total", "counter",
     "Time with at least one request waiting for the limit.", NULL, AT(throttle.limited_ns), true},
    {"spillway_volume_waiting_requests", "gauge", "Requests that wait for the limit now.", NULL,
     AT(throttle.waiting), false},
    {"spillway_volume_waiting_bytes", "gauge", "Bytes that wait for the limit now.", NULL,
     AT(throttle.waiting_bytes), false},
    {"spillway_volume_waiting_clients", "gauge",
     "Clients with something waiting for the limit now.", NULL, AT(throttle.clients), false},
    {"spillway_volume_used_bytes", "gauge", "Bytes that the files count.", NULL,
     AT(usage.used_bytes), false},
    {"spillway_volume_quota_bytes", "gauge", "Quota.", NULL, AT(usage.quota_bytes), false},
    {"spillway_volume_used_files", "gauge", "Files, folders and other inodes.", NULL,
     AT(usage.used_inodes), false},
    {"spillway_volume_max_files", "gauge", "How many inodes there may be.", NULL,
     AT(usage.max_files), false},
};

static void add_volumes(struct buf *b, const struct reading *list, size_t count)
{
    for (size_t m = 0; m < sizeof(volume_metrics) / sizeof(volume_metrics[0]); m++) {
        const struct volume_metric *metric = &volume_metrics[m];

        if (metric->help)
            prom_family(b, metric->name, metric->type, metric->help);
        for (size_t i = 0; i < count; i++) {
            uint64_t raw;
            double value;

            memcpy(&raw, (const char *)&list[i].totals + metric->offset, sizeof(raw));
            value = metric->is_time ? seconds(raw) : (double)raw;
            if (metric->op)
                prom_sample(b, metric->name, value, "file_system_id", list[i].id, "export",
                            list[i].export_path, "op", metric->op, NULL);
            else
                prom_sample(b, metric->name, value, "file_system_id", list[i].id, "export",
                            list[i].export_path, NULL);
        }
    }
}

static void add_scanning(struct buf *b, const struct reading *list, size_t count)
{
    prom_family(b, "spillway_volume_usage_scanning", "gauge",
                "1 while the used bytes are an upper bound, until a scan after an unclean stop is "
                "through.");
    for (size_t i = 0; i < count; i++)
        prom_sample(b, "spillway_volume_usage_scanning", list[i].totals.usage.scanning ? 1 : 0,
                    "file_system_id", list[i].id, "export", list[i].export_path, NULL);
}

static void add_one(struct buf *b, const char *name, const char *type, const char *help,
                    double value)
{
    prom_family(b, name, type, help);
    prom_sample(b, name, value, NULL);
}

static void add_transport(struct buf *b, const struct status_sources *s)
{
    struct rpc_stats t;

    s->rpc_stats(s->arg, &t);
    add_one(b, "spillway_agent_connections", "gauge", "Open client connections.",
            (double)t.connections);
    add_one(b, "spillway_agent_accepted_connections_total", "counter", "Connections accepted.",
            (double)t.accepted);
    prom_family(b, "spillway_agent_closed_connections_total", "counter",
                "Connections refused or closed by this side.");
    prom_sample(b, "spillway_agent_closed_connections_total", (double)t.refused, "reason", "limit",
                NULL);
    prom_sample(b, "spillway_agent_closed_connections_total", (double)t.closed_protocol, "reason",
                "protocol", NULL);
    prom_sample(b, "spillway_agent_closed_connections_total", (double)t.closed_idle, "reason",
                "idle", NULL);
    add_one(b, "spillway_agent_rpc_calls_total", "counter", "RPC calls that came in.",
            (double)t.calls);
    add_one(b, "spillway_agent_rpc_replies_total", "counter", "RPC replies sent.",
            (double)t.replies);
    add_one(b, "spillway_agent_rpc_dropped_total", "counter", "RPC calls left without a reply.",
            (double)t.dropped);
    add_one(b, "spillway_agent_rpc_bad_calls_total", "counter",
            "RPC calls refused before a procedure ran.", (double)t.bad_calls);
    add_one(b, "spillway_agent_rpc_offloaded_total", "counter",
            "RPC calls handed to a thread that may block.", (double)t.offloaded);
    add_one(b, "spillway_agent_received_bytes_total", "counter", "Bytes received from clients.",
            (double)t.bytes_in);
    add_one(b, "spillway_agent_sent_bytes_total", "counter", "Bytes sent to clients.",
            (double)t.bytes_out);
    add_one(b, "spillway_agent_buffer_bytes", "gauge", "Bytes of buffers in flight.",
            (double)t.memory);
}

static void add_nfs(struct buf *b)
{
    struct nfs_stats n;
    size_t count;
    const struct rpc_proc *procs = nfs_program.procs(3, &count);

    nfs_get_stats(&n);
    prom_family(b, "spillway_agent_nfs_calls_total", "counter", "NFS version 3 calls answered.");
    for (size_t i = 0; i < count && i < sizeof(n.calls) / sizeof(n.calls[0]); i++)
        prom_sample(b, "spillway_agent_nfs_calls_total", (double)n.calls[i], "procedure",
                    procs[i].name, NULL);
    add_one(b, "spillway_agent_nfs_failed_total", "counter",
            "NFS calls answered with another status than NFS3_OK.", (double)n.failed);
    add_one(b, "spillway_agent_sync_failures_total", "counter",
            "Writes to the disk that failed; each changed the write verifier.",
            (double)n.sync_failures);
    add_one(b, "spillway_agent_cached_objects", "gauge", "Open files and folders.",
            (double)n.cached);
    add_one(b, "spillway_agent_cache_hits_total", "counter", "Handles found open.", (double)n.hits);
    add_one(b, "spillway_agent_cache_misses_total", "counter", "Handles that had to be opened.",
            (double)n.misses);
}

static void add_reconciler(struct buf *b, const struct status_sources *s)
{
    struct reconciler_stats r;

    reconciler_get_stats(s->reconciler, &r);
    prom_family(b, "spillway_agent_volumes", "gauge",
                "Volumes: recorded on disk, served, failing to be applied, waiting to be applied.");
    prom_sample(b, "spillway_agent_volumes", (double)r.known, "state", "recorded", NULL);
    prom_sample(b, "spillway_agent_volumes", (double)r.served, "state", "served", NULL);
    prom_sample(b, "spillway_agent_volumes", (double)r.failing, "state", "failing", NULL);
    prom_sample(b, "spillway_agent_volumes", (double)r.queued, "state", "queued", NULL);
    add_one(b, "spillway_agent_orphans", "gauge",
            "Volumes in the store that no specification speaks of: kept, not served.",
            (double)r.orphans);
    add_one(b, "spillway_agent_unreported_observations", "gauge",
            "Results that the control plane has not acknowledged yet.", (double)r.reports);
    add_one(b, "spillway_agent_applied_total", "counter", "Specifications applied.",
            (double)r.applied);
    add_one(b, "spillway_agent_apply_failures_total", "counter",
            "Tries to apply a specification that failed.", (double)r.failures);
    add_one(b, "spillway_agent_rejected_specs_total", "counter",
            "Specifications that named no volume.", (double)r.rejected);
    add_one(b, "spillway_agent_endpoints", "gauge", "Addresses listened on for volumes.",
            (double)endpoints_count(s->endpoints));
}

static void add_channel(struct buf *b, const struct status_sources *s)
{
    struct channel_stats c;
    struct minutes_stats m;

    channel_get_stats(s->channel, &c);
    meter_get_stats(s->meter, &m);
    add_one(b, "spillway_agent_control_plane_up", "gauge",
            "1 when the last call to the control plane went well.", c.reachable ? 1 : 0);
    add_one(b, "spillway_agent_enrolled", "gauge", "1 when the control plane knows this agent.",
            c.enrolled ? 1 : 0);
    add_one(b, "spillway_agent_last_contact_timestamp_seconds", "gauge",
            "When the control plane last answered well; 0 is never since the start.",
            (double)c.last_contact_s);
    add_one(b, "spillway_agent_control_calls_total", "counter", "Calls made to the control plane.",
            (double)c.calls);
    add_one(b, "spillway_agent_control_failures_total", "counter",
            "Calls to the control plane that failed.", (double)c.failed);
    add_one(b, "spillway_agent_waiting_points", "gauge",
            "Metric points that are not acknowledged yet.", (double)m.waiting);
    add_one(b, "spillway_agent_dropped_points_total", "counter",
            "Metric points given up because the control plane was away too long.",
            (double)m.dropped);
    add_one(b, "spillway_agent_acknowledged_batches_total", "counter",
            "Metric batches acknowledged.", (double)m.acknowledged);
}

static void add_store(struct buf *b, const struct status_sources *s, const struct reading *list,
                      size_t count)
{
    uint64_t size = 0, space = 0, folders = 0, removed = 0, committed = 0;
    bool power = storage_durability(s->storage) == DURABILITY_POWER;

    for (size_t i = 0; i < count; i++)
        committed += list[i].totals.usage.quota_bytes;
    storage_trash_stats(s->storage, &folders, &removed);
    prom_family(b, "spillway_agent_build_info", "gauge", "This program.");
    prom_sample(b, "spillway_agent_build_info", 1, "version", SPILLWAY_VERSION, "backend",
                storage_backend(s->storage), NULL);
    prom_family(b, "spillway_agent_durability", "gauge",
                "What a stable write survives: a power cut (power), or the end of the process only "
                "(process).");
    prom_sample(b, "spillway_agent_durability", 1, "mode", power ? "power" : "process", NULL);
    if (storage_space(s->storage, &size, &space) == 0) {
        add_one(b, "spillway_agent_store_size_bytes", "gauge", "Size of the disk below the store.",
                (double)size);
        add_one(b, "spillway_agent_store_free_bytes", "gauge",
                "Free space of the disk below the store.", (double)space);
    }
    add_one(b, "spillway_agent_store_committed_bytes", "gauge",
            "Sum of the volumes' quotas; more than the disk's size is overcommitted.",
            (double)committed);
    add_one(b, "spillway_agent_trash_folders", "gauge",
            "Deleted volumes whose space is still coming back.", (double)folders);
    add_one(b, "spillway_agent_trash_removed_files_total", "counter",
            "Files of deleted volumes removed.", (double)removed);
}

void status_metrics(const struct status_sources *s, struct buf *out)
{
    uint64_t now_ns = clock_mono_ns();
    size_t count;
    struct volume **list = volume_list(s->table, &count);
    struct reading *readings = xcalloc(count + 1, sizeof(*readings));

    for (size_t i = 0; i < count; i++) {
        struct volume_spec spec;

        uuid_format(&list[i]->fs_id, readings[i].id);
        volume_get_spec(list[i], &spec);
        memcpy(readings[i].export_path, spec.export_path, sizeof(spec.export_path));
        volume_spec_clear(&spec);
        volume_get_totals(list[i], now_ns, &readings[i].totals);
        volume_put(list[i]);
    }
    free(list);
    add_store(out, s, readings, count);
    add_reconciler(out, s);
    add_channel(out, s);
    add_transport(out, s);
    add_nfs(out);
    if (count > 0) {
        add_volumes(out, readings, count);
        add_scanning(out, readings, count);
    }
    free(readings);
}

static void answer_metrics(struct http_request *r, const struct status_sources *s)
{
    struct buf b = {0};
    size_t len;

    status_metrics(s, &b);
    len = b.len;
    http_set_header(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    http_respond(r, 200, buf_take(&b), len);
}

/* ---- the port ---- */

static void answer_text(struct http_request *r, unsigned status, const char *text)
{
    http_set_header(r, "Content-Type", "text/plain; charset=utf-8");
    http_respond(r, status, xstrdup(text), strlen(text));
}

static const struct {
    const char *path;
    void (*answer)(struct http_request *r, const struct status_sources *s);
} pages[] = {{"/healthz", answer_health}, {"/metrics", answer_metrics}};

static void handle(struct http_request *r, void *arg)
{
    const struct status_page *page = arg;

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(http_path(r), pages[i].path) != 0)
            continue;
        if (strcmp(http_method(r), "GET") == 0 || strcmp(http_method(r), "HEAD") == 0) {
            pages[i].answer(r, &page->sources);
        } else {
            http_set_header(r, "Allow", "GET, HEAD");
            answer_text(r, 405, "only GET\n");
        }
        return;
    }
    answer_text(r, 404, "here are /healthz and /metrics\n");
}

static void refuse_body(struct http_request *r, void *arg)
{
    (void)arg;
    answer_text(r, 413, "no body is expected\n");
}

int status_page_start(const struct status_sources *sources, struct status_page **out)
{
    struct status_page *page = xcalloc(1, sizeof(*page));
    struct http_server_config config = {.listen = sources->agent->status,
                                        .threads = 1,
                                        .max_body = 4096,
                                        .max_header = 16384,
                                        .max_connections = 64,
                                        .idle_timeout_s = 30,
                                        .handle = handle,
                                        .too_large = refuse_body,
                                        .arg = page};
    int rc;

    page->sources = *sources;
    rc = http_server_start(&config, &page->http);
    if (rc != 0) {
        free(page);
        return rc;
    }
    *out = page;
    return 0;
}

void status_page_stop(struct status_page *page)
{
    if (!page)
        return;
    http_server_stop(page->http);
    free(page);
}
