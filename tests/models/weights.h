/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random weights, the same for the same seed on every machine: only integer arithmetic and
 * correctly rounded floating-point operations are used, no library's distribution.
 */
#ifndef APIR_TESTS_MODELS_WEIGHTS_H
#define APIR_TESTS_MODELS_WEIGHTS_H

#include <stdint.h>
#include <stdio.h>

#include <ggml.h>

#include "tests/models/shape.h"

/* The type in which an entry is stored when the user asked for `matrix`. */
enum ggml_type weights_type(const struct plan_entry *e, enum ggml_type matrix);

/*
 * Writes the data of one tensor to the stream, a few MiB at a time. `salt` tells tensors of the
 * same file apart. Returns 0, or -1 and errno.
 */
int weights_write(FILE *f, const struct plan_entry *e, enum ggml_type type, uint64_t seed,
                  uint64_t salt);

#endif
