/*
 * The rate limiter's clock (GCRA, virtual scheduling form): one theoretical arrival time a volume.
 * Pure: the caller gives the time. Integer arithmetic that carries its remainder, so the long-run
 * rate is exact at every rate and request size; nothing is rounded to a microsecond. Time that was
 * not used is lost except for QOS_BURST_NS of it.
 */
#ifndef AGENT_QOS_GCRA_H
#define AGENT_QOS_GCRA_H

#include <stdint.h>

/* Burst depth: how much unused time a volume may make up for. A 1 s window then holds at most 0.5 %
 * more than the limit, a 100 ms window 5 %. */
#define QOS_BURST_NS UINT64_C(5000000)

struct gcra {
    uint64_t rate;      /* bytes per second; 0: no limit */
    uint64_t tat_ns;    /* theoretical arrival time of the next request */
    uint64_t remainder; /* of the last division, < rate */
};

/* Starts with an empty allowance: no burst right after a start. */
void gcra_init(struct gcra *g, uint64_t rate, uint64_t now_ns);
/* The earliest time at which the next request conforms; <= now_ns means now. */
uint64_t gcra_due(const struct gcra *g, uint64_t now_ns);
/* Charges `bytes` at now_ns (the caller has seen that it is due). */
void gcra_take(struct gcra *g, uint64_t bytes, uint64_t now_ns);
/* Gives back `bytes` that were charged and not moved. */
void gcra_refund(struct gcra *g, uint64_t bytes);
/* Changes the rate from now on: what was charged and not yet paid for is re-timed, without a burst.
 */
void gcra_set_rate(struct gcra *g, uint64_t rate, uint64_t now_ns);

#endif
