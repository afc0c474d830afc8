/*
 * The limiter's clock, see gcra.h. Called by throttle.c under its mutex.
 *
 * The unit of account is a byte-nanosecond-per-second: a request of n bytes costs n * 10^9 of them,
 * and a nanosecond at `rate` pays `rate`. (tat_ns, remainder) is therefore an exact number, tat_ns
 * * rate + remainder, and no request size or rate rounds anything away.
 */
#include "agent/qos/gcra.h"

#include "common/clock.h"

/* Times stop here: further than any clock goes, and additions to it cannot wrap. */
#define FAR_FUTURE ((uint64_t)INT64_MAX)

static uint64_t add_clamped(uint64_t base_ns, unsigned __int128 delta_ns)
{
    if (base_ns >= FAR_FUTURE || delta_ns >= FAR_FUTURE - base_ns)
        return FAR_FUTURE;
    return base_ns + (uint64_t)delta_ns;
}

void gcra_init(struct gcra *g, uint64_t rate, uint64_t now_ns)
{
    *g = (struct gcra){.rate = rate, .tat_ns = now_ns};
}

uint64_t gcra_due(const struct gcra *g, uint64_t now_ns)
{
    return g->rate == 0 ? now_ns : g->tat_ns;
}

void gcra_take(struct gcra *g, uint64_t bytes, uint64_t now_ns)
{
    unsigned __int128 cost;

    if (g->rate == 0)
        return;
    if (now_ns > QOS_BURST_NS && g->tat_ns < now_ns - QOS_BURST_NS) {
        g->tat_ns = now_ns - QOS_BURST_NS;
        g->remainder = 0;
    }
    cost = (unsigned __int128)bytes * NS_PER_S + g->remainder;
    g->tat_ns = add_clamped(g->tat_ns, cost / g->rate);
    g->remainder = (uint64_t)(cost % g->rate);
}

void gcra_refund(struct gcra *g, uint64_t bytes)
{
    unsigned __int128 back, whole;
    uint64_t part;

    if (g->rate == 0)
        return;
    back = (unsigned __int128)bytes * NS_PER_S;
    whole = back / g->rate;
    part = (uint64_t)(back % g->rate);
    if (part > g->remainder) {
        g->remainder += g->rate - part;
        whole++;
    } else {
        g->remainder -= part;
    }
    if (whole > g->tat_ns) {
        g->tat_ns = 0;
        g->remainder = 0;
    } else {
        g->tat_ns -= (uint64_t)whole;
    }
}

void gcra_set_rate(struct gcra *g, uint64_t rate, uint64_t now_ns)
{
    unsigned __int128 owed = 0;

    if (rate == g->rate)
        return;
    /* A debt in bytes stays a debt in bytes. An allowance (at most QOS_BURST_NS of the old rate) is
     * dropped: taken over it could be seconds of a lower one. */
    if (g->rate != 0 && g->tat_ns > now_ns)
        owed = (unsigned __int128)(g->tat_ns - now_ns) * g->rate + g->remainder;
    g->rate = rate;
    g->tat_ns = now_ns;
    g->remainder = 0;
    if (rate != 0) {
        g->tat_ns = add_clamped(now_ns, owed / rate);
        g->remainder = (uint64_t)(owed % rate);
    }
}
