/* libFuzzer: record marking. The input is a stream that arrives in pieces; a record must come out
 * the same whether it was whole in one piece or not, and never longer than allowed. The first byte
 * sets the pieces' length. */
#include <stdlib.h>
#include <string.h>

#include "agent/rpc/record.h"
#include "agent/rpc/rpc.h"

static struct buffer_pool pool;

static void relieved(void *arg)
{
    (void)arg;
}

/* A hash of all records, and how the stream ended, when it comes in pieces. */
static uint64_t run(const uint8_t *data, size_t size, size_t piece, bool direct)
{
    struct record_in in = {0};
    uint64_t hash = 0;

    while (size > 0) {
        uint8_t *where = NULL;
        size_t n = size < piece ? size : piece, space = direct ? record_space(&in, &where) : 0;
        enum record_status status;
        const uint8_t *at = data;
        struct record out;

        if (space > 0) {
            n = n < space ? n : space;
            memcpy(where, data, n);
            at += n;
            status = record_received(&in, n, &out);
        } else {
            status = record_next(&in, &pool, &at, data + n, &out);
        }
        if (status == RECORD_READY) {
            if (out.len > RPC_MAX_RECORD)
                abort();
            hash = hash * 31 + out.len + 1;
            for (uint32_t i = 0; i < out.len; i++)
                hash = hash * 31 + out.data[i];
            rbuf_put(&pool, out.buf);
        } else if (status != RECORD_MORE) {
            hash = hash * 31 + (unsigned)status;
            break;
        }
        size -= (size_t)(at - data);
        data = at;
    }
    record_reset(&in, &pool);
    if (pool_used(&pool) != 0)
        abort();
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece;
    uint64_t whole;

    if (size < 2)
        return 0;
    if (pool.hard == 0)
        pool_init(&pool, (size_t)64 << 20, relieved, NULL);
    piece = 1 + data[0];
    whole = run(data + 1, size - 1, size, false);
    if (run(data + 1, size - 1, piece, false) != whole ||
        run(data + 1, size - 1, piece, true) != whole)
        abort();
    return 0;
}
