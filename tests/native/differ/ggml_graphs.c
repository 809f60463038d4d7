/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of one stream, with memory of their own for every tensor or as ggml's allocator has it. */
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_steps.h"
#include "tests/native/differ/ggml_values.h"

enum { KEPT_GRAPHS = 4, ROOM_MAX = 16 << 20 };

struct graph {
    struct both both;
    struct area *area;           /* leaves, and all else where there is no allocator */
    ggml_gallocr_t alloc[SIDES]; /* NULL: none */
    struct pair whole;           /* all bytes of what the allocator has */
    struct ggml_context *whole_ctx[SIDES];
};

struct graphs {
    struct graph graph[KEPT_GRAPHS];
};

struct graphs *graphs_new(void)
{
    struct graphs *g = calloc(1, sizeof(*g));
    return g ? g : differ_alloc(SIZE_MAX);
}

/* ---- places ------------------------------------------------------------------------ */

/* With an allocator only leaves lie in the area. */
static bool in_area(const struct graph *g, const struct ggml_tensor *t)
{
    return !t->view_src && (!g->alloc[NATIVE] || build_is_leaf(t));
}

/* One round counts (buffer NULL), one places. The gaps follow from the seed. */
static size_t place(struct graph *g, int side, ggml_backend_buffer_type_t buft,
                    ggml_backend_buffer_t buffer)
{
    struct differ_random r = differ_random(g->both.plan.seed + 1);
    const size_t step = ggml_backend_buft_get_alignment(buft);
    size_t at = 0;
    for (size_t i = 0; i < g->both.n_tensors; i++) {
        struct ggml_tensor *t = g->both.tensors[side][i];
        if (buffer && t->view_src && t->view_src->buffer) {
            ggml_backend_view_init(t);
        } else if (in_area(g, t)) {
            at += differ_chance(&r, 30) ? step * differ_below(&r, 5) : 0;
            if (buffer)
                ggml_backend_tensor_alloc(buffer, t,
                                          (char *)ggml_backend_buffer_get_base(buffer) + at);
            at += (ggml_backend_buft_get_alloc_size(buft, t) + step - 1) / step * step;
        }
    }
    return at;
}

static bool graph_place(struct world *w, struct graph *g)
{
    size_t size = 1024;
    ggml_backend_buffer_type_t buft[SIDES];
    for (int s = 0; s < SIDES; s++) {
        buft[s] = world_buft(w, s, AREA_DEVICE);
        const size_t wanted = place(g, s, buft[s], NULL);
        size = wanted > size ? wanted : size;
    }
    g->area = size <= ROOM_MAX ? world_area_new(w, AREA_DEVICE, size + 64) : NULL;
    if (!g->area)
        return false;
    g->area->owned = true;
    for (int s = 0; s < SIDES; s++)
        place(g, s, buft[s], g->area->buffer[s]);
    return true;
}

/* What the allocator's buffer holds before the first run nobody knows: a pattern. */
static void cover(struct graph *g)
{
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_buffer_t buffer = NULL;
        for (size_t i = 0; i < g->both.n_tensors && !buffer; i++) {
            struct ggml_tensor *t = g->both.tensors[s][i];
            if (t->buffer && t->buffer != g->area->buffer[s] && ggml_nbytes(t) &&
                ggml_backend_buffer_get_size(t->buffer))
                buffer = t->buffer;
        }
        if (!buffer)
            return;
        const struct ggml_init_params params = {.mem_size = ggml_tensor_overhead(),
                                                .no_alloc = true};
        g->whole_ctx[s] = ggml_init(params);
        g->whole.t[s] = ggml_new_tensor_1d(g->whole_ctx[s], GGML_TYPE_I8,
                                           (int64_t)ggml_backend_buffer_get_size(buffer));
        ggml_backend_tensor_alloc(buffer, g->whole.t[s], ggml_backend_buffer_get_base(buffer));
        ggml_backend_buffer_clear(buffer, 0x3c);
    }
}

