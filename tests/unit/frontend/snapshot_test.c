/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in takes a graph for one it has sent when this says so: whatever the host
 * would compute differently must be seen, and memory that the program has given back
 * must not be looked at.
 */
#include "tests/lib/unit.h"

#include <sys/mman.h>

#include "frontend/graph/snapshot.h"

enum { LEAF_BASE, LEAF_VIEW, WEIGHT, PRODUCT, SUM, N_TENSORS };

static struct gg_tensor *t[N_TENSORS]; /* each on a page of its own */
static struct gg_tensor *nodes[2];
static struct gg_cgraph_head graph;
static const struct gg_tensor *in_payload[N_TENSORS];
static struct graph_scratch scratch;
static struct snapshot snapshot;
static uint32_t uses;

/* What frontend/graph/encode.c has for real graphs. */
uint32_t graph_use_count(const struct gg_cgraph_head *g, const struct gg_tensor *tensor)
{
    (void)g;
    return tensor == t[PRODUCT] ? uses : 0;
}

uint32_t graph_scratch_index(const struct graph_scratch *s, const struct gg_tensor *tensor)
{
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        if (s->tensors[i] == tensor)
            return i;
    }
    return APIR_NO_TENSOR;
}

static struct gg_tensor *page(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* sum(product(weight, view of base), view of base) */
static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < N_TENSORS; i++) {
        t[i] = page();
        t[i]->ne[0] = t[i]->ne[1] = 8;
        t[i]->nb[0] = 4;
        t[i]->nb[1] = 32;
        t[i]->data = (void *)(uintptr_t)(0x1000 * (i + 1));
        in_payload[i] = t[i];
    }
    t[LEAF_VIEW]->view_src = t[LEAF_BASE];
    t[PRODUCT]->op = 29;
    t[PRODUCT]->src[0] = t[WEIGHT];
    t[PRODUCT]->src[1] = t[LEAF_VIEW];
    t[SUM]->op = 2;
    t[SUM]->src[0] = t[PRODUCT];
    t[SUM]->src[1] = t[LEAF_VIEW];
    nodes[0] = t[PRODUCT];
    nodes[1] = t[SUM];
    graph = (struct gg_cgraph_head){.size = 2, .n_nodes = 2, .nodes = nodes};
    scratch = (struct graph_scratch){.tensors = in_payload, .n_tensors = N_TENSORS};
    uses = 1;
    snapshot_take(&snapshot, &scratch, &graph);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < N_TENSORS; i++)
        munmap(t[i], 4096);
    return 0;
}

TEST_WITHIN(the_same_graph_is_known, setup, teardown)
{
    assert_true(snapshot_is(&snapshot, &graph));
    strcpy(t[SUM]->name, "a name is for people");
    assert_true(snapshot_is(&snapshot, &graph));
}

TEST_WITHIN(every_field_counts, setup, teardown)
{
    for (int i = 0; i < N_TENSORS; i++) {
        /* Every byte up to the name but for padding: nothing there may change unseen. */
        for (size_t at = 0; at < offsetof(struct gg_tensor, name); at++) {
            bool pointer =
                at >= offsetof(struct gg_tensor, src) && at < offsetof(struct gg_tensor, view_offs);
            uint8_t *byte = (uint8_t *)t[i] + at;
            if (pointer)
                continue; /* below, with something to point to */
            *byte ^= 0x40;
            assert_false(snapshot_is(&snapshot, &graph));
            *byte ^= 0x40;
        }
    }
    assert_true(snapshot_is(&snapshot, &graph));
}

TEST_WITHIN(other_sources_are_other_graphs, setup, teardown)
{
    struct gg_tensor *other = page();
    *other = *t[WEIGHT];
    t[PRODUCT]->src[0] = other;
    assert_false(snapshot_is(&snapshot, &graph));
    t[PRODUCT]->src[0] = t[WEIGHT];
    t[LEAF_VIEW]->view_src = other;
    assert_false(snapshot_is(&snapshot, &graph));
    t[LEAF_VIEW]->view_src = t[LEAF_BASE];
    t[SUM]->src[2] = other;
    assert_false(snapshot_is(&snapshot, &graph));
    t[SUM]->src[2] = NULL;
    assert_true(snapshot_is(&snapshot, &graph));
    munmap(other, 4096);
}

TEST_WITHIN(order_number_and_use_counts_count, setup, teardown)
{
    nodes[0] = t[SUM];
    nodes[1] = t[PRODUCT];
    assert_false(snapshot_is(&snapshot, &graph));
    nodes[0] = t[PRODUCT];
    nodes[1] = t[SUM];
    graph.n_nodes = 1;
    assert_false(snapshot_is(&snapshot, &graph));
    graph.n_nodes = 2;
    uses = 2;
    assert_false(snapshot_is(&snapshot, &graph));
    uses = 1;
    assert_true(snapshot_is(&snapshot, &graph));
    snapshot_drop(&snapshot);
    assert_false(snapshot_is(&snapshot, &graph));
}

/* A fault ends the test: what the graph no longer names may be unmapped. */
TEST_WITHIN(memory_given_back_is_not_touched, setup, teardown)
{
    struct gg_tensor *other = page();
    *other = *t[LEAF_VIEW];
    assert_int_equal(mprotect(t[LEAF_VIEW], 4096, PROT_NONE), 0);
    assert_int_equal(mprotect(t[LEAF_BASE], 4096, PROT_NONE), 0);
    t[PRODUCT]->src[1] = t[SUM]->src[1] = other;
    assert_false(snapshot_is(&snapshot, &graph));
    nodes[0] = other;
    assert_int_equal(mprotect(t[PRODUCT], 4096, PROT_NONE), 0);
    assert_false(snapshot_is(&snapshot, &graph));
    munmap(other, 4096);
}
