/*
 * From an HTTP request to the handler of its route and the audit line of its answer: the one entry
 * point of the server's threads.
 */
#ifndef API_DISPATCH_H
#define API_DISPATCH_H

#include "common/http_server.h"

/* Both are http_handler functions; `api` is the server's struct api. */
void dispatch_request(struct http_request *request, void *api);
void dispatch_too_large(struct http_request *request, void *api); /* 413 in the error envelope */

#endif
