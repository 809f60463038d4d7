/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context behind virglrenderer's socket. The server keeps our end of it from
 * CREATE_CONTEXT until virglrenderer closes its end or destroys the context,
 * whatever becomes of the worker: a context socket that hangs up makes the VMM
 * spin. A refused context has its socket and its fences all the same: QEMU
 * ignores a failed creation and would then lose a queue descriptor with every
 * fence.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/context.h"

/*
 * Makes a context (refusal: as server_context_init has it) and the socket to it, which is of the
 * kind that the VMM's own is (framing.h). *ret_fd is virglrenderer's end, the caller's. Returns 0
 * or -errno.
 */
int server_virgl_create(struct server_contexts *contexts, uint32_t id, const char *refusal,
                        bool stream, int *ret_fd);
