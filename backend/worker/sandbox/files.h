/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a worker can open. */
#pragma once

#include "backend/worker/sandbox/cache.h"
#include "common/error.h"

/* This kernel's version of Landlock, 0 where it has none, or -errno. */
int worker_files_version(void);

/*
 * Nothing but the listed paths can be opened from now on.
 * `caches` may be written. Returns the version of Landlock, 0 where the kernel has
 * none, or -errno.
 */
int worker_files_restrict(const struct apir_config *config, const struct worker_caches *caches,
                          struct apir_error *err);