static void graph_alloc(struct graph *g)
{
    for (int s = 0; s < SIDES; s++) {
        if (!ggml_gallocr_alloc_graph(g->alloc[s], g->both.built[s].graph))
            differ_found("no memory for a graph on the %s side", side_names[s]);
    }
    cover(g);
}

/* ---- values ------------------------------------------------------------------------ */

/* All leaves, or only those that a program sets for each run. */
static void fill_leaves(struct world *w, struct graph *g, bool all, int stream)
{
    world_use(w, g->area, stream);
    for (size_t i = 0; i < g->both.n_tensors; i++) {
        const struct ggml_tensor *t = g->both.tensors[NATIVE][i];
        if (build_is_leaf(t) && (all || (!build_is_kept(t) && differ_chance(&w->r, 50))))
            values_fill(w, &g->both, i, stream);
    }
}

/* ---- life -------------------------------------------------------------------------- */

static void graph_free(struct world *w, struct graph *g)
{
    if (g->area)
        world_area_free(w, g->area);
    for (int s = 0; s < SIDES; s++) {
        ggml_free(g->whole_ctx[s]);
        ggml_gallocr_free(g->alloc[s]);
        g->alloc[s] = NULL;
        g->whole_ctx[s] = NULL;
    }
    both_forget(&g->both);
    g->whole = (struct pair){0};
    g->area = NULL;
}

void graphs_free(struct world *w, struct graphs *g)
{
    for (int i = 0; i < KEPT_GRAPHS; i++) {
        graph_free(w, &g->graph[i]);
        both_fini(&g->graph[i].both);
    }
    free(g);
}

static struct plan pick_plan(struct world *w)
{
    const bool exact = differ_options.tolerance <= 0;
    return (struct plan){.seed = differ_next(&w->r),
                         .n_ops = 1 + differ_below(&w->r, 16),
                         .in_place = exact && differ_chance(&w->r, 50),
                         .keep = differ_chance(&w->r, 60),
                         .disabled = differ_chance(&w->r, 30) && !differ_left_out("off"),
                         .moves = true,
                         .odd_ops = differ_chance(&w->r, 50)};
}

/* ggml's allocator falls over graphs where nothing at all has a size, but for one node. */
static bool has_size(const struct graph *g)
{
    for (size_t i = 0; i < g->both.n_tensors; i++) {
        const struct ggml_tensor *t = g->both.tensors[NATIVE][i];
        if (!build_is_leaf(t) && !t->view_src && ggml_nbytes(t))
            return true;
    }
    return ggml_graph_n_nodes(g->both.built[NATIVE].graph) == 1;
}

static bool graph_make(struct world *w, struct graph *g)
{
    bool allocator = differ_chance(&w->r, 40);
    g->both.plan = pick_plan(w);
    both_build(&g->both, w->dev);
    allocator = allocator && has_size(g);
    for (int s = 0; allocator && s < SIDES; s++)
        g->alloc[s] = ggml_gallocr_new(world_buft(w, s, AREA_DEVICE));
    if (ggml_graph_n_nodes(g->both.built[NATIVE].graph) == 0 || !graph_place(w, g)) {
        graph_free(w, g);
        return false;
    }
    if (allocator)
        graph_alloc(g);
    fill_leaves(w, g, true, NOBODY);
    return true;
}

/* ---- changes without a new graph ------------------------------------------------------ */

static void set_param(struct graph *g, size_t i, int index, float value)
{
    for (int s = 0; s < SIDES; s++)
        memcpy(&g->both.tensors[s][i]->op_params[index], &value, sizeof(value));
}

/* Parameters only: the memory plan stays right. */
static void change(struct world *w, struct graph *g)
{
    for (size_t i = 0; i < g->both.n_tensors; i++) {
        const struct ggml_tensor *t = g->both.tensors[NATIVE][i];
        if (!differ_chance(&w->r, 40))
            continue;
        switch (t->op) {
        case GGML_OP_SCALE:
            set_param(g, i, 0, differ_float(&w->r));
            break;
        case GGML_OP_RMS_NORM:
        case GGML_OP_NORM:
            set_param(g, i, 0, 1e-4f);
            break;
        case GGML_OP_SOFT_MAX:
            set_param(g, i, 0, 0.75f);
            break;
        default:
            break;
        }
    }
}

