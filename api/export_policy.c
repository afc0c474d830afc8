/* Export policies; see the header. */
#include "api/export_policy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json_util.h"
#include "common/mem.h"

#define RULES_PATH        "properties.exportPolicy.rules"
#define CLIENTS_LONGEST   4096 /* of allowedClients, characters */
#define CLIENTS_MAX       1024 /* of one rule */
#define HOST_NAME_LONGEST 253  /* RFC 1035 */
#define KERBEROS_RULE(key)                                                                         \
    {                                                                                              \
        .name = (key), .kind = PROPERTY_BOOL, .otherwise = "false", .refused = "Kerberos"          \
    }

static const struct property_value chown_modes[] = {
    {.name = "Restricted"}, {.name = "Unrestricted"}, {0}};

static const struct property rule_members[] = {
    {.name = "ruleIndex",
     .kind = PROPERTY_INTEGER,
     .flags = PROPERTY_REQUIRED,
     .min = 1,
     .max = EXPORT_RULES_MAX},
    {.name = "unixReadOnly", .kind = PROPERTY_BOOL, .otherwise = "false"},
    {.name = "unixReadWrite", .kind = PROPERTY_BOOL, .otherwise = "true"},
    {.name = "cifs", .kind = PROPERTY_BOOL, .otherwise = "false", .refused = "SMB"},
    {.name = "nfsv3", .kind = PROPERTY_BOOL, .otherwise = "true"},
    {.name = "nfsv41", .kind = PROPERTY_BOOL, .otherwise = "false", .refused = "NFSv4.1"},
    {.name = "allowedClients",
     .kind = PROPERTY_TEXT,
     .flags = PROPERTY_REQUIRED,
     .longest = CLIENTS_LONGEST},
    KERBEROS_RULE("kerberos5ReadOnly"),
    KERBEROS_RULE("kerberos5ReadWrite"),
    KERBEROS_RULE("kerberos5iReadOnly"),
    KERBEROS_RULE("kerberos5iReadWrite"),
    KERBEROS_RULE("kerberos5pReadOnly"),
    KERBEROS_RULE("kerberos5pReadWrite"),
    {.name = "hasRootAccess", .kind = PROPERTY_BOOL, .otherwise = "true"},
    {.name = "chownMode",
     .kind = PROPERTY_TEXT,
     .otherwise = "\"Restricted\"",
     .values = chown_modes},
    {0},
};

const struct property export_policy_members[] = {
    {.name = "rules",
     .kind = PROPERTY_LIST,
     .flags = PROPERTY_PATCHABLE,
     .longest = EXPORT_RULES_MAX,
     .members = rule_members},
    {0},
};

json_t *export_policy_default(void)
{
    struct arm_error error = {0};
    json_t *given = json_pack("{s:i, s:s}", "ruleIndex", 1, "allowedClients", "0.0.0.0/0");
    json_t *rule = property_replace(rule_members, RULES_PATH, given, NULL, &error);

    json_decref(given);
    return json_pack("{s:[o]}", "rules", rule);
}

/* ---- clients ---- */

/* Letters, digits, '-', '_' and single dots inside, at least one of them no digit: what has digits
 * and dots only is a bad address. */
static bool is_host_name(const char *text)
{
    bool letter = false;

    if (*text == '\0' || strlen(text) > HOST_NAME_LONGEST || *text == '-' || *text == '.') {
        return false;
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("-_.", *p) == NULL) {
            return false;
        }
        if (*p == '.' && p[1] == '.') {
            return false;
        }
        letter = letter || (!isdigit((unsigned char)*p) && *p != '.');
    }
    return letter;
}

