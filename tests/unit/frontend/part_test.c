/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a graph is ggml's own object with fewer nodes. */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <ggml.h>

#include "frontend/graph/encode.h"
#include "frontend/plugin/buffer.h"
#include "protocol/ggml_probe.h"

/* What the plug-in has for a real host. */
struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t)
{
    (void)t;
    return NULL;
}

TEST(a_part_has_the_counts_of_the_whole_and_no_uid)
{
    char why[256];
    assert_int_equal(ggml_probe_layout(dlsym, RTLD_DEFAULT, &plugin.layout, why, sizeof(why)), 0);
    static uint8_t memory[1 << 20] __attribute__((aligned(64)));
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){
        .mem_size = sizeof(memory), .mem_buffer = memory, .no_alloc = true});
    struct ggml_cgraph *whole = ggml_new_graph(ctx);
    struct ggml_tensor *first = ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8));
    struct ggml_tensor *second = ggml_sqrt(ctx, first);
    ggml_build_forward_expand(whole, ggml_add(ctx, first, second));
    const struct gg_cgraph_head *graph = (const struct gg_cgraph_head *)whole;
    const uint64_t uid = 7;
    assert_true(plugin.layout.cgraph_use_counts && plugin.layout.cgraph_uid);
    memcpy((uint8_t *)whole + plugin.layout.cgraph_uid, &uid, sizeof(uid));

    union graph_part part;
    assert_int_equal(graph_part_init(&part, graph), 0);
    part.head.n_nodes = 1;
    assert_ptr_equal(part.head.nodes[0], first);
    /* Of both nodes behind it, though neither is in the part. */
    assert_int_equal(graph_use_count(&part.head, (const struct gg_tensor *)first), 2);
    assert_int_equal(graph_use_count(&part.head, (const struct gg_tensor *)second), 1);
    assert_int_equal(GG_AT(&part, plugin.layout.cgraph_uid, uint64_t), 0);
    assert_int_equal(GG_AT(whole, plugin.layout.cgraph_uid, uint64_t), uid);
    assert_int_equal(graph->n_nodes, 3);

    plugin.layout.cgraph_size = sizeof(part) + 1;
    assert_int_equal(graph_part_init(&part, graph), -ENOTSUP);
    ggml_free(ctx);
}
