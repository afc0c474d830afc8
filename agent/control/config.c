/* The agent's options: one table, then the checks that a table cannot say. */
#include "agent/control/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/options.h"
#include "common/url.h"

#define DEFAULT_ENDPOINTS "127.77.0.0/24"

static const struct program_info program = {
    .name = "spillway-agent",
    .summary = "Serves Spillway's volumes over NFSv3 from this machine, as the control plane says.",
};

static bool is_loopback(const char *host)
{
    struct in_addr a;

    if (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0)
        return true;
    return inet_pton(AF_INET, host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
}

const char *config_check_control(const char *url, char *why, size_t size)
{
    const char *rest = url;
    char host[256], copy[300];
    uint16_t port;
    bool clear = strncmp(url, "http://", 7) == 0;

    if (clear)
        rest += 7;
    else if (strncmp(url, "https://", 8) == 0)
        rest += 8;
    else
        rest = "";
    snprintf(copy, sizeof(copy), "%.*s%s", (int)strcspn(rest, "/?#"), rest,
             strchr(rest, ':') ? ""
             : clear           ? ":80"
                               : ":443");
    if (strlen(rest) > 280 || !url_split_host_port(copy, host, sizeof(host), &port) || port == 0 ||
        host[0] == '\0' || strcspn(rest, "/?#") != strlen(rest)) {
        snprintf(why, size, "--control takes https://HOST:PORT, not \"%.100s\"", url);
        return why;
    }
    if (clear && !is_loopback(host)) {
        snprintf(why, size,
                 "--control %.100s would send this agent's credential in the clear; off loopback "
                 "it takes https",
                 url);
        return why;
    }
    return NULL;
}

const char *config_check_status(const char *address, char *why, size_t size)
{
    char host[256];
    uint16_t port;

    if (!url_split_host_port(address, host, sizeof(host), &port)) {
        snprintf(why, size, "--status takes ADDR:PORT, not \"%.100s\"", address);
        return why;
    }
    if (!is_loopback(host)) {
        snprintf(why, size,
                 "--status %.100s is not a loopback address, and the status port has no "
                 "authentication: give one "
                 "in 127.0.0.0/8 and publish it through a proxy that asks for a login",
                 address);
        return why;
    }
    return NULL;
}

static bool is_plain(const char *text, size_t max, const char *also)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(also, text[i]))
            return false;
    return len <= max;
}

const char *config_check_name(const char *name, char *why, size_t size)
{
    size_t len = strlen(name);

    if (len > 0 && isalnum((unsigned char)name[0]) && is_plain(name, AGENT_NAME_MAX - 1, "._-"))
        return NULL;
    snprintf(why, size,
             "--name takes 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first, not "
             "\"%.70s\"",
             name);
    return why;
}

const char *config_check_place(const char *region, const char *zone, char *why, size_t size)
{
    if (!is_plain(region, 64, " -"))
        snprintf(why, size, "--region takes a location like eastus, not \"%.70s\"", region);
    else if (!is_plain(zone, 16, "-"))
        snprintf(why, size, "--zone takes an availability zone like 1, not \"%.70s\"", zone);
    else
        return NULL;
    return why;
}

_Noreturn static void refuse(const char *message)
{
    fprintf(stderr, "%s: %s\n", program.name, message);
    exit(2);
}

/* Raw values of the command line, before the checks. */
struct raw_options {
    const char *endpoints, *name, *durability;
    uint64_t nfs_port, workers;
};

