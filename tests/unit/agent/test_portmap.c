/* Program 100000 over a real socket: RFC 1833's answers for versions 2, 3 and 4. */
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/portmap/portmap.h"
#include "tests/unit/agent/rpc_peer.h"

static const struct rpc_program *const programs[] = {&portmap_program, NULL};
static struct rpc_server *server;
static int fd;
static uint8_t reply[2048];

static void start(void)
{
    uint16_t port = peer_free_port();

    server = rpc_server_start(
        &(struct rpc_server_config){.workers = 1, .io_threads = 1, .programs = programs});
    cr_assert_not_null(server);
    cr_assert_eq(portmap_start(server, 2049), 0);
    cr_assert_eq(rpc_listen(server, "127.0.0.5", port, NULL), 0);
    fd = peer_connect(NULL, "127.0.0.5", port);
    cr_assert_geq(fd, 0);
}

static void stop(void)
{
    close(fd);
    portmap_stop();
    rpc_server_stop(server, 1);
}

TestSuite(portmap, .init = start, .fini = stop, .timeout = 30);

/* The accept_stat; results begin at reply + 24. */
static uint32_t ask(uint32_t vers, uint32_t proc, const void *args, size_t len, long *results)
{
    uint8_t msg[512];
    long n;

    peer_send(fd, msg, peer_call(msg, 99, 100000, vers, proc, args, len));
    n = peer_reply(fd, reply, sizeof(reply));
    cr_assert_geq(n, 24);
    *results = n - 24;
    return peer_u32(reply + 20);
}

static uint32_t getport(uint32_t prog, uint32_t vers, uint32_t proto)
{
    const uint32_t args[] = {htonl(prog), htonl(vers), htonl(proto), 0};
    long n;

    cr_assert_eq(ask(2, 3, args, sizeof(args), &n), 0);
    cr_assert_eq(n, 4);
    return peer_u32(reply + 24);
}

Test(portmap, getport_of_nfs_and_mount)
{
    cr_assert_eq(getport(100003, 3, 6), 2049);
    cr_assert_eq(getport(100005, 3, 6), 2049);
    cr_assert_eq(getport(100005, 1, 6), 2049);
    cr_assert_eq(getport(100000, 2, 6), 111);
    cr_assert_eq(getport(100003, 3, 17), 0); /* no UDP */
    cr_assert_eq(getport(100021, 4, 6), 0);
}

static size_t rpcb(uint8_t *at, uint32_t prog, uint32_t vers, const char *netid)
{
    uint32_t len = (uint32_t)strlen(netid);
    size_t n = 12 + ((len + 3) & ~3u);

    memset(at, 0, n + 8);
    peer_put_u32(at, prog);
    peer_put_u32(at + 4, vers);
    peer_put_u32(at + 8, len);
    memcpy(at + 12, netid, len);
    return n + 8; /* empty r_addr and r_owner */
}

static const char *getaddr(uint32_t rpcb_vers, uint32_t proc, uint32_t prog, uint32_t vers,
                           const char *netid)
{
    static char text[64];
    uint8_t args[64];
    long n;

    cr_assert_eq(ask(rpcb_vers, proc, args, rpcb(args, prog, vers, netid), &n), 0);
    cr_assert_leq(peer_u32(reply + 24), 32);
    memset(text, 0, sizeof(text));
    memcpy(text, reply + 28, peer_u32(reply + 24));
    return text;
}

Test(portmap, getaddr_answers_the_endpoint_that_was_asked)
{
    /* 2049 is 8 * 256 + 1. */
    cr_assert_str_eq(getaddr(3, 3, 100003, 3, "tcp"), "127.0.0.5.8.1");
    cr_assert_str_eq(getaddr(4, 3, 100003, 3, "tcp"), "127.0.0.5.8.1");
    cr_assert_str_eq(getaddr(4, 3, 100005, 3, ""), "127.0.0.5.8.1");
    cr_assert_str_eq(getaddr(4, 3, 100005, 3, "udp"), "");
    cr_assert_str_eq(getaddr(4, 3, 100024, 1, "tcp"), "");
    cr_assert_str_eq(getaddr(4, 3, 100000, 4, "tcp"), "127.0.0.5.0.111");
}

