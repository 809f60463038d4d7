/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definition and rules of a graph.
 *
 * Input: the definition.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/worker/rules/op.h"
#include "backend/worker/rules/rules.h"
#include "protocol/graph.h"
#include "tests/lib/graph_write.h"

const char fuzz_corpus[] = "graph";

/* A copy of exactly its size, so that ASan sees a read behind it. */
static uint8_t *exact(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    FUZZ_CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

/* The first types of GGUF, and integers. */
static const struct host_type types[HOST_TYPES_MAX] = {
    [0] = {1, 4},  [1] = {1, 2},  [2] = {32, 18}, [3] = {32, 20}, [8] = {32, 34}, [12] = {256, 144},
    [24] = {1, 1}, [25] = {1, 2}, [26] = {1, 4},  [27] = {1, 8},  [28] = {1, 8},  [30] = {1, 2},
};

static bool type_known(const struct apir_tensor *t)
{
    uint64_t extent;
    return t->type < HOST_TYPES_MAX && types[t->type].block &&
           !worker_rules_extent(&types[t->type], t, &extent);
}

/* The rules are for tensors whose types and extents have been checked. */
static bool types_known(const struct apir_graph *g, uint32_t index)
{
    const struct apir_tensor *t = &g->tensors[index];
    for (int i = 0; i < APIR_TENSOR_SRC; i++) {
        if (t->src[i] != APIR_NO_TENSOR && !type_known(&g->tensors[t->src[i]]))
            return false;
    }
    return type_known(t);
}

/* What was let through keeps its promises; ret_bytes is its one wire form. */
static uint8_t *check_graph(const struct apir_graph *g, size_t room, size_t *ret_size)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const struct apir_tensor *t = &g->tensors[i];
        nodes += (t->bits & APIR_TENSOR_NODE) != 0;
        FUZZ_CHECK(t->view_src == APIR_NO_TENSOR || t->view_src < i);
        for (int k = 0; k < APIR_TENSOR_SRC; k++)
            FUZZ_CHECK(t->src[k] == APIR_NO_TENSOR || t->src[k] < i);
        FUZZ_CHECK(memchr(t->name, 0, sizeof(t->name)));
        if (t->bits & APIR_TENSOR_BUFFER)
            FUZZ_CHECK(t->buffer < g->n_buffers);
        if (t->op == APIR_NO_NAME)
            continue;
        FUZZ_CHECK(t->op < g->n_names);
        if (types_known(g, i)) {
            struct worker_reach reach;
            for (int cpu = 0; cpu < 2; cpu++) {
                const char *why = worker_rules_check(g, i, types, cpu, &reach);
                FUZZ_CHECK(!why || why[0] != '\0');
            }
        }
    }
    FUZZ_CHECK(nodes == g->n_nodes);
    uint8_t *bytes = malloc(room);
    FUZZ_CHECK(bytes);
    *ret_size = graph_write(g, bytes, room);
    FUZZ_CHECK(*ret_size > 0);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *def = exact(data, size);
    struct apir_graph g;
    const char *why = NULL;
    int rc = apir_graph_decode(def, size, &g, &why);
    if (rc) {
        FUZZ_CHECK(rc == -EBADMSG && why);
    } else {
        size_t n;
        uint8_t *bytes = check_graph(&g, size + 1, &n);
        FUZZ_CHECK(n == size && memcmp(bytes, def, n) == 0);
        free(bytes);
        apir_graph_fini(&g);
    }
    free(def);
    return 0;
}
