/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same world twice: streams (ggml's backends) and areas (buffers) of the native device, and
 * the same ones of the remote device with the same contents.
 *
 * ggml promises an order only within one stream, between streams by events and async copies, and
 * to everybody after a synchronize. An area knows which streams may still work on it, so that no
 * step asks for more than that.
 */
#ifndef APIR_DIFFER_GGML_WORLD_H
#define APIR_DIFFER_GGML_WORLD_H

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include "tests/native/differ/differ.h"

enum {
    STREAMS_MAX = 64, /* bits of a mask */
    AREAS_MAX = 10,
    READS_MAX = 32,
    AREA_TYPES = 6,
    NOBODY = -1, /* in the place of a stream */
};

/* Where the remote side's area lies; natively all are the CPU's. */
enum area_kind { AREA_DEVICE, AREA_HOST, AREA_CPU, AREA_KINDS };

/* The same tensor on both sides. */
struct pair {
    struct ggml_tensor *t[SIDES];
};

struct area {
    enum area_kind kind;
    ggml_backend_buffer_t buffer[SIDES]; /* NULL: there is no such area */
    struct ggml_context *ctx[SIDES];     /* of bytes, bases and views */
    size_t size;
    struct pair bytes;             /* all of it */
    struct pair bases[AREA_TYPES]; /* the same as elements of area_types[] */
    unsigned views;                /* made of it so far */
    bool owned;                    /* by a graph: others only read it */
    uint64_t users;                /* streams that may not be done with it */
    int leader; /* the stream behind whose work all of that is ordered, or NOBODY */
};

extern const enum ggml_type area_types[AREA_TYPES];

/* An asynchronous read, or memory that an asynchronous write still reads. */
struct later {
    uint64_t streams; /* not synchronized since */
    void *data[SIDES];
    size_t size; /* 0: nothing to compare */
};

struct world {
    struct differ_random r;
    ggml_backend_dev_t dev[SIDES], cpu_dev;
    ggml_backend_t stream[SIDES][STREAMS_MAX];
    unsigned n_streams;
    ggml_backend_t cpu[SIDES]; /* a backend of the CPU on both sides */
    struct area areas[AREAS_MAX];
    struct later later[READS_MAX];
};

/* Ends the process where something cannot be had on both sides. */
void world_init(struct world *w, const ggml_backend_dev_t dev[SIDES], uint64_t seed);
void world_fini(struct world *w);

void world_stream_open(struct world *w);
/* No other thread opens a stream between these: a device has only so many. */
void world_streams_lock(void);
void world_streams_unlock(void);
/* The last one; there is always one left. */
void world_stream_close(struct world *w);

/* NULL: there are enough. Filled with a pattern. */
struct area *world_area_new(struct world *w, enum area_kind kind, size_t size);
void world_area_free(struct world *w, struct area *a);
/* NULL: there is none of these kinds (a mask, 0: all). To be read, or to be written too? */
struct area *world_area_pick(struct world *w, unsigned kinds);
struct area *world_area_pick_source(struct world *w);
ggml_backend_buffer_type_t world_buft(const struct world *w, int side, enum area_kind kind);

/* A tensor in the area. `layout` gives type, dimensions and strides, `offset` the place. */
struct pair area_view(struct area *a, const struct ggml_tensor *layout, size_t offset);

/* After this the stream (NOBODY: a synchronous call) may work on the area. */
void world_use(struct world *w, struct area *a, int stream);
/* The stream still reads the area, and whoever leads it now is ordered with that. */
void world_use_beside(struct area *a, int stream);
void world_synchronize(struct world *w, unsigned stream);
void world_synchronize_all(struct world *w);
/* What the first stream has done so far is ordered before what the second one will do. */
void world_ordered(struct world *w, unsigned first, unsigned second);

/*
 * Keeps the memory until the stream has been synchronized (NOBODY: not at all), then compares
 * `size` bytes of both sides and frees it.
 */
void world_later(struct world *w, int stream, void *native, void *remote, size_t size);

/* Compares the bytes of a tensor: as numbers of its type, or whatever they are. */
void pair_compare(const char *what, struct pair p);
void pair_compare_bytes(const char *what, struct pair p, size_t offset, size_t size);

/* Compares all bytes of the area. */
void world_compare(struct world *w, struct area *a, const char *name);
void world_compare_all(struct world *w);
/* What areas are called in reports. */
const char *area_name(const struct world *w, const struct area *a);

void world_fill_bytes(struct world *w, void *data, size_t size);

#endif
