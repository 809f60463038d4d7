/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the state that a runtime hands to apir-hook. */
#include "tests/hostile/fuzz/fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include "common/json.h"
#include "common/oci/request.h"
#include "common/oci/state.h"

const char fuzz_corpus[] = "oci_state";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json struct json_object *object = NULL, *again = NULL;
    cleanup_state struct oci_state state;
    char *root = NULL;
    const char *text = (const char *)data;

    /* What is taken as JSON is written and read again as the same. */
    if (apir_json_parse(text, size, &object, NULL) == 0) {
        const char *written = json_object_to_json_string(object);

        FUZZ_CHECK(apir_json_parse(written, strlen(written), &again, NULL) == 0);
        FUZZ_CHECK(json_object_equal(object, again));
    }
    if (oci_state_parse(text, size, &state, NULL) < 0) {
        FUZZ_CHECK(!state.id && !state.bundle && state.pid == 0);
        return 0;
    }
    FUZZ_CHECK(object);
    FUZZ_CHECK(state.id && state.id[0] != '\0');
    FUZZ_CHECK(!state.bundle || state.bundle[0] == '/');
    FUZZ_CHECK(state.pid >= 0 && state.pid <= 4 * 1024 * 1024);
    struct oci_request request;
    if (oci_request_find(&state, object, &request, NULL) == 0)
        FUZZ_CHECK(!state.device || strcmp(request.devices, state.device) == 0);
    if (state.root && oci_state_root(&state, &root, NULL) == 0)
        FUZZ_CHECK(root[0] == '/');
    free(root);
    return 0;
}
