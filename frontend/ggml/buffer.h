/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's buffers. */
#pragma once

#include "frontend/plugin/plugin.h"

/* A ggml_backend_buffer of the device, or NULL: the host has none, and has said why. After a loss
 * it is one of addresses alone. */
void *plugin_buffer_alloc(struct plugin_device *d, const struct plugin_extra *extra, size_t size);
