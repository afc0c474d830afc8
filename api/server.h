/*
 * The control plane from its state folder to its open port, in the order in which the parts need
 * each other, and back. Called by main.c only.
 */
#ifndef API_SERVER_H
#define API_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "api/auth.h"

struct server_options {
    const char *listen;             /* "ADDR:PORT" */
    const char *state;              /* folder, claimed */
    const char *tls_cert, *tls_key; /* PEM files; NULL: the self-signed pair in the state folder */
    bool no_tls;
    enum auth_mode auth;
    uint64_t apply_timeout_s;
    bool strict_groups;
};

struct server;

/* Makes the state folder and takes it for the life of the process, so that no second server uses
 * it. 0, or -errno with the reason logged. */
int server_claim_state(const char *dir);
/* Opens everything and answers requests on return. 0, or -errno with the reason logged. */
int server_start(const struct server_options *options, struct server **out);
/* Stops accepting, answers the polls that wait, finishes what was asked for, closes. NULL is
 * allowed. */
void server_stop(struct server *s);
/* "https://127.0.0.1:8443": where it listens, with the port that it got. */
const char *server_url(const struct server *s);
struct api *server_api(struct server *s); /* for tests */

#endif
