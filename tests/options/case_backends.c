/* SPDX-License-Identifier: Apache-2.0 */
/* Many backends of one device open at once. */
#include "tests/options/cases.h"
#include "tests/options/graph.h"
#include "tests/options/run.h"

#include <stdio.h>

enum { PROMISED = 64, TRIED = 80 };

/*
 * Whatever is open, the device says what it said to begin with, and has memory. (The CPU says of
 * itself that it computes the cosine of anything, and aborts when it shall: what may be said of F64
 * differs, that it never changes does not.)
 */
static void record_answers(struct run *r, ggml_backend_dev_t device, int open, bool first_f64)
{
    size_t free = 0, total = 0;
    const int32_t answers[2] = {graph_supports_cos(device, GGML_TYPE_F32),
                                graph_supports_cos(device, GGML_TYPE_F64) == first_f64};
    char name[48];

    snprintf(name, sizeof(name), "supports_op with %d open", open);
    record_ints(&r->record, name, answers, 2);
    ggml_backend_dev_memory(device, &free, &total);
    snprintf(name, sizeof(name), "memory with %d open", open);
    record_int(&r->record, name, free > 0 && total > 0);
}

static void open_all(struct run *r, ggml_backend_dev_t device, ggml_backend_t *backends,
                     bool first_f64)
{
    for (int n = 1; n <= PROMISED; n++) {
        char name[32];
        backends[n - 1] = graph_backend(device);
        if (n != 1 && n < PROMISED - 3)
            continue;
        record_answers(r, device, n, first_f64);
        snprintf(name, sizeof(name), "newest of %d", n);
        graph_compute(backends[n - 1], &r->record, name, (uint32_t)n);
        snprintf(name, sizeof(name), "first of %d", n);
        graph_compute(backends[0], &r->record, name, (uint32_t)n + 100);
    }
}

void case_backends(struct run *r)
{
    ggml_backend_dev_t device = run_device(r);
    ggml_backend_t backends[TRIED] = {NULL};
    const bool f64 = graph_supports_cos(device, GGML_TYPE_F64);
    if (f64 && !r->native)
        run_fail("the cosine of F64 is said to be supported, which the host cannot do");
    open_all(r, device, backends, f64);

    /* More may be refused; nothing breaks, and those that are open go on. */
    for (int n = PROMISED; n < TRIED; n++)
        backends[n] = ggml_backend_dev_init(device, NULL);
    record_answers(r, device, TRIED, f64);
    for (int n = 0; n < PROMISED; n++)
        graph_compute(backends[n], &r->record, "each", (uint32_t)n + 200);
    for (int n = 0; n < TRIED; n++)
        ggml_backend_free(backends[n]);
    ggml_backend_t again = graph_backend(device);
    graph_compute(again, &r->record, "again", 5);
    ggml_backend_free(again);
}
