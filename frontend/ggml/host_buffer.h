/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's buffers in this process's memory that the host's device reaches. */
#pragma once

#include "frontend/plugin/plugin.h"

/* Fills d->host_buft. */
void plugin_host_buft_init(struct plugin_device *d);
