/*
 * Bearer tokens. Called by the dispatcher on every request; read-only after auth_open, so without
 * locks.
 */
#include "api/auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

struct auth {
    enum auth_mode mode;
    char admin_hash[SECRET_HEX_MAX];
};

void secret_make(char out[static SECRET_HEX_MAX])
{
    unsigned char bits[32];

    randombytes_buf(bits, sizeof bits);
    sodium_bin2hex(out, SECRET_HEX_MAX, bits, sizeof bits);
    sodium_memzero(bits, sizeof bits);
}

void secret_hash(const char *secret, char out[static SECRET_HEX_MAX])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)secret, strlen(secret));
    sodium_bin2hex(out, SECRET_HEX_MAX, hash, sizeof hash);
}

bool secret_hash_equal(const char *a, const char *b)
{
    size_t len = SECRET_HEX_MAX - 1;

    return strlen(a) == len && strlen(b) == len && sodium_memcmp(a, b, len) == 0;
}

/* The token file holds one line; an operator may have written it, so its form is only bounded. */
static int read_token(const char *path, char **token)
{
    size_t len;
    int rc = fs_read_file(path, 4096, token, &len);

    if (rc != 0) {
        return rc;
    }
    (*token)[strcspn(*token, "\r\n")] = '\0';
    if (strlen(*token) < 32) {
        log_error("%s: the token is shorter than 32 characters", path);
        free(*token);
        *token = NULL;
        return -EINVAL;
    }
    return 0;
}

static int make_token(const char *path, char **token)
{
    char secret[SECRET_HEX_MAX];

    secret_make(secret);
    char *line = xasprintf("%s\n", secret);
    int rc = fs_write_atomic(path, line, strlen(line), 0600);
    if (rc == 0) {
        *token = xstrdup(secret);
    }
    free(line);
    return rc;
}

int auth_open(const char *dir, enum auth_mode mode, struct auth **out)
{
    char *path = xasprintf("%s/token", dir);
    char *token = NULL;
    int rc = read_token(path, &token);

    if (rc == -ENOENT) {
        rc = make_token(path, &token);
    }
    if (rc != 0) {
        log_error("%s: %s", path, strerror(-rc));
    } else {
        struct auth *auth = xcalloc(1, sizeof *auth);
        auth->mode = mode;
        secret_hash(token, auth->admin_hash);
        sodium_memzero(token, strlen(token));
        *out = auth;
    }
    free(token);
    free(path);
    return rc;
}

void auth_free(struct auth *auth)
{
    free(auth);
}

enum auth_mode auth_mode(const struct auth *auth)
{
    return auth->mode;
}

const char *auth_bearer(const struct http_request *r)
{
    static const char scheme[] = "Bearer ";
    const char *value = http_header(r, "Authorization");

    if (value == NULL || strncasecmp(value, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    value += sizeof scheme - 1;
    value += strspn(value, " ");
    return *value == '\0' ? NULL : value;
}

void auth_refuse(struct http_request *r, const char *message, struct arm_error *error)
{
    http_set_header(r, "WWW-Authenticate", "Bearer realm=\"spillway\"");
    arm_error_set(error, 401, "AuthenticationFailed", NULL, "%s", message);
}

bool auth_check(struct api *api, struct http_request *r, enum route_kind kind, char principal[129],
                struct arm_error *error)
{
    const struct auth *auth = api->auth;
    const char *who = "admin";

    if (kind == ROUTE_OPEN) {
        who = "anonymous";
    } else if (kind == ROUTE_AGENT) {
        who = "agent"; /* its handler finds out which */
    } else if (auth->mode == AUTH_TOKEN) {
        char hash[SECRET_HEX_MAX];
        const char *token = auth_bearer(r);
        if (token == NULL) {
            auth_refuse(r,
                        "Authentication failed. The 'Authorization' header is missing or is not a "
                        "bearer token.",
                        error);
            return false;
        }
        secret_hash(token, hash);
        if (!secret_hash_equal(hash, auth->admin_hash)) {
            auth_refuse(r, "Authentication failed. The bearer token is not valid.", error);
            return false;
        }
    }
    snprintf(principal, 129, "%s", who);
    return true;
}
