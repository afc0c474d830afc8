/*
 * Counts what the volumes do: a thread that wakes at every five seconds of the wall clock, so at
 * every whole minute too, takes one snapshot of all counters and hands it to the minute accounting.
 * The channel sends what comes of it.
 *
 * Locking: `lock` guards the accounting and the rates. Volumes are read before it is taken; it is a
 * leaf.
 */
#ifndef AGENT_CONTROL_METER_H
#define AGENT_CONTROL_METER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/control/minutes.h"
#include "agent/volume/volume.h"

#define METER_PERIOD_S 5

struct meter;

/* `tick` is called, without a lock, after each snapshot. */
struct meter *meter_new(struct volume_table *table, void (*tick)(void *arg), void *arg);
int meter_start(struct meter *m); /* 0 or -errno */
void meter_stop(struct meter *m); /* ends the thread, takes a last snapshot */
void meter_free(struct meter *m);

/* Takes a snapshot now; the thread's work. */
void meter_snapshot(struct meter *m);

/* Adds the counting part of a status report to `body`: volumes, opsPerSecond, bytesPerSecond and,
 * when something changed, the batch to send. Returns the batch's number, 0 for none. */
uint64_t meter_report(struct meter *m, json_t *body);
void meter_acknowledge(struct meter *m, uint64_t number);
/* Whether more waits than one batch takes. */
bool meter_has_backlog(struct meter *m);
void meter_get_stats(struct meter *m, struct minutes_stats *out);

#endif
