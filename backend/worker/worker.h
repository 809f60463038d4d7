/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker process serves one context. It owns nothing that outlives it but
 * memory shared with the guest, so any way to end it is a safe way.
 */
#ifndef APIR_WORKER_H
#define APIR_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "backend/worker/ggml/ggml.h"
#include "backend/worker/graph.h"
#include "protocol/messages.h"
#include "protocol/peer_copy.h"
#include "protocol/ring.h"
#include "protocol/shm.h"

struct worker_blob {
    uint8_t *map; /* NULL: no such blob */
    uint64_t size;
    struct host_buffer direct; /* the same memory as a buffer of `device`, or no handle */
    uint32_t device;
};

struct worker_buffer {
    uint32_t id; /* 0: free */
    uint32_t device;
    uint64_t reserved; /* bytes of the device in the server's books */
    struct host_buffer host;
    uint8_t *shared; /* BUFFER_SHARE: the mapping that holds it, owned; else NULL */
    uint64_t shared_size;
    uint8_t *taken; /* per page of it: 1 once it is out of the guest's reach; owned */
    bool used;      /* a graph has named it: what it holds may be that graph's result */
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
    uint64_t worked_ns;      /* when it was last waited for or marked; 0: never */
    void *mark;              /* an event of our own; NULL: none yet */
    uint32_t marks;          /* made with it since the last sync */
    uint32_t failed;         /* enum apir_status of the latest graph that failed … */
    char why[APIR_WHY_SIZE]; /* … and why: our own, for the guest can change what it was told */
    uint64_t lead; /* bytes that the CPU writes before the device begins, as learned; 0: not yet */
};

struct worker {
    /* from the server */
    int control_fd; /* -1: there is no server, and nobody to ask (tests) */
    int notify_fd;
    struct apir_worker_status *status;
    struct apir_spin_page *spin;
    uint32_t spin_slot; /* our byte of it; APIR_SPIN_SLOTS: none, we may not look */

    struct worker_blob blobs[APIR_BLOBS_MAX]; /* 0: the ring */
    struct apir_ring_host ring;
    struct apir_peer peer; /* the client, as results travel there */
    unsigned state;        /* APIR_ST_ bit */
    uint64_t shm_limit;    /* bytes: the server refuses blobs beyond it */
    uint64_t graph_limit;  /* bytes: of all slots; 0: none */
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

    struct host_ggml ggml;
    struct worker_buffer buffers[APIR_BUFFERS_MAX];
    struct worker_stream streams[APIR_STREAMS_MAX + 1]; /* ids from 1 */
    struct worker_event events[APIR_EVENTS_MAX];
    struct worker_slot slots[APIR_SLOTS_MAX];

    /* per message code, for the summary at level info */
    struct {
        uint64_t count;
        uint64_t ns;
    } stats[64];
    uint64_t n_rouse;          /* marks of worker_rouse() */
    uint64_t n_both, n_queued; /* sets by CPU and device; those of streams */

    uint8_t message[APIR_MESSAGE_MAX]; /* private copy of the message at hand */
};

/* CLOCK_MONOTONIC. */
static inline uint64_t worker_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- backend/worker/blob.c ---- */

/*
 * Handles everything that waits on the control socket. Returns 0, -EPIPE where
 * the server is gone, or another -errno.
 */
int worker_control_drain(struct worker *w);

/*
 * `size` bytes at `offset` of `blob` (not the ring), or NULL where that is not
 * wholly inside one. The guest may write there at any time: copy before checking.
 */
void *worker_arena(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size);

/* A reply place (APIR_REPLY_SIZE bytes), or NULL. */
void *worker_reply(struct worker *w, uint32_t offset);

const char *worker_blob_register(struct worker *w, const struct apir_msg_blob_register *m);
const char *worker_blob_forget(struct worker *w, const struct apir_msg_blob_forget *m);
const char *worker_buffer_share(struct worker *w, const struct apir_msg_buffer_share *m);

/* A graph names it from now on. */
void worker_buffer_use(struct worker_buffer *b);

/* Frees the buffer's memory and its entry. */
void worker_buffer_drop(struct worker *w, struct worker_buffer *b);

/*
 * Takes [data, data + size) of a shared buffer out of the guest's reach, with its
 * present contents: what is about to be checked must not change afterwards. The
 * address stays. 0 or -errno; nothing to do for a buffer that is not shared.
 */
int worker_buffer_privatize(struct worker_buffer *b, const void *data, uint64_t size);

