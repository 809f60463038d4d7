/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker as a client of NVIDIA's Multi-Process Service (backend/server/share/mps.h). CUDA
 * connects by itself to the daemon that its environment names, and where it finds none computes
 * without, and says nothing: so we wait until the daemon is there, and look afterwards.
 *
 * CUDA's connections are made when a device is first asked for its memory, which is when ggml lists
 * it: before anything of a guest's is looked at. The filter of system calls has none to make
 * others.
 */
#pragma once

#include "backend/config/settings.h"
#include "backend/worker/ggml/ggml.h"
#include "common/error.h"

/* How long a daemon may take that was only just started. */
#define WORKER_MPS_WAIT_MS 10000

/*
 * Before the sandbox, and before ggml is loaded. 0: the daemon listens, or we go without it, which
 * the log says; -errno with *err set: "mps": "required" and it is not there.
 */
int worker_mps_wait(const struct apir_config *config, struct apir_error *err);

/*
 * After ggml is loaded. 0, or -errno with *err set: there is a GPU that it would compute on without
 * MPS, though "required", or MPS has no room for another program.
 */
int worker_mps_check(const struct apir_config *config, struct host_ggml *hg,
                     struct apir_error *err);
