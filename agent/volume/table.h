/* For tests: a table with a resolver of its own, so that no name server takes part. */
#ifndef AGENT_VOLUME_TABLE_H
#define AGENT_VOLUME_TABLE_H

#include "agent/volume/resolve.h"
#include "agent/volume/volume.h"

struct volume_table *volume_table_with(resolve_fn *resolve);

#endif
