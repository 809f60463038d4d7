/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in's objects in the shape of the ggml that loaded it. One plug-in
 * serves one ggml per process; its objects live until the process ends (the
 * library is never unloaded), except buffers and backends, which ggml frees.
 *
 * This folder has the state and what looks things up in it; frontend/graph sends graphs;
 * frontend/ggml has the functions that ggml calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frontend/link/arena.h"
#include "frontend/link/ask.h"
#include "protocol/ggml_abi.h"

/* One of the host's extra buffer types, as a type of ours. */
struct plugin_extra {
    uint64_t buft[GG_BUFT_WORDS]; /* ggml_backend_buffer_type */
    uint32_t number;              /* the host's */
    char name[APIR_EXTRA_NAME_SIZE + 16];
};

struct plugin_device {
    struct gg_device ggml;             /* first: what ggml sees */
    uint64_t buft[GG_BUFT_WORDS];      /* ggml_backend_buffer_type */
    uint64_t host_buft[GG_BUFT_WORDS]; /* the same for memory of ours that it reaches */
    struct plugin_extra extras[APIR_EXTRAS_MAX];
    void *extra_list[APIR_EXTRAS_MAX + 1]; /* ggml's list of them, NULL at its end */
    /* The program knows of them: it asks which of a weight's types the device supports, in their
     * order, and takes the first. */
    bool extras_known;
    bool too_old_told; /* that this device cannot write where it must; atomic */
    struct apir_reply_device_info info;
    uint32_t index; /* the host's */
    char name[16];  /* APIR0 … */
    char buft_name[16];
    char host_buft_name[24];
    char description[APIR_NAME_SIZE];
    char device_id[64];
};

struct plugin_buffer;
struct plugin_stream;

struct plugin {
    struct ggml_layout layout;
    struct client client;
    struct gg_reg reg;
    struct plugin_device devices[APIR_DEVICES_MAX];
    uint32_t n_devices;
    uint32_t cores; /* of the kernel that we run on */

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

    void *(*buffer_init)(void *buft, struct gg_buffer_i iface, void *ctx, size_t size);
    size_t (*nbytes)(const struct gg_tensor *t);
    int (*blck_size)(int type); /* newer ones return an int64_t, which is as small */
    bool (*is_contiguous)(const struct gg_tensor *t);
    const char *(*op_name)(int op);
    const char *(*unary_op_name)(int op);
    const char *(*glu_op_name)(int op); /* NULL in builds without GLU */
    bool (*wants_room)(int op);         /* its result may take more; NULL: ggml does not say */
};

/* Puts a function into one of ggml's objects, at an offset of the layout; 0: this ggml has none. */
#define PLUGIN_SET_FN(object, offset, function)                                                    \
    do {                                                                                           \
        __typeof__(&function) fn_ = function;                                                      \
        if (offset)                                                                                \
            memcpy((char *)(object) + (offset), &fn_, sizeof(fn_));                                \
    } while (0)

extern struct plugin plugin; /* zero until init has succeeded */

/* Ops that only rename memory: nothing is computed. */
bool plugin_op_is_view(int op);
