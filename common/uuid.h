/* UUIDs (RFC 4122): 16 bytes in network order, and their 36-character lower-case text. */
#ifndef COMMON_UUID_H
#define COMMON_UUID_H

#include <stdbool.h>
#include <stdint.h>

#define UUID_TEXT_MAX 37

struct uuid {
    uint8_t b[16];
};

/* A random (version 4) UUID from the system's generator. */
struct uuid uuid_random(void);
/* A name-based UUID (version 8: keyed hash): the same for the same space and name. */
struct uuid uuid_derive(const struct uuid *space, const char *name);
char *uuid_format(const struct uuid *u, char out[static UUID_TEXT_MAX]);
/* Accepts upper and lower case; false for anything that is not exactly 36 characters of a UUID. */
bool uuid_parse(const char *text, struct uuid *out);
bool uuid_equal(const struct uuid *a, const struct uuid *b);

#endif
