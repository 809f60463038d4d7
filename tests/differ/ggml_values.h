/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves hold: numbers for kernels, and indices that are in range for whoever uses them. */
#ifndef APIR_DIFFER_GGML_VALUES_H
#define APIR_DIFFER_GGML_VALUES_H

#include <ggml.h>

#include "tests/differ/differ.h"

/*
 * How large an integer in `t` may be, from all that use it in the graph; 0: nobody that computes
 * does, so it may hold anything.
 */
int64_t values_limit(struct ggml_cgraph *graph, const struct ggml_tensor *t);

/* All bytes of `t`, which is contiguous: size is that of ggml_nbytes(). */
void values_make(struct differ_random *r, const struct ggml_tensor *t, int64_t limit, void *data);

#endif
