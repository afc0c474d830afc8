/* A store in a temporary folder, and small helpers of the storage and volume tests. */
#ifndef TESTS_UNIT_AGENT_STORE_FIXTURE_H
#define TESTS_UNIT_AGENT_STORE_FIXTURE_H

#include "agent/storage/storage.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* A folder under /tmp, removed with all that is in it by scratch_remove. */
char *scratch_make(void);
void scratch_remove(char *dir);

struct storage *store_open(const char *dir, enum durability durability);
/* The same as storage_open for the backend "dir", with its error. */
int store_try(const char *dir, struct storage **out);
struct storage_volume *volume_in(struct storage *s, const struct uuid *fs_id, uint64_t quota,
                                 uint64_t files);
struct uuid id_of(unsigned number);
struct usage_stats usage_of(const struct storage_volume *v);

/* Waits until the condition holds, at most `seconds`; the test fails otherwise. */
void await(bool (*holds)(void *arg), void *arg, unsigned seconds);
void await_scan(struct storage_volume *v);
void await_trash(struct storage *s);

/* What a volume's tree uses, by a walk of its own. */
void walk_usage(const struct storage_volume *v, uint64_t *bytes, uint64_t *inodes);

#endif
