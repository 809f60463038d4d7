/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's ggml: loaded, probed and called in this folder and nowhere else. The rest of
 * the worker sees devices, buffers, streams and graphs made of gg_tensor; it
 * hands over only what it has checked, because ggml answers bad input with
 * abort().
 */
#ifndef APIR_WORKER_GGML_H
#define APIR_WORKER_GGML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/ggml/device.h"
#include "common/error.h"
#include "protocol/ggml_abi.h"
#include "protocol/messages.h"

#define HUGE_PAGE (UINT64_C(2) << 20) /* with pages of 4 KiB; elsewhere only the speed differs */

#define HOST_TYPES_MAX 64u
#define HOST_OPS_MAX   256u

struct host_type {
    uint32_t block; /* elements; 0: not a type of this ggml */
    uint32_t size;  /* bytes per block */
};

struct host_names {
    const char *name[HOST_OPS_MAX]; /* NULL: unused number. Borrowed from ggml. */
    uint32_t count;
};

struct host_ggml {
    struct ggml_layout layout;
    struct host_type types[HOST_TYPES_MAX];
    struct host_names ops, unary, glu;
    struct host_device devices[APIR_DEVICES_MAX];
    uint32_t n_devices;
    int n_threads; /* for CPU devices */
    uint64_t next_graph_uid;
    struct host_ggml_fns *fns;
};

struct host_ggml_options {
    const char *library;        /* path or soname; NULL: libggml.so.0 */
    const char *backends_dir;   /* NULL: ggml's own search */
    const char *const *devices; /* names to offer, NULL-terminated; NULL: every GPU, or
                                   the CPU where there is none */
    int n_threads;              /* 0: as many as cores */
};

/*
 * Loads ggml and lists its devices. Call once per process. Returns 0 or -errno
 * with *err. On failure nothing is usable and the process should end.
 */
int host_ggml_load(struct host_ggml *hg, const struct host_ggml_options *options,
                   struct apir_error *err);

/* Number of a name, or -1. */
int host_names_find(const struct host_names *names, const char *name);

void host_device_memory(struct host_ggml *hg, const struct host_device *d, uint64_t *ret_free,
                        uint64_t *ret_total);

/* ---- buffers ---- */

struct host_buffer {
    void *handle;          /* ggml_backend_buffer_t, owned */
    uint8_t *base;         /* where tensor addresses of this buffer start */
    const uint8_t *memory; /* the same where the CPU may read there; NULL: the device's own */
    uint64_t size;         /* bytes */
    uint64_t slack; /* more behind them, which are nobody's: some kernels go a little too far */
    struct gg_tensor raw; /* the whole buffer as one I8 tensor: for set, get, copy */
    bool has_memset;
};

/* Behind each buffer that a CPU computes in, as far as its memory is ours to make larger. */
#define HOST_SLACK 4096u

/* Returns 0, or -ENOMEM. */
int host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, uint64_t size,
                      struct host_buffer *ret_buffer);
/*
 * Makes a buffer of the caller's memory (page-aligned, whole pages), which must
 * outlive it. Returns 0, or -ENOTSUP where the device cannot.
 */
int host_buffer_wrap(struct host_ggml *hg, const struct host_device *d, void *data, uint64_t size,
                     struct host_buffer *ret_buffer);
void host_buffer_free(struct host_ggml *hg, struct host_buffer *b);
void host_buffer_clear(struct host_ggml *hg, struct host_buffer *b, uint8_t value);
void host_buffer_reset(struct host_ggml *hg, struct host_buffer *b);
void host_buffer_set_usage(struct host_ggml *hg, struct host_buffer *b, uint32_t usage);

/* All ranges are within the buffer: checked by the caller. */
void host_buffer_set(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, const void *data,
                     uint64_t size);
void host_buffer_get(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                     uint64_t size);
void host_buffer_set_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset,
                          const void *data, uint64_t row, uint64_t count, uint64_t stride);
void host_buffer_get_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                          uint64_t row, uint64_t count, uint64_t stride);
/* As host_buffer_get, queued behind the stream's work; there after host_stream_sync. */
void host_buffer_get_async(struct host_ggml *hg, void *stream, struct host_buffer *b,
                           uint64_t offset, void *data, uint64_t size);
