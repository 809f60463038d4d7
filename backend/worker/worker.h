/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker process serves one context. It owns nothing that outlives it but
 * memory shared with the guest, so any way to end it is a safe way.
 *
 * What it consists of. Each file beside this one works on a part of it, and calls only those before
 * it: control, table, turn, stream, blob, extra, transfer, graph, dispatch, main.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker/ggml/buffer.h"
#include "backend/worker/ggml/graph.h"
#include "backend/worker/rules/meaning.h"
#include "backend/worker/spin.h"
#include "protocol/atomic.h"
#include "protocol/crowd.h"
#include "protocol/graph.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "protocol/shm.h"

struct worker_blob {
    uint8_t *map; /* NULL: no such blob */
    uint64_t size;
    struct host_buffer direct; /* the same memory as a buffer of `device`, or no handle */
    bool pinned;               /* for copies of `device` */
    uint32_t device;
};

/* A tensor in a buffer of an extra type, as the host has converted it. */
struct worker_extra_tensor {
    uint64_t offset, size; /* in the buffer, as large as the type makes it */
    uint32_t type;
    int64_t ne[APIR_TENSOR_DIMS];
};

/* What is in a buffer of an extra type (backend/worker/extra.h). */
struct worker_extra {
    uint32_t type;                       /* number of the device's extra type */
    struct worker_extra_tensor *tensors; /* n_tensors, by offset; owned */
    uint32_t n_tensors, room;
    /* The one whose bytes are coming: `arrived` of plain_size. */
    struct worker_extra_tensor coming;
    uint64_t plain_size, arrived; /* plain_size 0: none */
    uint8_t *plain;               /* owned; NULL: there was no memory, and its bytes are dropped */
    uint64_t reserved;            /* bytes of `plain` in the server's books */
};

struct worker_buffer {
    uint32_t id; /* 0: free */
    uint32_t device;
    uint64_t reserved; /* bytes of the device in the server's books */
    struct host_buffer host;
    struct worker_extra *extra; /* owned; NULL: of the device's own type */
};

enum worker_slot_state {
    SLOT_EMPTY = 0,
    SLOT_READY,
    SLOT_BROKEN, /* well-formed, but this host cannot compute it: EXEC reports why */
};

/*
 * Row numbers that an op of a graph looks things up by, in a leaf whose memory we can read
 * and the guest cannot: they are checked before each computation.
 */
struct worker_index {
    uint32_t node; /* index of the tensor that wants it */
    const uint8_t *data;
    bool wide; /* I64, else I32 */
    int64_t ne[APIR_TENSOR_DIMS];
    uint64_t nb[APIR_TENSOR_DIMS];
    int64_t limit; /* valid are 0 to limit - 1 */
};

struct worker_slot {
    enum worker_slot_state state;
    uint32_t status;         /* BROKEN: the enum apir_status that EXEC reports … */
    char why[APIR_WHY_SIZE]; /* … and this text, for the user */
    uint32_t device;
    struct apir_graph wire;    /* kept for the list of buffers and for messages */
    struct gg_tensor *tensors; /* wire.n_tensors, owned */
    struct host_graph graph;
    struct worker_index *indices; /* n_indices, owned */
    uint32_t n_indices;
    uint64_t bytes; /* about what all of this takes, for context_graph_mib */
};

struct worker_event {
    void *host; /* NULL: the device has none, the whole stream stands for it */
    uint32_t device;
    uint32_t stream;  /* 0: nothing recorded */
    uint64_t waiters; /* bit per stream (from 1) that waits for the latest mark */
    uint64_t late;    /* the same for marks before it: SYNC would take them away */
    uint32_t marks;   /* since the last SYNC: drivers keep something of each */
};

struct worker_stream {
    void *host; /* NULL: not open */
    uint32_t device;
    uint32_t status_offset;  /* struct apir_stream_status in the reply area */
    bool dirty;              /* work was submitted since the last sync … */
    uint32_t queued;         /* … so many pieces of it … */
    uint64_t queued_bytes;   /* … with transfers of so many bytes */
    uint64_t graph_ns;       /* … its latest graph has taken so long; 0: there is none … */
    uint32_t graph_nodes;    /* … with so many nodes … */
    uint64_t graph_elements; /* … of so many elements */
    uint64_t long_elements;  /* graphs of so many take long, as far as we know; 0: none does */
    uint64_t node_ns;        /* … about so long for a node */
    uint32_t failed;         /* enum apir_status of the latest graph that failed … */
    char why[APIR_WHY_SIZE]; /* … and why: our own, for the guest can change what it was told */
};

/* A blob that is to go: a device may be in the middle of a copy from it. */
struct worker_dying {
    struct worker_dying *next;
    struct worker_blob blob;
};

/* The arena as a device sees it (blob.h). */
struct worker_arena_view {
    const void *map;           /* the arena it was asked about; NULL: none yet */
    struct host_buffer buffer; /* .handle NULL: it does not see it */
};

struct worker {
    /* from the server */
    int control_fd; /* -1: there is no server, and nobody to ask (tests) */
    struct apir_worker_status *status;
    struct worker_spin spin;
    const struct apir_turn_page *turns; /* NULL: classes take none */
    uint32_t
        turn_bits[APIR_DEVICES_MAX]; /* of ggml.devices; 0: it is not known, or there is none */

    struct worker_blob blobs[APIR_BLOBS_MAX];          /* 0: the ring */
    struct worker_dying *dying;                        /* owned; worker_blobs_reap() */
    struct worker_arena_view arenas[APIR_DEVICES_MAX]; /* for each of ggml.devices */
    struct apir_ring_host ring;
    unsigned state;       /* APIR_ST_ bit */
    uint64_t shm_limit;   /* bytes: the server refuses blobs beyond it */
    uint64_t graph_limit; /* bytes: of all slots; 0: none */
    uint64_t graph_bytes;
    bool is_limited;      /* by the server: it may refuse what is asked for */
    bool room_is_limited; /* by the configuration: the server says what is left */
    uint64_t queue_limit; /* bytes: of all streams; 0: none */
    uint64_t queued_bytes;
    uint32_t devices_used;             /* bit per device: the server counts us there */
    struct apir_control_answer answer; /* to what we have asked the server … */
    bool answered;                     /* … once it is there */
    int control_err;   /* -errno: the control socket failed before that; this context ends */
    uint64_t gap_ns;   /* running mean of the client's pauses */
    uint64_t pause_ns; /* when the client's pause began; 0: it has sent something */
    bool one_kernel;   /* the client says so: whether it is true concerns its own speed alone */
    struct apir_crowd crowd;

    struct host_ggml ggml;
    struct worker_meaning meaning; /* of it */
    struct worker_buffer buffers[APIR_BUFFERS_MAX];
    struct worker_stream streams[APIR_STREAMS_MAX + 1]; /* ids from 1 */
    struct worker_event events[APIR_EVENTS_MAX];
    struct worker_slot slots[APIR_SLOTS_MAX];

    uint8_t message[APIR_MESSAGE_MAX]; /* private copy of the message at hand */
};

/* Adds to one of the words of apir_worker_counts: nobody else writes there. */
static inline void worker_count(uint64_t *word, uint64_t n)
{
    apir_store_relaxed64(word, *word + n);
}
