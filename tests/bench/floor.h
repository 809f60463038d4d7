/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no protocol can beat on this machine: handing `size` bytes from one core
 * to another through shared memory. Prints both ways: all at once, as a plain reply area
 * would; and as results travel here, in steps (apir_get_step).
 */
#ifndef APIR_BENCH_FLOOR_H
#define APIR_BENCH_FLOOR_H

#include <stddef.h>

void floor_print(size_t size);

#endif
