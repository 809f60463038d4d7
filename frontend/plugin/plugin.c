/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/plugin/plugin.h"

struct plugin plugin;

bool plugin_op_is_view(int op)
{
    const char *name = plugin.op_name(op);
    return strcmp(name, "NONE") == 0 || strcmp(name, "RESHAPE") == 0 || strcmp(name, "VIEW") == 0 ||
           strcmp(name, "PERMUTE") == 0 || strcmp(name, "TRANSPOSE") == 0;
}
