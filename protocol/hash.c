/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/hash.h"

#include <string.h>

uint64_t apir_hash(const void *data, uint64_t size)
{
    const uint8_t *p = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ size;
    while (size >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        p += 8;
        size -= 8;
    }
    while (size--)
        h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h ^ (h >> 32);
}