/* "10.0.0.1" or "10.0.0.0/8". */
static bool is_network(const char *text)
{
    char address[INET_ADDRSTRLEN];
    size_t len = strcspn(text, "/");
    struct in_addr parsed;

    if (len >= sizeof address) {
        return false;
    }
    memcpy(address, text, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, &parsed) != 1) {
        return false;
    }
    if (text[len] == '\0') {
        return true;
    }
    const char *prefix = text + len + 1;
    size_t digits = strlen(prefix);
    return digits >= 1 && digits <= 2 && strspn(prefix, "0123456789") == digits &&
           atoi(prefix) <= 32;
}

static bool check_client(const char *client, const char *target, struct arm_error *error)
{
    if (strchr(client, ':') != NULL) {
        arm_error_set(error, 400, "FeatureNotSupported", target,
                      "'%.80s' in allowedClients is IPv6, which Spillway does not support.",
                      client);
    } else if (client[0] == '@') {
        arm_error_set(error, 400, "FeatureNotSupported", target,
                      "'%.80s' in allowedClients is a netgroup, which Spillway does not support.",
                      client);
    } else if (!is_network(client) && !is_host_name(client)) {
        arm_error_set(error, 400, "InvalidValueReceived", target,
                      "'%.80s' in allowedClients is no IPv4 address, CIDR block or host name.",
                      client);
    } else {
        return true;
    }
    return false;
}

static bool check_clients(const char *list, const char *target, struct arm_error *error)
{
    char *copy = xstrdup(list), *save = NULL;
    bool good = true;
    size_t count = 0;

    for (char *item = strtok_r(copy, ",", &save); item != NULL && good;
         item = strtok_r(NULL, ",", &save)) {
        item += strspn(item, " ");
        size_t len = strlen(item);
        while (len > 0 && item[len - 1] == ' ') {
            item[--len] = '\0';
        }
        good = check_client(item, target, error);
        count++;
    }
    free(copy);
    if (good && count > CLIENTS_MAX) {
        arm_error_set(error, 400, "InvalidValueReceived", target,
                      "allowedClients has %zu clients; at most %d are allowed.", count,
                      CLIENTS_MAX);
        return false;
    }
    if (count == 0) {
        arm_error_set(error, 400, "InvalidValueReceived", target,
                      "allowedClients is empty: it must have at least one client.");
    }
    return good && count > 0;
}

bool export_policy_check(const json_t *rules, struct arm_error *error)
{
    unsigned seen = 0;

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        int64_t index = json_get_int(rule, "ruleIndex", 0);
        char target[96];
        snprintf(target, sizeof target, RULES_PATH "[%zu].ruleIndex", i);
        if (seen & 1U << index) {
            arm_error_set(error, 400, "InvalidValueReceived", target,
                          "The ruleIndex %d is there twice.", (int)index);
            return false;
        }
        seen |= 1U << index;
        if (!json_get_bool(rule, "nfsv3", true)) {
            snprintf(target, sizeof target, RULES_PATH "[%zu].nfsv3", i);
            arm_error_set(error, 400, "InvalidValueReceived", target,
                          "The rule's protocols must be the volume's: nfsv3 must be true.");
            return false;
        }
        snprintf(target, sizeof target, RULES_PATH "[%zu].allowedClients", i);
        if (!check_clients(json_get_text(rule, "allowedClients", ""), target, error)) {
            return false;
        }
    }
    return true;
}

json_t *export_policy_spec(const json_t *rules)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        const char *chown = json_get_text(rule, "chownMode", "Restricted");
        json_array_append_new(
            out, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "ruleIndex",
                           (json_int_t)json_get_int(rule, "ruleIndex", 0), "clients",
                           json_get_text(rule, "allowedClients", ""), "readOnly",
                           (int)json_get_bool(rule, "unixReadOnly", false), "readWrite",
                           (int)json_get_bool(rule, "unixReadWrite", true), "rootAccess",
                           (int)json_get_bool(rule, "hasRootAccess", true), "chownRestricted",
                           (int)(strcasecmp(chown, "Restricted") == 0), "nfsv3",
                           (int)json_get_bool(rule, "nfsv3", true)));
    }
    return out;
}
