/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random weights, the same for the same seed on every machine: only integer arithmetic and
 * correctly rounded floating-point operations are used, no library's distribution.
 */
#ifndef APIR_TESTS_MODELS_WEIGHTS_H
#define APIR_TESTS_MODELS_WEIGHTS_H

#include <stdint.h>

#include <ggml.h>

#include "tests/lib/models/shape.h"

/* The type in which an entry is stored when the user asked for `matrix`. */
enum ggml_type weights_type(const struct plan_entry *e, enum ggml_type matrix);

/* How many rows are best made at a time: a few MiB of them. */
int64_t weights_step(const struct plan_entry *e);

/*
 * Makes rows [row, row + n) of one tensor as they are stored, in any order and on any thread.
 * `salt` tells tensors of the same file apart. Both `values` and `stored` have room for them, as
 * floats and in `type`.
 */
void weights_make(const struct plan_entry *e, enum ggml_type type, uint64_t seed, uint64_t salt,
                  int64_t row, int64_t n, float *values, void *stored);

#endif
