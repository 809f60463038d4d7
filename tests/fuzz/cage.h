/* SPDX-License-Identifier: Apache-2.0 */
/* The host's ggml with its CPU backend in a fuzzer: where an assert of ggml's would end a worker,
 * the caller goes on. */
#ifndef APIR_FUZZ_CAGE_H
#define APIR_FUZZ_CAGE_H

#include <setjmp.h>
#include <stdbool.h>

#include "backend/worker/ggml/ggml.h"

/* if (setjmp(cage) == 0) what may assert; cage_armed while that is so: else an assert is a finding.
 */
extern jmp_buf cage;
extern bool cage_armed;

/* Loads it, with the CPU as its one device of one thread. */
void cage_load(struct host_ggml *hg);

#endif
