/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/process/plugin_program.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <stdio.h>

#include "tests/lib/fds.h"

enum { WIDTH = 64, CHAIN = 640, NODES = 2048, SIZES = 3 };

extern void *ggml_backend_init(void);

void program_function(struct ggml_tensor *dst, const struct ggml_tensor *a, int ith, int nth,
                      void *user)
{
    const float *from = ggml_get_data_f32(a);
    float *to = ggml_get_data_f32(dst);
    (void)user;
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth)
        to[i] = 2 * from[i];
}

struct program {
    ggml_backend_dev_t dev;
    ggml_backend_t backends[2]; /* the device, the CPU */
    struct ggml_context *ctx;
    struct ggml_tensor *weight, *cache;
    ggml_backend_buffer_t buffer;
    ggml_backend_sched_t sched;
};

static struct ggml_context *context(void)
{
    return ggml_init((struct ggml_init_params){.mem_size = ggml_tensor_overhead() * NODES +
                                                           ggml_graph_overhead_custom(NODES, false),
                                               .no_alloc = true});
}

static bool program_begin(struct program *p)
{
    size_t room = 0, total = 0;
    p->backends[0] = ggml_backend_dev_init(p->dev, NULL);
    p->backends[1] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    fprintf(stderr, "device %s: %s\n", ggml_backend_dev_name(p->dev),
            ggml_backend_dev_description(p->dev));
    ggml_backend_dev_memory(p->dev, &room, &total);
    if (!p->backends[0])
        return false;
    p->ctx = context();
    p->weight = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, WIDTH, WIDTH);
    p->cache = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, WIDTH, WIDTH);
    (void)ggml_new_tensor_2d(p->ctx, GGML_TYPE_Q4_0, WIDTH, WIDTH);
    p->buffer = ggml_backend_alloc_ctx_tensors(p->ctx, p->backends[0]);
    if (p->buffer)
        ggml_backend_buffer_set_usage(p->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return p->buffer;
}

static void program_move(struct program *p)
{
    static float bytes[WIDTH * WIDTH];
    ggml_backend_t b = p->backends[0];
    ggml_backend_tensor_set(p->weight, bytes, 0, sizeof(bytes));
    ggml_backend_tensor_get(p->weight, bytes, 0, sizeof(bytes));
    ggml_backend_tensor_set(p->weight, bytes, 0, WIDTH);
    ggml_backend_tensor_memset(p->weight, 1, 0, WIDTH);
    ggml_backend_tensor_set_async(b, p->cache, bytes, 0, sizeof(bytes));
    ggml_backend_tensor_get_async(b, p->cache, bytes, 0, sizeof(bytes));
    ggml_backend_synchronize(b);
    ggml_backend_event_t event = ggml_backend_event_new(p->dev);
    if (event) {
        ggml_backend_event_record(event, b);
        ggml_backend_event_synchronize(event);
        ggml_backend_event_free(event);
    }
}

/* A weight in each of the device's layouts. */
static void program_extras(const struct program *p)
{
    /* As the plug-in declares it: clang's UBSan compares. */
    void **(*get)(void *) = (void **(*)(void *))ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(p->dev), "ggml_backend_dev_get_extra_bufts");
    static const uint8_t bytes[WIDTH * WIDTH];
    for (void **extra = get(p->dev); *extra; extra++) {
        struct ggml_context *ctx = context();
        struct ggml_tensor *t = ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_0, WIDTH, WIDTH);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, *extra);
        fprintf(stderr, "weights in %s\n", ggml_backend_buft_name(*extra));
        if (buffer)
            ggml_backend_tensor_set(t, bytes, 0, ggml_nbytes(t));
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
}

/* Of n columns: the device computes a chain, keeps its end in the cache, and the CPU goes on. */
static struct ggml_cgraph *program_graph(const struct program *p, struct ggml_context *ctx,
                                         int64_t n, struct ggml_tensor **ret_in,
                                         struct ggml_tensor **ret_out)
{
    struct ggml_cgraph *g = ggml_new_graph_custom(ctx, NODES, false);
    struct ggml_tensor *t = *ret_in = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, n);
    ggml_set_input(t);
    t = ggml_mul_mat(ctx, p->weight, t);
    for (int i = 0; i < CHAIN; i++)
        t = ggml_sqr(ctx, t);
    struct ggml_tensor *kept = ggml_view_2d(ctx, p->cache, WIDTH, n, p->cache->nb[1], 0);
    ggml_build_forward_expand(g, ggml_cpy(ctx, t, kept));
    *ret_out = ggml_map_custom1(ctx, t, program_function, 1, NULL);
    ggml_set_output(*ret_out);
    ggml_build_forward_expand(g, *ret_out);
    return g;
}

static void program_compute(struct program *p)
{
    ggml_backend_buffer_type_t bufts[] = {ggml_backend_get_default_buffer_type(p->backends[0]),
                                          ggml_backend_dev_host_buffer_type(p->dev)};
    static float data[WIDTH * SIZES];
    p->sched = ggml_backend_sched_new(p->backends, bufts, 2, NODES, false, true);
    for (int64_t n = SIZES; n > 0; n--) {
        struct ggml_context *ctx = context();
        struct ggml_tensor *in, *out;
        struct ggml_cgraph *g = program_graph(p, ctx, n, &in, &out);
        if (ggml_backend_sched_alloc_graph(p->sched, g)) {
            ggml_backend_tensor_set(in, data, 0, ggml_nbytes(in));
            (void)ggml_backend_sched_graph_compute(p->sched, g);
            ggml_backend_tensor_get(out, data, 0, ggml_nbytes(out));
        }
        ggml_backend_sched_reset(p->sched);
        ggml_free(ctx);
    }
}

static void program_free(struct program *p)
{
    ggml_backend_sched_free(p->sched);
    ggml_backend_buffer_free(p->buffer);
    ggml_free(p->ctx);
    ggml_backend_free(p->backends[0]);
    ggml_backend_free(p->backends[1]);
}

enum program_end program_run(void)
{
    struct program p = {0};
    const int before = fds_count(0);
    void *reg = ggml_backend_init();
    if (!reg)
        return fds_count(0) == before ? WITHOUT_US : LEFT_OPEN;
    ggml_backend_register(reg);
    p.dev = ggml_backend_reg_dev_get(reg, 0);
    if (program_begin(&p)) {
        program_move(&p);
        program_extras(&p);
        program_compute(&p);
    }
    program_free(&p);
    return TO_THE_END;
}
