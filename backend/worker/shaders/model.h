/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes what language models compute, once and on zeros, so that a device's driver has
 * compiled the shaders for it.
 */
#ifndef APIR_WORKER_SHADERS_MODEL_H
#define APIR_WORKER_SHADERS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker/ggml/ggml.h"
#include "common/error.h"

/* Functions by which the host's ggml builds graphs. */
struct shaders_ggml;

/* Static memory, for good. NULL with *err: this ggml lacks some, which came in autumn 2025. */
const struct shaders_ggml *shaders_ggml_load(const struct host_ggml *hg, struct apir_error *err);

/* CLOCK_MONOTONIC. */
uint64_t shaders_now_ms(void);

/*
 * One layer, and the output matrix, of models of several shapes, with weights of each type that
 * models mostly have and batches of each size that takes other shaders: first what every program
 * needs, then mixtures of experts, a quantised cache and rarer types. What the device does not
 * support, or has no memory for (up to 1 GiB), is left out.
 * *ret_graphs: how many it has computed. False: until_ms came before it was through.
 */
bool shaders_models_compute(struct host_ggml *hg, const struct shaders_ggml *gg,
                            const struct host_device *device, uint64_t until_ms,
                            unsigned *ret_graphs);

#endif
