/* Prometheus text exposition: HELP and TYPE once a family, label values escaped. */
#ifndef COMMON_PROM_H
#define COMMON_PROM_H

#include "common/buf.h"

/* Starts a family; `type` is "counter", "gauge" or "histogram". */
void prom_family(struct buf *b, const char *name, const char *type, const char *help);
/* One sample. Labels are pairs name, value, …, NULL; the value is printed as an integer where it is
 * one. */
void prom_sample(struct buf *b, const char *name, double value, ...) __attribute__((sentinel));

#endif
