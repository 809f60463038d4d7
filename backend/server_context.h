/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The apir contexts of one VMM. The server keeps our end of a context's socket
 * from CREATE_CONTEXT until virglrenderer closes its end or destroys the
 * context, whatever becomes of the worker: a context socket that hangs up makes
 * the VMM spin.
 *
 * A context that cannot be served (another protocol version, too many contexts,
 * a broken configuration) is made all the same, but *refused*: it is lost from
 * birth, its ring says why, and its fences complete. QEMU ignores a failed
 * creation and would then lose a queue descriptor with every fence.
 */
#ifndef APIR_SERVER_CONTEXT_H
#define APIR_SERVER_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/config.h"
#include "backend/server_child.h"
#include "backend/server_loop.h"
#include "backend/server_spin.h"

/* Served and refused ones together. */
#define SERVER_CONTEXTS_MAX 512u

struct server_context;

/* The set, and what its contexts share. All pointers are the creator's, and so is spin. */
struct server_contexts {
    struct server_loop *loop;
    struct server_children *children;
    const struct apir_config *config;
    const char *config_path; /* for the workers; may be NULL */
    const char *worker_path;
    struct server_context *first;
    struct server_spin spin;
    unsigned n_served;
    unsigned n_refused;
};

/* Destroys all contexts. */
void server_contexts_clear(struct server_contexts *contexts);

/* NULL: there is none with this id. */
struct server_context *server_contexts_find(struct server_contexts *contexts, uint32_t id);

/*
 * Makes a context; `refusal` (NULL: it is served) is the text its guest will
 * read. *ret_fd is virglrenderer's end of its socket, the caller's. Returns 0 or
 * -errno.
 */
int server_context_create(struct server_contexts *contexts, uint32_t id, const char *refusal,
                          int *ret_fd);

/* Kills its worker and closes its socket. */
void server_context_destroy(struct server_context *context);

#endif
