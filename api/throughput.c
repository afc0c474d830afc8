/* The throughput and size rules; see the header. Called by the resource types and by volume_spec.c.
 */
#include "api/throughput.h"

#include <math.h>
#include <stddef.h>
#include <strings.h>

static const struct {
    int64_t min, max;
    double ceiling;
} kinds[] = {
    [VOLUME_REGULAR] = {50 * GIB, 100 * TIB, 4500},
    [VOLUME_LARGE] = {50 * TIB, 1024 * TIB, 12800},
    [VOLUME_BREAKTHROUGH] = {2400 * GIB, 2400 * TIB, 81920},
};

static const struct {
    const char *name;
    double rate;
} levels[] = {{"Standard", 16}, {"Premium", 64}, {"Ultra", 128}};

enum volume_kind volume_kind_of(bool is_large, bool is_breakthrough)
{
    return is_breakthrough ? VOLUME_BREAKTHROUGH : is_large ? VOLUME_LARGE : VOLUME_REGULAR;
}

int64_t volume_size_min(enum volume_kind kind)
{
    return kinds[kind].min;
}

int64_t volume_size_max(enum volume_kind kind)
{
    return kinds[kind].max;
}

double volume_ceiling_mibps(enum volume_kind kind)
{
    return kinds[kind].ceiling;
}

double service_level_rate(const char *service_level)
{
    for (size_t i = 0; service_level && i < sizeof levels / sizeof *levels; i++)
        if (strcasecmp(levels[i].name, service_level) == 0)
            return levels[i].rate;
    return 0;
}

bool service_level_is_flexible(const char *service_level)
{
    return service_level && strcasecmp(service_level, "Flexible") == 0;
}

/* Exact: a TiB is a power of two and the rates are small integers. */
static double tib(int64_t bytes)
{
    return (double)bytes / (double)TIB;
}

double auto_throughput_mibps(const char *service_level, int64_t quota, enum volume_kind kind)
{
    return fmin(service_level_rate(service_level) * tib(quota), kinds[kind].ceiling);
}

double pool_total_mibps(const char *service_level, int64_t size, double custom)
{
    if (service_level_is_flexible(service_level))
        return custom > 0 ? custom : FLEXIBLE_MIN_MIBPS;
    return service_level_rate(service_level) * tib(size);
}

double flexible_max_mibps(int64_t size)
{
    return fmax(FLEXIBLE_MIN_MIBPS, FLEXIBLE_MIBPS_PER_TIB * tib(size));
}

double converted_mibps(double automatic, enum volume_kind kind)
{
    return fmin(fmax(automatic, MANUAL_MIN_MIBPS), kinds[kind].ceiling);
}

bool throughput_fits(double sum, double total)
{
    return llround(sum * 1000) <= llround(total * 1000);
}

int64_t throughput_bytes_per_second(double mibps)
{
    return mibps * 1048576 < 1 ? 1 : llround(mibps * 1048576);
}

bool flexible_change_allowed(double from, double to, int64_t cooldown_until, int64_t now,
                             int64_t *wait_ns)
{
    *wait_ns = to < from && now < cooldown_until ? cooldown_until - now : 0;
    return *wait_ns == 0;
}

int64_t flexible_cooldown_after(double from, double to, int64_t cooldown_until, int64_t now)
{
    return to > from ? now + FLEXIBLE_COOLDOWN_NS : cooldown_until;
}

/* 95 % of one file per 32 KiB; at the published sizes the published numbers, which differ from that
 * by a few. */
static const struct {
    int64_t quota, files;
} published_files[] = {{1 * TIB, 31876709}, {10 * TIB, 318767099}, {50 * TIB, 1593835519}};

#define MIN_FILES         INT64_C(21251126)
#define MAX_FILES_REGULAR INT64_C(2147483632)
#define MAX_FILES_LARGE   INT64_C(15938355048)

int64_t volume_max_files(int64_t quota, enum volume_kind kind)
{
    int64_t cap = kind == VOLUME_REGULAR ? MAX_FILES_REGULAR : MAX_FILES_LARGE,
            files = quota / 32768 * 95 / 100;

    for (size_t i = 0; i < sizeof published_files / sizeof *published_files; i++)
        if (published_files[i].quota == quota)
            files = published_files[i].files;
    if (files < MIN_FILES)
        return MIN_FILES;
    return files < cap ? files : cap;
}
