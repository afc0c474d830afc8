/*
 * Host names of export rules, resolved by a thread of its own: no call ever waits for a name
 * server. A name is resolved when it is first held, then each minute, after a failure each ten
 * seconds; the last good answer stays until there is another. Nobody holds it any more: it is
 * forgotten.
 *
 * Locking: one mutex, a leaf, never held while a name is resolved nor while `changed` runs.
 * `changed` runs under another, which resolver_stop takes: nothing that it locks may be held while
 * stopping.
 */
#ifndef AGENT_VOLUME_RESOLVE_H
#define AGENT_VOLUME_RESOLVE_H

#include <netinet/in.h>
#include <stddef.h>

struct resolver;

/* Resolves `name`, taking its time: the number of addresses (at most `max`) in *out, or -1 when it
 * failed. */
typedef int resolve_fn(const char *name, struct in_addr *out, size_t max);
/* By getaddrinfo(3); sorted. */
int resolve_system(const char *name, struct in_addr *out, size_t max);

/* `changed` is called by the thread when addresses of a name that is held have changed. The thread
 * starts with the first name. */
struct resolver *resolver_new(resolve_fn *resolve, void (*changed)(void *arg), void *arg);
/* `changed` is not called any more once it returns. A name server that does not answer does not
 * hold it up. */
void resolver_stop(struct resolver *r);
void resolver_hold(struct resolver *r, const char *name);
void resolver_release(struct resolver *r, const char *name);
/* The known addresses of a name; 0 when there are none (yet). */
size_t resolver_lookup(struct resolver *r, const char *name, struct in_addr *out, size_t max);

#endif
