/*
 * The control plane's own duties (design D1): an operation that no agent ended by its deadline
 * becomes Failed at that moment, and what ended long ago is forgotten. One thread, asleep until the
 * next deadline.
 */
#ifndef API_RECONCILE_H
#define API_RECONCILE_H

#include "api/api.h"

struct reconciler;

struct reconciler *reconcile_start(struct api *api);
void reconcile_stop(struct reconciler *r); /* waits for the thread; NULL is allowed */

#endif
