/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in's objects in the shape of the ggml that loaded it. One plug-in
 * serves one ggml per process; its objects live until the process ends (the
 * library is never unloaded), except buffers and backends, which ggml frees.
 */
#ifndef APIR_FRONTEND_PLUGIN_H
#define APIR_FRONTEND_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frontend/link/client.h"
#include "frontend/graph/orders.h"
#include "frontend/graph/query.h"
#include "frontend/graph/slots.h"
#include "protocol/ggml_abi.h"

struct plugin_device {
    struct gg_device ggml;             /* first: what ggml sees */
    uint64_t buft[GG_BUFT_WORDS];      /* ggml_backend_buffer_type */
    uint64_t host_buft[GG_BUFT_WORDS]; /* the same for memory of ours that it reaches */
    struct apir_reply_device_info info;
    uint32_t index; /* the host's */
    char name[16];  /* APIR0 … */
    char buft_name[16];
    char host_buft_name[24];
    char description[APIR_NAME_SIZE];
    char device_id[64];
    struct query_cache queries;
};

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

/* The context of a ggml_backend of ours. */
struct plugin_stream {
    uint64_t ggml[GG_BACKEND_WORDS]; /* first: what ggml sees */
    struct plugin_device *device;
    char name[16];
    uint32_t id;
    uint32_t flags;          /* enum apir_stream_flag */
    uint64_t last;           /* position of the newest command of this stream; 0: none */
    bool last_settles;       /* completing `last` means that all its work is done */
    struct slot *running;    /* the graph that was submitted last; NULL: none since sync */
    uint64_t submitted;      /* when it became visible to the host */
    uint64_t idle_expect_ns; /* what a wait takes that is not for a graph; 0: not known */
    /* By index, under the client's lock: buffers of the graphs submitted since the last sync. */
    uint64_t touched[APIR_BUFFERS_MAX / 64];
};

struct plugin {
    struct ggml_layout layout;
    struct client client;
    struct gg_reg reg;
    struct plugin_device devices[APIR_DEVICES_MAX];
    uint32_t n_devices;
    struct slots slots;
    struct orders orders;

    /* ids of host objects; under the client's lock */
    uint16_t buffer_generation[APIR_BUFFERS_MAX];
    uint64_t buffer_used[APIR_BUFFERS_MAX / 64];
    uint64_t stream_used;                            /* bit i: stream id i + 1 */
    struct plugin_stream *streams[APIR_STREAMS_MAX]; /* by id - 1 */
    /* Bit i: a graph of stream id i + 1 has failed and no call has told its program yet. What it
     * was to compute reads as NaN meanwhile. Read without the lock. */
    uint64_t streams_failed;
    /* All work of a stream id, whoever had it, up to this position is done. */
    uint64_t stream_settled[APIR_STREAMS_MAX + 1];
    uint64_t event_used[APIR_EVENTS_MAX / 64];
    uint64_t mib_ns; /* what a set by reference is known to take, for each MiB (expect.h) */

    struct os_lock buffers_lock;
    struct plugin_buffer *buffers; /* all of ours */
    uint32_t n_filling;            /* that are FILL_OPEN */

    void *(*buffer_init)(void *buft, struct gg_buffer_i iface, void *ctx, size_t size);
    size_t (*nbytes)(const struct gg_tensor *t);
    int (*blck_size)(int type); /* newer ones return an int64_t, which is as small */
    bool (*is_contiguous)(const struct gg_tensor *t);
    const char *(*op_name)(int op);
    const char *(*unary_op_name)(int op);
    const char *(*glu_op_name)(int op); /* NULL in builds without GLU */
};

/* Puts a function into one of ggml's objects, at an offset of the layout; 0: this ggml has none. */
#define PLUGIN_SET_FN(object, offset, function)                                                    \
    do {                                                                                           \
        __typeof__(&function) fn_ = function;                                                      \
        if (offset)                                                                                \
            memcpy((char *)(object) + (offset), &fn_, sizeof(fn_));                                \
    } while (0)

extern struct plugin plugin; /* in entry.c; zero until init has succeeded */

/* ---- host_buffer.c ---- */
/* Fills d->host_buft. */
void plugin_host_buft_init(struct plugin_device *d);

/* ---- device.c ---- */
/* Ops that only rename memory: nothing is computed. */
bool plugin_op_is_view(int op);
/* d->info is filled: as APIR<number>, for that device of the host. */
void plugin_device_init(struct plugin_device *d, uint32_t number, uint32_t host_index);

/* ---- buffer.c ---- */
void *plugin_buffer_alloc(struct plugin_device *d, size_t size);
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

/* ---- transfer.c ---- */
/* Bytes from which on the copy saved is worth the wait that takes its place. */
#define PLUGIN_REFERENCE_MIN (64u << 10)

/* Asynchronous and synchronous forms share these; stream NULL: synchronous. */
void plugin_tensor_set(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                       size_t offset, size_t size);
void plugin_tensor_get(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                       size_t offset, size_t size);
void plugin_tensor_set_2d(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                          size_t offset, size_t size, size_t n, size_t stride_tensor,
                          size_t stride_data);
void plugin_tensor_get_2d(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                          size_t offset, size_t size, size_t n, size_t stride_tensor,
                          size_t stride_data);
void plugin_tensor_memset(struct gg_tensor *t, uint8_t value, size_t offset, size_t size);
bool plugin_tensor_copy(struct plugin_stream *src_stream, struct plugin_stream *dst_stream,
                        const struct gg_tensor *src, struct gg_tensor *dst);

/* ---- entry.c ---- */
/* Ends a host's text of APIR_WHY_SIZE, and takes out what a terminal might obey. */
void plugin_why_clean(char *why);

/* ---- stream.c ---- */
void *plugin_stream_open(struct plugin_device *d);
void plugin_stream_note_locked(struct plugin_stream *s, uint64_t pos, bool settles);
/* A graph of these n buffers (ids) is on its way. */
void plugin_stream_touch_locked(struct plugin_stream *s, const uint32_t *buffers, uint32_t n);
/* The buffer is gone: what follows in its place is nobody's result. */
void plugin_buffer_untouch_locked(uint32_t id);
/* What the buffer holds is of a graph that has failed, and the program has not been told. */
bool plugin_buffer_is_void(const struct plugin_buffer *b);
void *plugin_event_new(struct plugin_device *d);
void plugin_event_free(void *event);
void plugin_event_synchronize(void *event);

#endif
