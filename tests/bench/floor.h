/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no protocol can beat on this machine: handing `size` bytes from one core
 * to another through shared memory. Prints both ways: with memcpy at one place, as a
 * plain reply area would; and as results travel here (protocol/peer_copy.h), in steps at
 * two places in turn.
 */
#ifndef APIR_BENCH_FLOOR_H
#define APIR_BENCH_FLOOR_H

#include <stddef.h>

void floor_print(size_t size);

#endif
