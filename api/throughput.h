/*
 * The throughput and size rules of pools and volumes (anf-api.md C.1 to C.5, C.8; the choices of
 * the design). Pure: numbers in, numbers out. Sizes are bytes, throughput is MiB/s, moments are ns
 * since the Unix epoch.
 */
#ifndef API_THROUGHPUT_H
#define API_THROUGHPUT_H

#include <stdbool.h>
#include <stdint.h>

#define GIB (INT64_C(1) << 30)
#define TIB (INT64_C(1) << 40)

#define POOL_SIZE_STEP TIB
#define POOL_SIZE_MIN  TIB
#define POOL_SIZE_MAX  (2048 * TIB)

#define VOLUME_SIZE_STEP GIB
#define MANUAL_MIN_MIBPS 1.0 /* least of a volume in a pool of manual QoS */

#define FLEXIBLE_MIN_MIBPS     128.0 /* included in every Flexible pool; taken when none is given */
#define FLEXIBLE_MIBPS_PER_TIB 640.0
/* After a raise of a Flexible pool's throughput it may not be lowered for this long. */
#define FLEXIBLE_COOLDOWN_NS (INT64_C(24) * 3600 * 1000000000)

/* Which kind of volume: its size range and ceiling. */
enum volume_kind { VOLUME_REGULAR, VOLUME_LARGE, VOLUME_BREAKTHROUGH };
enum volume_kind volume_kind_of(bool is_large, bool is_breakthrough);
int64_t volume_size_min(enum volume_kind kind);
int64_t volume_size_max(enum volume_kind kind);
/* The most a volume of manual QoS can be given, and the cap of automatic QoS. */
double volume_ceiling_mibps(enum volume_kind kind);

/* MiB/s that a TiB of a service level gives; 0 for Flexible (chosen per pool) and for levels that
 * have no rate. */
double service_level_rate(const char *service_level);
bool service_level_is_flexible(const char *service_level);

/* A volume's limit under automatic QoS: rate × quota, not above the ceiling. */
double auto_throughput_mibps(const char *service_level, int64_t quota, enum volume_kind kind);
/* A pool's total: rate × size, or the custom throughput of a Flexible one (128 when `custom` is 0).
 */
double pool_total_mibps(const char *service_level, int64_t size, double custom);
/* Most that a Flexible pool of a size can be given. */
double flexible_max_mibps(int64_t size);
/* Automatic to manual QoS: what a volume keeps. */
double converted_mibps(double automatic, enum volume_kind kind);

/* Whether a sum of volumes' throughput fits into a pool. Decimal fractions such as 0.1 are not
 * exact in binary, so sums are compared in thousandths of a MiB/s, the finest step that the API
 * knows. */
bool throughput_fits(double sum, double total);
/* Milliseconds are nothing to a limit: bytes per second of a limit in MiB/s, rounded to the
 * nearest, at least 1. */
int64_t throughput_bytes_per_second(double mibps);

/* Whether a Flexible pool may go from one throughput to another now; else *wait_ns is the time
 * left. */
bool flexible_change_allowed(double from, double to, int64_t cooldown_until, int64_t now,
                             int64_t *wait_ns);
/* cooldown_until after a change that was made: a raise starts it anew. */
int64_t flexible_cooldown_after(double from, double to, int64_t cooldown_until, int64_t now);

/* maximumNumberOfFiles of a quota (C.8). */
int64_t volume_max_files(int64_t quota, enum volume_kind kind);

#endif
