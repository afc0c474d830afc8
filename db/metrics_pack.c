/* Packing a volume's hour; see the header. Called by metrics_db.c. */
#include "db/metrics_pack.h"

#include <string.h>

#define PACK_VERSION   1
#define FLAG_HAS_GAUGE 1

static uint8_t *put_number(uint8_t *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    return at;
}

static const uint8_t *get_number(const uint8_t *at, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; at && at < end && shift < 64; shift += 7) {
        /* The tenth byte has one bit left. */
        if (shift == 63 && *at > 1)
            return NULL;
        *v |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80))
            return at;
    }
    return NULL;
}

static unsigned slots_of(const struct metrics_hour *hour)
{
    return METRICS_SLOTS / hour->minutes;
}

size_t metrics_pack(const struct metrics_hour *hour, uint8_t *out)
{
    uint8_t *at = out;

    *at++ = PACK_VERSION;
    *at++ = (uint8_t)hour->minutes;
    for (unsigned i = 0; i < slots_of(hour); i++) {
        const struct metrics_slot *slot = &hour->slot[i];

        if (!slot->used)
            continue;
        *at++ = (uint8_t)i;
        *at++ = slot->has_gauge ? FLAG_HAS_GAUGE : 0;
        for (size_t k = 0; k < METRIC_SUM_COUNT; k++)
            at = put_number(at, slot->sum[k]);
        for (size_t k = 0; slot->has_gauge && k < METRIC_GAUGE_COUNT; k++)
            at = put_number(at, slot->gauge[k]);
    }
    return (size_t)(at - out);
}

bool metrics_unpack(const void *data, size_t len, struct metrics_hour *out)
{
    const uint8_t *at = data, *end = at + len;

    memset(out, 0, sizeof *out);
    if (len < 2 || at[0] != PACK_VERSION || (at[1] != 1 && at[1] != 5))
        return false;
    out->minutes = at[1];
    at += 2;
    while (at && at < end) {
        struct metrics_slot *slot;

        if (end - at < 2 || at[0] >= slots_of(out) || at[1] > FLAG_HAS_GAUGE ||
            out->slot[at[0]].used)
            return false;
        slot = &out->slot[at[0]];
        slot->used = true;
        slot->has_gauge = at[1] == FLAG_HAS_GAUGE;
        at += 2;
        for (size_t k = 0; at && k < METRIC_SUM_COUNT; k++)
            at = get_number(at, end, &slot->sum[k]);
        for (size_t k = 0; at && slot->has_gauge && k < METRIC_GAUGE_COUNT; k++)
            at = get_number(at, end, &slot->gauge[k]);
    }
    return at != NULL;
}

/* Sums stay at the largest number rather than begin anew: agents send them. */
static void add_up(uint64_t *sum, uint64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = UINT64_MAX;
}

static void merge(struct metrics_slot *to, const struct metrics_slot *from)
{
    to->used = true;
    for (size_t k = 0; k < METRIC_SUM_COUNT; k++)
        add_up(&to->sum[k], from->sum[k]);
    if (from->has_gauge) {
        to->has_gauge = true;
        memcpy(to->gauge, from->gauge, sizeof to->gauge);
    }
}

void metrics_fold(struct metrics_hour *hour)
{
    struct metrics_hour folded = {.minutes = 5};

    if (hour->minutes == 5)
        return;
    for (unsigned i = 0; i < METRICS_SLOTS; i++)
        if (hour->slot[i].used)
            merge(&folded.slot[i / 5], &hour->slot[i]);
    *hour = folded;
}

void metrics_add(struct metrics_hour *hour, unsigned minute,
                 const struct metric_increment *increment)
{
    struct metrics_slot slot = {.used = true, .has_gauge = true};

    memcpy(slot.sum, increment->sum, sizeof slot.sum);
    memcpy(slot.gauge, increment->gauge, sizeof slot.gauge);
    merge(&hour->slot[minute / hour->minutes], &slot);
}

bool metrics_last_gauge(const struct metrics_hour *hour, unsigned minute,
                        uint64_t gauge[METRIC_GAUGE_COUNT])
{
    for (unsigned i = minute / hour->minutes + 1; i-- > 0;)
        if (hour->slot[i].has_gauge) {
            memcpy(gauge, hour->slot[i].gauge, sizeof hour->slot[i].gauge);
            return true;
        }
    return false;
}
