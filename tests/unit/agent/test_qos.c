/* The limiter on simulated time: exact rates, windows, fairness, live change, against a model. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "agent/qos/gcra.h"
#include "agent/qos/throttle.h"
#include "common/clock.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

/* A time long after boot, not a round one. */
#define T0 (UINT64_C(987654321) * NS_PER_MS + 123457)

/* A small generator of our own, so that a failure can be run again. */
static uint64_t rng = 42;
static uint64_t any(uint64_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % below;
}

static const uint64_t rates[] = {1,       1000, 999983,  MIB,         16 * MIB, 64 * MIB,
                                 1000003, GIB,  4 * GIB, 21504 * MIB, 100 * GIB};
static const uint64_t sizes[] = {1, 17, 512, 4 * KIB, 64 * KIB, 1000001, MIB, GIB};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- the clock --- */

Test(gcra, delivers_the_rate_within_one_in_a_million_at_every_rate_and_size)
{
    for (size_t r = 0; r < COUNT(rates); r++) {
        for (size_t s = 0; s < COUNT(sizes); s++) {
            struct gcra g;
            uint64_t n = 1000000, now = T0;
            double span, rate;

            /* At least a million requests, so that a lost remainder of a nanosecond would show at 4
             * GiB/s. */
            gcra_init(&g, rates[r], T0);
            for (uint64_t i = 0; i < n && now < T0 + (UINT64_C(1) << 61); i++) {
                now = gcra_due(&g, now) > now ? gcra_due(&g, now) : now;
                gcra_take(&g, sizes[s], now);
                n = now >= T0 + (UINT64_C(1) << 60) ? i + 1 : n;
            }
            span = (double)(g.tat_ns - T0) + (double)g.remainder / (double)rates[r];
            rate = (double)n * (double)sizes[s] / span * 1e9;
            cr_assert(rate > (double)rates[r] * (1 - 1e-6) && rate < (double)rates[r] * (1 + 1e-6),
                      "rate %lu size %lu: %f", (unsigned long)rates[r], (unsigned long)sizes[s],
                      rate);
        }
    }
}

Test(gcra, is_exact_to_the_byte)
{
    struct gcra g;

    /* 3 bytes/s: three single bytes take 1 s to the nanosecond, though none of them takes a whole
     * number of ns. */
    gcra_init(&g, 3, T0);
    for (int i = 0; i < 3; i++)
        gcra_take(&g, 1, gcra_due(&g, T0));
    cr_assert_eq(g.tat_ns, T0 + NS_PER_S);
    cr_assert_eq(g.remainder, 0);
}

Test(gcra, starts_without_an_allowance)
{
    struct gcra g;

    gcra_init(&g, 1000, T0);
    cr_assert_leq(gcra_due(&g, T0), T0);
    gcra_take(&g, 1000, T0);
    cr_assert_eq(gcra_due(&g, T0), T0 + NS_PER_S);
}

Test(gcra, a_huge_idle_gap_earns_the_burst_depth_only)
{
    struct gcra g;
    uint64_t sent = 0, now = (uint64_t)INT64_MAX - NS_PER_S;

    gcra_init(&g, 1000 * MIB, 0);
    while (gcra_due(&g, now) <= now) {
        gcra_take(&g, 4 * KIB, now);
        sent += 4 * KIB;
    }
    cr_assert_leq(sent, 5 * MIB + 4 * KIB);
    cr_assert_geq(sent, 5 * MIB);
}

Test(gcra, refund_undoes_a_charge)
{
    for (int i = 0; i < 10000; i++) {
        struct gcra g, before;
        uint64_t bytes = 1 + any(GIB);

        gcra_init(&g, 1 + any(100 * GIB), T0);
        gcra_take(&g, any(MIB), T0);
        before = g;
        gcra_take(&g, bytes, T0);
        gcra_refund(&g, bytes);
        cr_assert_eq(g.tat_ns, before.tat_ns);
        cr_assert_eq(g.remainder, before.remainder);
    }
}

