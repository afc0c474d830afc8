/*
 * The endpoint addresses that an agent offers (design D9): a JSON array of single addresses, ranges
 * and prefixes. Pure; the text comes from agents and is not trusted.
 */
#ifndef API_ADDRESS_LIST_H
#define API_ADDRESS_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_TEXT_MAX   16
#define ADDRESS_RANGES_MAX 64

struct address_range {
    uint32_t first, last; /* host byte order, both usable */
};

struct address_list {
    size_t count;
    struct address_range range[ADDRESS_RANGES_MAX];
};

/* Reads ["127.77.0.0/24", "10.0.0.1-10.0.0.9", "10.0.1.7"]. A prefix (/8 to /32) leaves out its
 * network and broadcast addresses, but for /31 (RFC 3021) and /32. False with the offending text in
 * `why` (may be NULL) for anything else: an empty list, bits set behind a prefix, a range that runs
 * backwards, multicast, 0.0.0.0/8 or 240.0.0.0/4. */
bool address_list_parse(const json_t *array, struct address_list *out, char *why, size_t size);

uint64_t address_list_size(const struct address_list *list);
/* The n-th usable address as dotted text; false past the end. */
bool address_list_at(const struct address_list *list, uint64_t n,
                     char out[static ADDRESS_TEXT_MAX]);

#endif
