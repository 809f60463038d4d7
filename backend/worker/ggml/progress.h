/* SPDX-License-Identifier: Apache-2.0 */
/* How a computation is watched while it runs. */
#ifndef APIR_WORKER_GGML_PROGRESS_H
#define APIR_WORKER_GGML_PROGRESS_H

#include "backend/worker/ggml/ggml.h"

/* step(user), which returns false, is called between a computation's operations, by the thread that
 * computes, where the device's backend offers that (a CPU's does). */
void host_stream_watch(struct host_ggml *hg, const struct host_device *d, void *stream,
                       bool (*step)(void *user), void *user);

#endif