Test(gcra, a_rate_change_keeps_the_debt_in_bytes)
{
    struct gcra g;

    gcra_init(&g, 1000, T0);
    gcra_take(&g, 10000, T0);                   /* 10 s */
    gcra_set_rate(&g, 2000, T0 + 4 * NS_PER_S); /* 6,000 bytes owed: 3 s */
    cr_assert_eq(gcra_due(&g, T0), T0 + 7 * NS_PER_S);
    gcra_set_rate(&g, 100, T0 + 4 * NS_PER_S); /* 60 s */
    cr_assert_eq(gcra_due(&g, T0), T0 + 64 * NS_PER_S);
    gcra_set_rate(&g, 0, T0 + 5 * NS_PER_S);
    cr_assert_leq(gcra_due(&g, T0 + 5 * NS_PER_S), T0 + 5 * NS_PER_S);
    gcra_set_rate(&g, 1, T0 + 6 * NS_PER_S);
    cr_assert_leq(gcra_due(&g, T0 + 6 * NS_PER_S), T0 + 6 * NS_PER_S);
}

Test(gcra, a_lower_rate_inherits_no_allowance)
{
    struct gcra g;

    /* 5 ms of 1 GiB/s would be 5 s of 1 MiB/s. */
    gcra_init(&g, GIB, T0);
    gcra_set_rate(&g, MIB, T0 + NS_PER_S);
    gcra_take(&g, MIB, T0 + NS_PER_S);
    cr_assert_eq(gcra_due(&g, T0), T0 + 2 * NS_PER_S);
}

Test(gcra, never_overflows)
{
    struct gcra g;

    gcra_init(&g, 1, T0);
    for (int i = 0; i < 64; i++)
        gcra_take(&g, UINT64_MAX, T0);
    cr_assert_eq(gcra_due(&g, T0), (uint64_t)INT64_MAX);
    gcra_set_rate(&g, 100 * GIB, T0);
    gcra_set_rate(&g, 1, T0);
    cr_assert_eq(gcra_due(&g, T0), (uint64_t)INT64_MAX);
    gcra_init(&g, UINT64_MAX, (uint64_t)INT64_MAX);
    gcra_take(&g, UINT64_MAX, (uint64_t)INT64_MAX);
    gcra_refund(&g, UINT64_MAX);
    gcra_init(&g, 1, 0);
    gcra_refund(&g, UINT64_MAX);
    cr_assert_eq(gcra_due(&g, 0), 0);
}

/* --- the throttle, under a simulated owner --- */

struct sent {
    struct qos_request q; /* first */
    uint32_t client;
    uint64_t id;
    bool released;
};

static uint64_t now_ns, armed_ns;
static struct throttle *t;
static struct sent *released[1 << 16];
static size_t nreleased;

static void fake_release(struct qos_request *q)
{
    struct sent *s = (struct sent *)q;

    cr_assert_not(s->released);
    cr_assert_not(q->parked);
    s->released = true;
    released[nreleased++] = s;
}

static void fake_arm(struct throttle *which, uint64_t due)
{
    cr_assert_eq(which, t);
    armed_ns = due;
}

static const struct throttle_owner owner = {.release = fake_release, .arm = fake_arm};

static void begin(uint64_t rate)
{
    now_ns = T0;
    armed_ns = UINT64_MAX;
    nreleased = 0;
    t = throttle_new(rate, &owner);
}

static void end(void)
{
    throttle_flush(t, now_ns);
    throttle_free(t);
}

static struct in_addr address(uint32_t client)
{
    return (struct in_addr){.s_addr = htonl(0x0a000000u + client)};
}

static bool offer(struct sent *s, uint32_t client, uint64_t cost)
{
    memset(s, 0, sizeof(*s));
    s->client = client;
    if (throttle_offer(t, &s->q, address(client), cost, now_ns) == THROTTLE_PARKED)
        return false;
    s->released = true;
    return true;
}

/* Lets time go to the timer and `late` past it. */
static void fire(uint64_t late)
{
    cr_assert_neq(armed_ns, UINT64_MAX);
    now_ns = (armed_ns > now_ns ? armed_ns : now_ns) + late;
    armed_ns = UINT64_MAX;
    throttle_run(t, now_ns);
}

/* Bytes by time of release, and the most in any window. */
struct trace {
    uint64_t at, bytes;
};
static struct trace *trace;
static size_t ntrace, trace_cap;

