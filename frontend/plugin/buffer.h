/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of ours: which one a tensor lies in, and filling one in shared memory. */
#ifndef APIR_FRONTEND_PLUGIN_BUFFER_H
#define APIR_FRONTEND_PLUGIN_BUFFER_H

#include "frontend/plugin/plugin.h"

enum plugin_fill {
    FILL_NEW = 0, /* nothing has been written yet */
    FILL_OPEN,    /* is being written through `shared` */
    FILL_DONE,    /* by messages from now on */
};

/* The context of a ggml_backend_buffer of ours. */
struct plugin_buffer {
    struct plugin_buffer *next; /* in plugin.buffers */
    struct plugin_device *device;
    void *ggml; /* ggml_backend_buffer */
    uint32_t id;
    uint8_t *base; /* reserved addresses, never touched */
    uint64_t size;
    struct os_lock fill_lock;
    uint32_t fill;                /* enum plugin_fill */
    struct client_shared *shared; /* FILL_OPEN: the buffer's memory */
};

/* Our context of the buffer that holds t (or t's view source), or NULL: it is in none of ours, or
 * in one of size 0, which ggml makes by itself. */
struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t);
/* t has been given memory of the CPU. */
bool plugin_is_in_host_memory(const struct gg_tensor *t);
/*
 * Writes into the buffer's own memory, where that is shared and still being filled.
 * False: it is not; the range is within the buffer.
 */
bool plugin_buffer_fill(struct plugin_buffer *b, uint64_t offset, const void *data, size_t size);
/* Ends that, for one or all: what follows goes by messages. */
void plugin_buffer_seal(struct plugin_buffer *b);
void plugin_buffers_seal(void);

/* Ids of the host's buffers. An id that no live buffer has: index below, generation above; 0: none
 * is left. Whoever gives one back has told the host first. */
uint32_t plugin_buffer_id_get_locked(void);
void plugin_buffer_id_put_locked(uint32_t id);

/* The list of all that ggml has. */
void plugin_buffer_add(struct plugin_buffer *b);
void plugin_buffer_remove(struct plugin_buffer *b);

#endif
