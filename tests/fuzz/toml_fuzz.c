/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine's configuration in TOML: a value in it is found and read, or the text is refused.
 *
 * Input: the text of the file.
 */
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "cdi/engine/toml.h"
#include "common/error.h"

const char fuzz_corpus[] = "toml";

static const char *const in_table[] = {"plugins", "io.containerd.grpc.v1.cri", "enable_cdi"};
static const char *const at_top[] = {"version"};

/* What was understood is within the text. */
static void check_path(const char *text, const char *const *path, size_t n)
{
    struct apir_error err = {0};
    struct cdi_toml_place place;

    if (cdi_toml_find(text, path, n, &place, &err) < 0) {
        FUZZ_CHECK(err.msg[0] != '\0');
        return;
    }
    FUZZ_CHECK(!place.found || (place.start < place.end && place.end <= strlen(text)));
    if (place.found) {
        struct cdi_strings list = {0};
        bool append = false;

        (void)cdi_toml_strings(text, &place, &list, &append);
        cdi_strings_fini(&list);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    /* As cdi_file_read has it: no NUL but the last. */
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[size] = '\0';
    check_path(text, in_table, 3);
    check_path(text, at_top, 1);
    free(text);
    return 0;
}
