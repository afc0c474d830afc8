/*
 * The addresses that this agent may serve on, as given with --endpoints: single IPv4 addresses,
 * ranges and prefixes, in a comma list. The control plane picks from them; an address outside is
 * never listened on, whatever a spec says. Pure.
 */
#ifndef AGENT_CONTROL_ADDRESSES_H
#define AGENT_CONTROL_ADDRESSES_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESSES_MAX_ENTRIES 64
#define ADDRESSES_TEXT_MAX    32 /* "255.255.255.254-255.255.255.255" */

struct address_entry {
    uint32_t first, last; /* host order; network and broadcast addresses of a prefix are left out */
    char text[ADDRESSES_TEXT_MAX];
};

struct addresses {
    size_t count;
    struct address_entry entry[ADDRESSES_MAX_ENTRIES];
};

/* Reads "127.77.0.0/24", "10.0.0.5,10.0.0.8-10.0.0.9". A prefix (/8 to /32) gives its hosts, a /31
 * and a /32 all of it. False with a sentence in `why` that names the entry and what is wrong with
 * it. */
bool addresses_parse(const char *text, struct addresses *out, char *why, size_t size);
bool addresses_contain(const struct addresses *a, struct in_addr address);
/* Entries as the control plane reads them (a JSON array of texts); new reference. */
json_t *addresses_to_json(const struct addresses *a);

#endif
