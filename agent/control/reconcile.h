/*
 * Makes this agent serve what it should (design D1): takes specs as they come, applies each
 * idempotently, records it on disk, and says what became of it. Level-triggered: only the latest
 * spec of a volume counts, a failure is tried again until it works or another spec comes.
 *
 * A volume's steps and what a crash after each leaves: addresses taken (nothing to see), volume
 * applied (the old record is served after a restart, the control plane sends the new spec again),
 * record saved (the new spec is served), reported. Deletion: record marked deleted (a restart goes
 * on deleting), data moved to the trash, record removed, reported.
 *
 * One thread applies. `lock` guards the entries; it is held for look-ups and bookkeeping, never
 * while applying, and no other lock is taken under it.
 */
#ifndef AGENT_CONTROL_RECONCILE_H
#define AGENT_CONTROL_RECONCILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/control/desired.h"
#include "agent/control/endpoints.h"
#include "agent/volume/volume.h"

struct reconciler;

/* What is done to volumes; a test has its own. */
struct reconcile_ops {
    /* volume_apply, volume_retire and storage_each of the process's table and store. */
    int (*apply)(void *arg, const struct volume_spec *spec, char *message, size_t size);
    int (*retire)(void *arg, const struct uuid *fs_id);
    int (*each_on_disk)(void *arg, storage_each_fn *fn, void *fn_arg);
    /* There is something to report; called without the lock. */
    void (*wake)(void *arg);
};

struct reconciler_config {
    struct desired *desired;
    struct endpoints *endpoints;
    const struct reconcile_ops *ops;
    void *arg;
};

struct reconciler *reconciler_new(const struct reconciler_config *config);
/* Serves what the disk says. Call once, before reconciler_start; then nothing of an earlier run is
 * left to restore but what failed, which the thread tries again. 0, or -errno when the records
 * cannot be listed. */
int reconciler_restore(struct reconciler *r);
int reconciler_start(struct reconciler *r); /* 0 or -errno */
void reconciler_stop(struct reconciler *r); /* ends the thread after the step that it is in */
void reconciler_free(struct reconciler *r);

/* Takes the specs of a poll's answer. `full`: what is not in it becomes an orphan (stopped, kept),
 * unless a spec in it cannot be told apart: then none does. Any thread. */
void reconciler_offer(struct reconciler *r, const json_t *volumes, bool full);

/* Applies what is due now, on the calling thread; true when it did something. The thread's loop;
 * for tests. */
bool reconciler_step(struct reconciler *r, uint64_t now_ns);

/* What is still to be reported, at most REPORTS_MAX of it, as the protocol's observations (new
 * reference). The same is given again until it is acknowledged. */
#define REPORTS_MAX 200
struct report_batch {
    size_t count;
    struct {
        struct uuid fs_id;
        uint64_t serial;
    } item[REPORTS_MAX];
    json_t *observations;
};
void reconciler_take_reports(struct reconciler *r, struct report_batch *out);
void reconciler_acknowledge(struct reconciler *r, const struct report_batch *batch);

struct reconciler_stats {
    uint64_t known;   /* volumes that there is a record of */
    uint64_t served;  /* of them */
    uint64_t failing; /* whose last spec could not be applied */
    uint64_t queued;  /* waiting to be applied */
    uint64_t reports; /* waiting to be acknowledged */
    uint64_t orphans; /* volumes in the store that no spec speaks of */
    uint64_t applied, failures,
        rejected;  /* since the start; rejected: specs that nothing could be told of */
    bool restored; /* every record was tried once */
};
void reconciler_get_stats(struct reconciler *r, struct reconciler_stats *out);

#endif
