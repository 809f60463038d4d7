/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that go on from earlier results, as models have them. */
#ifndef APIR_DIFFER_GGML_GROW_H
#define APIR_DIFFER_GGML_GROW_H

#include "tests/native/differ/ggml_build.h"

struct builder {
    struct differ_random r;
    struct plan *plan;
    ggml_backend_dev_t dev[SIDES];
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *pool[BUILD_POOL_MAX];
    unsigned n_pool;
    unsigned n_asked; /* questions to supports_op so far */
};

struct ggml_tensor *grow_leaf(struct builder *b);
/* NULL: not this time. */
struct ggml_tensor *grow_any(struct builder *b);

/*
 * In the graph as it is: the CPU changes what it keeps and hands it to the device, which adds it to
 * what it keeps. A value that comes too early or too late is seen in all later runs.
 */
struct ggml_tensor *grow_relay(struct builder *b);

/* Calls `make`; NULL where ggml refuses by an assert. */
struct ggml_tensor *build_try(struct builder *b, struct ggml_tensor *(*make)(struct builder *b));

#endif