static void record(uint64_t bytes)
{
    if (ntrace == trace_cap) {
        trace_cap = trace_cap == 0 ? 4096 : trace_cap * 2;
        trace = realloc(trace, trace_cap * sizeof(*trace));
    }
    trace[ntrace++] = (struct trace){now_ns, bytes};
}

static uint64_t worst_window(uint64_t window)
{
    uint64_t sum = 0, worst = 0;
    size_t from = 0;

    for (size_t i = 0; i < ntrace; i++) {
        sum += trace[i].bytes;
        while (trace[i].at - trace[from].at >= window)
            sum -= trace[from++].bytes;
        worst = sum > worst ? sum : worst;
    }
    return worst;
}

/* A backlog of one client for `span`; each release is followed by another request. Returns the
 * bytes let go. */
static uint64_t backlog(uint64_t size, uint64_t span, size_t depth, uint64_t late_below)
{
    struct sent *s = calloc(depth, sizeof(*s));
    uint64_t total = 0, end_ns = now_ns + span;

    ntrace = 0;
    for (size_t i = 0; i < depth; i++) {
        while (offer(&s[i], 1, size)) {
            total += size;
            record(size);
        }
    }
    while (armed_ns != UINT64_MAX && armed_ns <= end_ns) {
        size_t first = 0;

        nreleased = 0;
        fire(late_below == 0 ? 0 : any(late_below));
        for (; first < nreleased; first++) {
            total += size;
            record(size);
        }
        for (size_t i = 0, n = nreleased; i < n; i++) {
            while (offer(released[i], 1, size)) {
                total += size;
                record(size);
            }
        }
    }
    throttle_flush(t, now_ns);
    free(s);
    return total;
}

Test(throttle, a_backlog_gets_its_rate_and_no_window_more)
{
    static const uint64_t limits[] = {MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB, 4 * GIB};
    static const uint64_t requests[] = {4 * KIB, 64 * KIB, MIB};

    for (size_t l = 0; l < COUNT(limits); l++) {
        for (size_t r = 0; r < COUNT(requests); r++) {
            uint64_t limit = limits[l], size = requests[r], got;
            /* Fewer seconds where there are very many requests. */
            uint64_t seconds = limit / size > 100000 ? 2 : 10;

            begin(limit);
            got = backlog(size, seconds * NS_PER_S, 64, 0);
            cr_assert_geq(got + size, limit * seconds / 1000 * 999, "%lu x %lu: %lu",
                          (unsigned long)limit, (unsigned long)size, (unsigned long)got);
            cr_assert_leq(got, limit * seconds + limit / 200 + size);
            cr_assert_leq(worst_window(NS_PER_S), limit + limit / 100 + size);
            cr_assert_leq(worst_window(NS_PER_S / 10), limit / 10 + limit / 100 + size);
            end();
        }
    }
}

Test(throttle, timers_late_by_less_than_the_burst_depth_lose_nothing)
{
    uint64_t got;

    begin(64 * MIB);
    got = backlog(64 * KIB, 10 * NS_PER_S, 256, QOS_BURST_NS - 200000);
    cr_assert_geq(got + 64 * KIB, 640 * MIB / 1000 * 999);
    cr_assert_leq(worst_window(NS_PER_S), 64 * MIB + 64 * MIB / 100 + 64 * KIB);
    cr_assert_leq(worst_window(NS_PER_S / 10), 64 * MIB / 10 + 64 * MIB / 100 + 64 * KIB);
    end();
}

/* Clients with queues each of `depth` requests of a size; bytes each gets in 10 s of a limit. */
struct load {
    uint32_t client;
    uint64_t size;
    size_t depth;
    uint64_t got;
};

static void share(struct load *loads, size_t n, uint64_t limit)
{
    struct sent *s[16];

    begin(limit);
    for (size_t i = 0; i < n; i++) {
        s[i] = calloc(loads[i].depth, sizeof(struct sent));
        for (size_t k = 0; k < loads[i].depth; k++) {
            while (offer(&s[i][k], loads[i].client, loads[i].size))
                loads[i].got += loads[i].size;
            s[i][k].id = i;
        }
    }
    while (armed_ns <= T0 + 10 * NS_PER_S) {
        nreleased = 0;
        fire(0);
        for (size_t k = 0, m = nreleased; k < m; k++) {
            size_t i = released[k]->id;

            loads[i].got += loads[i].size;
            while (offer(released[k], loads[i].client, loads[i].size))
                loads[i].got += loads[i].size;
            released[k]->id = i;
        }
    }
    end();
    for (size_t i = 0; i < n; i++)
        free(s[i]);
}

