/*
 * The agent's side of docs/agent-protocol.md: enrolment, the long poll, observations and status,
 * over HTTPS (libcurl).
 *
 * One thread runs all four calls at once through a curl multi handle, so that a held poll delays no
 * report. A call that fails is made again after a pause that doubles (with jitter, so that a
 * thousand agents do not come back at once). The volumes are served whatever happens here.
 *
 * Locking: the thread owns everything; others only wake it and read the atomic statistics.
 */
#ifndef AGENT_CONTROL_CHANNEL_H
#define AGENT_CONTROL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/control/config.h"
#include "agent/control/identity.h"
#include "agent/control/meter.h"
#include "agent/control/reconcile.h"

struct channel;

struct channel_config {
    const struct agent_config *agent;
    struct identity *identity;
    struct storage *storage;
    struct reconciler *reconciler;
    struct meter *meter;
    /* The transport's counters; zeros once it is stopping. */
    void (*rpc_stats)(void *arg, struct rpc_stats *out);
    void *arg;
};

/* NULL, with the reason logged, when --enroll-token or --cacert cannot be read. */
struct channel *channel_new(const struct channel_config *config);
int channel_start(struct channel *c); /* 0 or -errno */
/* Ends the thread; what was counted last is sent if that takes no longer than `flush_ms`. */
void channel_stop(struct channel *c, unsigned flush_ms);
void channel_free(struct channel *c);

/* Reports wait (channel_wake), counters wait (channel_tick). Any thread. */
void channel_wake(struct channel *c);
void channel_tick(struct channel *c);

struct channel_stats {
    bool enrolled, reachable; /* as of the last call */
    int64_t agent_id;         /* 0: never enrolled */
    int64_t last_contact_s;   /* Unix seconds of the last good answer, 0: none yet */
    uint64_t calls, failed;   /* since the start */
};
void channel_get_stats(const struct channel *c, struct channel_stats *out);

#endif
