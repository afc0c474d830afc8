/* A raw RPC client for tests: builds calls by hand, so that they can be wrong in every way.
 * Blocking sockets with a time-out of 10 s, so that a test that waits for what never comes fails.
 */
#ifndef TESTS_UNIT_AGENT_RPC_PEER_H
#define TESTS_UNIT_AGENT_RPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A TCP port of 127.0.0.1 that was free a moment ago. */
uint16_t peer_free_port(void);
/* Connects from `from` (dotted, or NULL) to `to`; -1 on failure. */
int peer_connect(const char *from, const char *to, uint16_t port);
void peer_send(int fd, const void *data, size_t len);
/* True when exactly len bytes came. */
bool peer_recv(int fd, void *data, size_t len);
/* True when the other side closes (without anything more) within 10 s. */
bool peer_closed(int fd);

/* Writes a call with record mark and AUTH_NONE; returns its length. */
size_t peer_call(uint8_t *at, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
                 const void *args, size_t len);
/* The same with a credential of the given flavour and body. */
size_t peer_call_auth(uint8_t *at, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
                      uint32_t flavor, const void *cred, size_t cred_len, const void *args,
                      size_t len);
/* Receives one reply record (without its mark) into `at`; its length, or -1. */
long peer_reply(int fd, uint8_t *at, size_t size);
uint32_t peer_u32(const uint8_t *at);
void peer_put_u32(uint8_t *at, uint32_t v);

#endif
