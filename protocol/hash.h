/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* FNV-like over 8 bytes at a time; not cryptographic: what has the same hash is compared in full.
 */
uint64_t apir_hash(const void *data, uint64_t size);
