/* SPDX-License-Identifier: Apache-2.0 */
/* A server and its contexts as one line of JSON, for `apir top`. */
#pragma once

#include <stddef.h>

#include "backend/server/context.h"

/* socket: where it listens; NULL: it serves a VMM. Returns the text, the caller's to free, with its
 * size; NULL: no memory. As long as SERVER_CONTEXTS_MAX contexts and SERVER_EVENTS_KEPT events make
 * it. */
char *server_report_make(struct server_contexts *contexts, const char *socket, size_t *ret_size);
