/*
 * The life of a call, between the dispatcher that makes it and the reply that ends it.
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/api.h"

/* A call without a route yet; takes over nothing. Ended by one of the arm_ answers of api.h. */
struct arm_call *arm_call_new(struct api *api, struct http_request *http);

#endif
