/* Parsing of --endpoints. Called once at start, read afterwards; no state, no locks. */
#include "agent/control/addresses.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_address(const char *text, uint32_t *out)
{
    struct in_addr a;

    if (inet_pton(AF_INET, text, &a) != 1)
        return false;
    *out = ntohl(a.s_addr);
    return true;
}

/* An address that a host may have: not "this network", multicast or reserved (RFC 6890). */
static bool usable(uint32_t address)
{
    return address >> 24 >= 1 && address >> 24 <= 223;
}

/* NULL, or what is wrong. */
static const char *parse_prefix(const char *address, const char *bits, struct address_entry *out)
{
    char *end;
    unsigned long length = strtoul(bits, &end, 10);
    uint32_t base, host, edge;

    if (bits[0] < '0' || bits[0] > '9' || *end != '\0' || length < 8 || length > 32)
        return "a prefix has 8 to 32 bits";
    if (!parse_address(address, &base))
        return "not an IPv4 address";
    host = length == 32 ? 0 : UINT32_MAX >> length;
    if ((base & host) != 0)
        return "there are bits set behind the prefix";
    edge = length >= 31 ? 0 : 1; /* RFC 3021: a /31 has no broadcast address */
    out->first = base + edge;
    out->last = base + host - edge;
    return NULL;
}

static const char *parse_entry(char *text, struct address_entry *out)
{
    const char *wrong = NULL;
    char *mark = strpbrk(text, "/-");
    bool prefix = mark && *mark == '/';

    if (mark)
        *mark++ = '\0';
    if (prefix)
        wrong = parse_prefix(text, mark, out);
    else if (!parse_address(text, &out->first) || !parse_address(mark ? mark : text, &out->last))
        wrong = "not an IPv4 address";
    if (!wrong && out->first > out->last)
        wrong = "the range runs backwards";
    if (!wrong && (!usable(out->first) || !usable(out->last)))
        wrong = "multicast, reserved and 0.0.0.0/8 addresses cannot be served on";
    return wrong;
}

static const char *add_entry(struct addresses *out, const char *text, size_t len)
{
    struct address_entry *e = &out->entry[out->count];
    char copy[ADDRESSES_TEXT_MAX];
    const char *wrong;

    if (len == 0)
        return "an entry is empty";
    if (len >= sizeof(copy))
        return "not an IPv4 address";
    memcpy(copy, text, len);
    copy[len] = '\0';
    memcpy(e->text, copy, len + 1);
    wrong = parse_entry(copy, e);
    for (size_t i = 0; !wrong && i < out->count; i++)
        if (e->first <= out->entry[i].last && out->entry[i].first <= e->last)
            wrong = "it overlaps another entry";
    if (!wrong)
        out->count++;
    return wrong;
}

bool addresses_parse(const char *text, struct addresses *out, char *why, size_t size)
{
    out->count = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        const char *wrong =
            out->count < ADDRESSES_MAX_ENTRIES ? add_entry(out, p, len) : "more than 64 entries";

        if (wrong) {
            snprintf(why, size, "\"%.*s\": %s", (int)(len < 64 ? len : 64), p, wrong);
            return false;
        }
        p += len;
        if (*p == '\0')
            return true;
    }
}

bool addresses_contain(const struct addresses *a, struct in_addr address)
{
    uint32_t value = ntohl(address.s_addr);

    for (size_t i = 0; i < a->count; i++)
        if (value >= a->entry[i].first && value <= a->entry[i].last)
            return true;
    return false;
}

json_t *addresses_to_json(const struct addresses *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->count; i++)
        json_array_append_new(list, json_string(a->entry[i].text));
    return list;
}
