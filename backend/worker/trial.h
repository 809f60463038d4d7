/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a device computes: a list is no proof of it. A library that is too new for its driver
 * lists a GPU and aborts at the first graph.
 */
#pragma once

#include "backend/worker/ggml/ggml.h"
#include "common/error.h"

/*
 * Opens a stream of the device, takes a little of its memory, and computes a product and a sum
 * whose result is known. ggml may abort and a driver may hang meanwhile: who wants to know that
 * watches this process. Returns 0, and nothing of it is left; or -errno with *err, what is wrong,
 * and the process is to end: nothing more is asked of such a device.
 */
int worker_trial_run(struct host_ggml *hg, const struct host_device *d, struct apir_error *err);
