/*
 * Who this agent is: STATE/identity.json holds the credential that it made itself, the id that the
 * control plane gave it and the store that the state belongs to. Written (atomically, mode 0600)
 * before it is used.
 *
 * No locks: the start fills it, then only the channel's thread changes it.
 */
#ifndef AGENT_CONTROL_IDENTITY_H
#define AGENT_CONTROL_IDENTITY_H

#include <stdint.h>

#include "common/uuid.h"

#define IDENTITY_CREDENTIAL_MAX 65 /* 64 hex digits and the NUL */

struct identity {
    char *path;
    char credential[IDENTITY_CREDENTIAL_MAX]; /* 256 random bits, hex; a secret */
    int64_t agent_id;                         /* 0: never enrolled */
    struct uuid store;
};

/* Reads the identity, or makes a new one for this store and writes it. 0; -EXDEV when the state
 * belongs to another store (an unmounted disk, a wrong --store); -EINVAL when the file is damaged;
 * or -errno. Logged with what to do. */
int identity_open(const char *state_dir, const struct uuid *store, struct identity *out);
/* Records the id of the enrolment. 0 or -errno. */
int identity_enrolled(struct identity *identity, int64_t agent_id);
void identity_close(struct identity *identity);

#endif
