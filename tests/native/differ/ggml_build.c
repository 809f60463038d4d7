/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/ggml_build.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_grow.h"
#include "tests/hostile/fuzz/graph_ops.h"

/* ---- what ggml refuses ------------------------------------------------------------ */

static _Thread_local jmp_buf *refusal; /* NULL: an assert ends the process */

static void on_refusal(const char *message)
{
    if (refusal)
        longjmp(*refusal, 1);
    fprintf(stderr, "%s\n", message); /* as ggml does, which aborts now */
}

void build_init(void)
{
    ggml_set_abort_callback(on_refusal);
}

struct ggml_tensor *build_try(struct builder *b, struct ggml_tensor *(*make)(struct builder *b))
{
    jmp_buf here;
    struct ggml_tensor *volatile t = NULL;
    refusal = &here;
    if (setjmp(here) == 0)
        t = make(b);
    refusal = NULL;
    return t;
}

static bool is_plain_view(const struct ggml_tensor *t)
{
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
           t->op == GGML_OP_TRANSPOSE;
}

/* ---- ops of all kinds --------------------------------------------------------------- */

/* Also where a dimension is 1 and its stride does not matter: some kernels look at it. */
static bool is_packed(const struct ggml_tensor *t)
{
    size_t next = ggml_type_size(t->type);
    bool packed = t->nb[0] == next;
    next = ggml_row_size(t->type, t->ne[0]);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        packed = packed && t->nb[i] == next;
        next *= (size_t)t->ne[i];
    }
    return packed;
}

/* The fuzzer's leaves may have strides of their own: as ggml has it, those are views. */
static void make_view(struct builder *b, struct ggml_tensor *t)
{
    if (t->op != GGML_OP_NONE || t->view_src || is_packed(t))
        return;
    const int64_t n =
        (int64_t)((ggml_nbytes(t) + ggml_type_size(t->type) - 1) / ggml_type_size(t->type)) *
        ggml_blck_size(t->type);
    t->view_src = ggml_new_tensor_1d(b->ctx, t->type, n);
    t->op = GGML_OP_VIEW;
    t->src[0] = t->view_src;
}

/* Of elements that lie over each other ggml's scheduler makes no view. */
static bool overlaps(const struct ggml_tensor *t)
{
    const size_t packed =
        ggml_row_size(t->type, t->ne[0]) * (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
    return ggml_nbytes(t) < packed;
}

/* Kernels that say what they do with any number. Others may not, with NaN or infinity. */
static bool takes_any_number(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
    case GGML_OP_SCALE:
    case GGML_OP_UNARY:
    case GGML_OP_GLU:
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_SOFT_MAX:
    case GGML_OP_MUL_MAT:
    case GGML_OP_CONCAT:
    case GGML_OP_REPEAT:
    case GGML_OP_ROPE:
    case GGML_OP_SUM_ROWS:
    case GGML_OP_CONT:
    case GGML_OP_DUP:
        return true;
    default:
        return false;
    }
}

/* Kernels that go by the strides of all sources. Others say so too, and read past the end. */
static bool takes_strides(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_CPY:
    case GGML_OP_GET_ROWS:
    case GGML_OP_SET_ROWS:
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_FLASH_ATTN_EXT:
    case GGML_OP_L2_NORM:
    case GGML_OP_ADD_ID:
        return true;
    default:
        return takes_any_number(t);
    }
}

/* A leaf gives way to a result of the same shape. */
static void use_results(struct builder *b, struct ggml_tensor *t)
{
    for (int i = 0; takes_any_number(t) && i < GGML_MAX_SRC && t->src[i]; i++) {
        struct ggml_tensor *leaf = t->src[i];
        if (leaf->op != GGML_OP_NONE || t->view_src == leaf || leaf->type != GGML_TYPE_F32)
            continue;
        for (unsigned k = 0; k < b->n_pool; k++) {
            if (b->pool[k]->type == GGML_TYPE_F32 && ggml_are_same_shape(b->pool[k], leaf) &&
                ggml_is_contiguous(b->pool[k]) && differ_chance(&b->r, 70)) {
                t->src[i] = b->pool[k];
                break;
            }
        }
    }
}

