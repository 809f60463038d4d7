/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/worker/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/worker/control.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"
#include "common/cleanup.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/*
 * Moves the blob to an address where huge pages fit. 0 or -errno, and then it is
 * where it was.
 */
static int blob_align(struct worker_blob *b)
{
    if (b->size < HUGE_PAGE)
        return 0;
    uint8_t *room = mmap(NULL, b->size + HUGE_PAGE, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return -errno;
    uint8_t *at = (uint8_t *)(((uintptr_t)room + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    void *moved = mremap(b->map, b->size, b->size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    if (moved == MAP_FAILED) {
        int rc = -errno;
        munmap(room, b->size + HUGE_PAGE);
        return rc;
    }
    if (at > room)
        munmap(room, (size_t)(at - room));
    if (room + HUGE_PAGE > at)
        munmap(at + b->size, (size_t)(room + HUGE_PAGE - at));
    b->map = at;
    return 0;
}

void worker_buffer_use(struct worker_buffer *b)
{
    if (b->used)
        return;
    b->used = true;
    /* It has been filled by now. In pages of 4 KiB it would be slower to compute with than
     * memory of our own; where the kernel cannot (before 6.1) it is. */
    if (b->shared && b->shared_size >= HUGE_PAGE)
        madvise(b->shared, b->shared_size & ~(HUGE_PAGE - 1), MADV_COLLAPSE);
}

const char *worker_buffer_share(struct worker *w, const struct apir_msg_buffer_share *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    struct worker_blob *blob = worker_blob_find(w, m->blob);
    if (!blob)
        return "blob does not exist";
    const struct host_device *d = &w->ggml.devices[b->device];
    struct apir_reply_status r = {.status = APIR_E_UNSUPPORTED};
    /* What a graph has written would be lost, and its slot holds the old addresses. */
    bool fits = (d->flags & APIR_DEVICE_UMA) && !b->shared && !b->used && !blob->direct.handle &&
                blob->size >= b->host.size &&
                /* In the server's books it is what the buffer's own memory was. */
                blob->size - b->host.size < APIR_SHM_ALIGN + HOST_SLACK;
    if (fits && blob_align(blob) < 0)
        fits = false;
    uint8_t *taken = fits ? calloc(blob->size / (uint64_t)sysconf(_SC_PAGESIZE), 1) : NULL;
    struct host_buffer host;
    if (taken && host_buffer_wrap(&w->ggml, d, blob->map, b->host.size, &host) == 0) {
        worker_streams_settle(w);
        host_buffer_free(&w->ggml, &b->host);
        b->host = host;
        b->host.slack = blob->size - host.size;
        b->taken = taken;
        taken = NULL;
        /* The buffer's memory now: it stays when the guest destroys the blob. */
        b->shared = blob->map;
        b->shared_size = blob->size;
        *blob = (struct worker_blob){0};
        r.status = APIR_OK;
    }
    free(taken);
    memcpy(place, &r, sizeof(r));
    return NULL;
}

void worker_buffer_drop(struct worker *w, struct worker_buffer *b)
{
    host_buffer_free(&w->ggml, &b->host);
    worker_release(w, b->device, b->reserved);
    if (b->shared)
        munmap(b->shared, b->shared_size);
    free(b->taken);
    *b = (struct worker_buffer){0};
}

#define TAKE_MAX (1u << 20)

/* Replaces whole pages by private ones with the same contents. */
static int pages_take(uint8_t *at, uint64_t size)
{
    cleanup_free void *copy = malloc(size);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, at, size);
    void *map =
        mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (map == MAP_FAILED)
        return -errno;
    memcpy(map, copy, size);
    return 0;
}

int worker_buffer_privatize(struct worker_buffer *b, const void *data, uint64_t size)
{
    if (!b->shared || size == 0)
        return 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t base = (uintptr_t)b->shared;
    uintptr_t lo = (uintptr_t)data & ~(page - 1);
    uintptr_t hi = ((uintptr_t)data + size + page - 1) & ~(page - 1);
    /* Within the buffer, checked with the tensor; the mapping is whole pages. */
    if (lo < base || hi > base + b->shared_size)
        return -EINVAL;
    /* Once is enough: the same tensors come with every definition and patch. In parts: while
     * one is taken it is there three times. */
    for (uint64_t i = (lo - base) / page, end = (hi - base) / page, n; i < end; i += n ? n : 1) {
        for (n = 0; i + n < end && n < TAKE_MAX / page && !b->taken[i + n]; n++)
            ;
        int rc = n ? pages_take(b->shared + i * page, n * page) : 0;
        if (rc)
            return rc;
        memset(b->taken + i, 1, n);
    }
    return 0;
}
