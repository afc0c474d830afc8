/*
 * A SPEC of docs/agent-protocol.md as JSON, read into a struct volume_spec. Strict and bounded: a
 * member of another type or out of its range makes the whole spec impossible (the volume then stays
 * as it was and is reported as failed), a member that is not known is ignored. Pure.
 */
#ifndef AGENT_CONTROL_SPEC_H
#define AGENT_CONTROL_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/volume/volume.h"

#define SPEC_MAX_CLIENTS 4096 /* characters of one rule's client list */
#define SPEC_MAX_ID      2048 /* of an ARM id */
/* 1 EiB a second: above it the limiter's arithmetic is not proven. */
#define SPEC_MAX_LIMIT (INT64_C(1) << 60)

/* What a report about a spec needs, even one that is impossible. False when there is no telling
 * what it speaks of. */
bool spec_identify(const json_t *json, struct uuid *fs_id, int64_t *generation);

/* Fills `out` (volume_spec_clear it), or is false with a sentence that names the member in `why`;
 * nothing is to be cleared then. */
bool spec_parse(const json_t *json, struct volume_spec *out, char *why, size_t size);

#endif
