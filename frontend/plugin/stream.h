/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of ours: what each has on its way, and graphs that have failed. */
#pragma once

#include "frontend/plugin/buffer.h"

struct slot;

/* The context of a ggml_backend of ours. */
struct plugin_stream {
    uint64_t ggml[GG_BACKEND_WORDS]; /* first: what ggml sees */
    struct plugin_device *device;
    char name[16];
    uint32_t id;
    uint32_t flags;          /* enum apir_stream_flag */
    uint32_t threads;        /* as the host was told last; 0: as it likes */
    uint64_t last;           /* position of the newest command of this stream; 0: none */
    bool last_settles;       /* completing `last` means that all its work is done */
    struct slot *running;    /* the graph that was submitted last; NULL: none since sync */
    uint64_t submitted;      /* when it became visible to the host */
    uint64_t idle_expect_ns; /* what a wait takes that is not for a graph; 0: not known */
    /* By index, under the client's lock: buffers of the graphs submitted since the last sync. */
    uint64_t touched[APIR_BUFFERS_MAX / 64];
};

/* The "locked" ones want the client's lock, the others take it where they need it. */

/* A new command of this stream ends at pos; see struct plugin_stream. */
void plugin_stream_note_locked(struct plugin_stream *s, uint64_t pos, bool settles);
/* A graph of these n buffers (ids) is on its way. */
void plugin_stream_touch_locked(struct plugin_stream *s, const uint32_t *buffers, uint32_t n);
/* The buffer is gone: what follows in its place is nobody's result. */
void plugin_buffer_untouch_locked(uint32_t id);
/* What the buffer holds is of a graph that has failed, and the program has not been told. */
bool plugin_buffer_is_void(const struct plugin_buffer *b);

/* Its place in plugin.stream_used and plugin.streams_failed. */
uint64_t plugin_stream_bit(const struct plugin_stream *s);
/*
 * Whether a graph has failed that the program has not been told of. The first who notices prints
 * why.
 *
 * graph_compute has returned by the time a graph fails, and synchronize returns nothing. So
 * the failure is printed when it is noticed, what the graph was to compute reads as NaN, and the
 * next graph_compute of this backend says it. Reads of the same backend that were queued before and
 * not yet waited for read as NaN as well: which graph failed is not known here.
 */
bool plugin_stream_failed(struct plugin_stream *s);