static struct ggml_tensor *make_odd(struct builder *b)
{
    struct dice dice = {.state = differ_next(&b->r)};
    return graph_op_make(b->ctx, &dice, differ_below(&b->r, graph_ops_count));
}

/* The builders of the fuzzer also make ops in place, and ops that train. */
static struct ggml_tensor *odd_op(struct builder *b)
{
    struct ggml_tensor *t = build_try(b, make_odd);
    if (!t || (!b->plan->in_place && t->view_src && !is_plain_view(t)))
        return NULL;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *leaf = t->src[i] != t ? t->src[i] : NULL;
        if (leaf && !is_packed(leaf) && (!takes_strides(t) || overlaps(leaf)))
            return NULL;
        if (leaf)
            make_view(b, leaf);
    }
    if (t->view_src && t->view_src->view_src) {
        t->view_offs += t->view_src->view_offs;
        t->view_src = t->view_src->view_src;
    }
    use_results(b, t);
    return t;
}

/* ---- asking ----------------------------------------------------------------------- */

/* Costs of the CPU's kernels in bytes, more or less: a step is not to take seconds. */
static bool is_small(const struct ggml_tensor *t)
{
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        if (t->ne[i] < 0) /* no builder looks at what a convolution leaves over */
            return false;
    }
    size_t bytes = ggml_nbytes(t);
    for (int i = 0; i < GGML_MAX_SRC && t->src[i]; i++)
        bytes += ggml_nbytes(t->src[i]);
    return bytes < 4u << 20;
}

/* What ggml's CPU says that it supports, and does not. */
static bool fails_natively(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_CPY:
    case GGML_OP_DUP:
    case GGML_OP_SET_ROWS: /* of a block of zeros it stores whatever lay there */
        return t->type == GGML_TYPE_IQ4_NL;
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_CUMSUM:
    case GGML_OP_SCALE:
        return t->src[0]->type != GGML_TYPE_F32;
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
        /* It never ends where nothing is to be turned, and reads a factor for each pair of a row,
         * though the builder is content with fewer. */
        return t->op_params[1] == 0 || (t->src[2] && t->src[2]->ne[0] < t->ne[0] / 2);
    case GGML_OP_RWKV_WKV7: /* goes by 64 numbers, past the end of smaller heads */
        return t->src[2]->ne[0] % 64 != 0;
    case GGML_OP_GLU:
        return ggml_get_glu_op(t) > GGML_GLU_OP_SWIGLU && t->type != GGML_TYPE_F32;
    default:
        return false;
    }
}

/* What is left of the result is what was there before: not the same on both sides of a scheduler.
 */
static bool writes_all(const struct ggml_tensor *t)
{
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i] && !ggml_nbytes(t->src[i]))
            return false;
    }
    /* ggml's allocator gives the result the memory of what is added, though rows change places. */
    if (t->op == GGML_OP_ADD_ID && ggml_are_same_shape(t, t->src[1]))
        return false;
    /* The same with sinks, which are still read when the first of it is written. */
    if (t->op == GGML_OP_SOFT_MAX && t->src[2] && ggml_are_same_shape(t, t->src[2]))
        return false;
    return ggml_nbytes(t) && t->op != GGML_OP_GATED_DELTA_NET && t->op != GGML_OP_SSM_SCAN &&
           t->op != GGML_OP_WIN_UNPART;
}

