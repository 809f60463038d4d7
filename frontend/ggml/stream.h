/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's backends and events. */
#pragma once

#include "frontend/plugin/plugin.h"

/* As ggml's devices have them. */
void *plugin_stream_open(void *dev, const char *params);
void *plugin_event_new(void *dev);
void plugin_event_free(void *dev, void *event);
void plugin_event_synchronize(void *dev, void *event);
/* ggml_backend_set_n_threads: for what follows, where the device computes with threads. */
void plugin_stream_threads(void *backend, int n);
