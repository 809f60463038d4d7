/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory beside ring and arena. It is room in the host-visible window, which
 * all containers of a VM share: so there is a limit, and whoever asks can do without.
 */
#pragma once

#include "frontend/link/client.h"

/*
 * Shared memory of at least `size` bytes (rounded up to APIR_SHM_ALIGN), with
 * undefined contents. `share`: the part of the host-visible window, 1/share, that all
 * of this process may take. NULL: no room, go on without. Without the lock.
 */
struct client_shared *client_shared_new(struct client *c, uint64_t size, uint32_t share);

/* Gives it up. Whatever uses it must be complete. Without the lock. */
void client_shared_free(struct client *c, struct client_shared *s);

/* Asks the host to make it known to the device. Without the lock. */
void client_shared_register(struct client *c, struct client_shared *s, uint32_t device);

/* The shared memory that holds all of [data, data + size), or NULL. */
struct client_shared *client_shared_find_locked(struct client *c, const void *data, uint64_t size);
static inline uint64_t client_shared_offset(const struct client_shared *s, const void *data)
{
    return (uint64_t)((uintptr_t)data - (uintptr_t)s->blob.map);
}
