/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that write rows into a tensor that is there, where the host's ggml is too old for them:
 * SET_ROWS (numbers of rows in i32, rows of f16), and SET in place (the Vulkan backend of
 * node-llama-cpp 3.13.0 has none).
 *
 * What a device does not support ggml's scheduler leaves to the CPU: it gives that copies of the
 * sources. But these write where the tensor lies. Where that is our memory, of which only addresses
 * are reserved, the program ends: ggml aborts it where the tensor has memory already, else the
 * CPU's kernel writes there. So the plug-in does them itself: it fetches, converts and writes rows
 * of f32 and f16.
 */
#ifndef APIR_FRONTEND_ROWS_H
#define APIR_FRONTEND_ROWS_H

#include <stdbool.h>

#include "frontend/plugin/stream.h"

bool rows_is_set(const struct gg_tensor *op);
/* The host does not support op. Whether rows_set() can do it: types and strides. */
bool rows_can_set(const struct gg_tensor *op);
/* The same of a node of a graph: op is one, the host does not support it, and rows_set() does. */
bool rows_is_ours(struct plugin_device *d, const struct gg_tensor *op);
/* All that op reads has been computed. 0, or -errno with a line in the log; returns when it is
 * written. */
int rows_set(struct plugin_device *d, const struct gg_tensor *op);

#endif
