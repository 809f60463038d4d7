/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the shader cache that workers read, without anything of a guest's: a process that has no
 * context computes what models compute, on zeros. It is this very program, since some drivers
 * (NVIDIA's) keep a cache per executable, and outside the sandbox, in which nothing is kept
 * (backend/worker/sandbox/cache.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker/ggml/ggml.h"
#include "common/error.h"

/*
 * For each GPU, and with `all` also for drivers that compute on the CPU; ends soon after most_ms.
 * Returns 0, or -ENOTSUP with *err where this ggml is too old.
 */
int worker_shaders_fill(struct host_ggml *hg, uint64_t most_ms, bool all, struct apir_error *err);
