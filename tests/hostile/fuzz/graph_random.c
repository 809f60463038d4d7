/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/fuzz/graph_random.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/graph_write.h"

/* ---- changes --------------------------------------------------------------------- */

static int64_t changed(struct dice *d, int64_t v)
{
    static const int64_t odd[] = {
        0, 1, -1, 2, 3, 4, 7, 255, 4096, INT32_MAX, INT32_MIN, 1ll << 31, 1ll << 40, INT64_MAX,
    };
    switch (dice_roll(d, 6)) {
    case 0:
        return (int64_t)((uint64_t)v + 1);
    case 1:
        return (int64_t)((uint64_t)v - 1);
    case 2:
        return (int64_t)((uint64_t)v * 2);
    case 3:
        return v / 2;
    case 4:
        return (int64_t)(0 - (uint64_t)v);
    default:
        return odd[dice_roll(d, sizeof(odd) / sizeof(odd[0]))];
    }
}

/* The same tensor otherwise: packed again after a change of shape. */
static void repack(struct apir_tensor *t, uint32_t i, struct dice *d)
{
    uint64_t nb = t->nb[0];
    t->ne[i] = 1 + dice_roll(d, 9) * (i == 0 ? 32 : 1);
    for (int m = 1; m < APIR_TENSOR_DIMS; m++) {
        uint64_t n = (uint64_t)t->ne[m - 1];
        nb *= m == 1 && t->type > 1 && t->type < 24 ? (n + 31) / 32 : n;
        t->nb[m] = nb;
    }
}

void graph_change(struct apir_tensor *tensors, uint32_t n_tensors, struct dice *d)
{
    bool of_node = dice_roll(d, 2);
    uint32_t at = of_node ? 0 : dice_roll(d, n_tensors), another = dice_roll(d, n_tensors);
    uint32_t i = dice_roll(d, 4), k = dice_roll(d, 4), p = dice_roll(d, 16);
    uint32_t node = another; /* the first from there on; the last of all is one */
    while (node + 1 < n_tensors && !(tensors[node].bits & APIR_TENSOR_NODE))
        node++;
    struct apir_tensor *t = &tensors[of_node ? node : at];
    const struct apir_tensor *other = &tensors[another];
    switch (dice_roll(d, 10)) {
    case 0:
    case 1:
        t->ne[i] = dice_roll(d, 3) ? changed(d, t->ne[i]) : other->ne[k];
        t->ne[i] = t->ne[i] < 0 ? 1 : t->ne[i];
        break;
    case 2:
    case 3:
        t->nb[i] = dice_roll(d, 3) ? (uint64_t)changed(d, (int64_t)t->nb[i]) : other->nb[k];
        break;
    case 4:
    case 5:
    case 6:
        tensors[node].params[p] = (int32_t)changed(d, tensors[node].params[p]);
        break;
    case 7:
        if (dice_roll(d, 3) == 0)
            t->type = (uint8_t)dice_roll(d, 44);
        else if (t->n_src)
            t->src[dice_roll(d, t->n_src)] = dice_roll(d, 2) ? dice_roll(d, node) : APIR_NO_TENSOR;
        break;
    case 8:
        repack(t, i, d);
        break;
    default:
        if (t->bits & APIR_TENSOR_VIEW)
            t->view_offs = (uint64_t)changed(d, (int64_t)t->view_offs);
        else
            t->ne[i] = 1;
        break;
    }
}

/* ---- making ---------------------------------------------------------------------- */

static jmp_buf refused;

static void on_refusal(const char *message)
{
    (void)message;
    longjmp(refused, 1);
}

