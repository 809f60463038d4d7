/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams (ggml backends on the host) and events between them. Streams of
 * devices that have events of their own wait for each other there; elsewhere we
 * wait for all of the stream's work, which is never less.
 */
#include "backend/worker/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/worker/control.h"
#include "backend/worker/handlers.h"
#include "backend/worker/table.h"
#include "backend/worker/turn.h"
#include "common/clock.h"
#include "protocol/atomic.h"
#include "common/log.h"

/* Pieces of work between two waits for a stream: an honest token has ten. */
#define QUEUED_MAX 256u
/* Marks of an event between two waits for it: only a wait gives back all that ggml's Vulkan backend
 * keeps of a mark. */
#define MARKS_MAX 64u
/* Where classes take turns, a graph that takes LONG_NS is computed in parts of about PART_NS,
 * between which others have the device. One H200 lost 1 % of a prompt to that (docs/sharing.md,
 * Turns). */
#define LONG_NS (10 * 1000 * 1000)
#define PART_NS (4 * 1000 * 1000)

/* A device that computes by itself does so until somebody waits for it: both are the graph's. */
static void stream_worked(struct worker *w, struct worker_stream *s, uint64_t ns)
{
    s->graph_ns += ns;
    if (!w->status)
        return;
    struct apir_worker_counts *counts = &w->status->counts;
    worker_count(&counts->graphs_ns, ns);
    if (s->graph_ns > counts->longest_ns)
        apir_store_relaxed64(&counts->longest_ns, s->graph_ns);
}

/* Its latest graph is done: whether graphs of that size take long, and how long a node does. One
 * that took long because a driver compiled its shaders is in parts afterwards that are too small,
 * which alone may keep it from being short. */
static void stream_learn(struct worker_stream *s)
{
    if (!s->graph_ns || !s->graph_nodes)
        return;
    if (s->graph_ns >= LONG_NS && (!s->long_elements || s->graph_elements < s->long_elements)) {
        s->long_elements = s->graph_elements;
        apir_log(APIR_LOG_DEBUG, "graphs of %" PRIu64 " elements take long: %" PRIu64 " ms",
                 s->long_elements, s->graph_ns / 1000000);
    }
    if (!s->long_elements || s->graph_elements < s->long_elements)
        return;
    s->node_ns = s->graph_ns / s->graph_nodes + 1;
    if (s->graph_ns < LONG_NS / 2)
        s->long_elements = s->graph_elements + 1;
}

/* Once none of its streams has anything left to do. */
static void device_rests(struct worker *w, uint32_t device)
{
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (w->streams[i].host && w->streams[i].device == device && w->streams[i].dirty)
            return;
    }
    worker_turn_give(w, device);
}

const char *worker_stream_settle(struct worker *w, uint32_t id)
{
    if (id == 0)
        return NULL;
    struct worker_stream *s = &w->streams[id];
    if (!s->host)
        return worker_bad_stream;
    if (s->dirty) {
        const uint64_t began = s->graph_ns ? apir_now_ns() : 0;
        host_stream_sync(&w->ggml, s->host);
        if (s->graph_ns)
            stream_worked(w, s, apir_now_ns() - began);
        stream_learn(s);
        s->graph_ns = 0;
        w->queued_bytes -= s->queued_bytes;
        s->queued_bytes = 0;
        s->queued = 0;
        s->dirty = false;
        device_rests(w, s->device);
    }
    return NULL;
}

void worker_stream_note(struct worker *w, struct worker_stream *s, uint64_t bytes)
{
    s->dirty = true;
    s->queued++;
    s->queued_bytes += bytes;
    w->queued_bytes += bytes;
    if (w->queue_limit && w->queued_bytes > w->queue_limit)
        worker_streams_settle(w);
    else if (s->queued >= QUEUED_MAX)
        (void)worker_stream_settle(w, (uint32_t)(s - w->streams));
}

/* Before it computes: the device's turn is ours, which may be waited for. What other streams were
 * given is finished before such a wait. */
static void stream_begin(struct worker *w, const struct worker_stream *s)
{
    if (worker_turn_try(w, s->device))
        return;
    worker_streams_settle(w);
    worker_turn_wait(w, s->device);
}

static void stream_end(struct worker *w, const struct worker_stream *s)
{
    if (!worker_turn_is_wanted(w, s->device))
        return;
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (w->streams[i].host && w->streams[i].device == s->device)
            (void)worker_stream_settle(w, i);
    }
}