static double jain(const double *x, size_t n)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return sum * sum / ((double)n * squares);
}

Test(throttle, clients_of_4_and_64_KiB_and_1_MiB_share_by_bytes)
{
    static const size_t depths[] = {1, 2, 16};

    for (size_t d = 0; d < COUNT(depths); d++) {
        struct load loads[] = {{1, 4 * KIB, 64, 0}, {2, 64 * KIB, 16, 0}, {3, MIB, depths[d], 0}};
        double got[3];

        share(loads, 3, 64 * MIB);
        for (int i = 0; i < 3; i++)
            got[i] = (double)loads[i].got;
        cr_assert_geq(jain(got, 3), 0.99, "%f %f %f", got[0], got[1], got[2]);
        cr_assert_geq(got[0] + got[1] + got[2], 640.0 * MIB * 0.998);
    }
}

Test(throttle, sixteen_connections_buy_no_more_than_one)
{
    /* Client 1 with one queue, client 2 with 16 (they are one queue here, 16 times as deep). */
    struct load loads[17] = {{1, 64 * KIB, 8, 0}};
    double got[2] = {0, 0};

    for (int i = 1; i < 16; i++)
        loads[i] = (struct load){2, 64 * KIB, 8, 0};
    share(loads, 16, 64 * MIB);
    for (int i = 0; i < 16; i++)
        got[loads[i].client - 1] += (double)loads[i].got;
    cr_assert_geq(jain(got, 2), 0.99, "%f %f", got[0], got[1]);
}

Test(throttle, a_client_that_comes_back_after_each_request_gains_nothing)
{
    /* One request at a time, large ones, against a deep queue of small ones: by bytes they are
     * alike. */
    struct load loads[] = {{1, 4 * KIB, 256, 0}, {2, MIB, 1, 0}};
    double got[2];

    share(loads, 2, 16 * MIB);
    got[0] = (double)loads[0].got;
    got[1] = (double)loads[1].got;
    cr_assert_geq(jain(got, 2), 0.99, "%f %f", got[0], got[1]);
}

Test(throttle, exact_ties_go_in_order_of_arrival)
{
    struct sent s[33];

    begin(MIB);
    cr_assert(offer(&s[32], 99, MIB)); /* takes the allowance and a second more */
    for (uint32_t i = 0; i < 32; i++)
        cr_assert_not(offer(&s[i], i, 1000));
    nreleased = 0;
    while (nreleased < 32)
        fire(0);
    for (uint32_t i = 0; i < 32; i++)
        cr_assert_eq(released[i], &s[i]);
    end();
}

Test(throttle, no_limit_and_no_cost_always_go)
{
    struct sent s[2];
    struct throttle_stats stats;

    begin(0);
    for (int i = 0; i < 1000; i++)
        cr_assert(offer(&s[0], 1, GIB));
    throttle_set_rate(t, 1, now_ns);
    cr_assert(offer(&s[0], 1, 1));
    cr_assert_not(offer(&s[0], 1, 1));
    cr_assert(offer(&s[1], 1, 0));
    throttle_get_stats(t, now_ns, &stats);
    cr_assert_eq(stats.rate, 1);
    cr_assert_eq(stats.waiting, 1);
    end();
}

Test(throttle, a_cancelled_request_is_not_charged_and_not_released)
{
    struct sent s[4];
    struct throttle_stats stats;

    begin(1000);
    cr_assert(offer(&s[0], 1, 1000));
    for (int i = 1; i < 4; i++)
        cr_assert_not(offer(&s[i], 1, 1000));
    cr_assert(throttle_cancel(t, &s[2].q, now_ns));
    cr_assert_not(throttle_cancel(t, &s[2].q, now_ns));
    nreleased = 0;
    while (nreleased < 2)
        fire(0);
    cr_assert_eq(released[0], &s[1]);
    cr_assert_eq(released[1], &s[3]);
    cr_assert_eq(now_ns, T0 + 2 * NS_PER_S - QOS_BURST_NS);
    throttle_get_stats(t, now_ns, &stats);
    cr_assert_eq(stats.charged, 3000);
    cr_assert_eq(stats.parked_total, 3);
    cr_assert_eq(stats.waiting, 0);
    cr_assert_eq(stats.waiting_bytes, 0);
    /* s[1] waited for one second, s[3] for two, less the burst depth each. */
    cr_assert_eq(stats.waited_ns, 3 * NS_PER_S - 2 * QOS_BURST_NS);
    cr_assert_eq(stats.limited_ns, 2 * NS_PER_S - QOS_BURST_NS);
    end();
}

