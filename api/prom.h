/*
 * What operators watch: GET /metrics (Prometheus text) and GET /healthz, and the request counters
 * behind the first.
 */
#ifndef API_PROM_H
#define API_PROM_H

#include <stdint.h>

#include "api/api.h"
#include "api/route.h"

void prom_metrics(struct arm_call *call); /* GET /metrics */
void health_get(struct arm_call *call); /* GET /healthz: 200 when the database answers, else 503 */

/* The dispatcher tells of every answered request: its route (NULL: none matched), the status and
 * the time from its arrival to its answer. Any thread. */
void prom_request_done(const struct arm_route *route, unsigned status, uint64_t elapsed_ns);

#endif