bool graph_op_try(struct graph_scene *s, struct dice *d, unsigned which)
{
    static uint8_t arena[64 << 10] __attribute__((aligned(64)));
    struct ggml_init_params params = {
        .mem_size = sizeof(arena), .mem_buffer = arena, .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    ggml_abort_callback_t before = ggml_set_abort_callback(on_refusal);
    struct ggml_tensor *volatile t = NULL;
    if (setjmp(refused) == 0)
        t = graph_op_make(ctx, d, which);
    ggml_set_abort_callback(before);
    if (t)
        graph_scene_make(s, t);
    ggml_free(ctx);
    return t;
}

/* An index into the names, which gets this one if it has not got it. */
static uint16_t name_put(struct random_graph *g, const struct apir_name *name)
{
    uint32_t i = 0;
    while (i < g->g.n_names &&
           (g->names[i].kind != name->kind || strcmp(g->names[i].name, name->name) != 0))
        i++;
    g->names[i] = *name;
    if (i == g->g.n_names)
        g->g.n_names++;
    return (uint16_t)i;
}

static bool same_form(const struct apir_tensor *a, const struct apir_tensor *b)
{
    return a->type == b->type && memcmp(a->ne, b->ne, sizeof(a->ne)) == 0 &&
           memcmp(a->nb, b->nb, sizeof(a->nb)) == 0;
}

/* Appends the scene; some of its leaves become results of before. */
static void scene_append(struct random_graph *g, const struct graph_scene *s, struct dice *d)
{
    uint32_t base = g->g.n_tensors;
    for (uint32_t i = 0; i < s->g.n_tensors; i++) {
        struct apir_tensor *t = &g->tensors[base + i];
        *t = s->tensors[i];
        if (t->op != APIR_NO_NAME)
            t->op = name_put(g, &s->names[t->op]);
        if (t->sub != APIR_NO_NAME)
            t->sub = name_put(g, &s->names[t->sub]);
        if (t->view_src != APIR_NO_TENSOR)
            t->view_src += base;
        for (uint32_t k = 0; k < t->n_src; k++) {
            if (t->src[k] == APIR_NO_TENSOR)
                continue;
            t->src[k] += base;
            for (uint32_t r = 0; r < base; r++) {
                if (same_form(&g->tensors[r], &g->tensors[t->src[k]]) && dice_roll(d, 2))
                    t->src[k] = r;
            }
        }
        g->g.n_nodes += (t->bits & APIR_TENSOR_NODE) != 0;
    }
    g->g.n_tensors += s->g.n_tensors;
}

/* As the guest's ggml would count them, mostly: backends join ops by these. */
static void uses_count(struct random_graph *g, struct dice *d)
{
    for (uint32_t i = 0; i < g->g.n_tensors; i++) {
        for (uint32_t k = 0; k < g->tensors[i].n_src; k++) {
            if (g->tensors[i].src[k] != APIR_NO_TENSOR)
                g->tensors[g->tensors[i].src[k]].use_count++;
        }
    }
    if (dice_roll(d, 8) == 0)
        g->tensors[dice_roll(d, g->g.n_tensors)].use_count = dice_roll(d, 3);
}

void random_graph_make(struct random_graph *g, struct dice *d, uint32_t n_ops)
{
    static struct graph_scene scene;
    g->g = (struct apir_graph){.names = g->names, .buffers = g->buffers, .tensors = g->tensors};
    for (uint32_t i = 0; i < n_ops && i < RANDOM_GRAPH_OPS; i++) {
        if (graph_op_try(&scene, d, dice_roll(d, 256)))
            scene_append(g, &scene, d);
    }
    if (g->g.n_tensors == 0)
        return;
    uses_count(g, d);
    if (dice_roll(d, 8) == 0) {
        g->g.flags = APIR_GRAPH_COMPUTE_FLAG;
        for (uint32_t i = 0; i < g->g.n_tensors; i++) {
            if (dice_roll(d, 2))
                g->tensors[i].flags |= APIR_TENSOR_FLAG_COMPUTE;
        }
    }
    for (uint32_t n = dice_roll(d, 4) ? 0 : 1 + dice_roll(d, 3); n; n--)
        graph_change(g->tensors, g->g.n_tensors, d);
}

/* ---- places ---------------------------------------------------------------------- */

static bool tensor_place(struct apir_tensor *t, struct dice *d, const struct host_type *types,
                         const uint64_t *sizes, uint32_t n)
{
    uint64_t extent = 0;
    uint32_t first = dice_roll(d, n);
    t->offset = 0;
    t->buffer = first;
    if (t->type >= HOST_TYPES_MAX || !types[t->type].block ||
        worker_rules_extent(&types[t->type], t, &extent))
        return true; /* the validator will say so */
    for (uint32_t i = 0; i < n; i++) {
        t->buffer = (first + i) % n;
        if (extent > sizes[t->buffer])
            continue;
        uint64_t room = sizes[t->buffer] - extent;
        t->offset =
            dice_roll(d, 4) ? (room / 32 ? dice_roll(d, (uint32_t)(room / 32)) * 32 : 0) : room;
        return true;
    }
    return dice_roll(d, 32) == 0;
}

bool random_graph_place(struct random_graph *g, struct dice *d, const struct host_type *types,
                        const uint64_t *sizes, uint32_t n)
{
    g->g.n_buffers = n;
    for (uint32_t i = 0; i < g->g.n_tensors; i++) {
        struct apir_tensor *t = &g->tensors[i];
        if ((t->bits & APIR_TENSOR_BUFFER) && !tensor_place(t, d, types, sizes, n))
            return false;
    }
    return g->g.n_tensors > 0;
}

void graph_imagine(struct apir_graph *g)
{
    g->n_buffers = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        g->tensors[i].bits &= (uint8_t)~(APIR_TENSOR_BUFFER | APIR_TENSOR_VIEW);
}

/* ---- what is not computed -------------------------------------------------------- */

uint64_t random_graph_elements(const struct apir_graph *g)
{
    __int128 total = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        __int128 n = 1;
        for (int k = 0; k < APIR_TENSOR_DIMS; k++)
            n *= g->tensors[i].ne[k] > 1 ? g->tensors[i].ne[k] : 1;
        total += n;
    }
    return total > INT64_MAX ? UINT64_MAX : (uint64_t)total;
}

bool random_graph_unpromised(const struct apir_graph *g)
{
    /* Row numbers that another tensor may lie over; NaN to be sorted. */
    static const char *const names[] = {"MUL_MAT_ID", "GET_ROWS_BACK", "SSM_SCAN", "ARGSORT",
                                        "TOP_K"};
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const struct apir_tensor *t = &g->tensors[i];
        const char *op = t->op == APIR_NO_NAME ? "" : g->names[t->op].name;
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            if (strcmp(op, names[k]) == 0)
                return true;
        }
        /* As many rounds as a parameter says: only time would pass. */
        if (strcmp(op, "DSV4_HC_COMB") == 0 && t->params[1] > 1000)
            return true;
    }
    return false;
}
