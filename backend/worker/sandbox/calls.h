/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a worker can make. */
#pragma once

#include <stdbool.h>

#include "common/error.h"

/* Returns 0, -ENOSYS where the kernel has no filters, or -errno. */
int worker_calls_restrict(bool may_lock, struct apir_error *err);
