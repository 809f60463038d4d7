/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the host's ggml: made, filled, read and copied. */
#include "backend/worker/ggml/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/worker/ggml/fns.h"
#include "backend/worker/ggml/system.h"

/* A byte tensor over [offset, offset + size) of a buffer. */
static struct gg_tensor raw_tensor(const struct host_buffer *b, uint64_t offset, uint64_t size)
{
    struct gg_tensor t = {.type = 24 /* I8 */, .buffer = b->handle, .data = b->base + offset};
    t.ne[0] = (int64_t)size;
    t.ne[1] = t.ne[2] = t.ne[3] = 1;
    t.nb[0] = 1;
    t.nb[1] = t.nb[2] = t.nb[3] = size;
    return t;
}

static void buffer_fill(const struct host_ggml *hg, void *handle, uint64_t size,
                        struct host_buffer *ret_buffer)
{
    struct host_buffer b = {.handle = handle, .size = size};
    b.base = hg->fns->ggml_backend_buffer_get_base(handle);
    b.memory = hg->fns->ggml_backend_buffer_is_host(handle) ? b.base : NULL;
    b.raw = raw_tensor(&b, 0, size);
    b.has_memset = GG_AT(handle, hg->layout.buffer.memset, void *);
    *ret_buffer = b;
}

#define ZERO_BY_HAND (UINT64_C(2) << 20) /* up to here it is soon done without the kernel */

/*
 * Memory of the heap holds what was there before, addresses of ours as well, and the guest may
 * read it. Whole pages are given back to the kernel, which touches them only when the guest does:
 * most of a cache of keys and values, which llama.cpp clears when it is made, not for a long time.
 * docs/decisions.md, New buffers are clear.
 */
static void memory_zero(uint8_t *data, uint64_t size)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t before = -(uintptr_t)data & (page - 1);
    uint64_t after = ((uintptr_t)data + size) & (page - 1);
    if (size <= ZERO_BY_HAND || !host_pages_renew(data + before, size - before - after)) {
        memset(data, 0, size);
        return;
    }
    memset(data, 0, before);
    memset(data + size - after, 0, after);
}

bool host_buffer_can_exist(struct host_ggml *hg, const struct host_device *d, uint64_t size)
{
    uint64_t unused, total;
    const uint64_t host = host_machine_memory();
    host_device_memory(hg, d, &unused, &total);
    /* A device that does not say how much it has may have any amount. */
    return host == 0 || total == 0 || size <= host || size - host <= total;
}

int host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, void *buft, uint64_t size,
                      struct host_buffer *ret_buffer)
{
    /* A GPU's clearing fills whole words. */
    const uint64_t slack = host_device_is_cpu(d) ? HOST_SLACK : -size & 3;
    void *handle = hg->fns->ggml_backend_buft_alloc_buffer(buft, size + slack);
    if (!handle)
        return -ENOMEM;
    buffer_fill(hg, handle, size, ret_buffer);
    ret_buffer->buft = buft;
    ret_buffer->slack = slack;
    ret_buffer->is_heap = host_device_is_cpu(d);
    /* Not every driver clears what another process had before, and no API promises it. */
    host_buffer_clear(hg, ret_buffer, 0);
    return 0;
}

int host_buffer_wrap(struct host_ggml *hg, const struct host_device *d, void *data, uint64_t size,
                     struct host_buffer *ret_buffer)
{
    const struct gg_device *dev = d->dev;
    /* The public function calls through this pointer without a look at it. */
    void *handle = dev->iface.buffer_from_host_ptr
                       ? dev->iface.buffer_from_host_ptr(d->dev, data, size, size)
                       : NULL;
    if (!handle)
        return -ENOTSUP;
    buffer_fill(hg, handle, size, ret_buffer);
    ret_buffer->buft = d->buft;
    return 0;
}

bool host_memory_pin(const struct host_device *d, void *data, uint64_t size)
{
    return d->pin && d->pin(data, size);
}

void host_memory_unpin(const struct host_device *d, void *data)
{
    d->unpin(data);
}

uint8_t *host_device_staging(struct host_ggml *hg, struct host_device *d)
{
    static uint8_t ours[HOST_STAGING_SIZE] __attribute__((aligned(64)));
    const struct gg_device *dev = d->dev;
    if (d->staging)
        return d->staging;
    d->staging = ours;
    if (d->pin && dev->iface.get_host_buffer_type) {
        void *buft = dev->iface.get_host_buffer_type(d->dev);
        void *handle =
            buft ? hg->fns->ggml_backend_buft_alloc_buffer(buft, HOST_STAGING_SIZE) : NULL;
        if (handle)
            d->staging = hg->fns->ggml_backend_buffer_get_base(handle);
    }
    return d->staging;
}

