/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/commands.h"
#include "common/text.h"

int cdi_usage_error(const char *command, const char *what, const char *word)
{
    if (what)
        apir_text_print(stderr, "%s: %s%s\n", command, what, word);
    apir_text_print(stderr, "Try '%s --help'.\n", command);
    return CDI_EXIT_USAGE;
}
