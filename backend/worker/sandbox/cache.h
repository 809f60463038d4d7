/* SPDX-License-Identifier: Apache-2.0 */
/* Where drivers keep compiled shaders. */
#pragma once

#include <stddef.h>

#include "backend/config/settings.h"

#define WORKER_CACHES_MAX 8u

struct worker_caches {
    char path[WORKER_CACHES_MAX][256];
    size_t n;
};

/* Those that exist, by the names that this environment gives them, without what workers share. */
void worker_caches_find(struct worker_caches *caches, const struct apir_config *config);

/* From now on drivers of this process find no cache, nor anything else in the user's home: where
 * nothing keeps other workers from writing there, what is in it may be theirs. */
void worker_caches_forsake(void);

/*
 * In a mount namespace of our own: what is written to them from now on is seen by
 * this process only and ends with it. Keeps in the list those where that worked.
 */
void worker_caches_cover(struct worker_caches *caches);