Test(throttle, a_refund_brings_the_next_one_forward)
{
    struct sent s[2];

    begin(1000);
    cr_assert(offer(&s[0], 1, 10000));
    cr_assert_not(offer(&s[1], 1, 1000));
    cr_assert_eq(armed_ns, T0 - QOS_BURST_NS + 10 * NS_PER_S);
    throttle_refund(t, 9000);
    cr_assert_eq(armed_ns, T0 - QOS_BURST_NS + NS_PER_S);
    end();
}

Test(throttle, a_new_rate_retimes_what_waits_without_a_burst)
{
    struct sent s[200];
    uint64_t let_go;

    begin(MIB);
    cr_assert(offer(&s[0], 1, MIB));
    for (int i = 1; i < 200; i++)
        cr_assert_not(offer(&s[i], 1, MIB));
    now_ns += NS_PER_S / 2;
    nreleased = 0;
    throttle_set_rate(t, 64 * MIB, now_ns);
    /* Half a MiB was still owed, less the burst depth: at the new rate that is some 8 ms. */
    cr_assert_eq(nreleased, 0);
    cr_assert_leq(armed_ns, now_ns + 8 * NS_PER_MS);
    let_go = now_ns;
    while (now_ns < let_go + NS_PER_S)
        fire(0);
    cr_assert_geq(nreleased, 63);
    cr_assert_leq(nreleased, 65);
    /* Down again: the rest comes at the lower rate. */
    throttle_set_rate(t, 16 * MIB, now_ns);
    let_go = now_ns;
    nreleased = 0;
    while (now_ns < let_go + 2 * NS_PER_S)
        fire(0);
    cr_assert_geq(nreleased, 31);
    cr_assert_leq(nreleased, 34);
    /* And none at all: everything at once. */
    nreleased = 0;
    throttle_set_rate(t, 0, now_ns);
    cr_assert_geq(nreleased, 90);
    end();
}

Test(throttle, an_idle_one_asks_for_no_timer)
{
    struct sent s;

    begin(MIB);
    cr_assert(offer(&s, 1, MIB));
    cr_assert_eq(armed_ns, UINT64_MAX);
    now_ns += 60 * NS_PER_S;
    cr_assert(offer(&s, 1, MIB));
    cr_assert_not(offer(&s, 1, MIB));
    fire(0);
    cr_assert_eq(armed_ns, UINT64_MAX);
    end();
}

/* A model: lists searched from end to end, tags kept for ever, time in exact fractions of long
 * double. */
#define MODEL_CLIENTS 9
#define MODEL_MAX     400
struct model {
    __int128 owed; /* byte-ns: what now would have to wait for, negative: allowance */
    uint64_t rate, at;
    uint64_t virtual_now, tag[MODEL_CLIENTS];
    struct sent *queue[MODEL_CLIENTS][MODEL_MAX];
    uint64_t head_order[MODEL_CLIENTS];
    size_t len[MODEL_CLIENTS], waiting;
    uint64_t order;
};

static void model_time(struct model *m, uint64_t at)
{
    m->owed -= (__int128)(at - m->at) * m->rate;
    m->at = at;
}

static void model_charge(struct model *m, uint64_t cost)
{
    __int128 floor = -(__int128)QOS_BURST_NS * m->rate;

    if (m->owed < floor)
        m->owed = floor;
    m->owed += (__int128)cost * NS_PER_S;
}

static void model_remove(struct model *m, uint32_t c, size_t i)
{
    memmove(&m->queue[c][i], &m->queue[c][i + 1], (--m->len[c] - i) * sizeof(m->queue[c][0]));
    m->waiting--;
    if (i == 0)
        m->head_order[c] = ++m->order;
}

