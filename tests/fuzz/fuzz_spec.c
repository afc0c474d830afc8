/* libFuzzer: what the control plane sends and what is on disk. JSON of any kind is read into a spec
 * or refused with a reason; a spec that was taken keeps its promises. */
#include <stdlib.h>
#include <string.h>

#include "agent/control/spec.h"
#include "common/json_util.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[160] = "";
    json_t *json = json_parse((const char *)data, size, why, sizeof(why));
    struct volume_spec spec;

    if (!json) {
        require(why[0] != '\0');
        return 0;
    }
    why[0] = '\0';
    if (spec_parse(json, &spec, why, sizeof(why))) {
        require(spec.generation >= 1);
        if (!spec.deleted) {
            require(spec.nendpoints >= 1 && spec.nendpoints <= VOLUME_MAX_ENDPOINTS);
            require(spec.export_path[0] == '/' && strchr(spec.export_path + 1, '/') == NULL);
            require(spec.quota_bytes > 0 && spec.max_files > 0 && spec.root_mode <= 07777);
            require(spec.nrules <= VOLUME_MAX_RULES);
        }
        volume_spec_clear(&spec);
    } else {
        require(why[0] != '\0');
    }
    json_decref(json);
    return 0;
}
