#include "tests/unit/agent/rpc_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <criterion/criterion.h>

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

    inet_pton(AF_INET, text, &sin.sin_addr);
    return sin;
}

uint16_t peer_free_port(void)
{
    struct sockaddr_in sin = address_of("127.0.0.1", 0);
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    close(fd);
    return ntohs(sin.sin_port);
}

int peer_connect(const char *from, const char *to, uint16_t port)
{
    struct sockaddr_in sin = address_of(to, port);
    struct timeval tv = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (from != NULL) {
        struct sockaddr_in local = address_of(from, 0);

        cr_assert_eq(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
    }
    if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0)
        return fd;
    close(fd);
    return -1;
}

void peer_send(int fd, const void *data, size_t len)
{
    cr_assert_eq(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

bool peer_recv(int fd, void *data, size_t len)
{
    size_t have = 0;
    ssize_t n;

    while (have < len && (n = recv(fd, (uint8_t *)data + have, len - have, 0)) > 0)
        have += (size_t)n;
    return have == len;
}

bool peer_closed(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, 0);

    /* A reset is a close too: something that we sent was not read. */
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

void peer_put_u32(uint8_t *at, uint32_t v)
{
    v = htonl(v);
    memcpy(at, &v, 4);
}

uint32_t peer_u32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, 4);
    return ntohl(v);
}

size_t peer_call_auth(uint8_t *at, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
                      uint32_t flavor, const void *cred, size_t cred_len, const void *args,
                      size_t len)
{
    size_t padded = (cred_len + 3) & ~(size_t)3, total = 40 + padded + len;
    const uint32_t words[] = {UINT32_C(0x80000000) | (uint32_t)total,
                              xid,
                              0,
                              2,
                              prog,
                              vers,
                              proc,
                              flavor,
                              (uint32_t)cred_len};
    uint8_t *p = at;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++, p += 4)
        peer_put_u32(p, words[i]);
    memset(p, 0, padded);
    if (cred_len > 0)
        memcpy(p, cred, cred_len);
    p += padded;
    memset(p, 0, 8); /* the verifier */
    p += 8;
    if (len > 0)
        memcpy(p, args, len);
    return total + 4;
}

size_t peer_call(uint8_t *at, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
                 const void *args, size_t len)
{
    return peer_call_auth(at, xid, prog, vers, proc, 0, NULL, 0, args, len);
}

long peer_reply(int fd, uint8_t *at, size_t size)
{
    uint8_t mark[4];
    uint32_t len;

    if (!peer_recv(fd, mark, 4))
        return -1;
    len = peer_u32(mark);
    if ((len & UINT32_C(0x80000000)) == 0 || (len &= UINT32_C(0x7fffffff)) > size ||
        !peer_recv(fd, at, len))
        return -1;
    return (long)len;
}
