/*
 * What operators watch: GET /healthz and GET /metrics (Prometheus text) of the agent, on loopback.
 * It answers from the start on, so that a restore can be watched: /healthz is 503 until every
 * export that the disk speaks of is served.
 *
 * Locking: none of its own; it reads what the others publish.
 */
#ifndef AGENT_CONTROL_STATUS_PAGE_H
#define AGENT_CONTROL_STATUS_PAGE_H

#include "agent/control/channel.h"
#include "agent/control/config.h"
#include "agent/control/endpoints.h"
#include "agent/control/meter.h"
#include "agent/control/reconcile.h"
#include "common/buf.h"

struct status_page;

struct status_sources {
    const struct agent_config *agent;
    struct storage *storage;
    struct volume_table *table;
    struct reconciler *reconciler;
    struct endpoints *endpoints;
    struct meter *meter;
    struct channel *channel;
    /* The transport's counters; zeros once it is stopping. */
    void (*rpc_stats)(void *arg, struct rpc_stats *out);
    void *arg;
};

/* Listens on --status. 0, or -errno, logged. The sources are copied and must outlive it. */
int status_page_start(const struct status_sources *sources, struct status_page **out);
void status_page_stop(struct status_page *page); /* NULL is allowed */

/* The text of /metrics. */
void status_metrics(const struct status_sources *s, struct buf *out);

#endif
