/*
 * RPC messages (RFC 5531): the header and credential of a call, the headers of its replies. Pure;
 * every byte of a call is taken as hostile.
 */
#ifndef AGENT_RPC_MESSAGE_H
#define AGENT_RPC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/rpc/rpc.h"

#define RPC_MAX_AUTH    400 /* bytes of a credential or verifier's body, RFC 5531 section 8.2 */
#define RPC_MAX_MACHINE 255 /* appendix A */
/* Mark, xid, REPLY, MSG_ACCEPTED, a null verifier, accept_stat. */
#define RPC_ACCEPTED_HEADER 28

enum rpc_accept_stat {
    RPC_SUCCESS = 0,
    RPC_PROG_UNAVAIL = 1,
    RPC_PROG_MISMATCH = 2,
    RPC_PROC_UNAVAIL = 3,
    RPC_ACCEPT_GARBAGE_ARGS = 4,
    RPC_ACCEPT_SYSTEM_ERR = 5,
};

enum rpc_auth_stat {
    RPC_AUTHSTAT_OK = 0,
    RPC_AUTHSTAT_BADCRED = 1,      /* cannot be decoded */
    RPC_AUTHSTAT_REJECTEDCRED = 2, /* begin a new session */
    RPC_AUTHSTAT_BADVERF = 3,
    RPC_AUTHSTAT_TOOWEAK = 5,
};

enum rpc_parsed {
    RPC_PARSED_CALL,     /* all fields are set, args are the arguments */
    RPC_PARSED_GARBAGE,  /* no call at all: a reply, or too short to be answered */
    RPC_PARSED_MISMATCH, /* another RPC version; xid is set */
    RPC_PARSED_DENIED,   /* *auth says why; xid is set */
};

/* Fills xid, prog, vers, proc, cred and args of *call from a record. */
enum rpc_parsed rpc_parse_call(struct rpc_call *call, const uint8_t *data, size_t len,
                               enum rpc_auth_stat *auth);

/* Each writes a reply with its record mark and returns the bytes written. */
/* RPC_ACCEPTED_HEADER bytes in front of `results` bytes of results. */
size_t rpc_put_accepted(uint8_t *at, uint32_t xid, enum rpc_accept_stat stat, size_t results);
size_t rpc_put_prog_mismatch(uint8_t *at, uint32_t xid, uint32_t low, uint32_t high); /* 36 bytes */
size_t rpc_put_denied_version(uint8_t *at, uint32_t xid);                             /* 28 bytes */
size_t rpc_put_denied_auth(uint8_t *at, uint32_t xid, enum rpc_auth_stat why);        /* 24 bytes */

#endif
