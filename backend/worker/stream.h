/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: what is queued on a device, in which order, and when it is done. */
#pragma once

#include "backend/worker/worker.h"

/*
 * Makes what follows come after the stream's work so far. Stream 0 stands for
 * ggml's synchronous calls, which are ordered by the caller's own synchronize.
 */
const char *worker_stream_settle(struct worker *w, uint32_t id);

/*
 * Work was queued on the stream; `bytes` of it are a transfer. What may be queued is bounded, for
 * drivers keep something for each piece; then this waits for it.
 */
void worker_stream_note(struct worker *w, struct worker_stream *s, uint64_t bytes);

/*
 * Computes a graph on the stream; returns ggml's status. Where classes take turns (turn.h) it waits
 * for the device's, after all that was queued before; if others wait for the turn, they get it once
 * the graph is done. One that takes long is computed in parts, between which they get it, too.
 * w->control_err is set where the server is gone.
 */
int worker_stream_compute(struct worker *w, struct worker_stream *s, struct host_graph *graph);

/* A graph of the stream has failed, or what it was given is of one that has: its guest is told.
 * `why` is a text for the user. */
void worker_stream_fail(struct worker *w, struct worker_stream *s, uint32_t status,
                        const char *why);
/* What stream `to` does next uses what stream `from` has computed. If a graph of that has failed
 * and the guest has not cleared it yet, `to` fails as well. Both are open, or 0: nobody. */
void worker_stream_inherit(struct worker *w, uint32_t to, uint32_t from);

/* Before anything is freed or rewritten that a running graph may use. */
void worker_streams_settle(struct worker *w);
