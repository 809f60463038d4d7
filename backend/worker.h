/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker process serves one context. It owns nothing that outlives it but
 * memory shared with the guest, so any way to end it is a safe way.
 */
#ifndef APIR_WORKER_H
#define APIR_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker_ggml.h"
#include "backend/worker_graph.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "protocol/shm.h"

struct worker_blob {
    uint8_t *map; /* NULL: no such blob */
    uint64_t size;
};

struct worker_buffer {
    uint32_t id; /* 0: free */
    uint32_t device;
    struct host_buffer host;
};

struct worker_stream {
    void *host; /* NULL: not open */
    uint32_t device;
    uint32_t status_offset; /* struct apir_stream_status in the reply area */
    bool dirty;             /* work was submitted since the last sync */
};

/* Where a GET has put its bytes, in shared memory. */
struct worker_place {
    const uint8_t *p;
    uint64_t size;
};

#define WORKER_PLACES     4u
#define WORKER_PLACE_MAX  (256u << 10)

struct worker {
    /* from the server */
    int control_fd;
    int kick_fd;
    int notify_fd;
    struct apir_worker_status *status;

    struct worker_blob blobs[APIR_BLOBS_MAX]; /* 0: the ring */
    struct apir_ring_host ring;
    unsigned state; /* APIR_ST_ bit */
    uint64_t gap_ns; /* running mean of the client's pauses */
    /* the places of GETs since the client's last pause, and those before it */
    struct worker_place places[2][WORKER_PLACES];
    uint32_t n_places[2];

    struct host_ggml ggml;
    struct worker_buffer buffers[APIR_BUFFERS_MAX];
    struct worker_stream streams[APIR_STREAMS_MAX + 1]; /* ids from 1 */
    struct worker_slot slots[APIR_SLOTS_MAX];

    /* per message code, for the summary at level info */
    struct {
        uint64_t count;
        uint64_t ns;
    } stats[64];

    uint8_t message[APIR_MESSAGE_MAX]; /* private copy of the message at hand */
};

/* ---- worker_blob.c ---- */

/*
 * Handles everything that waits on the control socket. Returns 0, -EPIPE where
 * the server is gone, or another -errno.
 */
int worker_control_drain(struct worker *w);

/*
 * `size` bytes at `offset` of arena `blob`, or NULL where that is not wholly
 * inside one. The guest may write there at any time: copy before checking.
 */
void *worker_arena(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size);

/* A reply place (APIR_REPLY_SIZE bytes), or NULL. */
void *worker_reply(struct worker *w, uint32_t offset);

/* ---- worker_dispatch.c ---- */

/*
 * Handles the decoded message. Returns NULL, or the static reason why the
 * context must become FATAL.
 */
const char *worker_dispatch(struct worker *w, const struct apir_msg *msg);

/* The buffer with this id, or NULL. */
struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t id);

/* ---- worker_sandbox.c ---- */

/* Stage 1: single-threaded, before any library is loaded. 0 or -errno. */
int worker_sandbox_enter(struct apir_error *err);

#endif
