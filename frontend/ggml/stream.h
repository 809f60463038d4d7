/* SPDX-License-Identifier: Apache-2.0 */
/* ggml's backends and events. */
#ifndef APIR_FRONTEND_GGML_STREAM_H
#define APIR_FRONTEND_GGML_STREAM_H

#include "frontend/plugin/plugin.h"

void *plugin_stream_open(struct plugin_device *d);
/* ggml_backend_set_n_threads: for what follows, where the device computes with threads. */
void plugin_stream_threads(void *backend, int n);
void *plugin_event_new(struct plugin_device *d);
void plugin_event_free(void *event);
void plugin_event_synchronize(void *event);

#endif
