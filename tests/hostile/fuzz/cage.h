/* SPDX-License-Identifier: Apache-2.0 */
/* The host's ggml with its CPU backend in a fuzzer: where an assert of ggml's would end a worker,
 * the caller goes on. */
#ifndef APIR_FUZZ_CAGE_H
#define APIR_FUZZ_CAGE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/ggml/ggml.h"

/* if (setjmp(cage) == 0) what may assert; cage_armed while that is so: else an assert is a finding.
 */
extern jmp_buf cage;
extern bool cage_armed;

/* Memory between two pages without access: it ends where the second begins, as closely as `align`
 * allows. NULL: there are too many. */
uint8_t *cage_alloc(size_t size, size_t align);
/* False: it is none of cage_alloc's. */
bool cage_free(const void *memory);

/* Loads it, with the CPU as its one device of one thread. */
void cage_load(struct host_ggml *hg);

#endif
