/* Parsing and walking an agent's offered addresses. Called by enrolment and placement; no state, no
 * locks. */
#include "api/address_list.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX (2 * ADDRESS_TEXT_MAX)

static bool parse_address(const char *text, uint32_t *out)
{
    struct in_addr a;

    if (inet_pton(AF_INET, text, &a) != 1) {
        return false;
    }
    *out = ntohl(a.s_addr);
    return true;
}

/* An address that a host may have: not "this network", multicast or reserved (RFC 6890). */
static bool usable(uint32_t address)
{
    uint32_t top = address >> 24;

    return top >= 1 && top <= 223;
}

static bool parse_prefix(const char *address, const char *bits, struct address_range *out)
{
    char *end;
    uint32_t base;

    if (bits[0] < '0' || bits[0] > '9') {
        return false;
    }
    unsigned long length = strtoul(bits, &end, 10);
    if (*end != '\0' || length < 8 || length > 32 || !parse_address(address, &base)) {
        return false;
    }
    uint32_t host = length == 32 ? 0 : UINT32_MAX >> length;
    if ((base & host) != 0) {
        return false;
    }
    unsigned edge = length >= 31 ? 0 : 1;
    out->first = base + edge;
    out->last = base + host - edge;
    return true;
}

static bool parse_entry(const char *text, struct address_range *out)
{
    char copy[ENTRY_MAX];
    size_t len = strlen(text);

    if (len >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, len + 1);
    char *mark = strpbrk(copy, "/-");
    bool ok;
    if (mark == NULL) {
        ok = parse_address(copy, &out->first);
        out->last = out->first;
    } else {
        bool prefix = *mark == '/';
        *mark = '\0';
        ok = prefix ? parse_prefix(copy, mark + 1, out)
                    : parse_address(copy, &out->first) && parse_address(mark + 1, &out->last);
    }
    return ok && out->first <= out->last && usable(out->first) && usable(out->last);
}

bool address_list_parse(const json_t *array, struct address_list *out, char *why, size_t size)
{
    size_t count = json_array_size(array);

    out->count = 0;
    if (count == 0 || count > ADDRESS_RANGES_MAX) {
        if (why != NULL) {
            snprintf(why, size, "a list of 1 to %d entries", ADDRESS_RANGES_MAX);
        }
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (text == NULL || !parse_entry(text, &out->range[i])) {
            if (why != NULL) {
                snprintf(why, size, "entry %zu ('%.40s')", i, text == NULL ? "not a text" : text);
            }
            return false;
        }
    }
    out->count = count;
    return true;
}

uint64_t address_list_size(const struct address_list *list)
{
    uint64_t total = 0;

    for (size_t i = 0; i < list->count; i++) {
        total += (uint64_t)list->range[i].last - list->range[i].first + 1;
    }
    return total;
}

bool address_list_at(const struct address_list *list, uint64_t n, char out[static ADDRESS_TEXT_MAX])
{
    for (size_t i = 0; i < list->count; i++) {
        uint64_t here = (uint64_t)list->range[i].last - list->range[i].first + 1;
        if (n < here) {
            struct in_addr a = {.s_addr = htonl((uint32_t)(list->range[i].first + n))};
            return inet_ntop(AF_INET, &a, out, ADDRESS_TEXT_MAX) != NULL;
        }
        n -= here;
    }
    return false;
}
