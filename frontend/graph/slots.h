/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which graphs the host already has. A graph that is in a slot is executed by its
 * number; every other one is defined in the slot least recently used.
 * Callers hold slots.lock, which is taken before the client's: the scratch and the
 * slots stay as they are while a thread waits for room in the arena and others use the client.
 */
#pragma once

#include <stdint.h>

#include "frontend/graph/encode.h"
#include "frontend/link/os.h"
#include "frontend/graph/snapshot.h"

#define SLOTS_USED 32u /* of APIR_SLOTS_MAX */

struct slot {
    bool valid;
    uint32_t device;
    uint64_t uid;      /* ggml's graph identity; 0: none */
    const void *first; /* nodes[0] and the count go with uid */
    int32_t n_nodes;
    uint64_t hash;    /* of the payload */
    uint8_t *payload; /* owned: compared in full where there is no uid */
    size_t payload_size;
    size_t payload_cap;
    uint32_t *buffers; /* owned: ids that the payload names */
    uint32_t n_buffers;
    struct snapshot snapshot; /* as it lay in memory when it was last used */
    uint64_t last_used;
    uint64_t expect_ns; /* how long its execution takes, as far as seen */
};

struct slots {
    struct os_lock lock;
    struct slot slot[SLOTS_USED];
    uint64_t clock;
    struct graph_scratch scratch;
};

extern struct slots plugin_slots;

struct plugin_stream;

/*
 * Submits the graph to the stream: DEF where needed, EXEC. Returns its slot; NULL with
 * *ret_rc 0 (nothing in it is to be computed), -ENODEV (lost), -ENOMEM or -EINVAL. Without the
 * client's lock.
 */
struct slot *slots_execute(struct slots *ss, struct plugin_stream *s,
                           const struct gg_cgraph_head *graph, int *ret_rc);

/* The host keeps nothing of a graph that it could not take: all of the device are sent anew. */
void slots_forget_device(struct slots *ss, uint32_t device);
/* The host forgets graphs of a buffer when it frees it; so do we. */
void slots_forget_buffer(struct slots *ss, uint32_t buffer_id);
