/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's devices and their buffer types. */
#pragma once

#include "frontend/plugin/plugin.h"

/* d->info is filled: as APIR<number>, for that device of the host. */
void plugin_device_init(struct plugin_device *d, uint32_t number, uint32_t host_index);
/* ggml_backend_dev_get_extra_bufts: the device's extra buffer types, in a list that NULL ends. */
void **plugin_device_extras(void *dev);
