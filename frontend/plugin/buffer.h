/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of ours: which one a tensor lies in, and their ids. */
#pragma once

#include "frontend/plugin/plugin.h"

/* The context of a ggml_backend_buffer of ours. */
struct plugin_buffer {
    struct plugin_device *device;
    void *ggml; /* ggml_backend_buffer */
    uint32_t id;
    uint8_t *base; /* reserved addresses, never touched */
    uint64_t size;
    const struct plugin_extra *extra; /* NULL: of the device's own type */
    struct os_lock whole;             /* who sets a tensor of an extra type, as a whole */
    bool is_set;                      /* of an extra type: some tensor has been */
};

/* Our context of the buffer that holds t (or t's view source), or NULL: it is in none of ours, or
 * in one of size 0, which ggml makes by itself. */
struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t);
/* The extra type of the buffer that holds t, also of one of size 0; NULL: of another type. */
const struct plugin_extra *plugin_extra_of(const struct gg_tensor *t);
/* t is no view, and its buffer is of size 0 and the device's own type: ggml asks what such memory
 * would be good for. */
bool plugin_is_imagined(const struct plugin_device *d, const struct gg_tensor *t);
/* t has been given memory that the program's CPU reads. */
bool plugin_is_in_cpu_memory(const struct gg_tensor *t);
/* Ids of the host's buffers, with the client's lock. An id that no live buffer has: index below,
 * generation above; 0: none is left. Whoever gives one back has told the host first. */
uint32_t plugin_buffer_id_get_locked(void);
void plugin_buffer_id_put_locked(uint32_t id);
