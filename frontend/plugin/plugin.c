/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/plugin/plugin.h"

#include "protocol/graph.h"

struct plugin plugin;

bool plugin_op_is_view(int op)
{
    return apir_op_is_view(plugin.op_name(op));
}
