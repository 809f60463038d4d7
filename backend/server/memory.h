/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous memory that is shared by its descriptor: a memfd; where the system has none, POSIX
 * shared memory that has lost its name.
 *
 * What differs: a memfd is sealed, nobody can resize it. Of the other kind whoever holds it may cut
 * it off, and who touches what was there gets a SIGBUS. So each is of one context, whose worker may
 * die of what its own guest does; the server's own maps survive that (page.h); and nothing of this
 * kind is shared by two workers (spin.h). virglrenderer on Linux takes memfds alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* `size` bytes, zeroed; close-on-exec. Returns the descriptor or -errno. name is for people. */
int server_memory_create(const char *name, uint64_t size);

/* Whether nobody can resize it. */
bool server_memory_is_sealed(int fd);

/* Nobody is even to add seals. Does nothing where there are none. Returns 0 or -errno. */
int server_memory_seal(int fd);

/* Nobody else can map it to write into it from now on; maps that there are stay as they are.
 * Returns 0 or -errno. */
int server_memory_seal_writes(int fd);

/* The first `size` bytes are there: out of memory is an error here, not a SIGBUS at a store.
 * Returns 0 or -errno. */
int server_memory_reserve(int fd, uint64_t size);

/* Its bytes are gone, whoever maps it or has kept a path to it: what such a one writes into it
 * later is accounted to that process by the kernel, as any memory of its own. Takes as long as
 * there was much in it (backend/server/closer.h). */
void server_memory_free(int fd, uint64_t size);
