/*
 * XDR (RFC 4506) cursors for the data path: RPC headers, credentials and NFSv3. Bounds-checked, no
 * allocation: opaque data is returned as a pointer into the record. A cursor that failed stays
 * failed and yields zeros, so a decoder checks once at its end. (MOUNT, portmap and the lock
 * protocols use libtirpc.)
 */
#ifndef AGENT_RPC_XDR_H
#define AGENT_RPC_XDR_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct xdr_in {
    const uint8_t *at, *end;
    bool failed;
};

struct xdr_out {
    uint8_t *start, *at, *end;
    bool failed; /* did not fit */
};

static inline size_t xdr_pad(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static inline size_t xdr_left(const struct xdr_in *x)
{
    return x->failed ? 0 : (size_t)(x->end - x->at);
}

static inline uint32_t xdr_get_u32(struct xdr_in *x)
{
    uint32_t v;

    if (xdr_left(x) < 4) {
        x->failed = true;
        return 0;
    }
    memcpy(&v, x->at, 4);
    x->at += 4;
    return ntohl(v);
}

static inline uint64_t xdr_get_u64(struct xdr_in *x)
{
    uint64_t high = xdr_get_u32(x);

    return high << 32 | xdr_get_u32(x);
}

/* XDR booleans are 0 or 1 (RFC 4506 4.4); anything else fails the decode. */
static inline bool xdr_get_bool(struct xdr_in *x)
{
    uint32_t v = xdr_get_u32(x);

    if (v > 1)
        x->failed = true;
    return v == 1;
}

/* `len` bytes and their padding in place; NULL when the record is shorter. */
static inline const uint8_t *xdr_get_fixed(struct xdr_in *x, size_t len)
{
    const uint8_t *p = x->at;

    if (xdr_left(x) < len || xdr_left(x) < xdr_pad(len)) {
        x->failed = true;
        return NULL;
    }
    x->at += xdr_pad(len);
    return p;
}

/* Variable opaque or string of at most `max` bytes, in place. */
static inline const uint8_t *xdr_get_opaque(struct xdr_in *x, size_t max, uint32_t *len)
{
    *len = xdr_get_u32(x);
    if (x->failed || *len > max) {
        x->failed = true;
        *len = 0;
        return NULL;
    }
    return xdr_get_fixed(x, *len);
}

static inline size_t xdr_room(const struct xdr_out *x)
{
    return x->failed ? 0 : (size_t)(x->end - x->at);
}

static inline size_t xdr_written(const struct xdr_out *x)
{
    return (size_t)(x->at - x->start);
}

static inline void xdr_put_u32(struct xdr_out *x, uint32_t v)
{
    v = htonl(v);
    if (xdr_room(x) < 4) {
        x->failed = true;
        return;
    }
    memcpy(x->at, &v, 4);
    x->at += 4;
}

static inline void xdr_put_u64(struct xdr_out *x, uint64_t v)
{
    xdr_put_u32(x, (uint32_t)(v >> 32));
    xdr_put_u32(x, (uint32_t)v);
}

static inline void xdr_put_bool(struct xdr_out *x, bool v)
{
    xdr_put_u32(x, v ? 1 : 0);
}

/* Fixed opaque with zeroed padding. */
static inline void xdr_put_fixed(struct xdr_out *x, const void *data, size_t len)
{
    size_t padded = xdr_pad(len);

    if (xdr_room(x) < padded) {
        x->failed = true;
        return;
    }
    if (len > 0)
        memcpy(x->at, data, len);
    memset(x->at + len, 0, padded - len);
    x->at += padded;
}

static inline void xdr_put_opaque(struct xdr_out *x, const void *data, uint32_t len)
{
    xdr_put_u32(x, len);
    xdr_put_fixed(x, data, len);
}

#endif