/* Returns 0 or -ENOMEM. */
int host_buffer_memset(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, uint8_t value,
                       uint64_t size);
void host_buffer_copy(struct host_ggml *hg, struct host_buffer *src, uint64_t src_offset,
                      struct host_buffer *dst, uint64_t dst_offset, uint64_t size);

/* As host_buffer_copy, in the order of the stream, whose device both buffers are of;
 * done after host_stream_sync. */
void host_buffer_copy_async(struct host_ggml *hg, void *stream, struct host_buffer *src,
                            uint64_t src_offset, struct host_buffer *dst, uint64_t dst_offset,
                            uint64_t size);

/* Tells the buffer about a tensor whose buffer and data are set. 0 or -EIO. */
int host_tensor_init(struct host_ggml *hg, struct gg_tensor *t);
/* Bytes the device wants for t's own data, at least its size. */
uint64_t host_tensor_alloc_size(struct host_ggml *hg, const struct host_device *d,
                                const struct gg_tensor *t);
/* ggml-cpu computes on it. */
bool host_device_is_cpu(const struct host_device *d);
bool host_tensor_supported(struct host_ggml *hg, const struct host_device *d,
                           const struct gg_tensor *t);
bool host_tensor_offload(struct host_ggml *hg, const struct host_device *d,
                         const struct gg_tensor *t);

/* ---- streams (ggml backends) ---- */

/* NULL: the device has no room for another. */
void *host_stream_open(struct host_ggml *hg, const struct host_device *d);
/* step(user), which returns false, is called between a computation's operations, by the thread that
 * computes, where the device's backend offers that (a CPU's does). */
void host_stream_watch(struct host_ggml *hg, const struct host_device *d, void *stream,
                       bool (*step)(void *user), void *user);
void host_stream_close(struct host_ggml *hg, void *stream);
void host_stream_sync(struct host_ggml *hg, void *stream);

/* An event for streams of this device; NULL: it has none. */
void *host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream);
void host_event_free(struct host_ggml *hg, void *event);
void host_event_record(struct host_ggml *hg, void *event, void *stream);
/* The stream's work that follows starts after what the event has recorded. */
void host_event_wait(struct host_ggml *hg, void *event, void *stream);
void host_event_sync(struct host_ggml *hg, void *event);

/* ---- graphs ---- */

struct host_graph {
    void *ctx;    /* ggml_context that holds the cgraph only */
    void *cgraph; /* in ctx */
};

/*
 * Builds a graph with exactly these nodes in exactly this order. `tensors` are
 * all n_tensors of them, topologically sorted; node_index lists the n_nodes that
 * are nodes; use_counts (n_tensors) is what the guest counted over its whole
 * graph. The tensors are borrowed until host_graph_fini and must not move.
 * Returns 0, -ENOMEM, or -EINVAL where a source is computed but not a node before its user, or
 * ggml does not see the same nodes.
 */
int host_graph_build(struct host_ggml *hg, struct gg_tensor *tensors, uint32_t n_tensors,
                     const uint32_t *node_index, uint32_t n_nodes, const uint32_t *use_counts,
                     struct host_graph *ret_graph);
/* Gives the graph a new identity: its tensors have changed in place. */
void host_graph_touch(struct host_ggml *hg, struct host_graph *g);
void host_graph_fini(struct host_ggml *hg, struct host_graph *g);
struct host_dep {
    uint32_t tensor; /* index of a tensor that must stay allocated … */
    uint32_t until;  /* … until this one is computed */
};

bool host_stream_optimizes(struct host_ggml *hg, void *stream);

/*
 * Lets the backend reorder the graph's nodes. ret_order (the graph's n_nodes) gets
 * tensor indices, ret_deps at most max_deps pairs. Returns the number of pairs, or
 * -EINVAL where the backend has done something else than reorder, -E2BIG where
 * there are more pairs.
 */
int host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                        const struct gg_tensor *tensors, uint32_t n_tensors, uint32_t n_nodes,
                        uint32_t *ret_order, struct host_dep *ret_deps, uint32_t max_deps);

/* Starts the computation; returns ggml's status (0: success). */
int host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g);

#endif