Test(portmap, getversaddr_answers_the_exact_version_only)
{
    cr_assert_str_eq(getaddr(4, 3, 100003, 4, "tcp"), "127.0.0.5.8.1");
    cr_assert_str_eq(getaddr(4, 9, 100003, 4, "tcp"), "");
    cr_assert_str_eq(getaddr(4, 9, 100003, 3, "tcp"), "127.0.0.5.8.1");
}

Test(portmap, dumps_list_every_mapping)
{
    static const uint32_t expected[][2] = {{100000, 2}, {100000, 3}, {100000, 4},
                                           {100003, 3}, {100005, 1}, {100005, 3}};
    const uint8_t *at = reply + 24;
    long n;

    cr_assert_eq(ask(2, 4, NULL, 0, &n), 0);
    cr_assert_eq(n, 6 * 20 + 4);
    for (int i = 0; i < 6; i++, at += 20) {
        cr_assert_eq(peer_u32(at), 1);
        cr_assert_eq(peer_u32(at + 4), expected[i][0]);
        cr_assert_eq(peer_u32(at + 8), expected[i][1]);
        cr_assert_eq(peer_u32(at + 12), 6);
        cr_assert_eq(peer_u32(at + 16), expected[i][0] == 100000 ? 111 : 2049);
    }
    cr_assert_eq(peer_u32(at), 0);
    cr_assert_eq(ask(4, 4, NULL, 0, &n), 0);
    cr_assert_gt(n, 6 * 40);
    cr_assert_eq(peer_u32(reply + 24 + n - 4), 0);
}

Test(portmap, set_and_unset_are_refused_and_nothing_changes)
{
    const uint32_t pmap[] = {htonl(100003), htonl(3), htonl(6), htonl(666)};
    uint8_t args[64];
    long n;

    for (uint32_t proc = 1; proc <= 2; proc++) {
        cr_assert_eq(ask(2, proc, pmap, sizeof(pmap), &n), 0);
        cr_assert_eq(peer_u32(reply + 24), 0);
        cr_assert_eq(ask(4, proc, args, rpcb(args, 100003, 3, "tcp"), &n), 0);
        cr_assert_eq(peer_u32(reply + 24), 0);
    }
    cr_assert_eq(getport(100003, 3, 6), 2049);
}

Test(portmap, indirect_calls_are_not_offered)
{
    long n;

    cr_assert_eq(ask(2, 5, NULL, 0, &n), 3);
    cr_assert_eq(ask(3, 5, NULL, 0, &n), 3);
    cr_assert_eq(ask(4, 10, NULL, 0, &n), 3);
    cr_assert_eq(ask(3, 9, NULL, 0, &n), 3); /* GETVERSADDR came with version 4 */
    cr_assert_eq(ask(5, 0, NULL, 0, &n), 2);
    cr_assert_eq(peer_u32(reply + 24), 2);
    cr_assert_eq(peer_u32(reply + 28), 4);
}

Test(portmap, short_arguments_are_garbage)
{
    static const struct {
        uint32_t vers, proc;
    } calls[] = {{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 3}, {4, 3}, {4, 9}, {4, 11}};
    uint8_t args[12] = {0};
    long n;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        cr_assert_eq(ask(calls[i].vers, calls[i].proc, args, sizeof(args), &n), 4);
    /* A string longer than the record. */
    peer_put_u32(args + 8, 0xffffffffu);
    cr_assert_eq(ask(4, 3, args, sizeof(args), &n), 4);
}

Test(portmap, an_endpoint_answers_on_port_111)
{
    const uint32_t args[] = {htonl(100005), htonl(3), htonl(6), 0};
    uint8_t msg[64];
    int pm;

    if (geteuid() != 0)
        cr_skip_test("port 111 needs root");
    cr_assert_eq(portmap_endpoint(server, "127.0.0.6"), 0);
    pm = peer_connect(NULL, "127.0.0.6", 111);
    cr_assert_geq(pm, 0);
    peer_send(pm, msg, peer_call(msg, 1, 100000, 2, 3, args, sizeof(args)));
    cr_assert_eq(peer_reply(pm, reply, sizeof(reply)), 28);
    cr_assert_eq(peer_u32(reply + 24), 2049);
    portmap_endpoint_gone(server, "127.0.0.6");
    cr_assert(peer_closed(pm));
}
