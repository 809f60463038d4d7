/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in reorders a program's graph as the host says: it asks once for all graphs of one
 * structure, and takes no order by which a graph would compute anything else.
 */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <ggml.h>

#include "frontend/graph/orders.h"
#include "frontend/plugin/stream.h"
#include "protocol/ggml_probe.h"
#include "tests/unit/frontend/own_host.h"

#define NODES_MAX 16u

/* The host: what it answers, as places in the graph that it is asked about. */
static uint32_t answer[NODES_MAX];
static uint32_t answer_size; /* 0: the order there is stays */
static uint32_t asked;
/* What it says must stay allocated, and until when: pairs of places like those above. */
static uint32_t kept[2 * NODES_MAX];
static uint32_t n_kept;

static const struct gg_cgraph_head *asked_about;

static uint32_t index_of(uint32_t node)
{
    return node < (uint32_t)asked_about->n_nodes
               ? graph_scratch_index(&plugin_orders.scratch, asked_about->nodes[node])
               : node;
}
uint64_t client_put_locked(struct client *c, const struct apir_msg *msg)
{
    (void)c;
    const struct apir_msg_graph_optimize *m = &msg->u.graph_optimize;
    assert_int_equal(msg->code, APIR_MSG_GRAPH_OPTIMIZE);
    const struct apir_reply_optimize r = {.n_nodes = answer_size, .n_deps = n_kept};
    uint32_t *out = (uint32_t *)(void *)(own_host_arena + m->out_offset);
    for (uint32_t i = 0; i < answer_size; i++)
        out[i] = index_of(answer[i]);
    for (uint32_t i = 0; i < 2 * n_kept && i < 2 * NODES_MAX; i++)
        out[answer_size + i] = index_of(kept[i]);
    memcpy(own_host_replies + m->reply, &r, sizeof(r));
    asked++;
    return 1;
}

static struct ggml_context *ctx;
static struct plugin_device device;
static struct plugin_stream stream = {.id = 1, .device = &device};

static int setup(void **state)
{
    (void)state;
    static uint8_t memory[1 << 20] __attribute__((aligned(64)));
    const struct ggml_init_params params = {
        .mem_size = sizeof(memory), .mem_buffer = memory, .no_alloc = true};
    char why[256];
    assert_int_equal(ggml_probe_layout(dlsym, RTLD_DEFAULT, &plugin.layout, why, sizeof(why)), 0);
    const char *(*op_name)(enum ggml_op) = ggml_op_name;
    const char *(*unary_op_name)(enum ggml_unary_op) = ggml_unary_op_name;
    int64_t (*blck_size)(enum ggml_type) = ggml_blck_size;
    memcpy(&plugin.op_name, &op_name, sizeof(op_name));
    memcpy(&plugin.unary_op_name, &unary_op_name, sizeof(unary_op_name));
    memcpy(&plugin.blck_size, &blck_size, sizeof(blck_size));
    own_host_begin();
    ctx = ggml_init(params);
    return ctx ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ggml_free(ctx);
    for (uint32_t i = 0; i < ORDERS_KEPT; i++) {
        free(plugin_orders.kept[i].key);
        free(plugin_orders.kept[i].order);
        plugin_orders.kept[i] = (struct order){0};
    }
    device.index = 0;
    asked = 0;
    n_kept = 0;
    return 0;
}

/* The nodes of a graph of ours, in the order in which they were made. */
static struct ggml_tensor *made[NODES_MAX];
static uint32_t n_made;

static struct ggml_tensor *node(struct ggml_tensor *t)
{
    made[n_made++] = t;
    return t;
}

static const struct gg_cgraph_head *graph_of_made(void)
{
    struct ggml_cgraph *g = ggml_new_graph(ctx);
    for (uint32_t i = 0; i < n_made; i++)
        ggml_build_forward_expand(g, made[i]);
    const struct gg_cgraph_head *graph = (const struct gg_cgraph_head *)(void *)g;
    assert_int_equal(graph->n_nodes, n_made);
    for (uint32_t i = 0; i < n_made; i++)
        assert_ptr_equal(graph->nodes[i], made[i]);
    n_made = 0;
    return graph;
}

enum { SQR, SQRT, SUM };

/* sqr(a) + sqrt(b), or another last op */
static const struct gg_cgraph_head *branches(int64_t n, bool product)
{
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
    struct ggml_tensor *b = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
    struct ggml_tensor *x = node(ggml_sqr(ctx, a));
    struct ggml_tensor *y = node(ggml_sqrt(ctx, b));
    node(product ? ggml_mul(ctx, x, y) : ggml_add(ctx, x, y));
    return graph_of_made();
}