/* Takes the next one due, or NULL. The clock counts whole nanoseconds: what is owed must be less
 * than one. */
static struct sent *model_next(struct model *m)
{
    uint32_t best = MODEL_CLIENTS;
    struct sent *s;

    if (m->waiting == 0 || m->owed >= (__int128)m->rate)
        return NULL;
    for (uint32_t c = 0; c < MODEL_CLIENTS; c++) {
        if (m->len[c] > 0 &&
            (best == MODEL_CLIENTS || m->tag[c] < m->tag[best] ||
             (m->tag[c] == m->tag[best] && m->head_order[c] < m->head_order[best])))
            best = c;
    }
    s = m->queue[best][0];
    m->virtual_now = m->tag[best];
    m->tag[best] += s->q.cost;
    model_charge(m, s->q.cost);
    model_remove(m, best, 0);
    return s;
}

static bool model_offer(struct model *m, struct sent *s, uint32_t c, uint64_t cost)
{
    bool go = m->waiting == 0 && m->owed < (__int128)m->rate;

    if (m->len[c] == 0 && m->tag[c] < m->virtual_now)
        m->tag[c] = m->virtual_now;
    if (go) {
        model_charge(m, cost);
        if (m->owed >= (__int128)m->rate) {
            m->virtual_now = m->tag[c];
            m->tag[c] += cost;
        } else {
            memset(m->tag, 0, sizeof(m->tag)); /* nobody can come to wait for this one */
            m->virtual_now = 0;
        }
        return true;
    }
    if (m->len[c] == 0)
        m->head_order[c] = ++m->order;
    m->queue[c][m->len[c]++] = s;
    m->waiting++;
    return false;
}

static void compare_released(struct model *m)
{
    for (size_t i = 0; i < nreleased; i++)
        cr_assert_eq(model_next(m), released[i]);
    cr_assert_null(model_next(m));
    nreleased = 0;
}

Test(throttle, agrees_with_a_model_on_random_histories)
{
    static struct sent pool[MODEL_MAX];

    for (int round = 0; round < 200; round++) {
        struct model *m = calloc(1, sizeof(*m));
        uint64_t biggest = 1 + any(MIB);
        struct throttle_stats stats;
        size_t used = 0;

        begin(1 + any(round % 2 == 0 ? 1000000 : GIB));
        throttle_get_stats(t, now_ns, &stats);
        m->rate = stats.rate;
        m->at = T0;
        m->owed = -(__int128)QOS_BURST_NS * m->rate;
        memset(pool, 0, sizeof(pool));
        while (used < MODEL_MAX || m->waiting > 0) {
            uint64_t what = any(10);

            if (what < 6 && used < MODEL_MAX) {
                uint32_t c = (uint32_t)any(MODEL_CLIENTS);
                uint64_t cost = 1 + any(biggest);
                struct sent *s = &pool[used++];
                bool expected = model_offer(m, s, c, cost);

                cr_assert_eq(offer(s, c, cost), expected);
            } else if (what == 6 && used > 0) {
                struct sent *s = &pool[any(used)];
                bool expected = false;

                for (uint32_t c = 0; c < MODEL_CLIENTS; c++) {
                    for (size_t i = 0; i < m->len[c]; i++) {
                        if (m->queue[c][i] == s) {
                            model_remove(m, c, i);
                            expected = true;
                            break;
                        }
                    }
                }
                cr_assert_eq(throttle_cancel(t, &s->q, now_ns), expected);
            } else if (armed_ns != UINT64_MAX) {
                uint64_t late = any(3) == 0 ? any(20 * NS_PER_MS) : 0;

                nreleased = 0;
                now_ns = (armed_ns > now_ns ? armed_ns : now_ns) + late;
                model_time(m, now_ns);
                armed_ns = UINT64_MAX;
                throttle_run(t, now_ns);
                compare_released(m);
            } else {
                now_ns += any(NS_PER_S);
                model_time(m, now_ns);
            }
            cr_assert(m->waiting == 0 || armed_ns != UINT64_MAX);
        }
        throttle_get_stats(t, now_ns, &stats);
        cr_assert_eq(stats.waiting, 0);
        cr_assert_eq(stats.waiting_bytes, 0);
        end();
        free(m);
    }
}