void host_buffer_free(struct host_ggml *hg, struct host_buffer *b)
{
    if (b->handle)
        hg->fns->ggml_backend_buffer_free(b->handle);
    *b = (struct host_buffer){0};
}

void host_buffer_clear(struct host_ggml *hg, struct host_buffer *b, uint8_t value)
{
    if (b->is_heap && value == 0)
        memory_zero(b->base, b->size + b->slack);
    else
        hg->fns->ggml_backend_buffer_clear(b->handle, value);
}

void host_buffer_reset(struct host_ggml *hg, struct host_buffer *b)
{
    hg->fns->ggml_backend_buffer_reset(b->handle);
}

void host_buffer_set_usage(struct host_ggml *hg, struct host_buffer *b, uint32_t usage)
{
    if (GG_AT(b->handle, hg->layout.buffer.usage, int32_t) != (int32_t)usage)
        hg->fns->ggml_backend_buffer_set_usage(b->handle, (int)usage);
}

void host_tensor_set(struct host_ggml *hg, struct gg_tensor *t, const void *data, uint64_t size)
{
    hg->fns->ggml_backend_tensor_set(t, data, 0, size);
}

/* A driver that copies through memory of its own keeps as much of it as the largest copy took. */
#define STAGED_MAX (UINT64_C(64) << 20)

void host_buffer_set(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, const void *data,
                     uint64_t size)
{
    for (uint64_t at = 0, n; at < size; at += n) {
        n = b->memory || size - at < STAGED_MAX ? size - at : STAGED_MAX;
        hg->fns->ggml_backend_tensor_set(&b->raw, (const uint8_t *)data + at, offset + at, n);
    }
}

void host_buffer_get(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                     uint64_t size)
{
    for (uint64_t at = 0, n; at < size; at += n) {
        n = b->memory || size - at < STAGED_MAX ? size - at : STAGED_MAX;
        hg->fns->ggml_backend_tensor_get(&b->raw, (uint8_t *)data + at, offset + at, n);
    }
}

void host_buffer_get_async(struct host_ggml *hg, void *stream, struct host_buffer *b,
                           uint64_t offset, void *data, uint64_t size)
{
    if (size > STAGED_MAX) {
        hg->fns->ggml_backend_synchronize(stream);
        host_buffer_get(hg, b, offset, data, size);
        return;
    }
    hg->fns->ggml_backend_tensor_get_async(stream, &b->raw, data, offset, size);
}

void host_buffer_set_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset,
                          const void *data, uint64_t row, uint64_t count, uint64_t stride)
{
    if (hg->fns->ggml_backend_tensor_set_2d && (b->memory || row * count <= STAGED_MAX)) {
        hg->fns->ggml_backend_tensor_set_2d(&b->raw, data, offset, row, count, stride, row);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        host_buffer_set(hg, b, offset + i * stride, (const uint8_t *)data + i * row, row);
}

void host_buffer_get_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                          uint64_t row, uint64_t count, uint64_t stride)
{
    if (hg->fns->ggml_backend_tensor_get_2d && (b->memory || row * count <= STAGED_MAX)) {
        hg->fns->ggml_backend_tensor_get_2d(&b->raw, data, offset, row, count, stride, row);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        host_buffer_get(hg, b, offset + i * stride, (uint8_t *)data + i * row, row);
}

int host_buffer_memset(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, uint8_t value,
                       uint64_t size)
{
    if (b->has_memset) {
        hg->fns->ggml_backend_tensor_memset(&b->raw, value, offset, size);
        return 0;
    }
    uint64_t chunk = size < (1u << 20) ? size : (1u << 20);
    void *fill = malloc(chunk);
    if (!fill)
        return -ENOMEM;
    memset(fill, value, chunk);
    for (uint64_t at = 0; at < size; at += chunk) {
        uint64_t n = size - at < chunk ? size - at : chunk;
        hg->fns->ggml_backend_tensor_set(&b->raw, fill, offset + at, n);
    }
    free(fill);
    return 0;
}

void host_buffer_copy(struct host_ggml *hg, struct host_buffer *src, uint64_t src_offset,
                      struct host_buffer *dst, uint64_t dst_offset, uint64_t size)
{
    struct gg_tensor s = raw_tensor(src, src_offset, size);
    struct gg_tensor d = raw_tensor(dst, dst_offset, size);
    hg->fns->ggml_backend_tensor_copy(&s, &d);
}

void host_buffer_copy_async(struct host_ggml *hg, void *src_stream, struct host_buffer *src,
                            uint64_t src_offset, void *dst_stream, struct host_buffer *dst,
                            uint64_t dst_offset, uint64_t size)
{
    struct gg_tensor s = raw_tensor(src, src_offset, size);
    struct gg_tensor d = raw_tensor(dst, dst_offset, size);
    hg->fns->ggml_backend_tensor_copy_async(src_stream, dst_stream, &s, &d);
}