/* What becomes of the graph; which is asked about with this answer, if it is. */
static const struct order *order(const struct gg_cgraph_head *graph, const uint32_t *order_of,
                                 uint32_t n)
{
    asked_about = graph;
    answer_size = n;
    for (uint32_t i = 0; i < n; i++)
        answer[i] = order_of[i];
    return orders_get(&plugin_orders, &stream, graph);
}
#define ORDER(graph, ...)                                                                          \
    order(graph, (const uint32_t[]){__VA_ARGS__},                                                  \
          sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void assert_order(const struct order *o, const struct gg_cgraph_head *graph,
                         const uint32_t *want)
{
    assert_non_null(o);
    assert_int_equal(o->n_nodes, graph->n_nodes);
    for (uint32_t i = 0; i < o->n_nodes; i++)
        assert_ptr_equal(plugin_orders.scratch.tensors[o->order[i]], graph->nodes[want[i]]);
}

TEST_WITHIN(once_per_structure, setup, teardown)
{
    static const uint32_t want[] = {SQRT, SQR, SUM};
    const struct gg_cgraph_head *g = branches(32, false);
    assert_order(ORDER(g, SQRT, SQR, SUM), g, want);
    assert_int_equal(asked, 1);
    /* Other tensors, of other sizes, with other names. */
    g = branches(64, false);
    ggml_set_name((struct ggml_tensor *)(void *)g->nodes[0], "l_out");
    assert_order(ORDER(g, SQR, SQRT, SUM), g, want);
    assert_int_equal(asked, 1);
}

TEST_WITHIN(another_structure_is_asked_about, setup, teardown)
{
    ORDER(branches(32, false), SQRT, SQR, SUM);
    /* another op */
    ORDER(branches(32, true), SQR, SQRT, SUM);
    assert_int_equal(asked, 2);
    /* the same ops, of other tensors */
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    struct ggml_tensor *x = node(ggml_sqr(ctx, a)), *y = node(ggml_sqrt(ctx, a));
    node(ggml_add(ctx, x, y));
    ORDER(graph_of_made(), SQR, SQRT, SUM);
    assert_int_equal(asked, 3);
    /* another function of one op */
    for (int silu = 0; silu < 2; silu++) {
        x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
        x = node(silu ? ggml_silu(ctx, x) : ggml_relu(ctx, x));
        node(ggml_sqr(ctx, x));
        ORDER(graph_of_made(), 0, 1);
    }
    assert_int_equal(asked, 5);
    /* another device */
    device.index = 1;
    ORDER(branches(32, false), SQR, SQRT, SUM);
    assert_int_equal(asked, 6);
}

TEST_WITHIN(the_order_there_is_is_kept, setup, teardown)
{
    for (int64_t n = 32; n < 128; n *= 2)
        assert_null(order(branches(n, false), NULL, 0));
    assert_int_equal(asked, 1);
}

TEST_WITHIN(an_order_that_is_none_is_not_taken, setup, teardown)
{
    assert_null(ORDER(branches(32, false), SQR, SQR, SUM));
    teardown(NULL);
    setup(NULL);
    assert_null(ORDER(branches(32, false), SQR, SQRT, 1000));
    teardown(NULL);
    setup(NULL);
    assert_null(ORDER(branches(32, false), SQR, SQRT));
}

TEST_WITHIN(what_uses_it_comes_after_it, setup, teardown)
{
    assert_null(ORDER(branches(32, false), SQR, SUM, SQRT));
}

enum { FIRST, PART, STORE, ALL, USE, STORE_AGAIN, OTHER };

/* A cache that is written in part, read as a whole and written again; and a node that has to do
 * with none of it. */
static const struct gg_cgraph_head *cached(void)
{
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    struct ggml_tensor *cache = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 128);
    struct ggml_tensor *x = node(ggml_sqr(ctx, a));
    struct ggml_tensor *part = node(ggml_view_1d(ctx, cache, 32, 128));
    node(ggml_cpy(ctx, x, part));
    struct ggml_tensor *all = node(ggml_view_1d(ctx, cache, 32, 0));
    node(ggml_sqrt(ctx, all));
    node(ggml_cpy(ctx, a, part));
    node(ggml_sqrt(ctx, a));
    return graph_of_made();
}

TEST_WITHIN(what_a_memory_holds_is_found_in_it, setup, teardown)
{
    static const uint32_t good[][7] = {
        {FIRST, PART, STORE, ALL, USE, STORE_AGAIN, OTHER},
        {OTHER, FIRST, PART, STORE, ALL, USE, STORE_AGAIN},
        {ALL, PART, FIRST, STORE, OTHER, USE, STORE_AGAIN},
    };
    static const uint32_t bad[][7] = {
        {FIRST, PART, ALL, USE, STORE, STORE_AGAIN, OTHER}, /* read too early */
        {FIRST, PART, STORE, ALL, STORE_AGAIN, USE, OTHER}, /* too late */
        {FIRST, PART, STORE_AGAIN, ALL, USE, STORE, OTHER}, /* written in another order */
        {PART, STORE, FIRST, ALL, USE, STORE_AGAIN, OTHER}, /* written from nothing */
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct gg_cgraph_head *g = cached();
        assert_order(order(g, good[i], 7), g, good[i]);
        teardown(NULL);
        setup(NULL);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(order(cached(), bad[i], 7));
        teardown(NULL);
        setup(NULL);
    }
}

TEST_WITHIN(what_stays_allocated_is_the_same_in_each_graph, setup, teardown)
{
    n_kept = 2;
    memcpy(kept, (const uint32_t[]){SQR, SUM, SQRT, SUM}, 4 * sizeof(*kept));
    for (int64_t n = 32; n < 128; n *= 2) {
        const struct gg_cgraph_head *g = branches(n, false);
        const struct order *o = ORDER(g, SQRT, SQR, SUM);
        assert_non_null(o);
        assert_int_equal(o->n_deps, 2);
        for (uint32_t i = 0; i < 4; i++)
            assert_ptr_equal(plugin_orders.scratch.tensors[o->deps[i]], g->nodes[kept[i]]);
    }
    assert_int_equal(asked, 1);
}

TEST_WITHIN(what_is_no_tensor_cannot_stay_allocated, setup, teardown)
{
    static const uint32_t bad[][2] = {{1000, SUM}, {SQR, 1000}, {SQR, UINT32_MAX}, {SUM, SQR}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        n_kept = 1;
        memcpy(kept, bad[i], sizeof(bad[i]));
        assert_null(ORDER(branches(32, false), SQRT, SQR, SUM));
        teardown(NULL);
        setup(NULL);
    }
    /* More than there are tensors: there is no room for so many. */
    n_kept = 6;
    memset(kept, 0, sizeof(kept));
    assert_null(ORDER(branches(32, false), SQRT, SQR, SUM));
}
