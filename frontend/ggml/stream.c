/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ggml's backend object: one stream of work on one device. Everything is
 * asynchronous until synchronize; the host keeps the order of the ring.
 */
#include "frontend/ggml/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/link/expect.h"
#include "frontend/ggml/transfer.h"
#include "frontend/graph/encode.h"
#include "frontend/graph/orders.h"
#include "frontend/graph/slots.h"
#include "frontend/plugin/stream.h"
#include "common/log.h"
#include "common/text.h"

struct plugin_event {
    struct gg_event ggml; /* first: what ggml sees */
    uint32_t id;
    uint32_t stream; /* id of the one whose work it marks; 0: recorded nothing */
    uint64_t pos;    /* of the mark */
};

/* What ggml calls is given its backend object, which a stream of ours begins with. */

static const char *stream_name(const struct plugin_stream *s)
{
    return s->name;
}

/* The program is being told, of this and of what else was on its way. The host keeps nothing of a
 * graph that it could not take, so all that follow are sent anew. */
static void failure_told(struct plugin_stream *s)
{
    struct client *c = &plugin.client;
    os_lock_acquire(&plugin_slots.lock);
    slots_forget_device(&plugin_slots, s->device->index);
    os_lock_release(&plugin_slots.lock);
    client_lock(c);
    client_flush_locked(c);
    if (s->last)
        (void)client_wait_locked(c, s->last);
    client_reads_finish_locked(c, s->id, UINT64_MAX);
    memset(s->touched, 0, sizeof(s->touched));
    client_stream_clear(c, s->id);
    __atomic_and_fetch(&plugin.streams_failed, ~plugin_stream_bit(s), __ATOMIC_ACQ_REL);
    client_unlock(c);
}

/* Whether a thread for each core computes its graphs. What the host allows may be less: we are not
 * told, and sleep then where we could look. */
static bool takes_every_core(const struct plugin_stream *s)
{
    return s->device->info.flags & APIR_DEVICE_THREADS &&
           (s->threads == 0 || s->threads >= plugin.cores);
}

static void stream_synchronize(struct plugin_stream *s)
{
    struct client *c = &plugin.client;
    if (!client_usable(c)) {
        /* Reads that were queued must still give the caller something defined. */
        if (!client_forked(c) && c->read_count) {
            client_lock(c);
            client_reads_finish_locked(c, s->id, UINT64_MAX);
            client_unlock(c);
        }
        return;
    }
    if (!s->last)
        return;
    client_lock(c);
    if (!s->last_settles) {
        struct apir_msg msg = {.code = APIR_MSG_STREAM_SYNC, .u.stream_sync = {s->id}};
        uint64_t pos = client_put_locked(c, &msg);
        if (pos)
            plugin_stream_note_locked(s, pos, true);
    }
    uint64_t pos = s->last, begin = client_reads_begin_locked(c, s->id, pos);
    client_flush_locked(c);
    struct slot *slot = s->running;
    uint64_t now = os_now_ns(), already = slot ? now - s->submitted : 0;
    uint64_t *known = slot ? &slot->expect_ns : &s->idle_expect_ns;
    uint64_t expect = *known > already ? *known - already : 0;
    client_unlock(c);
    /* Asleep until all is there: looking for the pieces of a read would take a core as well. */
    if (slot && takes_every_core(s))
        client_wait_asleep(c, pos, expect);
    else
        client_wait(c, begin, expect);
    uint64_t took = os_now_ns() - (slot ? s->submitted : now);
    client_lock(c);
    s->running = NULL;
    expect_learn(known, took);
    client_reads_finish_locked(c, s->id, UINT64_MAX);
    if (s->last == pos)
        s->last = 0;
    plugin.stream_settled[s->id] = pos;
    if (!plugin_stream_failed(s))
        memset(s->touched, 0, sizeof(s->touched));
    client_unlock(c);
}

static int execute(struct plugin_stream *s, const struct gg_cgraph_head *graph)
{
    if (graph->n_nodes == 0)
        return 0;
    os_lock_acquire(&plugin_slots.lock);
    int rc = 0;
    struct slot *slot = slots_execute(&plugin_slots, s, graph, &rc);
    if (slot) {
        s->running = slot;
        s->submitted = os_now_ns();
    }
    os_lock_release(&plugin_slots.lock);
    return rc;
}

static int stream_graph_compute(struct plugin_stream *s, const struct gg_cgraph_head *graph)
{
    if (!client_usable(&plugin.client))
        return GG_STATUS_FAILED;
    if (plugin_stream_failed(s)) {
        failure_told(s);
        return GG_STATUS_FAILED;
    }
    int rc = execute(s, graph);
    return rc == 0 ? GG_STATUS_SUCCESS : rc == -ENOMEM ? GG_STATUS_ALLOC_FAILED : GG_STATUS_FAILED;
}

static bool is_stream(const void *backend)
{
    __typeof__(&stream_graph_compute) fn = stream_graph_compute;
    return memcmp((const char *)backend + plugin.layout.backend.graph_compute, &fn, sizeof(fn)) ==
           0;
}

