/*
 * Record marking over TCP (RFC 5531 section 11), the receiving side: finds records in a byte
 * stream.
 *
 * A record that lies whole in the bytes at hand is given out in place. One that does not is
 * gathered in a buffer of its size; the rest of its fragment may then be received straight into
 * that buffer (record_space). Fragments of any length are joined. A record over RPC_MAX_RECORD is
 * refused by its marks, before room is made for it.
 *
 * Used by one connection on one thread.
 */
#ifndef AGENT_RPC_RECORD_H
#define AGENT_RPC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/rpc/buffer.h"

struct record_in {
    struct rbuf *buf;   /* what was gathered, or NULL */
    uint32_t have;      /* bytes in it */
    uint32_t frag_left; /* of the present fragment */
    uint32_t fragments; /* begun in this record */
    bool in_fragment, last;
    uint8_t nmark;
    uint8_t mark[4];
};

struct record {
    const uint8_t *data;
    uint32_t len;
    struct rbuf
        *buf; /* holds the data: the caller's now; NULL when the data lies in the bytes given */
};

enum record_status {
    RECORD_MORE,  /* all bytes taken, no record complete */
    RECORD_READY, /* *out is one; call again for the next */
    RECORD_BAD,   /* oversize: close the connection */
    RECORD_NOMEM,
};

/* Takes bytes from *at up to `end`, moving *at. */
enum record_status record_next(struct record_in *r, struct buffer_pool *pool, const uint8_t **at,
                               const uint8_t *end, struct record *out);
/* Where the rest of the present fragment goes: its length, 0 when there is no such place now. */
size_t record_space(struct record_in *r, uint8_t **where);
/* `n` bytes (at most record_space's) were received there. RECORD_MORE or RECORD_READY. */
enum record_status record_received(struct record_in *r, size_t n, struct record *out);
/* True when a part of a record or mark is held. */
bool record_partial(const struct record_in *r);
void record_reset(struct record_in *r, struct buffer_pool *pool);

#endif
