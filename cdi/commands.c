/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

int cdi_usage_error(const char *command, const char *what, const char *word)
{
    if (what)
        apir_text_print(stderr, "%s: %s%s\n", command, what, word);
    apir_text_print(stderr, "Try '%s --help'.\n", command);
    return CDI_EXIT_USAGE;
}

int cdi_device_add(char *list, size_t size, const char *name)
{
    const size_t used = strlen(list);
    const int n = snprintf(list + used, size - used, "%s%s", used > 0 ? "," : "", name);

    return n < 0 || (size_t)n >= size - used ? -E2BIG : 0;
}