/* One of the two may be another backend's. */
static bool stream_copy_async(void *from, void *to, const struct gg_tensor *src,
                              struct gg_tensor *dst)
{
    /* What the CPU has computed the scheduler copies itself, and waits: nothing else would keep the
     * CPU from writing there again before the device has read it. */
    if (!is_stream(to) || !is_stream(from))
        return false;
    return plugin_tensor_copy(from, to, src, dst);
}

/* ---- reordering ---------------------------------------------------------------- */

/* ggml_backend_graph_optimize_params, as of the layout that has a third argument. */
struct optimize_params {
    void (*add_alloc_dep)(void *user_data, struct gg_tensor *tensor, struct gg_tensor *until);
    void *user_data;
};

static void stream_graph_optimize(struct plugin_stream *s, struct gg_cgraph_head *graph,
                                  const struct optimize_params *params)
{
    if (graph->n_nodes < 2 || !client_usable(&plugin.client))
        return;
    os_lock_acquire(&plugin_orders.lock);
    const struct order *o = orders_get(&plugin_orders, s, graph);
    if (o) {
        const struct gg_tensor *const *tensors = plugin_orders.scratch.tensors;
        const struct optimize_params *p = plugin.layout.optimize_params ? params : NULL;
        for (uint32_t i = 0; i < o->n_nodes; i++)
            graph->nodes[i] = (struct gg_tensor *)(uintptr_t)tensors[o->order[i]];
        for (uint32_t i = 0; p && i < o->n_deps; i++)
            p->add_alloc_dep(p->user_data, (struct gg_tensor *)(uintptr_t)tensors[o->deps[2 * i]],
                             (struct gg_tensor *)(uintptr_t)tensors[o->deps[2 * i + 1]]);
    }
    os_lock_release(&plugin_orders.lock);
}

/* ---- events ------------------------------------------------------------------- */

void *plugin_event_new(void *dev)
{
    struct client *c = &plugin.client;
    struct plugin_event *e = client_usable(c) ? calloc(1, sizeof(*e)) : NULL;
    if (!e)
        return NULL;
    e->ggml = (struct gg_event){.device = dev, .context = e};
    e->id = APIR_EVENTS_MAX;
    client_lock(c);
    for (uint32_t i = 0; i < APIR_EVENTS_MAX && e->id == APIR_EVENTS_MAX; i++) {
        if (!(plugin.event_used[i / 64] & (UINT64_C(1) << (i % 64))))
            e->id = i;
    }
    if (e->id < APIR_EVENTS_MAX)
        plugin.event_used[e->id / 64] |= UINT64_C(1) << (e->id % 64);
    client_unlock(c);
    if (e->id < APIR_EVENTS_MAX)
        return e;
    free(e);
    return NULL;
}

void plugin_event_free(void *dev, void *event)
{
    (void)dev;
    struct plugin_event *e = event;
    struct client *c = &plugin.client;
    if (client_usable(c)) {
        struct apir_msg msg = {.code = APIR_MSG_EVENT_FREE, .u.event_free = {e->id}};
        client_lock(c);
        client_put_locked(c, &msg);
        plugin.event_used[e->id / 64] &= ~(UINT64_C(1) << (e->id % 64));
        client_unlock(c);
    }
    free(e);
}

static void stream_event_record(const struct plugin_stream *s, struct plugin_event *e)
{
    struct client *c = &plugin.client;
    if (!client_usable(c))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_EVENT_RECORD,
        .u.event_record = {.event = e->id, .stream = s->id},
    };
    client_lock(c);
    e->stream = s->id;
    e->pos = client_put_locked(c, &msg);
    client_unlock(c);
}

/* Later work of the backend starts after what the event has recorded. */
static void stream_event_wait(struct plugin_stream *s, const struct plugin_event *e)
{
    struct client *c = &plugin.client;
    if (!e->stream || e->stream == s->id || !client_usable(c))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_EVENT_WAIT,
        .u.event_wait = {.event = e->id, .stream = s->id},
    };
    client_lock(c);
    uint64_t pos = client_put_locked(c, &msg);
    if (pos)
        plugin_stream_note_locked(s, pos, false);
    client_unlock(c);
}

void plugin_event_synchronize(void *dev, void *event)
{
    (void)dev;
    struct plugin_event *e = event;
    struct client *c = &plugin.client;
    /* In a forked child the lock may be held by nobody that lives. */
    if (!e->stream || !e->pos || client_forked(c))
        return;
    client_lock(c);
    uint64_t pos = 0;
    if (e->pos > plugin.stream_settled[e->stream] && client_usable(c)) {
        struct apir_msg msg = {.code = APIR_MSG_EVENT_SYNC, .u.event_sync = {e->id}};
        pos = client_put_locked(c, &msg);
        client_flush_locked(c);
    }
    client_unlock(c);
    if (pos)
        client_wait(c, pos, 0);
    client_lock(c);
    client_reads_finish_locked(c, e->stream, e->pos);
    struct plugin_stream *s = plugin.streams[e->stream - 1];
    if (s)
        (void)plugin_stream_failed(s);
    client_unlock(c);
}

