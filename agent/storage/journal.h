/*
 * The usage journal of a volume: one file of two slots of 4 KiB, written in turn, so that a write
 * cut short leaves the record before it whole. A record says either "clean": the exact usage at a
 * clean close, or "open": bounds that the usage does not exceed until a later record raises them.
 *
 * A slot is a record with a hash over the whole slot, and zeros. Both slots of a journal are valid
 * from its creation on, and a write changes one sector only, so a slot that is not valid was
 * damaged: nothing in the file is believed then but that the usage may be anything
 * (JOURNAL_DAMAGED).
 *
 * Called by usage.c, under its lock. No state but the struct's.
 */
#ifndef AGENT_STORAGE_JOURNAL_H
#define AGENT_STORAGE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/uuid.h"

#define JOURNAL_SLOT_BYTES 4096

enum usage_kind { USAGE_BYTES, USAGE_INODES, USAGE_KINDS };

struct journal_record {
    bool clean;                  /* `used` is exact, nothing has changed since */
    uint64_t used[USAGE_KINDS];  /* of a clean record */
    uint64_t bound[USAGE_KINDS]; /* of an open one */
    uint64_t root_base;          /* charge of the root folder when it was empty */
    uint32_t root_mode;          /* the mode the root was last given from above */
};

enum journal_trust {
    JOURNAL_CLEAN,
    JOURNAL_OPEN,    /* unclean stop: the bounds hold */
    JOURNAL_DAMAGED, /* nothing holds */
};

struct journal {
    int fd;
    uint64_t sequence; /* of the newest record in the file */
    bool repair;       /* a slot is not valid: the next write writes both */
    bool
        clean_synced; /* the newest record is clean and was fsynced: it would survive a power cut */
    struct uuid fs_id;
};

/* Makes the file in the folder `dir`, with both slots clean and nothing used; fsynced. 0 or -errno.
 */
int journal_create(int dir, const char *name, const struct uuid *fs_id, uint64_t root_base,
                   uint32_t root_mode);
/* Opens the file, made anew (damaged) when it is not there. *trust says what *record is worth: of a
 * damaged journal it holds what the valid slot says, or zeros. -EWOULDBLOCK when another process
 * has it open. Otherwise 0 or -errno. */
int journal_open(struct journal *j, int dir, const char *name, const struct uuid *fs_id,
                 struct journal_record *record, enum journal_trust *trust);
/* Writes the next record, and fsyncs it when asked. A clean one that was not fsynced is believed
 * until the next start of the machine only. 0 or -errno: the record before may then be in force, or
 * this one. */
int journal_write(struct journal *j, const struct journal_record *record, bool sync);
void journal_close(struct journal *j);

#endif
