/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of steps that a world does; each function does one step, or none. */
#ifndef APIR_DIFFER_GGML_STEPS_H
#define APIR_DIFFER_GGML_STEPS_H

#include "tests/native/differ/ggml_world.h"

struct graphs;

void step_transfer(struct world *w); /* bytes in and out, copies, events */
void step_copy(struct world *w);     /* ggml_backend_tensor_copy and its asynchronous sister */
void step_life(struct world *w);     /* areas and streams come and go */

/* Graphs computed by one stream; some are kept and computed again. */
struct graphs *graphs_new(void);
void graphs_free(struct world *w, struct graphs *g);
void step_graph(struct world *w, struct graphs *g);

/* A scheduler over the device and the CPU, some graphs, each several times. */
void step_sched(struct world *w);
/* One in which the CPU hands large results to the device, over and over, and nobody waits. */
void step_relay(struct world *w);

/* A copy behind a stream that is busy, and at once new contents for the source. */
void step_cross(struct world *w);

/* Some milliseconds of products of one matrix with itself; nobody looks at the result. */
struct labour {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    ggml_backend_buffer_t buffer;
};
struct labour labour_new(ggml_backend_buffer_type_t buft);
void labour_free(struct labour *l);

/* Large transfers, many at once, between streams and around graphs. */
void step_bulk(struct world *w);

/* As many backends as there may be, and one more; then work goes on as before. */
void step_many(struct world *w);

#endif
