/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ahead/left_out.h"

#include <stdio.h>

#include "common/text.h"

size_t server_left_out_args(const struct server_left_out *left_out, const char **argv)
{
    for (size_t i = 0; i < left_out->n; i++) {
        argv[2 * i] = "--without";
        argv[2 * i + 1] = left_out->devices[i].name;
    }
    return 2 * left_out->n;
}

void server_left_out_tell(const struct server_left_out *left_out, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < left_out->n && used < size; i++) {
        const int n = snprintf(text + used, size - used, "%s %s " APIR_CANNOT_COMPUTE ": %s",
                               i ? "; its device" : "the host's device", left_out->devices[i].name,
                               left_out->devices[i].why);
        used += n > 0 ? (size_t)n : 0;
    }
    apir_text_clean(text); /* it may be cut within a character */
}
