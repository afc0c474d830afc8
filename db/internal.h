/*
 * Shared by the files of db/: connections, their prepared statements, small binding helpers.
 *
 * Locking: a connection belongs to one thread at a time (the writer's to the writer thread, a
 * reader's to who took it); the pool and the queue have a mutex each in struct db, never held
 * together, both leaves.
 */
#ifndef DB_INTERNAL_H
#define DB_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "db/db.h"
#include "db/stmt.h"

struct db_conn {
    struct db *db;
    sqlite3 *handle;
    sqlite3_stmt *stmt[STMT_COUNT];
    int failure;          /* first database failure inside the transaction that runs: -errno */
    struct db_conn *next; /* in the pool */
};

struct db_queued {
    struct db_request request;
    struct db_queued *next;
    int result;
};

struct db {
    char *path;
    struct db_conn writer;
    pthread_t thread;

    pthread_mutex_t queue_lock; /* guards the queue and `closing` */
    pthread_cond_t queue_ready;
    struct db_queued *head, **tail;
    bool closing;

    pthread_mutex_t pool_lock; /* guards the idle readers */
    pthread_cond_t pool_ready;
    struct db_conn *idle;
    unsigned readers; /* opened so far */

    atomic_uint_fast64_t commits, transactions, failed, commit_ns, queued;
};

/* Opens a connection with the pragmas of the store; 0 or -errno, logged. */
int db_conn_open(struct db *db, struct db_conn *c, bool writer);
void db_conn_close(struct db_conn *c);
/* Runs statements that return nothing; 0 or -errno, logged. */
int db_exec(sqlite3 *handle, const char *sql);
/* Prepares every statement, once the schema is there; 0 or -errno, logged. */
int db_conn_prepare(struct db_conn *c);
/* Runs the missing ones of `count` numbered migrations on the file `path`; -EPROTO when it has more
 * than those. 0 or -errno, logged. */
int db_migrate(sqlite3 *handle, const char *path, const char *const *migrations, int count);
extern const char *const schema_migrations[];
extern const int schema_version;
int db_writer_start(struct db *db);
void db_writer_stop(struct db *db);

/* -errno of an SQLite result code that `handle` (may be NULL) has just given. */
int db_error(sqlite3 *handle, int code);

/* Forgets the changes and tombstones of an agent that is gone; its id is never used again. */
int db_change_forget_agent(struct db_conn *txn, int64_t agent);

/* A statement, reset and with its parameters bound from a format: 'i' int64_t, 't' const char *
 * (NULL allowed), 'd' double. Never NULL. */
sqlite3_stmt *db_stmt(struct db_conn *c, enum stmt_id id, const char *format, ...);
/* Steps a statement that returns nothing and resets it; 0 or -errno (-EEXIST for a unique key). */
int db_run(struct db_conn *c, sqlite3_stmt *s);
/* Steps to the next row: 1 a row, 0 the end (reset), or -errno (reset). */
int db_row(struct db_conn *c, sqlite3_stmt *s);

/* Columns of the present row; texts are copied (NULL for NULL). */
char *db_column_text(sqlite3_stmt *s, int column);

/* ASCII lower case of a text, malloc'd; NULL for NULL. */
char *db_lower(const char *text);

#endif