static void parse_table(int argc, char **argv, struct agent_config *c, struct raw_options *raw)
{
    static const char *const backends[] = {"dir", NULL};
    static const char *const durabilities[] = {"power", "process", NULL};
    const struct option_spec specs[] = {
        {.name = "control",
         .arg = "URL",
         .target = &c->control,
         .help = "where the control plane answers"},
        {.name = "state",
         .arg = "DIR",
         .target = &c->state,
         .help = "this agent's identity and desired state"},
        {.name = "store",
         .arg = "DIR",
         .target = &c->store,
         .help = "where the volumes' data lives"},
        {.name = "endpoints",
         .arg = "LIST",
         .target = &raw->endpoints,
         .help = "addresses to serve on: prefixes, ranges and\nsingle addresses in a comma list"},
        {.name = "interface",
         .arg = "IF",
         .target = &c->interface,
         .help = "network interface that gets the addresses\nwhile they are used (not needed in "
                 "127.0.0.0/8)"},
        {.name = "nfs-port",
         .arg = "N",
         .kind = OPTION_UINT,
         .target = &raw->nfs_port,
         .min = 1,
         .max = 65535,
         .help = "TCP port of NFS and MOUNT"},
        {.name = "backend",
         .arg = "NAME",
         .target = &c->backend,
         .choices = backends,
         .help = "how the store keeps volumes"},
        {.name = "region",
         .arg = "REGION",
         .target = &c->region,
         .help = "the only region to serve, e.g. eastus;\nwithout it every one"},
        {.name = "zone",
         .arg = "ZONE",
         .target = &c->zone,
         .help = "the only availability zone to serve, e.g. 1;\nwithout it every one"},
        {.name = "name",
         .arg = "NAME",
         .target = &raw->name,
         .help = "this agent's name (default the host name)"},
        {.name = "enroll-token",
         .arg = "FILE",
         .target = &c->enroll_token_file,
         .help = "file with a one-time token to enrol with\n(spillway agent token)"},
        {.name = "cacert",
         .arg = "FILE",
         .target = &c->cacert,
         .help = "PEM certificate(s) that the control plane's one\nis checked against (default the "
                 "system's)"},
        {.name = "status",
         .arg = "ADDR:PORT",
         .target = &c->status,
         .help = "where /healthz and /metrics answer; loopback only"},
        {.name = "durability",
         .arg = "KIND",
         .target = &raw->durability,
         .choices = durabilities,
         .help = "what a stable write survives: a power cut, or the\nend of this process only "
                 "(faster; for tests)"},
        {.name = "workers",
         .arg = "N",
         .kind = OPTION_UINT,
         .target = &raw->workers,
         .max = 32,
         .help = "network threads; 0 is one a core"},
    };

    options_parse(&program, specs, sizeof(specs) / sizeof(specs[0]), argc, argv);
}

void config_parse(int argc, char **argv, struct agent_config *out)
{
    struct raw_options raw = {
        .endpoints = DEFAULT_ENDPOINTS, .durability = "power", .nfs_port = 2049};
    char why[512], host[AGENT_NAME_MAX] = "";
    const char *wrong;

    *out = (struct agent_config){.control = "https://127.0.0.1:8443",
                                 .state = "./var/agent",
                                 .store = "./var/store",
                                 .backend = "dir",
                                 .region = "",
                                 .zone = "",
                                 .status = "127.0.0.1:8444"};
    parse_table(argc, argv, out, &raw);
    out->nfs_port = (uint16_t)raw.nfs_port;
    out->workers = (unsigned)raw.workers;
    out->durability =
        strcmp(raw.durability, "process") == 0 ? DURABILITY_PROCESS : DURABILITY_POWER;
    if (!raw.name && gethostname(host, sizeof(host) - 1) == 0)
        raw.name = host;
    if (!raw.name)
        raw.name = "";
    size_t len = strlen(out->control);
    if (len > 0 && out->control[len - 1] == '/')
        out->control = xstrndup(out->control, len - 1);
    if ((wrong = config_check_control(out->control, why, sizeof(why))) ||
        (wrong = config_check_status(out->status, why, sizeof(why))) ||
        (wrong = config_check_name(raw.name, why, sizeof(why))) ||
        (wrong = config_check_place(out->region, out->zone, why, sizeof(why))))
        refuse(wrong);
    snprintf(out->name, sizeof(out->name), "%s", raw.name);
    if (!addresses_parse(raw.endpoints, &out->endpoints, why, sizeof(why)))
        refuse(xasprintf("--endpoints %s", why));
    if (out->interface && if_nametoindex(out->interface) == 0)
        refuse(xasprintf("--interface %s: there is no such network interface", out->interface));
}
