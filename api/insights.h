/*
 * Azure Monitor's two calls on a volume or a pool (anf-api.md E.3): metrics and metricDefinitions.
 * Both handlers read the table of api/metric_table.h and answer at once.
 */
#ifndef API_INSIGHTS_H
#define API_INSIGHTS_H

#include "api/api.h"

void insights_metrics(struct arm_call *call); /* GET {id}/providers/Microsoft.Insights/metrics */
void insights_definitions(
    struct arm_call *call); /* GET {id}/providers/Microsoft.Insights/metricDefinitions */

#endif
