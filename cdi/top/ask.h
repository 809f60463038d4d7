/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All servers of this machine that this user may look at, asked at once and with one time limit
 * (backend/server/seen/seen.h). What they say is checked to be JSON and no more: a server may be
 * any user's program.
 */
#pragma once

#include "common/error.h"

/* Where servers of root have the sockets that are asked; as backend/server/seen/seen.h has it. */
#define CDI_TOP_FOLDER "/run/apir/top"

struct json_object;

/*
 * A new list with an object for each server, in the order of their sockets' paths: what it has
 * said, and "at" (the socket's path) and "pid" (as the kernel knows it); of one that does not
 * answer, "error" in place of what it has said. Where nobody listens is left out. The caller's to
 * put; NULL with *err: no memory.
 */
struct json_object *cdi_top_ask(unsigned timeout_ms, struct apir_error *err);
