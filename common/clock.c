/* Clocks and ISO 8601. No state. */
#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DAY_S    INT64_C(86400)
#define YEAR_MIN 1970
#define YEAR_MAX 2200

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    /* Fails only for a clock that the kernel does not have; both are in every Linux since 2.6.39.
     */
    if (clock_gettime(id, &ts) != 0)
        abort();
    return (int64_t)ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
    return (uint64_t)read_clock(CLOCK_BOOTTIME);
}

int64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

char *clock_format_iso(int64_t unix_ns, int digits, char out[static CLOCK_ISO_MAX])
{
    int64_t ns = unix_ns % (int64_t)NS_PER_S;
    time_t s = unix_ns / (int64_t)NS_PER_S;
    struct tm tm;
    size_t len;

    if (ns < 0) {
        ns += (int64_t)NS_PER_S;
        s--;
    }
    /* An int64_t of nanoseconds lies in the years 1677 to 2262: four digits always. */
    gmtime_r(&s, &tm);
    len = strftime(out, CLOCK_ISO_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    if (digits > 0) {
        if (digits > 9)
            digits = 9;
        snprintf(out + len, CLOCK_ISO_MAX - len, ".%09d", (int)ns);
        len += 1 + (size_t)digits;
    }
    out[len] = 'Z';
    out[len + 1] = '\0';
    return out;
}

/* Reads exactly `count` digits; false at anything else. */
static bool take_digits(const char **p, int count, int *value)
{
    *value = 0;
    for (int i = 0; i < count; i++, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        *value = *value * 10 + (**p - '0');
    }
    return true;
}

static bool take(const char **p, char c)
{
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))
        return 29;
    return days[month - 1];
}

/* Days since 1970-01-01. */
static int64_t days_from_epoch(int year, int month, int day)
{
    int64_t days = 0;

    for (int y = YEAR_MIN; y < year; y++)
        days += days_in_month(y, 2) == 29 ? 366 : 365;
    for (int m = 1; m < month; m++)
        days += days_in_month(year, m);
    return days + day - 1;
}

static bool take_date(const char **p, int64_t *days)
{
    int year, month, day;

    if (!take_digits(p, 4, &year) || !take(p, '-') || !take_digits(p, 2, &month) || !take(p, '-') ||
        !take_digits(p, 2, &day))
        return false;
    if (year < YEAR_MIN || year > YEAR_MAX || month < 1 || month > 12 || day < 1 ||
        day > days_in_month(year, month))
        return false;
    *days = days_from_epoch(year, month, day);
    return true;
}

/* ".fraction": at least one digit; more than nine are read and dropped. */
static bool take_fraction(const char **p, int64_t *ns)
{
    int64_t unit = (int64_t)NS_PER_S / 10;

    if (**p < '0' || **p > '9')
        return false;
    for (*ns = 0; **p >= '0' && **p <= '9'; (*p)++, unit /= 10)
        *ns += unit * (**p - '0');
    return true;
}

static bool take_time(const char **p, int64_t *seconds, int64_t *ns)
{
    int hour, minute, second = 0;

    *ns = 0;
    if (!take_digits(p, 2, &hour) || !take(p, ':') || !take_digits(p, 2, &minute))
        return false;
    if (take(p, ':') && (!take_digits(p, 2, &second) || (take(p, '.') && !take_fraction(p, ns))))
        return false;
    *seconds = INT64_C(3600) * hour + INT64_C(60) * minute + second;
    return hour < 24 && minute < 60 && second < 60;
}

/* "Z", "+hh:mm", "-hhmm" or nothing. */
static bool take_offset(const char **p, int64_t *seconds)
{
    int sign, hour, minute;

    *seconds = 0;
    if (**p == '\0' || take(p, 'Z') || take(p, 'z'))
        return true;
    if (**p != '+' && **p != '-')
        return false;
    sign = *(*p)++ == '-' ? -1 : 1;
    if (!take_digits(p, 2, &hour))
        return false;
    take(p, ':');
    if (!take_digits(p, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *seconds = sign * (INT64_C(3600) * hour + INT64_C(60) * minute);
    return true;
}

bool clock_parse_iso(const char *text, int64_t *unix_ns)
{
    int64_t days, seconds, ns, offset, total;
    const char *p = text;

    if (!take_date(&p, &days))
        return false;
    if (!take(&p, 'T') && !take(&p, 't') && !take(&p, ' '))
        return false;
    if (!take_time(&p, &seconds, &ns) || !take_offset(&p, &offset) || *p != '\0')
        return false;
    total = days * DAY_S + seconds - offset;
    if (total < 0 || total >= days_from_epoch(YEAR_MAX + 1, 1, 1) * DAY_S)
        return false;
    *unix_ns = total * (int64_t)NS_PER_S + ns;
    return true;
}
