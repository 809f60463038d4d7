/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the host's ggml, and bytes into and out of them. */
#pragma once

#include "backend/worker/ggml/ggml.h"

struct host_buffer {
    void *handle;          /* ggml_backend_buffer_t, owned */
    void *buft;            /* its type */
    uint8_t *base;         /* where tensor addresses of this buffer start */
    const uint8_t *memory; /* the same where the CPU may read there; NULL: the device's own */
    uint64_t size;         /* bytes */
    uint64_t slack; /* more behind them, which are nobody's: some kernels go a little too far */
    struct gg_tensor raw; /* the whole buffer as one I8 tensor: for set, get, copy */
    bool has_memset;
    bool is_heap; /* main memory that ggml's CPU backend took for this buffer alone */
};

/* Behind each buffer that a CPU computes in, as far as its memory is ours to make larger. */
#define HOST_SLACK 4096u

/* False: more than the device and the host's main memory together. No driver need be asked, none
 * complains, and no books need hold it. */
bool host_buffer_can_exist(struct host_ggml *hg, const struct host_device *d, uint64_t size);
/* buft: the device's own type or an extra one. Returns 0, or -ENOMEM. */
int host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, void *buft, uint64_t size,
                      struct host_buffer *ret_buffer);
/*
 * Makes a buffer of the caller's memory (page-aligned, whole pages), which must
 * outlive it. Returns 0, or -ENOTSUP where the device cannot.
 */
int host_buffer_wrap(struct host_ggml *hg, const struct host_device *d, void *data, uint64_t size,
                     struct host_buffer *ret_buffer);
/*
 * For a device that cannot make a buffer of other memory: keeps this (page-aligned, whole pages)
 * where it is, so that the device reads it without its driver's own copy. It must outlive that.
 * False: nothing has changed. docs/decisions.md, Memory is pinned for CUDA.
 */
bool host_memory_pin(const struct host_device *d, void *data, uint64_t size);
void host_memory_unpin(const struct host_device *d, void *data);
/*
 * HOST_STAGING_SIZE bytes for small results on their way: memory that such a device writes to
 * without its driver's own copy, for any other device plain memory of ours. One stop at a time.
 */
#define HOST_STAGING_SIZE (1u << 20)
uint8_t *host_device_staging(struct host_ggml *hg, struct host_device *d);
void host_buffer_free(struct host_ggml *hg, struct host_buffer *b);
void host_buffer_clear(struct host_ggml *hg, struct host_buffer *b, uint8_t value);
void host_buffer_reset(struct host_ggml *hg, struct host_buffer *b);
void host_buffer_set_usage(struct host_ggml *hg, struct host_buffer *b, uint32_t usage);

/* Writes all of t, whose buffer and address are set, as its buffer lays it out. */
void host_tensor_set(struct host_ggml *hg, struct gg_tensor *t, const void *data, uint64_t size);

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

/* As host_buffer_copy, after what src_stream has been given so far and before what either stream is
 * given from now on; done after host_stream_sync of both. The streams are of the buffers' devices;
 * two of them are of two GPUs of one backend. */
void host_buffer_copy_async(struct host_ggml *hg, void *src_stream, struct host_buffer *src,
                            uint64_t src_offset, void *dst_stream, struct host_buffer *dst,
                            uint64_t dst_offset, uint64_t size);
