/* URLs as they come in. No state. */
#include "common/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/number.h"

#define QUERY_NAME_MAX 256

long url_decode(const char *in, size_t len, bool plus, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = in[i];

        if (c == '%') {
            int high, low;

            if (len - i < 3 || (high = hex_value(in[i + 1])) < 0 ||
                (low = hex_value(in[i + 2])) < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0' || n + 1 >= size)
            return -1;
        out[n++] = c;
    }
    if (size == 0)
        return -1;
    out[n] = '\0';
    return (long)n;
}

int url_query_get(const char *query, const char *name, char *out, size_t size)
{
    char decoded[QUERY_NAME_MAX];
    const char *p = query;

    while (p && *p != '\0') {
        size_t pair = strcspn(p, "&");
        const char *equals = memchr(p, '=', pair);
        size_t name_len = equals ? (size_t)(equals - p) : pair;

        /* A name that cannot be decoded is not the one that is asked for. */
        if (url_decode(p, name_len, true, decoded, sizeof(decoded)) >= 0 &&
            strcasecmp(decoded, name) == 0) {
            const char *value = equals ? equals + 1 : p + pair;

            return url_decode(value, (size_t)(p + pair - value), true, out, size) < 0 ? -1 : 1;
        }
        p += pair;
        if (*p == '&')
            p++;
    }
    return 0;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

char *url_encode(const char *text)
{
    struct buf b = {0};

    for (const char *p = text; *p != '\0'; p++) {
        if (is_unreserved(*p))
            buf_add(&b, p, 1);
        else
            buf_printf(&b, "%%%02X", (unsigned char)*p);
    }
    return buf_take(&b);
}

static bool parse_port(const char *text, uint16_t *port)
{
    unsigned value = 0;

    if (*text == '\0')
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9')
            return false;
        value = value * 10 + (unsigned)(*p - '0');
        if (value > UINT16_MAX)
            return false;
    }
    *port = (uint16_t)value;
    return true;
}

bool url_split_host_port(const char *text, char *host, size_t size, uint16_t *port)
{
    const char *start = text, *end, *colon;

    if (*text == '[') {
        start++;
        end = strchr(start, ']');
        colon = end ? end + 1 : NULL;
    } else {
        end = colon =
            strchr(start, ':'); /* a second colon is no digit of a port, so it fails below */
    }
    if (!end || end == start || *colon != ':' || (size_t)(end - start) >= size ||
        !parse_port(colon + 1, port))
        return false;
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    return true;
}
