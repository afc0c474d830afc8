/*
 * Long-running operations (anf-api.md D.4): their rows, their URLs, and the two forms in which a
 * client polls one.
 */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "api/api.h"
#include "common/uuid.h"

/* In a transaction: makes the row of an operation on a resource. With `ended` it is Succeeded at
 * once, else `status` ("Creating", …) until the resource's generation is observed, at most the
 * apply time-out. `id` gets its UUID. 0 or -errno. */
int operation_begin(struct api *api, struct db_conn *txn, const struct db_resource *r,
                    const char *action, const char *status, bool ended, int64_t now,
                    char id[static UUID_TEXT_MAX]);
/* In a transaction: ends every running operation of a resource that waits for a generation of at
 * most this one. `error` is JSON or NULL. */
int operation_end_upto(struct db_conn *txn, int64_t rid, int64_t generation, const char *status,
                       const char *error, int64_t now);

/* JSON {code,message} of an operation's or a resource's failure; the caller frees it. */
char *operation_error(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Which headers an answer that started an operation has. */
enum operation_headers {
    OPERATION_ASYNC = 1,    /* Azure-AsyncOperation */
    OPERATION_LOCATION = 2, /* Location */
    OPERATION_RUNNING = 4,  /* Retry-After: the answer is not the last word */
};
/* `collection` is the path that operations are found under: operation_collection(), or a resource
 * group's. */
void operation_set_headers(struct arm_call *call, const char *collection, const char *id,
                           unsigned which);
/* "/subscriptions/S/providers/Microsoft.NetApp/locations/L/operationResults"; caller frees. */
char *operation_collection(const char *subscription, const char *location);

/* Route handler of …/locations/{location}/operationResults/{name}, and of a resource group's
 * /subscriptions/{subscription}/operationResults/{name}. */
void operation_get(struct arm_call *call);

#endif
