/*
 * One volume's limit: admits, parks and releases the READs and WRITEs of all its endpoints (design
 * D8).
 *
 * A request that may go now is admitted at once. One that may not is parked: no thread waits, a
 * single timer of the volume fires when the next one is due. Among parked requests clients
 * (addresses) share by bytes (start-time fair queueing), however many connections they have. Cost
 * is payload bytes; metadata and COMMIT never come here.
 *
 * Locking: one mutex a throttle, a leaf: no other lock is taken under it, `release` is called
 * without it.
 */
#ifndef AGENT_QOS_THROTTLE_H
#define AGENT_QOS_THROTTLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct throttle;
struct qos_client; /* a client's queue; private */

/* Embedded in the request that is limited; zero it before the first offer. */
struct qos_request {
    struct qos_request *next, *prev; /* in its client's queue; free for the owner once released */
    struct qos_client *client;       /* valid while parked */
    uint64_t cost;                   /* bytes */
    uint64_t parked_ns;              /* when it was parked */
    bool parked;
};

/* What the owner of the threads offers: */
struct throttle_owner {
    /* Hands a released request back to its thread. May be called from any thread. */
    void (*release)(struct qos_request *request);
    /* Asks for throttle_run(throttle) at `due_ns` (CLOCK_BOOTTIME), replacing what was asked before
     * for this throttle; UINT64_MAX cancels: once it returned, no run is under way on another
     * thread and none will start. May be called from any thread. */
    void (*arm)(struct throttle *throttle, uint64_t due_ns);
};

struct throttle *throttle_new(uint64_t bytes_per_s, const struct throttle_owner *owner);
/* Nothing may be parked any more (throttle_flush). */
void throttle_free(struct throttle *t);

/* Room in each throttle for its owner's timer; the throttle does not look at it. Zeroed at first.
 */
struct throttle_slot {
    uint64_t due_ns;
    size_t index; /* place in the owner's queue + 1; 0: not queued */
};
struct throttle_slot *throttle_get_slot(struct throttle *t);

enum throttle_verdict { THROTTLE_GO, THROTTLE_PARKED };
/* Offers a request of `cost` bytes of a client. Unlimited (rate 0) and zero-cost requests always
 * go. */
enum throttle_verdict throttle_offer(struct throttle *t, struct qos_request *request,
                                     struct in_addr client, uint64_t cost, uint64_t now_ns);
/* Takes a parked request out, uncharged: true when it was still parked (it will not be released).
 */
bool throttle_cancel(struct throttle *t, struct qos_request *request, uint64_t now_ns);
/* Corrects the charge of a request that moved less than its cost. */
void throttle_refund(struct throttle *t, uint64_t bytes);
/* Releases what is due and arms for the next. Returns the number released. */
unsigned throttle_run(struct throttle *t, uint64_t now_ns);
/* Live change; waiting requests are re-timed. 0: no limit. */
void throttle_set_rate(struct throttle *t, uint64_t bytes_per_s, uint64_t now_ns);
/* Releases everything at once (the volume goes away). */
void throttle_flush(struct throttle *t, uint64_t now_ns);

struct throttle_stats {
    uint64_t rate;          /* bytes/s */
    uint64_t charged;       /* bytes since the start */
    uint64_t parked_total;  /* requests that had to wait */
    uint64_t waited_ns;     /* sum of their waits */
    uint64_t limited_ns;    /* time with at least one waiting, up to now */
    uint64_t waiting;       /* requests now */
    uint64_t waiting_bytes; /* bytes now */
    uint64_t clients;       /* with something waiting now */
};
void throttle_get_stats(struct throttle *t, uint64_t now_ns, struct throttle_stats *out);

#endif
