/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/blob.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/worker/handlers.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"

/* No device is in the middle of a copy: see worker_arena_seen(). */
static void view_drop(struct worker *w, struct worker_arena_view *view)
{
    host_buffer_free(&w->ggml, &view->buffer);
    view->map = NULL;
}

static void blob_drop(struct worker *w, struct worker_blob *b)
{
    for (uint32_t i = 0; i < APIR_DEVICES_MAX; i++) {
        if (w->arenas[i].map == b->map)
            view_drop(w, &w->arenas[i]);
    }
    if (b->direct.handle) {
        /* The device may be in the middle of a copy. */
        worker_streams_settle(w);
        host_buffer_free(&w->ggml, &b->direct);
    }
    /* What is set from here is set when its message is done. */
    if (b->pinned)
        host_memory_unpin(&w->ggml.devices[b->device], b->map);
    if (b->map)
        munmap(b->map, b->size);
    *b = (struct worker_blob){0};
}

void worker_blobs_reap(struct worker *w)
{
    while (w->dying) {
        struct worker_dying *dying = w->dying;
        w->dying = dying->next;
        blob_drop(w, &dying->blob);
        free(dying);
    }
}

const char *worker_blob_register(struct worker *w, const struct apir_msg_blob_register *m)
{
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    struct worker_blob *b = worker_blob_find(w, m->blob);
    if (!b)
        return "blob does not exist";
    if (b->direct.handle || b->pinned)
        return "blob is registered already";
    const struct host_device *d = &w->ggml.devices[m->device];
    struct apir_reply_blob r = {.status = APIR_OK};
    /* A device that is the CPU would only copy as we do. */
    if (!(d->flags & APIR_DEVICE_SYNC) &&
        host_buffer_wrap(&w->ggml, d, b->map, b->size, &b->direct) == 0) {
        b->device = m->device;
        r.flags |= APIR_BLOB_DIRECT;
    }
    if (host_memory_pin(d, b->map, b->size)) {
        b->device = m->device;
        b->pinned = true;
    }
    return worker_answer(w, m->reply, &r, sizeof(r));
}

const char *worker_blob_forget(struct worker *w, const struct apir_msg_blob_forget *m)
{
    struct worker_blob *b = worker_blob_find(w, m->blob);
    if (!b)
        return "blob does not exist";
    blob_drop(w, b);
    return NULL;
}

struct host_buffer *worker_arena_seen(struct worker *w, uint32_t device)
{
    const struct worker_blob *arena = worker_blob_find(w, APIR_ARENA_BLOB_ID);
    const struct host_device *d = &w->ggml.devices[device];
    struct worker_arena_view *view = &w->arenas[device];
    if (!arena || d->flags & APIR_DEVICE_SYNC)
        return NULL;
    /* The guest may have given it back and made another. */
    if (view->map != arena->map) {
        view_drop(w, view);
        view->map = arena->map;
        (void)host_buffer_wrap(&w->ggml, d, arena->map, arena->size, &view->buffer);
    }
    return view->buffer.handle ? &view->buffer : NULL;
}
