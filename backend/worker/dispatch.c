/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the session itself, of its devices and its buffers; and who is told of which. */
#include "backend/worker/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "backend/worker/control.h"
#include "backend/worker/extra.h"
#include "backend/worker/graph.h"
#include "backend/worker/handlers.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"

const char *worker_hello(struct worker *w, const struct apir_msg_hello *m)
{
    struct apir_reply_hello r = {
        .status = m->major == APIR_PROTOCOL_MAJOR ? APIR_OK : APIR_E_VERSION,
        .major = APIR_PROTOCOL_MAJOR,
        .minor = APIR_PROTOCOL_MINOR, /* both sides go by the lower of the two */
        .n_devices = w->ggml.n_devices,
        .shm_limit = w->shm_limit,
    };
    snprintf(r.host_ggml, sizeof(r.host_ggml), "ggml layout %s, API %d", w->ggml.layout.label,
             w->ggml.layout.api_version);
    if (r.status == APIR_OK)
        w->state = APIR_ST_READY;
    w->one_kernel = m->features & APIR_HELLO_ONE_KERNEL;
    return worker_answer(w, m->reply, &r, sizeof(r));
}

const char *worker_device_info(struct worker *w, const struct apir_msg_device_info *m)
{
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    const struct host_device *d = &w->ggml.devices[m->device];
    struct apir_reply_device_info r = {
        .flags = d->flags,
        .alignment = d->alignment,
        .max_size = d->max_size,
    };
    host_device_memory(&w->ggml, d, &r.memory_free, &r.memory_total);
    worker_room(w, m->device, &r.memory_free, &r.memory_total);
    memcpy(r.name, d->name, sizeof(r.name));
    memcpy(r.description, d->description, sizeof(r.description));
    memcpy(r.device_id, d->device_id, sizeof(r.device_id));
    memcpy(r.id, d->id, sizeof(r.id));
    r.n_extras = d->n_extras;
    for (uint32_t i = 0; i < d->n_extras; i++)
        snprintf(r.extras[i], sizeof(r.extras[i]), "%s", host_extra_name(&w->ggml, d, i));
    return worker_answer(w, m->reply, &r, sizeof(r));
}

const char *worker_device_memory(struct worker *w, const struct apir_msg_device_memory *m)
{
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    struct apir_reply_device_memory r = {0};
    host_device_memory(&w->ggml, &w->ggml.devices[m->device], &r.memory_free, &r.memory_total);
    worker_room(w, m->device, &r.memory_free, &r.memory_total);
    return worker_answer(w, m->reply, &r, sizeof(r));
}

/* ---- buffers ---------------------------------------------------------------- */

/* Where it fails, nothing of it is left: not in *b, and not in the server's books. */
static enum apir_status buffer_take(struct worker *w, struct worker_buffer *b, uint32_t device,
                                    int extra, uint64_t size, char *why)
{
    const struct host_device *d = &w->ggml.devices[device];
    void *buft = extra < 0 ? d->buft : d->extras[extra];
    enum apir_status status = worker_reserve(w, device, size, why);
    if (status != APIR_OK)
        return status;
    const bool there = host_buffer_alloc(&w->ggml, d, buft, size, &b->host) == 0;
    b->extra = there && extra >= 0 ? worker_extra_new((uint32_t)extra) : NULL;
    if (there && (extra < 0 || b->extra)) {
        status = worker_taken(w, device, size, why);
    } else {
        worker_unreserve(w, device, size);
        status = APIR_E_NOMEM;
    }
    if (status != APIR_OK) {
        worker_extra_free(w, b);
        host_buffer_free(&w->ggml, &b->host);
    }
    return status;
}

/* extra: the number of one of the device's extra types, or -1: its own. */
static const char *buffer_alloc(struct worker *w, uint32_t device, int extra, uint32_t id,
                                uint64_t size, uint32_t reply)
{
    if (device >= w->ggml.n_devices || extra >= (int)w->ggml.devices[device].n_extras)
        return worker_bad_device;
    struct worker_buffer *b = &w->buffers[WORKER_BUFFER_INDEX(id)];
    if (b->id)
        return "buffer id is in use";
    struct apir_reply_status r = {.status = APIR_OK};
    const struct host_device *d = &w->ggml.devices[device];
    if (size > d->max_size) {
        r.status = APIR_E_LIMIT;
        snprintf(r.why, sizeof(r.why), "the device's buffers have %llu MiB at most",
                 (unsigned long long)(d->max_size >> 20));
    } else if (!host_buffer_can_exist(&w->ggml, d, size)) {
        r.status = APIR_E_NOMEM;
    } else {
        r.status = buffer_take(w, b, device, extra, size, r.why);
    }
    if (r.status == APIR_OK) {
        b->id = id;
        b->device = device;
        b->reserved = size;
    }
    return worker_answer(w, reply, &r, sizeof(r));
}

const char *worker_buffer_alloc(struct worker *w, const struct apir_msg_buffer_alloc *m)
{
    return buffer_alloc(w, m->device, -1, m->buffer, m->size, m->reply);
}

const char *worker_buffer_alloc_extra(struct worker *w, const struct apir_msg_buffer_alloc_extra *m)
{
    return buffer_alloc(w, m->device, (int)m->extra, m->buffer, m->size, m->reply);
}

const char *worker_buffer_free(struct worker *w, const struct apir_msg_buffer_free *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    worker_streams_settle(w);
    /* A cached graph must not outlive the memory that it names. */
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++) {
        if (worker_slot_uses(&w->slots[i], b->id))
            worker_slot_clear(w, &w->slots[i]);
    }
    worker_extra_free(w, b);
    host_buffer_free(&w->ggml, &b->host);
    worker_release(w, b->device, b->reserved);
    *b = (struct worker_buffer){0};
    return NULL;
}

const char *worker_buffer_clear(struct worker *w, const struct apir_msg_buffer_clear *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    if (b->extra)
        worker_extra_clear(w, b);
    host_buffer_clear(&w->ggml, &b->host, (uint8_t)m->value);
    return NULL;
}

const char *worker_buffer_reset(struct worker *w, const struct apir_msg_buffer_reset *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    host_buffer_reset(&w->ggml, &b->host);
    return NULL;
}

/* ---- all of them -------------------------------------------------------------- */

const char *worker_dispatch(struct worker *w, const struct apir_msg *msg)
{
#define GIVEN_FLAT
#define GIVEN_ASKS
#define GIVEN_TAIL , msg->tail
#define PLACE_FLAT(reply)
#define PLACE_TAIL(reply)
#define PLACE_ASKS(reply)                                                                          \
    if (!worker_reply(w, msg->u.reply))                                                            \
        return worker_bad_reply;
    switch (msg->code) {
#define M(NAME, name, code, states, tail)                                                          \
    case APIR_MSG_##NAME:                                                                          \
        PLACE_##tail(name.reply) return worker_##name(w, &msg->u.name GIVEN_##tail);
        APIR_MESSAGES(M)
#undef M
    }
    return "unknown message code";
}