/* ---- life --------------------------------------------------------------------- */

static void stream_free(struct plugin_stream *s)
{
    struct client *c = &plugin.client;
    /* Also after a loss: what they write to may be gone before anybody else finishes them. */
    if (!client_forked(c)) {
        client_lock(c);
        client_reads_finish_locked(c, s->id, UINT64_MAX);
        plugin.streams[s->id - 1] = NULL;
        __atomic_and_fetch(&plugin.streams_failed, ~plugin_stream_bit(s), __ATOMIC_ACQ_REL);
        client_unlock(c);
    }
    if (client_usable(c)) {
        client_lock(c);
        struct apir_msg msg = {.code = APIR_MSG_STREAM_CLOSE, .u.stream_close = {s->id}};
        uint64_t pos = client_put_locked(c, &msg);
        client_flush_locked(c);
        /* The id is given away, with its status place, only when the host is done with it. */
        if (pos && client_wait_locked(c, pos) == 0) {
            plugin.stream_settled[s->id] = pos;
            plugin.stream_used &= ~plugin_stream_bit(s);
        }
        client_unlock(c);
    }
    free(s);
}

static void stream_fill(struct plugin_stream *s)
{
    static uint8_t guid[16] = {0x61, 0x70, 0x69, 0x72, 0x9c, 0x1e, 0x4d, 0x52,
                               0x8b, 0x07, 0x3a, 0xf4, 0x5e, 0xd1, 0x66, 0x20};
    s->ggml[0] = (uintptr_t)guid;
    PLUGIN_SET_FN(s->ggml, sizeof(s->ggml[0]), stream_name);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.free, stream_free);
    /* A backend of ours is its stream: what takes one can be ggml's function as it is. */
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.set_async, plugin_tensor_set);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.get_async, plugin_tensor_get);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.set_2d_async, plugin_tensor_set_2d);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.get_2d_async, plugin_tensor_get_2d);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.cpy_async, stream_copy_async);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.sync, stream_synchronize);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.graph_compute, stream_graph_compute);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.event_record, stream_event_record);
    PLUGIN_SET_FN(s->ggml, plugin.layout.backend.event_wait, stream_event_wait);
    if (s->flags & APIR_STREAM_OPTIMIZE)
        PLUGIN_SET_FN(s->ggml, plugin.layout.backend.graph_optimize, stream_graph_optimize);
    GG_AT(s->ggml, plugin.layout.backend.device, void *) = s->device;
    GG_AT(s->ggml, plugin.layout.backend.ctx, void *) = s;
}

void *plugin_stream_open(void *dev, const char *params)
{
    (void)params;
    struct plugin_device *d = dev;
    struct client *c = &plugin.client;
    struct plugin_stream *s = client_usable(c) ? calloc(1, sizeof(*s)) : NULL;
    if (!s)
        return NULL;
    s->device = d;
    memcpy(s->name, d->name, sizeof(s->name));
    client_lock(c);
    if (~plugin.stream_used) {
        s->id = (uint32_t)__builtin_ctzll(~plugin.stream_used) + 1;
        plugin.stream_used |= plugin_stream_bit(s);
        plugin.streams[s->id - 1] = s;
        client_stream_clear(c, s->id);
    }
    client_unlock(c);
    struct apir_msg msg = {
        .code = APIR_MSG_STREAM_OPEN,
        .u.stream_open = {.stream = s->id,
                          .device = d->index,
                          .status = s->id ? client_stream_offset(s->id) : 0},
    };
    struct apir_reply_stream answer = {.status = APIR_E_FAILED};
    int rc =
        s->id ? client_call(c, &msg, &msg.u.stream_open.reply, &answer, sizeof(answer)) : -EBUSY;
    if (rc || answer.status != APIR_OK) {
        apir_text_accept(answer.why, sizeof(answer.why));
        apir_log(APIR_LOG_ERROR, "%s: the host opens no further backend%s%s", d->name,
                 *answer.why ? ": " : "", answer.why);
        client_lock(c);
        if (s->id)
            plugin.streams[s->id - 1] = NULL;
        if (s->id && !rc)
            plugin.stream_used &= ~plugin_stream_bit(s);
        client_unlock(c);
        free(s);
        return NULL;
    }
    s->flags = answer.flags;
    stream_fill(s);
    return s;
}

void plugin_stream_threads(void *backend, int n)
{
    struct client *c = &plugin.client;
    struct plugin_stream *s = backend;
    if (n < 1 || (uint32_t)n == s->threads || !(s->device->info.flags & APIR_DEVICE_THREADS))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_STREAM_THREADS,
        .u.stream_threads = {.stream = s->id, .threads = (uint32_t)n},
    };
    s->threads = (uint32_t)n;
    client_send(c, &msg);
}
