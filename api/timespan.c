/* Parsing of Azure Monitor's time arguments. No state, no locks. */
#include "api/timespan.h"

#include <string.h>

#include "common/clock.h"
#include "common/url.h"

#define SECOND       ((int64_t)NS_PER_S)
#define MINUTE       (60 * SECOND)
#define HOUR         (60 * MINUTE)
#define DAY          (24 * HOUR)
#define DURATION_MAX (1000 * DAY)
#define TEXT_MAX     160

const struct grain grains[] = {
    {"PT1M", MINUTE}, {"PT5M", 5 * MINUTE}, {"PT15M", 15 * MINUTE}, {"PT30M", 30 * MINUTE},
    {"PT1H", HOUR},   {"PT6H", 6 * HOUR},   {"PT12H", 12 * HOUR},   {"P1D", DAY},
};
const size_t grain_count = sizeof grains / sizeof grains[0];

const struct grain *grain_find(int64_t ns, bool up)
{
    for (size_t i = 0; i < grain_count; i++) {
        if (grains[i].ns == ns || (up && grains[i].ns > ns)) {
            return &grains[i];
        }
    }
    return NULL;
}

/* The units in the order ISO 8601 wants them; `time` ones stand behind the T. */
static const struct unit {
    char letter;
    bool time;
    int64_t ns;
} units[] = {
    {'W', false, 7 * DAY}, {'D', false, DAY},   {'H', true, HOUR},
    {'M', true, MINUTE},   {'S', true, SECOND},
};
#define UNIT_COUNT (sizeof units / sizeof units[0])

static char upper(char c)
{
    return (char)(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
}

bool duration_parse(const char *text, int64_t *ns)
{
    int64_t total = 0;
    size_t next = 0; /* the first unit that may still come */
    bool time = false;

    if (upper(*text++) != 'P' || *text == '\0') {
        return false;
    }
    while (*text != '\0') {
        if (!time && upper(*text) == 'T') {
            time = true;
            text++;
        }
        int64_t n = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 9; digits++) {
            n = n * 10 + (*text++ - '0');
        }
        while (next < UNIT_COUNT &&
               (units[next].letter != upper(*text) || units[next].time != time)) {
            next++;
        }
        if (digits == 0 || next == UNIT_COUNT || n > DURATION_MAX / units[next].ns) {
            return false;
        }
        total += n * units[next++].ns;
        text++;
    }
    if (total <= 0 || total > DURATION_MAX) {
        return false;
    }
    *ns = total;
    return true;
}

/* A moment. The '+' of an offset arrives as a space when the client did not encode it. */
static bool parse_moment(char *text, int64_t *ns)
{
    char *space = strrchr(text, ' ');

    if (space != NULL && space - text > 10) {
        *space = '+';
    }
    return clock_parse_iso(text, ns);
}

bool timespan_parse(const char *text, int64_t now, int64_t *start, int64_t *end)
{
    char once[TEXT_MAX], again[TEXT_MAX];
    size_t len = strlen(text);
    int64_t length;

    if (len >= sizeof once) {
        return false;
    }
    memcpy(once, text, len + 1);
    if (strchr(once, '%') != NULL) {
        if (url_decode(once, len, false, again, sizeof again) < 0) {
            return false;
        }
        memcpy(once, again, strlen(again) + 1);
    }

    char *second = strchr(once, '/');
    if (second == NULL) {
        if (!duration_parse(once, &length)) {
            return false;
        }
        *end = now;
        *start = now - length;
        return *start >= 0;
    }
    *second++ = '\0';
    if (duration_parse(once, &length)) {
        if (!parse_moment(second, end)) {
            return false;
        }
        *start = *end - length;
    } else if (duration_parse(second, &length)) {
        if (!parse_moment(once, start)) {
            return false;
        }
        *end = *start + length;
    } else if (!parse_moment(once, start) || !parse_moment(second, end)) {
        return false;
    }
    return *start >= 0 && *start < *end;
}