/* Both devices; they must say the same on both sides, for the tensors are the same. */
static bool is_supported(struct builder *b, const struct ggml_tensor *t)
{
    bool yes = is_small(t) && !fails_natively(t) && (!b->plan->whole || writes_all(t));
    for (int s = 0; s < SIDES && yes; s++)
        yes = ggml_backend_dev_supports_op(b->dev[s], t);
    const uint64_t bit = UINT64_C(1) << b->n_asked++;
    if (!b->plan->decided)
        b->plan->supported |= yes ? bit : 0;
    else if (yes != !!(b->plan->supported & bit))
        differ_found("supports_op was %s and is %s for %s", yes ? "no" : "yes", yes ? "yes" : "no",
                     ggml_op_desc(t));
    return yes;
}

/* Of what a generator has made, all that is not yet known to be supported. */
static bool all_supported(struct builder *b, struct ggml_tensor *t, unsigned depth)
{
    if (t->op == GGML_OP_NONE || b->n_asked >= BUILD_OPS_MAX || depth > 8)
        return t->op == GGML_OP_NONE;
    for (unsigned i = 0; i < b->n_pool; i++) {
        if (b->pool[i] == t)
            return true;
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i] && t->src[i] != t && !all_supported(b, t->src[i], depth + 1))
            return false;
    }
    if (is_plain_view(t))
        return !b->plan->whole || ggml_nbytes(t);
    return is_supported(b, t);
}

/* ---- the graph --------------------------------------------------------------------- */

static void pool_add(struct builder *b, struct ggml_tensor *t)
{
    if (b->n_pool < BUILD_POOL_MAX)
        b->pool[b->n_pool++] = t;
    else
        b->pool[differ_below(&b->r, BUILD_POOL_MAX)] = t;
}

/* One of several is computed; the rest is in the graph for its shape alone. */
static void expand_one_of(struct builder *b, struct ggml_tensor *t)
{
    struct ggml_tensor *others[3] = {t};
    int n = 1;
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor *o = grow_any(b);
        if (o && o->op != GGML_OP_NONE && all_supported(b, o, 0))
            others[n++] = o;
    }
    const int chosen = (int)differ_below(&b->r, (uint32_t)n);
    ggml_build_forward_select(b->graph, others, n, chosen);
    if (chosen == 0 && t->type == GGML_TYPE_F32)
        pool_add(b, t);
}

/* Nobody computes a view, so its place in the graph says nothing. */
static void views_behind(struct ggml_cgraph *graph)
{
    struct ggml_tensor **nodes = ggml_graph_nodes(graph), *views[BUILD_NODES_MAX];
    int n = 0, n_views = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        if (is_plain_view(nodes[i]))
            views[n_views++] = nodes[i];
        else
            nodes[n++] = nodes[i];
    }
    memcpy((void *)(nodes + n), (const void *)views, (size_t)n_views * sizeof(views[0]));
}

enum { GRAPH_MEMORY = 1 << 20 };

/* Two graphs in the same memory have the same addresses. */
static struct built build_graph(struct plan *p, const ggml_backend_dev_t dev[SIDES], void *memory)
{
    const struct ggml_init_params params = {
        .mem_size = GRAPH_MEMORY, .mem_buffer = memory, .no_alloc = true};
    struct builder b = {.r = differ_random(p->seed),
                        .plan = p,
                        .dev = {dev[NATIVE], dev[REMOTE]},
                        .ctx = ggml_init(params)};
    b.graph = ggml_new_graph_custom(b.ctx, BUILD_NODES_MAX, false);
    if (!p->decided)
        p->supported = 0;
    for (int i = 0; i < 2; i++)
        pool_add(&b, grow_leaf(&b));
    for (unsigned i = 0; i < p->relays; i++)
        pool_add(&b, grow_relay(&b));
    for (unsigned i = 0; i < p->n_ops && b.n_asked + 4 < BUILD_OPS_MAX; i++) {
        struct ggml_tensor *t = p->odd_ops && differ_chance(&b.r, 50) ? odd_op(&b) : grow_any(&b);
        if (!t || t->op == GGML_OP_NONE || !all_supported(&b, t, 0))
            continue;
        if (p->disabled && differ_chance(&b.r, 15)) {
            expand_one_of(&b, t);
            continue;
        }
        ggml_build_forward_expand(b.graph, t);
        if (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_F16)
            pool_add(&b, t);
    }
    if (p->moves && differ_chance(&b.r, 15))
        views_behind(b.graph);
    p->decided = true;
    return (struct built){b.ctx, b.graph};
}

