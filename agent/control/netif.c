/* One rtnetlink request a call, on a socket of its own: addresses change rarely. */
#include "agent/control/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool netif_has(struct in_addr address)
{
    struct ifaddrs *all;
    bool found = ntohl(address.s_addr) >> 24 == 127;

    if (found || getifaddrs(&all) != 0)
        return found;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        struct sockaddr_in sin;

        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&sin, i->ifa_addr, sizeof(sin));
        found = sin.sin_addr.s_addr == address.s_addr;
    }
    freeifaddrs(all);
    return found;
}

struct address_request {
    struct nlmsghdr header;
    struct ifaddrmsg body;
    char attributes[64];
};

static void add_attribute(struct address_request *r, unsigned short type, const void *data,
                          size_t len)
{
    struct rtattr a = {.rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type};
    char *at = (char *)r + NLMSG_ALIGN(r->header.nlmsg_len);

    memcpy(at, &a, sizeof(a));
    memcpy(at + RTA_LENGTH(0), data, len);
    r->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->header.nlmsg_len) + RTA_ALIGN(a.rta_len));
}

/* Sends the request and reads its acknowledgement: 0 or the kernel's -errno. */
static int transact(const struct address_request *r)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[1024];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int rc = 0;
    ssize_t n;

    if (fd < 0)
        return -errno;
    if (send(fd, r, r->header.nlmsg_len, 0) < 0) {
        rc = -errno;
    } else {
        do
            n = recv(fd, &answer, sizeof(answer), 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            rc = -errno;
        else if ((size_t)n < sizeof(answer.header) + sizeof(answer.error) ||
                 answer.header.nlmsg_type != NLMSG_ERROR)
            rc = -EPROTO;
        else
            rc = answer.error.error; /* 0 or -errno */
    }
    close(fd);
    return rc;
}

static int change(const char *interface, struct in_addr address, uint16_t type, uint16_t flags)
{
    struct address_request r = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                   .nlmsg_type = type,
                   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags)},
        .body = {.ifa_family = AF_INET,
                 .ifa_prefixlen = 32,
                 .ifa_index = if_nametoindex(interface)},
    };

    if (r.body.ifa_index == 0)
        return -ENODEV;
    add_attribute(&r, IFA_LOCAL, &address, sizeof(address));
    add_attribute(&r, IFA_ADDRESS, &address, sizeof(address));
    return transact(&r);
}

int netif_add(const char *interface, struct in_addr address)
{
    return change(interface, address, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
}

int netif_remove(const char *interface, struct in_addr address)
{
    return change(interface, address, RTM_DELADDR, 0);
}
