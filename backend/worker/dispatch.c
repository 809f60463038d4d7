/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/worker/blob.h"
#include "backend/worker/control.h"
#include "backend/worker/extra.h"
#include "backend/worker/graph.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"
#include "backend/worker/transfer.h"
#include "common/cleanup.h"
#include "common/log.h"

/* Each handler returns NULL, or the static reason why the context is FATAL. */

/* A private copy of a payload in the arena; *ret_copy is freed by the caller. */
static const char *payload_copy(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size,
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

/* ---- session ---------------------------------------------------------------- */

static const char *handle_hello(struct worker *w, const struct apir_msg_hello *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
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
    memcpy(place, &r, sizeof(r));
    return NULL;
}

static const char *handle_device_info(struct worker *w, const struct apir_msg_device_info *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
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
    memcpy(place, &r, sizeof(r));
    return NULL;
}

static const char *handle_device_memory(struct worker *w, const struct apir_msg_device_memory *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    struct apir_reply_device_memory r = {0};
    host_device_memory(&w->ggml, &w->ggml.devices[m->device], &r.memory_free, &r.memory_total);
    worker_room(w, m->device, &r.memory_free, &r.memory_total);
    memcpy(place, &r, sizeof(r));
    return NULL;
}

static const char *handle_op_query(struct worker *w, const struct apir_msg_op_query *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    cleanup_free void *copy = NULL;
    const char *why = payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    struct apir_reply_op_query r = {.status = APIR_E_NOMEM};
    if (copy)
        why = worker_op_query(w, m->device, copy, m->size, &r);
    memcpy(place, &r, sizeof(r));
    return why;
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
    void *place = worker_reply(w, reply);
    if (!place)
        return worker_bad_reply;
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
    memcpy(place, &r, sizeof(r));
    return NULL;
}

static const char *handle_buffer_alloc(struct worker *w, const struct apir_msg_buffer_alloc *m)
{
    return buffer_alloc(w, m->device, -1, m->buffer, m->size, m->reply);
}

static const char *handle_buffer_alloc_extra(struct worker *w,
                                             const struct apir_msg_buffer_alloc_extra *m)
{
    return buffer_alloc(w, m->device, (int)m->extra, m->buffer, m->size, m->reply);
}

static const char *handle_buffer_free(struct worker *w, const struct apir_msg_buffer_free *m)
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

static const char *handle_buffer_clear(struct worker *w, const struct apir_msg_buffer_clear *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    if (b->extra)
        worker_extra_clear(w, b);
    host_buffer_clear(&w->ggml, &b->host, (uint8_t)m->value);
    return NULL;
}

static const char *handle_buffer_reset(struct worker *w, const struct apir_msg_buffer_reset *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    host_buffer_reset(&w->ggml, &b->host);
    return NULL;
}

/* ---- graphs ------------------------------------------------------------------ */

static const char *handle_graph_def(struct worker *w, const struct apir_msg_graph_def *m)
{
    const struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    cleanup_free void *copy = NULL;
    const char *why = payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    worker_streams_settle(w);
    struct worker_slot *slot = &w->slots[m->slot];
    if (copy)
        return worker_slot_define(w, slot, s->device, copy, m->size);
    worker_slot_clear(w, slot);
    worker_slot_break(slot, APIR_E_NOMEM, "the host has no memory for a graph");
    return NULL;
}

static const char *handle_graph_optimize(struct worker *w, const struct apir_msg_graph_optimize *m)
{
    void *place = worker_reply(w, m->reply);
    if (!place)
        return worker_bad_reply;
    const struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    if (!host_stream_optimizes(&w->ggml, s->host))
        return "this stream has no graph_optimize";
    void *out = worker_region(w, m->blob, m->out_offset, m->out_size);
    if (!out)
        return worker_bad_region;
    cleanup_free void *copy = NULL;
    const char *why = payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    struct apir_reply_optimize r = {.status = APIR_E_NOMEM};
    if (copy)
        why = worker_graph_optimize(w, s->host, s->device, copy, m->size, out, m->out_size, &r);
    memcpy(place, &r, sizeof(r));
    return why;
}

/* As the status of the slot's computation, with why[APIR_WHY_SIZE]. */
static uint32_t exec_compute(struct worker *w, struct worker_stream *s, struct worker_slot *slot,
                             char *why)
{
    const int rc = worker_stream_compute(w, s, &slot->graph);
    if (w->control_err) {
        snprintf(why, APIR_WHY_SIZE, "the host's server is gone");
        return APIR_E_FAILED;
    }
    if (rc == GG_STATUS_SUCCESS)
        return APIR_OK;
    const char *op, *name;
    worker_slot_last(slot, &op, &name);
    snprintf(why, APIR_WHY_SIZE, "%.32s %s (%d), in the graph that ends with %.32s '%.40s'",
             w->ggml.devices[s->device].name,
             rc == GG_STATUS_ALLOC_FAILED ? "is out of memory" : "reports an error", rc, op, name);
    return rc == GG_STATUS_ALLOC_FAILED ? APIR_E_NOMEM : APIR_E_FAILED;
}

static const char *handle_graph_exec(struct worker *w, const struct apir_msg_graph_exec *m)
{
    struct worker_stream *s = &w->streams[m->stream];
    struct worker_slot *slot = &w->slots[m->slot];
    if (!s->host)
        return worker_bad_stream;
    if (slot->state == SLOT_EMPTY)
        return "graph slot is not defined";
    if (slot->state == SLOT_BROKEN) {
        worker_stream_fail(w, s, slot->status, slot->why);
        return NULL;
    }
    if (slot->device != s->device)
        return "graph slot is of another device";
    char why[APIR_WHY_SIZE];
    if (slot->n_indices) {
        /* What they are read from may still be written by work before. */
        const char *fatal = worker_stream_settle(w, m->stream);
        if (fatal)
            return fatal;
        if (!worker_slot_indices_ok(slot, why)) {
            worker_stream_fail(w, s, APIR_E_FAILED, why);
            return NULL;
        }
    }
    uint32_t status = exec_compute(w, s, slot, why);
    if (status != APIR_OK)
        worker_stream_fail(w, s, status, why);
    return NULL;
}

static const char *handle_graph_drop(struct worker *w, const struct apir_msg_graph_drop *m)
{
    worker_streams_settle(w);
    worker_slot_clear(w, &w->slots[m->slot]);
    return NULL;
}

static const char *dispatch_transfer(struct worker *w, const struct apir_msg *msg)
{
    switch (msg->code) {
    case APIR_MSG_SET:
        return worker_set(w, &msg->u.set);
    case APIR_MSG_SET_INLINE:
        return worker_set_inline(w, &msg->u.set_inline, msg->tail);
    case APIR_MSG_GET:
        return worker_get(w, &msg->u.get);
    case APIR_MSG_SET_2D:
        return worker_set_2d(w, &msg->u.set_2d);
    case APIR_MSG_GET_2D:
        return worker_get_2d(w, &msg->u.get_2d);
    case APIR_MSG_MEMSET:
        return worker_memset(w, &msg->u.memset);
    case APIR_MSG_COPY:
        return worker_copy(w, &msg->u.copy);
    default:
        return "not a transfer";
    }
}

/* Streams and events. */
static const char *dispatch_stream(struct worker *w, const struct apir_msg *msg)
{
    switch (msg->code) {
    case APIR_MSG_STREAM_OPEN:
        return worker_stream_open(w, &msg->u.stream_open);
    case APIR_MSG_STREAM_CLOSE:
        return worker_stream_close(w, &msg->u.stream_close);
    case APIR_MSG_STREAM_SYNC:
        return worker_stream_settle(w, msg->u.stream_sync.stream);
    case APIR_MSG_EVENT_RECORD:
        return worker_event_record(w, &msg->u.event_record);
    case APIR_MSG_EVENT_WAIT:
        return worker_event_wait(w, &msg->u.event_wait);
    case APIR_MSG_EVENT_SYNC:
        return worker_event_sync(w, &msg->u.event_sync);
    case APIR_MSG_EVENT_FREE:
        return worker_event_free(w, &msg->u.event_free);
    case APIR_MSG_STREAM_THREADS:
        return worker_stream_threads(w, &msg->u.stream_threads);
    default:
        return "of no stream";
    }
}

/* All codes, without a default: the compiler asks for what is missing. */
const char *worker_dispatch(struct worker *w, const struct apir_msg *msg)
{
    switch (msg->code) {
    case APIR_MSG_HELLO:
        return handle_hello(w, &msg->u.hello);
    case APIR_MSG_DEVICE_INFO:
        return handle_device_info(w, &msg->u.device_info);
    case APIR_MSG_DEVICE_MEMORY:
        return handle_device_memory(w, &msg->u.device_memory);
    case APIR_MSG_OP_QUERY:
        return handle_op_query(w, &msg->u.op_query);
    case APIR_MSG_BUFFER_ALLOC:
        return handle_buffer_alloc(w, &msg->u.buffer_alloc);
    case APIR_MSG_BUFFER_FREE:
        return handle_buffer_free(w, &msg->u.buffer_free);
    case APIR_MSG_BUFFER_CLEAR:
        return handle_buffer_clear(w, &msg->u.buffer_clear);
    case APIR_MSG_BUFFER_RESET:
        return handle_buffer_reset(w, &msg->u.buffer_reset);
    case APIR_MSG_GRAPH_DEF:
        return handle_graph_def(w, &msg->u.graph_def);
    case APIR_MSG_GRAPH_EXEC:
        return handle_graph_exec(w, &msg->u.graph_exec);
    case APIR_MSG_GRAPH_DROP:
        return handle_graph_drop(w, &msg->u.graph_drop);
    case APIR_MSG_GRAPH_OPTIMIZE:
        return handle_graph_optimize(w, &msg->u.graph_optimize);
    case APIR_MSG_BLOB_REGISTER:
        return worker_blob_register(w, &msg->u.blob_register);
    case APIR_MSG_BLOB_FORGET:
        return worker_blob_forget(w, &msg->u.blob_forget);
    case APIR_MSG_BUFFER_ALLOC_EXTRA:
        return handle_buffer_alloc_extra(w, &msg->u.buffer_alloc_extra);
    case APIR_MSG_TENSOR_BEGIN:
        return worker_extra_begin(w, &msg->u.tensor_begin);
    case APIR_MSG_SET:
    case APIR_MSG_SET_INLINE:
    case APIR_MSG_GET:
    case APIR_MSG_SET_2D:
    case APIR_MSG_GET_2D:
    case APIR_MSG_MEMSET:
    case APIR_MSG_COPY:
        return dispatch_transfer(w, msg);
    case APIR_MSG_STREAM_OPEN:
    case APIR_MSG_STREAM_CLOSE:
    case APIR_MSG_STREAM_SYNC:
    case APIR_MSG_EVENT_RECORD:
    case APIR_MSG_EVENT_WAIT:
    case APIR_MSG_EVENT_SYNC:
    case APIR_MSG_EVENT_FREE:
    case APIR_MSG_STREAM_THREADS:
        return dispatch_stream(w, msg);
    }
    return "unknown message code";
}
