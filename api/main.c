/* spillwayd, the control plane: the command line, signals, and what it prints. */
#include <arpa/inet.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "api/server.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/options.h"
#include "common/url.h"

struct settings {
    const char *listen, *state, *tls_cert, *tls_key, *auth, *backup;
    uint64_t apply_timeout_s;
    bool no_tls, strict_groups;
};

static void parse(struct settings *s, int argc, char **argv)
{
    static const char *const auth_choices[] = {"token", "none", NULL};
    const struct program_info program = {"spillwayd", "The control plane of Spillway."};
    const struct option_spec specs[] = {
        {"listen", "ADDR:PORT", OPTION_TEXT, &s->listen, 0, 0, NULL, "where to listen"},
        {"state", "DIR", OPTION_TEXT, &s->state, 0, 0, NULL,
         "folder of the database, token and certificate"},
        {"tls-cert", "FILE", OPTION_TEXT, &s->tls_cert, 0, 0, NULL,
         "certificate chain, PEM; without it the first start\nmakes a self-signed one"},
        {"tls-key", "FILE", OPTION_TEXT, &s->tls_key, 0, 0, NULL, "the certificate's key, PEM"},
        {"auth", "MODE", OPTION_TEXT, &s->auth, 0, 0, auth_choices,
         "who may call; none only on loopback"},
        {"no-tls", NULL, OPTION_FLAG, &s->no_tls, 0, 0, NULL, "plain HTTP; only on loopback"},
        {"apply-timeout", "S", OPTION_UINT, &s->apply_timeout_s, 1, 86400, NULL,
         "seconds that an agent has to apply a change"},
        {"strict-groups", NULL, OPTION_FLAG, &s->strict_groups, 0, 0, NULL,
         "an account's resource group must exist before it"},
        {"backup", "FILE", OPTION_TEXT, &s->backup, 0, 0, NULL,
         "copy the state to FILE and FILE.metrics, also while\na server runs, and exit"},
    };

    options_parse(&program, specs, sizeof specs / sizeof specs[0], argc, argv);
}

/* Addresses only, and the one name that is loopback by definition (RFC 6761): another name may
 * point anywhere. */
static bool is_loopback(const char *host)
{
    struct in_addr v4;

    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return strcmp(host, "::1") == 0 || strcasecmp(host, "localhost") == 0;
}

_Noreturn static void refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

_Noreturn static void refuse(const char *fmt, ...)
{
    va_list ap;

    fputs("spillwayd: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

/* Design D13: nothing listens off loopback without authentication or in the clear. */
static void refuse_unsafe(const struct settings *s)
{
    char host[256];
    uint16_t port;

    if (!url_split_host_port(s->listen, host, sizeof host, &port)) {
        refuse("--listen must be ADDR:PORT, not '%s'", s->listen);
    }
    if ((s->tls_cert == NULL) != (s->tls_key == NULL)) {
        refuse("--tls-cert and --tls-key go together");
    }
    if (s->no_tls && s->tls_cert != NULL) {
        refuse("--no-tls and --tls-cert contradict each other");
    }
    if (is_loopback(host)) {
        return;
    }
    if (strcmp(s->auth, "none") == 0) {
        refuse("--auth none is allowed on loopback addresses only, not on %s", host);
    }
    if (s->no_tls) {
        refuse("--no-tls is allowed on loopback addresses only, not on %s", host);
    }
}

static int backup(const struct settings *s)
{
    int rc = db_backup(s->state, s->backup);

    if (rc != 0) {
        log_error("%s was not backed up to %s: %s", s->state, s->backup, strerror(-rc));
        return 1;
    }
    printf("Backed up %s to %s and %s.metrics.\n", s->state, s->backup, s->backup);
    return 0;
}

/* Each held poll is a connection: take all the descriptors that the system allows. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(const struct settings *s)
{
    const struct server_options options = {
        .listen = s->listen,
        .state = s->state,
        .tls_cert = s->tls_cert,
        .tls_key = s->tls_key,
        .no_tls = s->no_tls,
        .auth = strcmp(s->auth, "none") == 0 ? AUTH_NONE : AUTH_TOKEN,
        .apply_timeout_s = s->apply_timeout_s,
        .strict_groups = s->strict_groups,
    };
    struct server *server;
    sigset_t stop;
    int got;

    /* Blocked before the first thread starts, so that only the sigwait below takes them. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors();

    if (server_claim_state(s->state) != 0 || server_start(&options, &server) != 0) {
        return 1;
    }
    log_info("spillwayd " SPILLWAY_VERSION " listens on %s, state in %s, %s%s%s",
             server_url(server), s->state,
             options.auth == AUTH_NONE ? "no authentication" : "token in ",
             options.auth == AUTH_NONE ? "" : s->state, options.auth == AUTH_NONE ? "" : "/token");
    notify_systemd("READY=1");
    sigwait(&stop, &got);
    log_info("stopping: %s", strsignal(got));
    notify_systemd("STOPPING=1");
    server_stop(server);
    return 0;
}

int main(int argc, char **argv)
{
    struct settings s = {
        .listen = "127.0.0.1:8443",
        .state = "./var/control",
        .auth = "token",
        .apply_timeout_s = 60,
    };

    parse(&s, argc, argv);
    if (sodium_init() < 0) {
        fatal("the system's random generator does not work");
    }
    if (s.backup != NULL) {
        return backup(&s);
    }
    refuse_unsafe(&s);
    return serve(&s);
}
