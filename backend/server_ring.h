/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server does with a context's shared memory: it makes the memfds and
 * writes a few words of the ring's first page. It maps nothing else and reads
 * nothing from it but the state word.
 */
#ifndef APIR_SERVER_RING_H
#define APIR_SERVER_RING_H

#include <stdint.h>

#include "protocol/shm.h"

/*
 * A memfd of exactly `size` bytes that can neither shrink nor grow (so that no
 * mapping of ours can fault) and that virglrenderer may still seal.
 * Returns the fd (the caller's) or -errno.
 */
int server_memfd_create(const char *name, uint64_t size);

/*
 * Maps the header page of a ring blob of `size` bytes (apir_ring_size_ok) and
 * fills it: magic, layout, state STARTING. server_ring_unmap releases it.
 * Returns 0 or -errno.
 */
int server_ring_map(int fd, uint64_t size, struct apir_ring_header **ret_header);
void server_ring_unmap(struct apir_ring_header *header);

/*
 * State LOST with `reason`, unless the worker's own FATAL stands there, and
 * wakes every waiting guest of this kernel. May be repeated: a worker that was
 * being killed may have written READY over the first one.
 */
void server_ring_lose(struct apir_ring_header *header, const char *reason);

#endif
