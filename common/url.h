/* URLs as they come in: percent-decoding, query look-up, splitting "ADDR:PORT". All input is
 * hostile. */
#ifndef COMMON_URL_H
#define COMMON_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes %XX (and '+' as a space when `plus`) into `out` of `size` bytes. Returns the length, or
 * -1 on a bad escape, an encoded NUL, or when it does not fit. */
long url_decode(const char *in, size_t len, bool plus, char *out, size_t size);

/* The decoded value of the first query parameter `name`; names are decoded and compared without
 * case. `query` is the raw text after '?', or NULL. 1 found, 0 absent, -1 malformed or longer than
 * `size`. */
int url_query_get(const char *query, const char *name, char *out, size_t size);

/* Percent-encodes all but RFC 3986's unreserved characters; the caller frees it. */
char *url_encode(const char *text);

/* "127.0.0.1:8443", "localhost:80", "[::1]:8443": host (without brackets) and port 0 to 65535. */
bool url_split_host_port(const char *text, char *host, size_t size, uint16_t *port);

#endif
