/*
 * A store in a folder of its own, and short ways to write to it. Every Criterion test is a process,
 * so the store and its folder are plain globals. Tests in db/ look behind db.h and may use SQL.
 */
#ifndef TESTS_UNIT_DB_FIXTURE_H
#define TESTS_UNIT_DB_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "db/db.h"
#include "db/internal.h"

#define SUB       "00000000-0000-0000-0000-000000000001"
#define POOL_TYPE "Microsoft.NetApp/netAppAccounts/capacityPools"
#define VOL_TYPE  POOL_TYPE "/volumes"
#define GIB       (INT64_C(1) << 30)
#define TIB       (INT64_C(1) << 40)

extern char folder[64]; /* removed by close_store */
extern struct db *store;

void make_folder(void);
void open_store(void); /* makes the folder when there is none */
void reopen_store(void);
void close_store(void);

/* Runs a transaction and waits for its result. */
int transact(db_run_fn *run, void *arg);
/* Runs SQL as a transaction; 0 or what the store says. */
int transact_sql(const char *sql);
/* The first column of the first row, read outside the store. */
int64_t number_of(const char *file, const char *sql);

/* A pool "p", or a volume of it by name; texts are the row's own (db_resource_clear). */
struct db_resource pool_row(const char *name);
struct db_resource volume_row(int64_t pool, const char *name);
/* Inserted, with its rid; the texts are freed. */
int64_t add_pool(const char *name);
int64_t add_volume(int64_t pool, const char *name);
/* Inserts in a transaction of its own, setting rid. */
int insert(struct db_resource *r);
int update(struct db_resource *r);
int64_t add_agent(const char *name);

#endif