/* ---- backend/worker/limits.c ---- */

/*
 * Asks the server for `size` bytes of the device; 0: only to be counted among its users. Before
 * anything else is asked, worker_granted() must be called for this one.
 *
 * Where the server has limits, this waits for the answer. A server without any refuses nothing for
 * being too much; it only writes down what we take, which other servers' limits count, and it may
 * do so while we take it. Both return APIR_OK, or another status with why[APIR_WHY_SIZE] set.
 * Messages about blobs are handled meanwhile.
 */
enum apir_status worker_reserve(struct worker *w, uint32_t device, uint64_t size, char *why);
enum apir_status worker_granted(struct worker *w, uint32_t device, char *why);
void worker_release(struct worker *w, uint32_t device, uint64_t size);

/* Lowers both to what the limits leave. */
void worker_room(struct worker *w, uint32_t device, uint64_t *io_free, uint64_t *io_total);

/* ---- backend/worker/transfer.c ---- */

const char *worker_set(struct worker *w, const struct apir_msg_set *m);
const char *worker_set_inline(struct worker *w, const struct apir_msg_set_inline *m,
                              const uint8_t *data);
const char *worker_get(struct worker *w, const struct apir_msg_get *m);
const char *worker_set_2d(struct worker *w, const struct apir_msg_set_2d *m);
const char *worker_get_2d(struct worker *w, const struct apir_msg_get_2d *m);
const char *worker_memset(struct worker *w, const struct apir_msg_memset *m);
const char *worker_copy(struct worker *w, const struct apir_msg_copy *m);

/* ---- backend/worker/stream.c ---- */

/*
 * Makes what follows come after the stream's work so far. Stream 0 stands for
 * ggml's synchronous calls, which are ordered by the caller's own synchronize.
 */
const char *worker_stream_settle(struct worker *w, uint32_t id);

/*
 * Work was queued on the stream; `bytes` of it are a transfer. What may be queued is bounded, for
 * drivers keep something for each piece; then this waits for it.
 */
void worker_stream_note(struct worker *w, struct worker_stream *s, uint64_t bytes);

/* A graph of the stream has failed, or what it was given is of one that has: its guest is told.
 * `why` is a text for the user. */
void worker_stream_fail(struct worker *w, struct worker_stream *s, uint32_t status,
                        const char *why);
/* What stream `to` does next uses what stream `from` has computed. If a graph of that has failed
 * and the guest has not cleared it yet, `to` fails as well. Both are open, or 0: nobody. */
void worker_stream_inherit(struct worker *w, uint32_t to, uint32_t from);

/* Before anything is freed or rewritten that a running graph may use. */
void worker_streams_settle(struct worker *w);

/*
 * Of this device's streams the one that worked last, if none of them has anything to do and marks
 * can be made; NULL: there is none. (Streams may share a queue: a wait for one is one for all.)
 */
struct worker_stream *worker_stream_idle(struct worker *w, uint32_t device);

/* A mark makes the device begin with what is queued before it; the wait is for the latest mark. */
void worker_stream_mark(struct worker *w, struct worker_stream *s);
void worker_stream_mark_wait(struct worker *w, struct worker_stream *s);

/*
 * After a pause a device begins late: an H200 by 20 to 200 us, where the pause was of a millisecond
 * or two. Gives the one that worked last a mark, so that it is awake for what is about to come, and
 * does not wait for it.
 */
void worker_rouse(struct worker *w);

const char *worker_stream_open(struct worker *w, const struct apir_msg_stream_open *m);
const char *worker_stream_close(struct worker *w, const struct apir_msg_stream_close *m);
const char *worker_event_record(struct worker *w, const struct apir_msg_event_record *m);
const char *worker_event_wait(struct worker *w, const struct apir_msg_event_wait *m);
const char *worker_event_sync(struct worker *w, const struct apir_msg_event_sync *m);
const char *worker_event_free(struct worker *w, const struct apir_msg_event_free *m);

/* ---- backend/worker/dispatch.c ---- */

extern const char worker_bad_reply[], worker_bad_device[], worker_bad_buffer[], worker_bad_range[],
    worker_bad_arena[], worker_bad_stream[];

/*
 * Handles the decoded message. Returns NULL, or the static reason why the
 * context must become FATAL.
 */
const char *worker_dispatch(struct worker *w, const struct apir_msg *msg);

/* The buffer with this id, or NULL. */
struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t id);

#endif
