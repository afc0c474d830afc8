/* The agent's command line, read and checked. Filled once before any thread starts, read-only
 * afterwards. */
#ifndef AGENT_CONTROL_CONFIG_H
#define AGENT_CONTROL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/control/addresses.h"
#include "agent/storage/storage.h"

#define AGENT_NAME_MAX 65 /* with the NUL */

struct agent_config {
    const char *control; /* URL of the control plane, without a slash at its end */
    const char *state;
    const char *store;
    struct addresses endpoints;
    const char *interface; /* that gets the addresses, or NULL: they are there already */
    uint16_t nfs_port;
    const char *backend;
    const char *region, *zone; /* "" serves every one */
    char name[AGENT_NAME_MAX];
    const char *enroll_token_file; /* or NULL */
    const char *cacert;            /* or NULL: the system's */
    const char *status;            /* ADDR:PORT, on loopback */
    enum durability durability;
    unsigned workers; /* 0: one a core */
};

/* Reads the command line. Whatever is wrong with it is said on standard error and ends the program
 * with status 2. */
void config_parse(int argc, char **argv, struct agent_config *out);

/* The checks by themselves: NULL, or a sentence that names the option (static, or in `why`). */
const char *config_check_control(const char *url, char *why, size_t size);
const char *config_check_status(const char *address, char *why, size_t size);
const char *config_check_name(const char *name, char *why, size_t size);
const char *config_check_place(const char *region, const char *zone, char *why, size_t size);

#endif
