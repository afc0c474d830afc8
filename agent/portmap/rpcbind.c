/* Registration with rpcbind, see rpcbind.h. */
#include "agent/portmap/rpcbind.h"

#include <errno.h>
#include <netconfig.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"

static const struct {
    rpcprog_t prog;
    rpcvers_t vers;
    const char *name;
} services[] = {{100003, 3, "NFS"}, {100005, 1, "MOUNT"}, {100005, 3, "MOUNT"}};
#define NSERVICES (sizeof(services) / sizeof(services[0]))

/* The port in a universal address, "a.b.c.d.HIGH.LOW"; 0 when it is none. */
static unsigned uaddr_port(const char *uaddr)
{
    unsigned a, b, c, d, high, low;

    if (uaddr == NULL || sscanf(uaddr, "%3u.%3u.%3u.%3u.%3u.%3u", &a, &b, &c, &d, &high, &low) != 6)
        return 0;
    return high << 8 | low;
}

/* The port at which a service is registered over TCP, 0 for none. */
static unsigned registered_port(const rpcblist *maps, size_t service)
{
    for (; maps != NULL; maps = maps->rpcb_next) {
        const rpcb *map = &maps->rpcb_map;

        if (map->r_prog == services[service].prog && map->r_vers == services[service].vers &&
            strcmp(map->r_netid, "tcp") == 0)
            return uaddr_port(map->r_addr);
    }
    return 0;
}

static int register_all(const struct netconfig *conf, rpcblist *maps, uint16_t port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct netbuf address = {.maxlen = sizeof(any), .len = sizeof(any), .buf = &any};

    for (size_t i = 0; i < NSERVICES; i++) {
        unsigned there = registered_port(maps, i);

        if (there != 0 && there != port) {
            log_warn("another server is registered with rpcbind as %s version %u, on port %u",
                     services[i].name, (unsigned)services[i].vers, there);
            return -EADDRINUSE;
        }
    }
    for (size_t i = 0; i < NSERVICES; i++) {
        /* One at our own port is what a killed agent has left. */
        if (registered_port(maps, i) == port)
            rpcb_unset(services[i].prog, services[i].vers, conf);
        if (!rpcb_set(services[i].prog, services[i].vers, conf, &address)) {
            log_warn("rpcbind does not register %s version %u", services[i].name,
                     (unsigned)services[i].vers);
            return -EACCES;
        }
    }
    return 0;
}

int rpcbind_register(uint16_t port)
{
    struct netconfig *conf = getnetconfigent("tcp");
    char host[] = "127.0.0.1";
    rpcblist *maps;
    int err;

    if (conf == NULL) {
        log_warn("no transport \"tcp\" in /etc/netconfig: cannot register with rpcbind");
        return -ENOENT;
    }
    maps = rpcb_getmaps(conf, host);
    /* A working rpcbind has itself in the list. */
    err = maps == NULL ? -ECONNREFUSED : register_all(conf, maps, port);
    if (maps != NULL)
        xdr_free((xdrproc_t)xdr_rpcblist_ptr, (char *)&maps);
    freenetconfigent(conf);
    return err;
}

void rpcbind_unregister(void)
{
    struct netconfig *conf = getnetconfigent("tcp");

    if (conf == NULL)
        return;
    for (size_t i = 0; i < NSERVICES; i++)
        rpcb_unset(services[i].prog, services[i].vers, conf);
    freenetconfigent(conf);
}