/* ---- runs ---------------------------------------------------------------------------- */

static void show(const struct graph *g)
{
    build_show(g->both.built[NATIVE].graph);
    for (int i = 0; i < ggml_graph_n_nodes(g->both.built[NATIVE].graph); i++) {
        const struct ggml_tensor *t = ggml_graph_node(g->both.built[NATIVE].graph, i);
        differ_detail(" %s%s", ggml_op_desc(t), t->flags & GGML_TENSOR_FLAG_COMPUTE ? "" : "(off)");
    }
}

static void compute(struct world *w, struct graph *g, unsigned stream, bool async)
{
    world_use(w, g->area, (int)stream);
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_t b = w->stream[s][stream];
        const enum ggml_status status =
            async ? ggml_backend_graph_compute_async(b, g->both.built[s].graph)
                  : ggml_backend_graph_compute(b, g->both.built[s].graph);
        if (status != GGML_STATUS_SUCCESS)
            differ_found("graph_compute is %s on the %s side", ggml_status_to_string(status),
                         side_names[s]);
    }
}

static bool is_seen(const struct ggml_tensor *t)
{
    return !build_is_leaf(t) && t->flags & GGML_TENSOR_FLAG_COMPUTE && ggml_nbytes(t);
}

/* Each result on its own: the first that differs has the name of the op that is wrong. */
static void compare_results(struct graph *g)
{
    for (size_t i = 0; i < g->both.n_tensors; i++) {
        const struct ggml_tensor *t = g->both.tensors[NATIVE][i];
        if (is_seen(t) && !(g->alloc[NATIVE] && !build_is_leaf(t)))
            pair_compare(ggml_op_desc(t), both_pair(&g->both, i));
    }
}

static void compare_whole(struct graph *g)
{
    if (!g->whole.t[NATIVE] || !g->whole.t[REMOTE])
        return;
    const size_t size = ggml_nbytes(g->whole.t[NATIVE]);
    if (size != ggml_nbytes(g->whole.t[REMOTE]))
        differ_found("the allocator has %zu bytes natively and %zu remoted", size,
                     ggml_nbytes(g->whole.t[REMOTE]));
    pair_compare_bytes("the allocator's memory", g->whole, 0, size);
}

static void compare(struct world *w, struct graph *g)
{
    world_use(w, g->area, NOBODY);
    compare_results(g);
    if (differ_options.tolerance > 0)
        return;
    world_compare(w, g->area, "what a graph has written");
    compare_whole(g);
}

void step_graph(struct world *w, struct graphs *graphs)
{
    struct graph *g = &graphs->graph[differ_below(&w->r, KEPT_GRAPHS)];
    const unsigned stream = differ_below(&w->r, w->n_streams);
    const bool fresh = !g->area || differ_chance(&w->r, 35);
    differ_step("%s graph %d on stream %u:", fresh ? "a new" : "again", (int)(g - graphs->graph),
                stream);
    if (fresh) {
        graph_free(w, g);
        if (!graph_make(w, g))
            return;
    } else {
        if (differ_chance(&w->r, 60))
            fill_leaves(w, g, false, differ_chance(&w->r, 50) ? (int)stream : NOBODY);
        if (differ_chance(&w->r, 30)) {
            world_use(w, g->area, NOBODY); /* nobody computes with what is changed */
            change(w, g);
        }
    }
    show(g);
    const unsigned runs = differ_chance(&w->r, 70) ? 1 : 2 + differ_below(&w->r, 3);
    for (unsigned i = 0; i < runs; i++)
        compute(w, g, stream, differ_chance(&w->r, 60));
    if (differ_chance(&w->r, 80))
        compare(w, g);
}
