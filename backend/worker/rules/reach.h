/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "protocol/graph.h"

/* Bytes that kernels may touch, counted from a tensor's data: [0] of the result,
 * [1 + i] of source i. 0: no more than the tensor's own extent. */
struct worker_reach {
    uint64_t bytes[1 + APIR_TENSOR_SRC];
    /* Why the op may be asked about, as it is natively, but not be computed; or NULL. */
    const char *only_asked;
};
