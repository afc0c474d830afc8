/* The api-versions by provider. A later api-version serves what an earlier one made, and back:
 * properties say themselves from which version on they exist (api/property.h). */
#include "api/versions.h"

#include <string.h>

#include "common/buf.h"

static const char *const netapp[] = {
    "2021-10-01", "2022-01-01", "2022-03-01", "2022-05-01", "2022-09-01", "2022-11-01",
    "2023-05-01", "2023-07-01", "2023-11-01", "2024-01-01", "2024-03-01", "2024-05-01",
    "2024-07-01", "2024-09-01", "2025-01-01", "2025-03-01", "2025-06-01", "2025-08-01",
    "2025-09-01", "2025-12-01", "2026-01-01", "2026-03-01", "2026-04-01", "2026-05-01",
    "2026-06-01", "2026-07-01", NULL};

/* Subscriptions and resource groups: their shapes here are the same in all of these. */
static const char *const resources[] = {
    "2016-06-01", "2016-09-01", "2017-05-10", "2018-02-01", "2018-05-01",
    "2019-05-01", "2019-05-10", "2019-06-01", "2019-08-01", "2019-10-01",
    "2019-11-01", "2020-01-01", "2020-06-01", "2020-08-01", "2020-10-01",
    "2021-01-01", "2021-04-01", "2022-09-01", "2022-12-01", "2023-07-01",
    "2024-03-01", "2024-07-01", "2024-11-01", "2025-04-01", NULL};

static const char *const insights[] = {"2018-01-01", "2019-07-01", "2021-05-01",
                                       "2023-10-01", "2024-02-01", NULL};

static const struct {
    const char *name;
    const char *const *versions;
} sets[] = {{"netapp", netapp}, {"resources", resources}, {"insights", insights}};

static const char *const *find(const char *set)
{
    static const char *const none[] = {NULL};

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strcmp(sets[i].name, set) == 0) {
            return sets[i].versions;
        }
    }
    return none;
}

bool version_is_well_formed(const char *version)
{
    static const char form[] = "dddd-dd-dd";

    for (size_t i = 0; i < sizeof form - 1; i++) {
        bool digit = version[i] >= '0' && version[i] <= '9';
        if (form[i] == 'd' ? !digit : version[i] != '-') {
            return false;
        }
    }
    const char *rest = version + sizeof form - 1;
    return *rest == '\0' || strcmp(rest, "-preview") == 0;
}

bool version_accepted(const char *set, const char *version)
{
    for (const char *const *v = find(set); *v != NULL; v++) {
        if (strcmp(*v, version) == 0) {
            return true;
        }
    }
    return false;
}

char *version_list(const char *set)
{
    struct buf b = {0};

    for (const char *const *v = find(set); *v != NULL; v++) {
        buf_printf(&b, "%s%s", b.len == 0 ? "" : ", ", *v);
    }
    return buf_take(&b);
}

const char *version_newest(const char *set)
{
    const char *newest = "";

    for (const char *const *v = find(set); *v != NULL; v++) {
        newest = *v;
    }
    return newest;
}
