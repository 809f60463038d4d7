/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to and from tensors. */
#pragma once

#include "frontend/plugin/stream.h"

/* Bytes from which on the copy saved is worth the wait that takes its place. */
#define PLUGIN_REFERENCE_MIN (64u << 10)

/*
 * Asynchronous and synchronous forms share these; stream NULL: synchronous. offset and size are
 * bytes of t; the 2d forms have n rows of `size`, strides apart. What is set may be changed on
 * return; what is got is there then, or after the stream's next synchronize. If the host is lost it
 * is filled by client_fill_lost(). From any thread, without the client's lock.
 */
void plugin_tensor_set(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                       size_t offset, size_t size);
/* All of a tensor in a buffer of an extra type, for the host to convert. One caller for each buffer
 * at a time. */
void plugin_tensor_set_whole(struct gg_tensor *t, const void *data);
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
