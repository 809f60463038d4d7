/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ggml's scheduler over the device and the CPU: graphs cut into splits, sources copied between
 * them, views of one side's memory in the splits of the other.
 *
 * Natively both backends are the CPU's: the same nodes are computed by the same kernels, whoever
 * does it. What is left out is what the scheduler itself gets wrong: operations in place, whose
 * result lies where their source does and is computed elsewhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_steps.h"
#include "tests/native/differ/ggml_values.h"

enum { SCHED_NODES = 2 * BUILD_NODES_MAX, OUTPUTS_MAX = 6 };

#define PLACES AREA_KINDS /* beside these: the scheduler's own */

struct session {
    struct world *w;
    struct both both;
    ggml_backend_sched_t sched[SIDES];
    struct area *places[PLACES]; /* weights and what is kept, by where they lie */
    size_t outputs[OUTPUTS_MAX];
    unsigned n_outputs;
    unsigned stream;
    bool host_buft; /* what the CPU computes lies in memory that the device reaches */
};

/* ---- where things are ------------------------------------------------------------------ */

/* Of each leaf: in an area of this kind, or PLACES: the scheduler's. */
static unsigned place_of(const struct session *s, size_t i)
{
    const struct ggml_tensor *t = s->both.tensors[NATIVE][i];
    struct differ_random r = differ_random(s->both.plan.seed + 100 + i);
    if (!build_is_leaf(t))
        return PLACES;
    if (build_where(t))
        return build_where(t) == 'c' ? AREA_CPU : AREA_DEVICE;
    if (build_is_kept(t))
        return differ_chance(&r, 60) ? AREA_DEVICE : differ_chance(&r, 50) ? AREA_CPU : AREA_HOST;
    return differ_below(&r, (uint32_t)PLACES + 1);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* One round counts (buffers NULL), one places: the same places on both sides. */
static size_t place(struct session *s, enum area_kind kind, ggml_backend_buffer_t buffers[SIDES])
{
    ggml_backend_buffer_type_t buft[SIDES] = {world_buft(s->w, NATIVE, kind),
                                              world_buft(s->w, REMOTE, kind)};
    const size_t step = larger(ggml_backend_buft_get_alignment(buft[NATIVE]),
                               ggml_backend_buft_get_alignment(buft[REMOTE]));
    size_t at = 0;
    for (size_t i = 0; i < s->both.n_tensors; i++) {
        size_t size = 0;
        if (place_of(s, i) != (unsigned)kind)
            continue;
        for (int side = 0; side < SIDES; side++) {
            struct ggml_tensor *t = s->both.tensors[side][i];
            size = larger(size, ggml_backend_buft_get_alloc_size(buft[side], t));
            if (buffers)
                ggml_backend_tensor_alloc(buffers[side], t,
                                          (char *)ggml_backend_buffer_get_base(buffers[side]) + at);
        }
        if (buffers && differ_options.verbose)
            fprintf(stderr, "      %p at %zu of kind %d\n", (void *)s->both.tensors[REMOTE][i], at,
                    (int)kind);
        at += (size + step - 1) / step * step;
    }
    return at;
}

static bool place_all(struct session *s)
{
    for (enum area_kind kind = 0; kind < PLACES; kind++) {
        s->places[kind] = world_area_new(s->w, kind, larger(1024, place(s, kind, NULL)));
        if (!s->places[kind])
            return false;
        s->places[kind]->owned = true;
        place(s, kind, s->places[kind]->buffer);
        const bool weights = differ_chance(&s->w->r, 50);
        for (int side = 0; side < SIDES && weights; side++)
            ggml_backend_buffer_set_usage(s->places[kind]->buffer[side],
                                          GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    return true;
}

/* Views of what has a place have theirs, as when a model's graph is built. */
static void view_all(struct session *s)
{
    for (int side = 0; side < SIDES; side++) {
        for (size_t i = 0; i < s->both.n_tensors; i++) {
            struct ggml_tensor *t = s->both.tensors[side][i];
            if (t->view_src && t->view_src->buffer && !t->buffer)
                ggml_backend_view_init(t);
        }
    }
}

/* ---- the schedulers ---------------------------------------------------------------------- */

static void schedule(struct session *s)
{
    struct world *w = s->w;
    const bool offload = differ_chance(&w->r, 50);
    for (int side = 0; side < SIDES; side++) {
        ggml_backend_t backends[] = {w->stream[side][s->stream], w->cpu[side]};
        ggml_backend_buffer_type_t bufts[] = {
            world_buft(w, side, AREA_DEVICE),
            world_buft(w, side, s->host_buft ? AREA_HOST : AREA_CPU)};
        s->sched[side] = ggml_backend_sched_new(backends, bufts, 2, SCHED_NODES, false, offload);
    }
}

/* Some nodes go to one of the backends, wherever their sources are. */
static void assign(struct session *s)
{
    const unsigned share = differ_below(&s->w->r, 60);
    for (size_t i = 0; i < s->both.n_tensors; i++) {
        const struct ggml_tensor *t = s->both.tensors[NATIVE][i];
        const char where = build_where(t);
        if (build_is_leaf(t) || t->view_src || (!where && !differ_chance(&s->w->r, share)))
            continue;
        const bool cpu = where ? where == 'c' : differ_chance(&s->w->r, 50);
        for (int side = 0; side < SIDES; side++)
            ggml_backend_sched_set_tensor_backend(s->sched[side], s->both.tensors[side][i],
                                                  cpu ? s->w->cpu[side]
                                                      : s->w->stream[side][s->stream]);
    }
}

static void mark(struct session *s)
{
    s->n_outputs = 0;
    for (size_t i = s->both.n_tensors; i-- > 0;) {
        const struct ggml_tensor *t = s->both.tensors[NATIVE][i];
        const bool output = !build_is_leaf(t) && !t->view_src && ggml_nbytes(t) &&
                            t->flags & GGML_TENSOR_FLAG_COMPUTE && s->n_outputs < OUTPUTS_MAX &&
                            (s->n_outputs == 0 || differ_chance(&s->w->r, 30));
        if (output)
            s->outputs[s->n_outputs++] = i;
        for (int side = 0; side < SIDES; side++) {
            if (output)
                ggml_set_output(s->both.tensors[side][i]);
            if (!build_is_leaf(t) || place_of(s, i) != PLACES)
                continue;
            ggml_set_input(s->both.tensors[side][i]);
            /* Or a later result gets its memory, and there is nothing to run again with. */
            ggml_set_output(s->both.tensors[side][i]);
        }
    }
}

/* ---- values -------------------------------------------------------------------------------- */

static void fill(struct session *s, bool all)
{
    for (size_t i = 0; i < s->both.n_tensors; i++) {
        const struct ggml_tensor *t = s->both.tensors[NATIVE][i];
        /* What only disabled nodes need the scheduler may have no place for. */
        if (build_is_leaf(t) && t->buffer && s->both.tensors[REMOTE][i]->buffer &&
            (all || place_of(s, i) == PLACES))
            values_fill(s->w, &s->both, i, NOBODY);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void compare(struct session *s)
{
    for (unsigned k = 0; k < s->n_outputs; k++)
        pair_compare(ggml_op_desc(s->both.tensors[NATIVE][s->outputs[k]]),
                     both_pair(&s->both, s->outputs[k]));
    for (enum area_kind kind = 0; kind < PLACES && differ_options.tolerance <= 0; kind++)
        world_compare(s->w, s->places[kind], "what a scheduled graph has written");
}

/* The same graph again before the devices are done with it: the scheduler keeps the order. */
static void compute(struct session *s)
{
    const unsigned runs = 1 + differ_below(&s->w->r, s->both.plan.relays ? 12 : 4);
    differ_detail(" %u runs of %d splits", runs, ggml_backend_sched_get_n_splits(s->sched[REMOTE]));
    for (unsigned i = 0; i < runs; i++) {
        for (int side = 0; side < SIDES; side++) {
            const enum ggml_status status =
                ggml_backend_sched_graph_compute_async(s->sched[side], s->both.built[side].graph);
            if (status != GGML_STATUS_SUCCESS)
                differ_found("the scheduler's graph_compute is %s on the %s side",
                             ggml_status_to_string(status), side_names[side]);
        }
    }
    for (int side = 0; side < SIDES; side++)
        ggml_backend_sched_synchronize(s->sched[side]);
    compare(s);
}

static void show(const struct session *s)
{
    build_show(s->both.built[REMOTE].graph);
    for (int i = 0; i < ggml_graph_n_nodes(s->both.built[REMOTE].graph); i++) {
        struct ggml_tensor *t = ggml_graph_node(s->both.built[REMOTE].graph, i);
        ggml_backend_t b = ggml_backend_sched_get_tensor_backend(s->sched[REMOTE], t);
        differ_detail(" %s%s%s", ggml_op_desc(t),
                      !b                       ? "?"
                      : b == s->w->cpu[REMOTE] ? "@CPU"
                                               : "",
                      t->flags & GGML_TENSOR_FLAG_COMPUTE ? "" : "(off)");
    }
}

/* ---- sessions ----------------------------------------------------------------------------------
 */

static struct plan pick_plan(struct world *w)
{
    return (struct plan){.seed = differ_next(&w->r),
                         .n_ops = 2 + differ_below(&w->r, 20),
                         .keep = differ_chance(&w->r, 70),
                         .whole = true,
                         .disabled = differ_chance(&w->r, 30) && !differ_left_out("off"),
                         .odd_ops = differ_chance(&w->r, 30)};
}

static bool make(struct session *s)
{
    both_build(&s->both, s->w->dev);
    if (ggml_graph_n_nodes(s->both.built[NATIVE].graph) == 0 || !place_all(s))
        return false;
    view_all(s);
    mark(s);
    schedule(s);
    return true;
}

static void run(struct session *s)
{
    const unsigned rounds = 1 + differ_below(&s->w->r, 3);
    for (unsigned i = 0; i < rounds; i++) {
        if (i == 0) {
            assign(s);
            for (int side = 0; side < SIDES; side++) {
                if (!ggml_backend_sched_alloc_graph(s->sched[side], s->both.built[side].graph))
                    differ_found("no memory for a scheduled graph");
            }
            show(s);
        }
        fill(s, i == 0);
        compute(s);
    }
}

static void do_session(struct world *w, struct session *s)
{
    world_synchronize(w, s->stream);
    if (make(s))
        run(s);
    for (int side = 0; side < SIDES; side++) {
        if (s->sched[side])
            ggml_backend_sched_free(s->sched[side]);
    }
    for (enum area_kind kind = 0; kind < PLACES; kind++) {
        if (s->places[kind])
            world_area_free(w, s->places[kind]);
    }
    both_fini(&s->both);
    free(s);
}

static struct session *session_new(struct world *w)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->w = w;
    s->stream = differ_below(&w->r, w->n_streams);
    s->host_buft = differ_chance(&w->r, 70);
    return s;
}

void step_sched(struct world *w)
{
    struct session *s = session_new(w);
    s->both.plan = pick_plan(w);
    differ_step("a scheduler on stream %u and the CPU%s:", s->stream,
                s->host_buft ? " in host memory" : "");
    do_session(w, s);
}

void step_relay(struct world *w)
{
    struct session *s = session_new(w);
    s->both.plan = (struct plan){
        .seed = differ_next(&w->r), .relays = 1 + differ_below(&w->r, 3), .whole = true};
    differ_step("a relay of %u on stream %u and the CPU%s:", s->both.plan.relays, s->stream,
                s->host_buft ? " in host memory" : "");
    do_session(w, s);
}
