/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no protocol can beat on this machine: handing `size` bytes from one core
 * to another through shared memory. Prints two lines: all of it at one place
 * and then told, as a plain reply area would; and in pieces told one by one at
 * places that change, so that one core writes while the other reads and neither
 * takes back lines that the other has just read.
 */
#ifndef APIR_BENCH_FLOOR_H
#define APIR_BENCH_FLOOR_H

#include <stddef.h>

void floor_print(size_t size);

#endif
