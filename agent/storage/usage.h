/*
 * The inside of a volume's usage, for usage.c (arithmetic and journal) and scan.c (finding the
 * truth after an unclean stop). storage.h has what everybody else calls.
 *
 * The fast path is lock-free. `booked` is what counts against the quota: what is used plus what is
 * reserved. A reservation adds to it with a compare-and-swap as long as the sum stays within
 * `ceiling`, the smaller of the quota and the journal's bound, and looks at the ceiling once more
 * afterwards; who lowers the ceiling stores it first and then reads `booked`. Both are sequentially
 * consistent, so one of the two sees the other: the reservation backs out, or the bound that is
 * written covers it. Raising needs no care: the record is on disk before the ceiling shows it.
 *
 * Lock order: usage.lock, then a job thread's; scan.lock, then a job thread's. usage.lock and
 * scan.lock are never held together.
 */
#ifndef AGENT_STORAGE_USAGE_H
#define AGENT_STORAGE_USAGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/storage/job.h"
#include "agent/storage/journal.h"
#include "agent/storage/storage.h"

struct scan;

/* Bytes or inodes. Signed: a settled change may pass what was expected of it, either way. */
struct usage_gauge {
    _Alignas(64) _Atomic int64_t booked; /* used and reserved */
    _Atomic int64_t ceiling;             /* booked may rise to this; -1 until the journal is open */
    _Atomic int64_t reserved;            /* of booked; for showing only */
    _Atomic int64_t low;   /* booked above this: time to draw the next chunk, before it is needed */
    _Atomic int64_t slack; /* booked below this: the bound is far too high */
    _Atomic int64_t quota;
    int64_t bound; /* under the lock: the journal's, or lower */
};

struct usage {
    struct usage_gauge gauges[USAGE_KINDS];
    atomic_bool scanning;  /* operations must tell the scan */
    atomic_bool estimated; /* used is an upper bound */
    atomic_bool draw_wanted;
    struct scan *scan; /* NULL: none since the opening. Lives as long as the usage. */
    enum durability durability;
    struct job_thread *keeper, *scanner;
    struct job draw_job;

    pthread_mutex_t lock; /* the journal and what it holds */
    struct journal journal;
    bool open;      /* the journal says so: changes may happen */
    bool abandoned; /* the volume is deleted: nothing is written any more */
    uint64_t root_base;
    uint32_t root_mode;
};

/* Opens the usage of the volume in the folder `dir` with its root `root`; both stay the caller's.
 * The threads outlive it. 0 or -errno. */
int usage_open(int dir, int root, const struct uuid *fs_id, uint64_t quota_bytes,
               uint64_t max_files, enum durability durability, struct job_thread *keeper,
               struct job_thread *scanner, struct usage **out);
/* A clean close: the exact figures go to the journal, after the data when it has to survive a power
 * cut. */
void usage_close(struct usage *u, int root);
/* The volume is deleted: stops the scan, lets the journal be. Operations may still run. */
void usage_abandon(struct usage *u);
void usage_resize(struct usage *u, uint64_t quota_bytes, uint64_t max_files);
/* Keeps the mode that the root was given, durably. 0 or -errno. */
int usage_keep_root_mode(struct usage *u, uint32_t mode);

/* For scan.c: ends the estimate. `found` is what the scan counts, `start` what was booked at its
 * start. */
void usage_scanned(struct usage *u, const int64_t found[USAGE_KINDS],
                   const int64_t start[USAGE_KINDS]);

/* ---- scan.c ---- */

/* Makes the scan of a usage that nothing changes yet, and queues it. 0 or -errno. */
int scan_start(struct usage *u, int root);
/* Stops it and waits for its end. */
void scan_stop(struct scan *s);
void scan_free(struct scan *s);
/* Between these an operation runs; the tokens are the thread's. */
void scan_enter(struct scan *s);
void scan_leave(struct scan *s);
extern _Thread_local unsigned scan_tokens; /* operations of this thread that entered a scan */

enum scan_touch { SCAN_CHANGED, SCAN_NEW };
void scan_touch(struct scan *s, enum scan_touch how, uint64_t ino, uint64_t charged);
void scan_renamed(struct scan *s, int dir_fd, const char *name);

#endif
