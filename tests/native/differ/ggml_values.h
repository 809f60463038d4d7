/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves hold: numbers for kernels, and indices that are in range for whoever uses them. */
#ifndef APIR_DIFFER_GGML_VALUES_H
#define APIR_DIFFER_GGML_VALUES_H

#include "tests/native/differ/ggml_build.h"

/* New values for tensor i, which is contiguous, behind a stream or (NOBODY) at once. */
void values_fill(struct world *w, const struct both *g, size_t i, int stream);

#endif