/* How far a part goes that begins there. */
static uint32_t part_end(const struct worker *w, const struct worker_stream *s,
                         const struct host_graph *graph, uint32_t first)
{
    const bool is_long = worker_turn_is_taken(w, s->device) && s->long_elements &&
                         graph->elements >= s->long_elements;
    const uint64_t nodes = is_long ? PART_NS / s->node_ns + 1 : graph->n_nodes;
    if (nodes >= graph->n_nodes - first)
        return graph->n_nodes;
    return host_graph_seam(&w->ggml, graph, first + (uint32_t)nodes);
}

int worker_stream_compute(struct worker *w, struct worker_stream *s, struct host_graph *graph)
{
    uint64_t taken = 0; /* by the parts before */
    int rc = GG_STATUS_SUCCESS;
    uint32_t first = 0;
    for (;;) {
        stream_begin(w, s);
        if (w->control_err)
            return GG_STATUS_FAILED;
        const uint64_t began = apir_now_ns();
        const uint32_t end = part_end(w, s, graph, first);
        const bool whole = first == 0 && end == graph->n_nodes;
        if (first == 0 && !whole)
            apir_log(APIR_LOG_DEBUG,
                     "a graph in parts, of which the first has %" PRIu32 " nodes of "
                     "%" PRIu32,
                     end, graph->n_nodes);
        rc = whole ? host_graph_compute(&w->ggml, s->host, graph)
                   : host_graph_compute_part(&w->ggml, s->host, graph, first, end);
        s->graph_ns = taken;
        s->graph_nodes = end == graph->n_nodes ? end : 0; /* 0: nothing to learn yet */
        s->graph_elements = graph->elements;
        stream_worked(w, s, apir_now_ns() - began);
        worker_stream_note(w, s, 0);
        first = end;
        if (first == graph->n_nodes || rc != GG_STATUS_SUCCESS)
            break;
        worker_turn_want(w, s->device);
        (void)worker_stream_settle(w, (uint32_t)(s - w->streams));
        taken += apir_now_ns() - began;
        stream_end(w, s);
    }
    stream_end(w, s);
    return rc;
}

/* In the reply area, which the guest may change at any time: at worst it fools itself. */
static struct apir_stream_status *status_of(struct worker *w, const struct worker_stream *s)
{
    return worker_reply(w, s->status_offset);
}

void worker_stream_fail(struct worker *w, struct worker_stream *s, uint32_t status, const char *why)
{
    struct apir_stream_status *place = status_of(w, s);
    char text[APIR_WHY_SIZE] = "";
    snprintf(text, sizeof(text), "%s", why);
    apir_log(APIR_LOG_INFO, "a graph failed: %s", text);
    memcpy(s->why, text, sizeof(text));
    s->failed = status;
    memcpy(place->why, text, sizeof(text));
    apir_store_release32(&place->failed, status);
}

void worker_stream_inherit(struct worker *w, uint32_t to, uint32_t from)
{
    if (!to || !from || to == from)
        return;
    const struct worker_stream *s = &w->streams[from];
    /* The guest says only whether it has been told; what failed and why is ours. */
    if (s->failed != APIR_OK && apir_load_acquire32(&status_of(w, s)->failed) != APIR_OK)
        worker_stream_fail(w, &w->streams[to], s->failed, s->why);
}

void worker_streams_settle(struct worker *w)
{
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (w->streams[i].host)
            worker_stream_settle(w, i);
    }
}

/* Between two operations: for the server, which counts seconds_per_graph from here on. */
static bool stream_gets_on(void *user)
{
    uint64_t *progress = user;
    apir_store_release64(progress, *progress + 1);
    return false; /* not to be aborted */
}