bool build_is_leaf(const struct ggml_tensor *t)
{
    return t->op == GGML_OP_NONE && !t->view_src;
}

bool build_is_kept(const struct ggml_tensor *t)
{
    return strncmp(t->name, "kept", 4) == 0;
}

char build_where(const struct ggml_tensor *t)
{
    return strcmp(t->name, "kept-cpu") == 0 || strcmp(t->name, "at-cpu") == 0   ? 'c'
           : strcmp(t->name, "kept-dev") == 0 || strcmp(t->name, "at-dev") == 0 ? 'd'
                                                                                : 0;
}

static size_t visit(struct ggml_tensor *t, struct ggml_tensor **ret, size_t n, size_t cap)
{
    for (size_t i = 0; i < n; i++) {
        if (ret[i] == t)
            return n;
    }
    if (t->view_src)
        n = visit(t->view_src, ret, n, cap);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i] && t->src[i] != t)
            n = visit(t->src[i], ret, n, cap);
    }
    if (n < cap)
        ret[n++] = t;
    return n;
}

void both_build(struct both *g, const ggml_backend_dev_t dev[SIDES])
{
    size_t n[SIDES] = {0};
    for (int s = 0; s < SIDES; s++) {
        if (!g->memory[s])
            g->memory[s] = differ_alloc(GRAPH_MEMORY);
        g->built[s] = build_graph(&g->plan, dev, g->memory[s]);
        for (int i = 0; i < ggml_graph_n_nodes(g->built[s].graph); i++)
            n[s] = visit(ggml_graph_node(g->built[s].graph, i), g->tensors[s], n[s],
                         BUILD_TENSORS_MAX);
    }
    if (n[NATIVE] != n[REMOTE])
        differ_found("test: %zu tensors and %zu", n[NATIVE], n[REMOTE]);
    g->n_tensors = n[NATIVE];
}

void both_forget(struct both *g)
{
    for (int s = 0; s < SIDES; s++) {
        ggml_free(g->built[s].ctx);
        g->built[s] = (struct built){0};
    }
}

void both_fini(struct both *g)
{
    both_forget(g);
    free(g->memory[NATIVE]);
    free(g->memory[REMOTE]);
}

struct pair both_pair(const struct both *g, size_t i)
{
    return (struct pair){{g->tensors[NATIVE][i], g->tensors[REMOTE][i]}};
}

/* ---- for a person ------------------------------------------------------------------------ */

static void show_tensor(const char *what, const struct ggml_tensor *t)
{
    fprintf(stderr, "      %s %p %s %s [%d %d %d %d] %zu %zu %zu %zu at %zu of %p, %zu bytes\n",
            what, (const void *)t, ggml_op_desc(t), ggml_type_name(t->type), (int)t->ne[0],
            (int)t->ne[1], (int)t->ne[2], (int)t->ne[3], t->nb[0], t->nb[1], t->nb[2], t->nb[3],
            t->view_offs, (const void *)t->view_src, ggml_nbytes(t));
    if (t->op != GGML_OP_NONE)
        fprintf(stderr, "        parameters %d %d %d %d\n", t->op_params[0], t->op_params[1],
                t->op_params[2], t->op_params[3]);
}

void build_show(struct ggml_cgraph *graph)
{
    for (int i = 0; differ_options.verbose && i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor *t = ggml_graph_node(graph, i);
        show_tensor("node", t);
        for (int k = 0; k < GGML_MAX_SRC; k++) {
            if (t->src[k])
                show_tensor("  from", t->src[k]);
        }
    }
}
