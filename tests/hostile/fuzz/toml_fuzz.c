/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine's configuration in TOML: it is read, or refused with a line.
 *
 * Input: the text of the file.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "cdi/engine/toml.h"
#include "common/error.h"

const char fuzz_corpus[] = "toml";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    /* As cdi_file_read has it: no NUL but the last. */
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[size] = '\0';
    struct apir_error err = {0};
    struct cdi_strings list = {0};
    bool append = false;
    int rc = cdi_toml_list(text, "engine.hooks_dir", &list, &append, &err);
    FUZZ_CHECK((rc < 0) == (err.msg[0] != '\0') && (rc != 0 || list.n == 0));
    cdi_strings_fini(&list);
    free(text);
    return 0;
}
