/* The agent's identity on disk. */
#include "agent/control/identity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/fsutil.h"
#include "common/json_util.h"
#include "common/log.h"
#include "common/mem.h"

#define IDENTITY_MAX 65536 /* bytes of the file */

static int save(const struct identity *identity)
{
    char store[UUID_TEXT_MAX];
    json_t *o = json_pack("{s:s, s:I, s:s}", "credential", identity->credential, "agentId",
                          (json_int_t)identity->agent_id, "storeUuid",
                          uuid_format(&identity->store, store));
    char *text = json_render(o);
    int rc = fs_write_atomic(identity->path, text, strlen(text), 0600);

    if (rc != 0)
        log_error("%s: %s", identity->path, strerror(-rc));
    explicit_bzero(text, strlen(text));
    free(text);
    json_decref(o);
    return rc;
}

static int make(struct identity *identity, const struct uuid *store)
{
    unsigned char secret[(IDENTITY_CREDENTIAL_MAX - 1) / 2];

    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return -EIO;
    for (size_t i = 0; i < sizeof(secret); i++)
        snprintf(identity->credential + 2 * i, 3, "%02x", secret[i]);
    identity->store = *store;
    return save(identity);
}

static bool parse(struct identity *identity, const char *text, size_t len)
{
    char why[160];
    json_t *o = json_parse(text, len, why, sizeof(why));
    const char *credential = json_get_text(o, "credential", "");
    bool ok = strlen(credential) == IDENTITY_CREDENTIAL_MAX - 1 &&
              strspn(credential, "0123456789abcdef") == IDENTITY_CREDENTIAL_MAX - 1 &&
              uuid_parse(json_get_text(o, "storeUuid", ""), &identity->store);

    if (ok) {
        memcpy(identity->credential, credential, IDENTITY_CREDENTIAL_MAX);
        identity->agent_id = json_get_int(o, "agentId", 0);
    }
    json_decref(o);
    return ok;
}

int identity_open(const char *state_dir, const struct uuid *store, struct identity *out)
{
    char *text, there[UUID_TEXT_MAX], here[UUID_TEXT_MAX];
    size_t len;
    bool ok;
    int rc;

    *out = (struct identity){.path = xasprintf("%s/identity.json", state_dir)};
    rc = fs_read_file(out->path, IDENTITY_MAX, &text, &len);
    if (rc == -ENOENT)
        return make(out, store);
    if (rc != 0) {
        log_error("%s: %s", out->path, strerror(-rc));
        return rc;
    }
    ok = parse(out, text, len);
    explicit_bzero(text, len);
    free(text);
    if (!ok) {
        log_error("%s is damaged; put back a copy, or remove it and enrol this agent anew with "
                  "--enroll-token",
                  out->path);
        return -EINVAL;
    }
    if (!uuid_equal(&out->store, store)) {
        log_error(
            "the state folder %s belongs to the store %s, but --store is %s: is its disk mounted?",
            state_dir, uuid_format(&out->store, there), uuid_format(store, here));
        return -EXDEV;
    }
    return 0;
}

int identity_enrolled(struct identity *identity, int64_t agent_id)
{
    if (identity->agent_id == agent_id)
        return 0;
    identity->agent_id = agent_id;
    return save(identity);
}

void identity_close(struct identity *identity)
{
    explicit_bzero(identity->credential, sizeof(identity->credential));
    free(identity->path);
    identity->path = NULL;
}
