/* Limits and capabilities. Called once by main, before any thread: capabilities are per thread and
 * are inherited. */
#include "agent/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

#define FILES_WANTED 1048576
#define FILES_ENOUGH 65536
#define FILES_LEAST  512

static void raise_files(void)
{
    struct rlimit limit;
    char text[32] = "";
    rlim_t most = FILES_WANTED;
    FILE *f = fopen("/proc/sys/fs/nr_open", "re");
    unsigned long long nr_open;

    if (f && fgets(text, sizeof(text), f) && sscanf(text, "%llu", &nr_open) == 1 && nr_open < most)
        most = (rlim_t)nr_open;
    if (f)
        fclose(f);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= most)
        return;
    limit.rlim_cur = most;
    if (limit.rlim_max < most)
        limit.rlim_max = most;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_cur < FILES_ENOUGH)
            log_warn("only %llu files may be open at a time; raise the hard limit (LimitNOFILE=)",
                     (unsigned long long)limit.rlim_cur);
    }
}

uint64_t sandbox_raise_files(void)
{
    struct rlimit limit = {0};

    raise_files();
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < FILES_LEAST) {
        log_error("%llu files may be open at a time, %d are needed; raise the hard limit "
                  "(LimitNOFILE=)",
                  (unsigned long long)limit.rlim_cur, FILES_LEAST);
        return 0;
    }
    return limit.rlim_cur;
}

/* Each with what it is for. */
static const struct {
    unsigned cap;
    bool needed; /* without it the agent cannot do its work at all */
} kept[] = {
    {CAP_DAC_READ_SEARCH, true}, /* open_by_handle_at */
    {CAP_DAC_OVERRIDE,
     true},             /* the store as root; the kernel drops it while a thread acts as a caller */
    {CAP_CHOWN, true},  /* SETATTR of owners */
    {CAP_FOWNER, true}, /* modes and times of others' files, for a root that the export lets in */
    {CAP_FSETID, true}, /* keeps set-id bits that such a root sets */
    {CAP_SETUID, true}, /* setfsuid */
    {CAP_SETGID, true}, /* setfsgid, setgroups */
    {CAP_MKNOD, false}, /* device nodes, for such a root */
    {CAP_SYS_RESOURCE, false},     /* blocks that the file system reserves */
    {CAP_NET_BIND_SERVICE, false}, /* port 111 */
};

/* All that is kept, or only what is needed. */
static uint64_t capability_set(bool add_addresses, bool needed)
{
    uint64_t set = add_addresses ? UINT64_C(1) << CAP_NET_ADMIN : 0;

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (kept[i].needed || !needed)
            set |= UINT64_C(1) << kept[i].cap;
    return set;
}

int sandbox_drop(bool add_addresses)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    uint64_t have, missing, set;

    if (syscall(SYS_capget, &header, data) != 0) {
        int rc = -errno;

        log_error("capget: %s", strerror(-rc));
        return rc;
    }
    have = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    missing = capability_set(add_addresses, true) & ~have;
    set = capability_set(add_addresses, false) & have;
    if (missing != 0) {
        log_error("the agent must be started as root: it acts as its clients' users and opens "
                  "files by handle "
                  "(missing capabilities: %#llx)",
                  (unsigned long long)missing);
        return -EPERM;
    }
    /* The bounding set needs CAP_SETPCAP, so it goes first; without it there is nothing to gain
     * either. */
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (cap >= 64 || (set >> cap & 1) == 0)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        data[i].permitted = data[i].effective = (uint32_t)(set >> (32 * i));
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        int rc = -errno;

        log_error("cannot drop capabilities: %s", strerror(-rc));
        return rc;
    }
    return 0;
}
