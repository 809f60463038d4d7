/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the config.json that precreate edits and all stages look into. */
#include "tests/hostile/fuzz/fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include "common/json.h"
#include "common/oci/request.h"
#include "hook/precreate.h"
#include "common/oci/state.h"

const char fuzz_corpus[] = "oci_config";

static const char spec_text[] =
    "{\"cdiVersion\":\"0.7.0\",\"kind\":\"virtgpu/apir\",\"devices\":[{\"name\":\"gpu0\","
    "\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/null\",\"permissions\":\"rw\"}],"
    "\"env\":[\"APIR_DEVICE_0=x\"],\"additionalGids\":[7]}}],"
    "\"containerEdits\":{\"env\":[\"GGML_BACKEND_PATH=" OCI_PLUGIN_INSIDE "\"],"
    "\"mounts\":[{\"hostPath\":\"/h\",\"containerPath\":\"" OCI_PLUGIN_INSIDE "\","
    "\"options\":[\"ro\"]}],\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/hook\","
    "\"args\":[\"a\"],\"env\":[\"PATH=/bin\"],\"timeout\":10}]}}";

static struct json_object *spec(void)
{
    static struct json_object *kept;

    if (!kept)
        FUZZ_CHECK(apir_json_parse(spec_text, sizeof(spec_text) - 1, &kept, NULL) == 0);
    return kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json struct json_object *config = NULL, *again = NULL;
    struct oci_request request = {0};
    char *root = NULL;

    if (apir_json_parse((const char *)data, size, &config, NULL) < 0)
        return 0;
    if (oci_config_root(config, "/bundle", &root, NULL) == 0)
        FUZZ_CHECK(root[0] == '/');
    free(root);
    (void)oci_request_find(NULL, config, &request, NULL);
    /* Something of the same name may be mounted there already. */
    bool mounts = json_object_object_get_ex(config, "mounts", NULL);
    if (hook_config_apply(config, spec(), "gpu0", NULL) < 0)
        return 0;
    /* What comes out is what a runtime can read, and asks for what was added. */
    const char *text = json_object_to_json_string_ext(config, JSON_C_TO_STRING_NOSLASHESCAPE);
    FUZZ_CHECK(apir_json_parse(text, strlen(text), &again, NULL) == 0);
    json_object_object_del(again, "annotations");
    FUZZ_CHECK(oci_request_find(NULL, again, &request, NULL) == 0);
    FUZZ_CHECK(mounts || request.edited);
    return 0;
}
