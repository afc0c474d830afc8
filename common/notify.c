/* sd_notify(3) without libsystemd. No state. */
#include "common/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"

void notify_systemd(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size;
    int fd;

    if (!path || *path == '\0')
        return;
    if (strlen(path) >= sizeof(address.sun_path)) {
        log_warn("NOTIFY_SOCKET is too long a path");
        return;
    }
    memcpy(address.sun_path, path, strlen(path));
    size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (*path == '@')
        address.sun_path[0] = '\0'; /* the abstract name space */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size) < 0)
        log_warn("cannot tell systemd \"%s\": %s", state, strerror(errno));
    if (fd >= 0)
        close(fd);
}
