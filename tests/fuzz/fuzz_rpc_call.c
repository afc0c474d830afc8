/* libFuzzer: the header and credential of a call. Nothing outside the record may be read, and what
 * is accepted keeps its bounds. */
#include <stdlib.h>
#include <string.h>

#include "agent/rpc/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rpc_call call;
    enum rpc_auth_stat why;
    uint8_t *record = malloc(size + 1), reply[64];
    enum rpc_parsed parsed;

    memset(&call, 0, sizeof(call));
    memcpy(record, data, size);
    parsed = rpc_parse_call(&call, record, size, &why);
    if (parsed == RPC_PARSED_CALL &&
        (call.cred.ngids > RPC_MAX_GIDS || call.cred.flavor > 1 || call.args.failed ||
         call.args.at < record || call.args.end != record + size || why != 0))
        abort();
    if (parsed == RPC_PARSED_DENIED &&
        (why == 0 || rpc_put_denied_auth(reply, call.xid, why) != 24))
        abort();
    free(record);
    return 0;
}
