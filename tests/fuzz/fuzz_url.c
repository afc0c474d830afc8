/* libFuzzer: what a request line holds. The input is taken as an escape sequence, a query, a listen
 * address and a date-time; results keep inside their buffers and read back. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/url.h"
#include "common/uuid.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* What was decoded, encoded again, decodes to the same. */
static void check_decoding(const uint8_t *data, size_t size)
{
    char *out = malloc(size + 1), *again = malloc(size + 1), *encoded;
    long len = url_decode((const char *)data, size, false, out, size + 1);

    require(len <= (long)size);
    if (len >= 0) {
        require(strlen(out) == (size_t)len);
        encoded = url_encode(out);
        require(url_decode(encoded, strlen(encoded), false, again, size + 1) == len);
        require(strcmp(out, again) == 0);
        free(encoded);
    }
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), host[32], value[32], iso[CLOCK_ISO_MAX],
         uuid_text[UUID_TEXT_MAX];
    struct uuid uuid, same_uuid;
    int64_t ns, same;
    uint16_t port;

    memcpy(text, data, size);
    text[size] = '\0';
    check_decoding(data, size);
    if (url_query_get(text, "api-version", value, sizeof(value)) == 1)
        require(strlen(value) < sizeof(value));
    if (url_split_host_port(text, host, sizeof(host), &port))
        require(*host != '\0' && strlen(host) < sizeof(host));
    if (clock_parse_iso(text, &ns))
        require(ns >= 0 && clock_parse_iso(clock_format_iso(ns, 9, iso), &same) && same == ns);
    if (uuid_parse(text, &uuid))
        require(uuid_parse(uuid_format(&uuid, uuid_text), &same_uuid) &&
                uuid_equal(&uuid, &same_uuid));
    free(text);
    return 0;
}
