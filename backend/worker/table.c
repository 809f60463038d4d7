/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/table.h"

#include <stdlib.h>
#include <string.h>

#include "backend/worker/control.h"

const char worker_bad_reply[] = "reply outside the reply area";
const char worker_bad_device[] = "device does not exist";
const char worker_bad_buffer[] = "buffer does not exist";
const char worker_bad_range[] = "range outside its buffer";
const char worker_bad_region[] = "region outside its blob";
const char worker_bad_stream[] = "stream does not exist";

struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t id)
{
    struct worker_buffer *b = &w->buffers[WORKER_BUFFER_INDEX(id)];
    return id != 0 && b->id == id ? b : NULL;
}

struct worker_blob *worker_blob_find(struct worker *w, uint32_t id)
{
    if (id == APIR_RING_BLOB_ID || id >= APIR_BLOBS_MAX)
        return NULL;
    /* The server tells us of a new blob before the guest can name it. */
    if (!w->blobs[id].map && worker_control_drain(w) < 0)
        return NULL;
    return w->blobs[id].map ? &w->blobs[id] : NULL;
}

void *worker_region(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size)
{
    const struct worker_blob *b = worker_blob_find(w, blob);
    if (!b || offset > b->size || size > b->size - offset)
        return NULL;
    return b->map + offset;
}

void *worker_reply(struct worker *w, uint32_t offset)
{
    const struct worker_blob *b = &w->blobs[APIR_RING_BLOB_ID];
    uint32_t room = apir_ring_reply_size(b->size);
    if (offset % APIR_REPLY_ALIGN || offset > room || APIR_REPLY_SIZE > room - offset)
        return NULL;
    return b->map + APIR_RING_HEADER_SIZE + offset;
}

const char *worker_answer(struct worker *w, uint32_t offset, const void *answer, size_t size)
{
    memcpy(worker_reply(w, offset), answer, size);
    return NULL;
}

const char *worker_payload_copy(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size,
                                void **ret_copy)
{
    const void *src = worker_region(w, blob, offset, size);
    if (!src)
        return worker_bad_region;
    void *copy = malloc(size);
    if (copy)
        memcpy(copy, src, size);
    *ret_copy = copy;
    return NULL;
}
