/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server does with a context's ring: it writes a few words of its first
 * page. It maps nothing else of shared memory (backend/server/shm.h) and reads nothing from it
 * but the state word.
 */
#pragma once

#include <stdint.h>

#include "protocol/shm.h"

/*
 * Maps the header page of a ring blob of `size` bytes (apir_ring_size_ok) and
 * fills it: magic, layout, state STARTING. server_page_unmap() releases it.
 * Returns 0 or -errno.
 */
int server_ring_map(int fd, uint64_t size, struct apir_ring_header **ret_header);

/* Of a ring whose worker has not started: which devices are left out, for apir doctor. */
void server_ring_note(struct apir_ring_header *header, const char *text);

/*
 * State LOST with `reason`, unless the worker's own FATAL stands there, and
 * wakes every waiting guest of this kernel. May be repeated: a worker that was
 * being killed may have written READY over the first one.
 */
void server_ring_lose(struct apir_ring_header *header, const char *reason);