const char *worker_stream_open(struct worker *w, const struct apir_msg_stream_open *m)
{
    if (!worker_reply(w, m->status))
        return worker_bad_reply;
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    struct worker_stream *s = &w->streams[m->stream];
    if (s->host)
        return "stream id is in use";
    struct apir_reply_stream r = {.status = APIR_OK};
    void *host = NULL;
    if (!(w->devices_used & (1u << m->device))) {
        r.status = worker_reserve(w, m->device, 0, r.why);
        if (r.status == APIR_OK)
            r.status = worker_taken(w, m->device, 0, r.why);
    }
    if (r.status == APIR_OK) {
        host = host_stream_open(&w->ggml, &w->ggml.devices[m->device]);
        r.status = host ? APIR_OK : APIR_E_NOMEM;
    }
    if (host && !w->control_err) {
        w->control_err = worker_turn_find(w, m->device);
    }
    if (host && w->status)
        host_stream_watch(&w->ggml, &w->ggml.devices[m->device], host, stream_gets_on,
                          &w->status->progress);
    if (host && host_stream_optimizes(&w->ggml, host))
        r.flags |= APIR_STREAM_OPTIMIZE;
    if (host)
        *s = (struct worker_stream){.host = host, .device = m->device, .status_offset = m->status};
    return worker_answer(w, m->reply, &r, sizeof(r));
}

const char *worker_stream_threads(struct worker *w, const struct apir_msg_stream_threads *m)
{
    const struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    host_stream_threads(&w->ggml, &w->ggml.devices[s->device], s->host, m->threads);
    if (host_device_is_cpu(&w->ggml.devices[s->device]))
        worker_turn_threads(w, m->threads);
    return NULL;
}

const char *worker_stream_close(struct worker *w, const struct apir_msg_stream_close *m)
{
    const char *why = worker_stream_settle(w, m->stream);
    if (why)
        return why;
    struct worker_stream *s = &w->streams[m->stream];
    host_stream_close(&w->ggml, s->host);
    *s = (struct worker_stream){0};
    /* What was before its marks is done now. */
    for (uint32_t i = 0; i < APIR_EVENTS_MAX; i++) {
        if (w->events[i].stream == m->stream)
            w->events[i].stream = 0;
    }
    return NULL;
}

const char *worker_stream_sync(struct worker *w, const struct apir_msg_stream_sync *m)
{
    return worker_stream_settle(w, m->stream);
}

/* ---- events ----------------------------------------------------------------- */

static void event_drop(struct worker *w, struct worker_event *e)
{
    if (e->host) {
        /* A queue may still wait for it, or be about to set it. */
        worker_streams_settle(w);
        host_event_free(&w->ggml, e->host);
    }
    *e = (struct worker_event){0};
}

/* Waits for the mark. */
static const char *event_settle(struct worker *w, struct worker_event *e)
{
    if (!e->stream)
        return NULL;
    if (!e->host)
        return worker_stream_settle(w, e->stream);
    /* ggml's Vulkan backend then resets what earlier marks were made of: whoever still
     * waits for one of them would wait for ever. */
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if ((e->late & (UINT64_C(1) << (i - 1))) && w->streams[i].host)
            worker_stream_settle(w, i);
    }
    e->late = 0;
    e->marks = 0;
    host_event_sync(&w->ggml, e->host);
    return NULL;
}

const char *worker_event_record(struct worker *w, const struct apir_msg_event_record *m)
{
    struct worker_event *e = &w->events[m->event];
    struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    if (e->host && e->device != s->device)
        event_drop(w, e);
    if (e->marks >= MARKS_MAX)
        (void)event_settle(w, e);
    if (!e->host)
        e->host = host_event_new(&w->ggml, &w->ggml.devices[s->device], s->host);
    e->device = s->device;
    e->stream = m->stream;
    e->late |= e->waiters;
    e->waiters = 0;
    if (e->host) {
        host_event_record(&w->ggml, e->host, s->host);
        e->marks++;
        /* The mark is work too: it must be done before the event is freed. */
        worker_stream_note(w, s, 0);
    }
    return NULL;
}

const char *worker_event_wait(struct worker *w, const struct apir_msg_event_wait *m)
{
    struct worker_event *e = &w->events[m->event];
    struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    if (!e->stream || e->stream == m->stream)
        return NULL;
    worker_stream_inherit(w, m->stream, e->stream);
    if (!e->host || e->device != s->device)
        return worker_stream_settle(w, e->stream);
    host_event_wait(&w->ggml, e->host, s->host);
    e->waiters |= UINT64_C(1) << (m->stream - 1);
    worker_stream_note(w, s, 0);
    return NULL;
}

const char *worker_event_sync(struct worker *w, const struct apir_msg_event_sync *m)
{
    return event_settle(w, &w->events[m->event]);
}

const char *worker_event_free(struct worker *w, const struct apir_msg_event_free *m)
{
    event_drop(w, &w->events[m->event]);
    return NULL;
}
