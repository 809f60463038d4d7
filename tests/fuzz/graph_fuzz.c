/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definition, rules and patch of a graph.
 *
 * Input: u32 size of the definition, the definition, then a patch to it.
 */
#include "tests/fuzz/fuzz.h"

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

static void check_patch(struct apir_graph *g, const uint8_t *data, size_t size, size_t room)
{
    uint8_t *patch = exact(data, size);
    size_t bytes_before = g->n_tensors * sizeof(*g->tensors);
    struct apir_tensor *before = malloc(bytes_before);
    FUZZ_CHECK(before);
    memcpy(before, g->tensors, bytes_before);
    const char *why = NULL;
    int rc = apir_graph_patch(g, patch, size, &why);
    if (rc) {
        FUZZ_CHECK(rc == -EBADMSG && why);
        FUZZ_CHECK(memcmp(before, g->tensors, bytes_before) == 0);
    } else {
        /* A patched graph is one that could have been defined so. */
        struct apir_graph again;
        size_t n;
        uint8_t *bytes = check_graph(g, room, &n);
        FUZZ_CHECK(apir_graph_decode(bytes, n, &again, &why) == 0);
        apir_graph_fini(&again);
        free(bytes);
    }
    free(before);
    free(patch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t def_size;
    if (size < sizeof(def_size))
        return 0;
    memcpy(&def_size, data, sizeof(def_size));
    data += 4;
    size -= 4;
    if (def_size > size)
        def_size = (uint32_t)size;

    uint8_t *def = exact(data, def_size);
    struct apir_graph g;
    const char *why = NULL;
    int rc = apir_graph_decode(def, def_size, &g, &why);
    if (rc) {
        FUZZ_CHECK(rc == -EBADMSG && why);
    } else {
        size_t n;
        uint8_t *bytes = check_graph(&g, (size_t)def_size + 1, &n);
        FUZZ_CHECK(n == def_size && memcmp(bytes, def, n) == 0);
        free(bytes);
        check_patch(&g, data + def_size, size - def_size, 2 * size);
        apir_graph_fini(&g);
    }
    free(def);
    return 0;
}
