/* UUIDs by libsodium. No state but libsodium's own initialisation, done once. */
#include "common/uuid.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "common/log.h"
#include "common/number.h"

static pthread_once_t sodium_once = PTHREAD_ONCE_INIT;

static void start_sodium(void)
{
    if (sodium_init() < 0)
        fatal("libsodium cannot start: no source of random numbers");
}

static void set_version(struct uuid *u, unsigned version)
{
    u->b[6] = (uint8_t)((u->b[6] & 0x0f) | version << 4);
    u->b[8] = (uint8_t)((u->b[8] & 0x3f) | 0x80); /* the variant of RFC 4122 */
}

struct uuid uuid_random(void)
{
    struct uuid u;

    pthread_once(&sodium_once, start_sodium);
    randombytes_buf(u.b, sizeof(u.b));
    set_version(&u, 4);
    return u;
}

struct uuid uuid_derive(const struct uuid *space, const char *name)
{
    struct uuid u;

    _Static_assert(sizeof(u.b) >= crypto_generichash_BYTES_MIN, "BLAKE2b gives 16 bytes");
    _Static_assert(sizeof(space->b) >= crypto_generichash_KEYBYTES_MIN, "and takes a key of 16");
    pthread_once(&sodium_once, start_sodium);
    crypto_generichash(u.b, sizeof(u.b), (const unsigned char *)name, strlen(name), space->b,
                       sizeof(space->b));
    set_version(&u, 8);
    return u;
}

/* The text has a dash before these bytes. */
static bool dash_before(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

char *uuid_format(const struct uuid *u, char out[static UUID_TEXT_MAX])
{
    static const char digits[] = "0123456789abcdef";
    char *p = out;

    for (size_t i = 0; i < sizeof(u->b); i++) {
        if (dash_before(i))
            *p++ = '-';
        *p++ = digits[u->b[i] >> 4];
        *p++ = digits[u->b[i] & 15];
    }
    *p = '\0';
    return out;
}

bool uuid_parse(const char *text, struct uuid *out)
{
    struct uuid u;
    const char *p = text;

    for (size_t i = 0; i < sizeof(u.b); i++) {
        int high, low;

        if (dash_before(i) && *p++ != '-')
            return false;
        /* The terminating NUL is no digit, so nothing past it is read. */
        if ((high = hex_value(*p)) < 0 || (low = hex_value(p[1])) < 0)
            return false;
        u.b[i] = (uint8_t)(high << 4 | low);
        p += 2;
    }
    if (*p != '\0')
        return false;
    *out = u;
    return true;
}

bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}
