/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in buffers of the CPU's extra types: computed with as the host lays them out, and never
 * anything but whole tensors that the host has laid out. The guest is the test (worker_guest.h).
 */
#include "tests/lib/graph_write.h"
#include "tests/lib/worker_guest.h"

enum { Q4_0 = 2, Q4_0_BLOCK = 32, Q4_0_BYTES = 18 };
enum { WIDTH = 256, ROWS = 16, ROW_BYTES = WIDTH / Q4_0_BLOCK * Q4_0_BYTES };
enum { WEIGHT_BYTES = ROWS * ROW_BYTES };
enum { PLAIN = 1, EXTRA = 2, RESULT_AT = 8192, WEIGHT_AT = 4096 };

/*
 * The extra type that takes q4_0: the last one, ggml's own repacking; others come before it. -1: on
 * a CPU whose ggml has no layout of its own there is nothing to test; with AVX2 it has.
 */
static int extra_type(struct guest *g)
{
    if (!guest_is_cpu())
        return -1;
    const uint32_t reply = guest_reply(g);
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_DEVICE_INFO,
                                    .u.device_info = {.device = 0, .reply = reply}});
    const struct apir_reply_device_info *info = guest_answer_ok(g, "DEVICE_INFO", reply);
    assert_true(info->n_extras <= APIR_EXTRAS_MAX);
#ifdef __x86_64__
    assert_true(info->n_extras > 0 || !__builtin_cpu_supports("avx2"));
#endif
    return (int)info->n_extras - 1;
}

static uint32_t put_alloc_extra(struct guest *g, uint32_t extra, uint32_t buffer, uint64_t size)
{
    const uint32_t reply = guest_reply(g);
    guest_put(
        g, &(struct apir_msg){.code = APIR_MSG_BUFFER_ALLOC_EXTRA,
                              .u.buffer_alloc_extra = {
                                  .extra = extra, .buffer = buffer, .size = size, .reply = reply}});
    return reply;
}

/* A stream, a plain buffer, and one of the extra type. False: there is none here. */
static bool start(struct guest *g)
{
    const int type = extra_type(g);
    if (type < 0)
        return false;
    stream_new(g, STREAM, 0);
    guest_alloc(g, PLAIN, SMALL);
    guest_answer_ok(g, "BUFFER_ALLOC_EXTRA", put_alloc_extra(g, (uint32_t)type, EXTRA, SMALL));
    return true;
}

/* A test with all of that. */
#define EXTRA_TEST(name)                                                                           \
    static void name##_with(struct guest *g);                                                      \
    GUEST_TEST(name)                                                                               \
    {                                                                                              \
        if (start(g))                                                                              \
            name##_with(g);                                                                        \
    }                                                                                              \
    static void name##_with(struct guest *g)

#define BEGIN(to, at, kind, n0, n1)                                                                \
    {.code = APIR_MSG_TENSOR_BEGIN, .u.tensor_begin = {to, at, kind, n0, n1, 1}}

static void put_begin(struct guest *g, uint64_t offset, uint32_t type, uint64_t ne0, uint64_t ne1)
{
    const struct apir_msg m = BEGIN(EXTRA, offset, type, ne0, ne1);
    guest_put(g, &m);
}

/* Small whole numbers as half floats. */
static uint16_t half_of(unsigned n)
{
    unsigned exponent = 0;
    while (n >> (exponent + 1))
        exponent++;
    return (uint16_t)((exponent + 15) << 10 | (n - (1u << exponent)) << (10 - exponent));
}

/* Row r is r + 1 everywhere. */
static void write_weight(struct guest *g)
{
    uint8_t *to = guest_arena(g);
    for (unsigned block = 0; block < WEIGHT_BYTES / Q4_0_BYTES; block++) {
        const uint16_t scale = half_of(block / (WIDTH / Q4_0_BLOCK) + 1);
        memcpy(to + block * Q4_0_BYTES, &scale, 2);
        memset(to + block * Q4_0_BYTES + 2, 0x99, Q4_0_BYTES - 2); /* 9 - 8 */
    }
}

/* From the arena, in this many pieces. */
static void put_weight(struct guest *g, uint64_t offset, unsigned pieces)
{
    write_weight(g);
    put_begin(g, offset, Q4_0, WIDTH, ROWS);
    const uint64_t piece = WEIGHT_BYTES / pieces;
    for (uint64_t at = 0; at < WEIGHT_BYTES; at += piece)
        put_transfer(g, APIR_MSG_SET, 0, EXTRA, offset + at, piece, 1, at);
    assert_true(guest_run(g));
}

enum { WEIGHT, INPUT, PRODUCT, N_TENSORS };

/* The weight times a vector of ones, in slot 0. A test may spoil it before it is sent. */
struct product {
    struct apir_name names[1];
    struct apir_graph_buffer buffers[2];
    struct apir_tensor t[N_TENSORS];
};

static struct product product_of(uint64_t offset)
{
    struct product p = {.names = {{APIR_NAME_OP, "MUL_MAT"}}, .buffers = {{PLAIN, 2}, {EXTRA, 1}}};
    p.t[WEIGHT] = tensor_at(0, APIR_NO_NAME, Q4_0, offset, WIDTH, ROWS, 0);
    p.t[WEIGHT].buffer = 1;
    p.t[WEIGHT].nb[0] = Q4_0_BYTES;
    p.t[WEIGHT].nb[1] = ROW_BYTES;
    p.t[WEIGHT].nb[2] = p.t[WEIGHT].nb[3] = WEIGHT_BYTES;
    p.t[INPUT] = tensor_at(0, APIR_NO_NAME, 0, 0, WIDTH, 1, 4);
    p.t[PRODUCT] = node_at(0, "product", RESULT_AT, ROWS, 1, WEIGHT, INPUT);
    return p;
}

static void put_product(struct guest *g, struct product *p)
{
    struct apir_graph graph = GRAPH(p->names, p->buffers, p->t, 1);
    put_graph(g, 0, &graph);
    put_exec(g, 0);
}

/* What the stream says of the graph; "": it was computed. */
static const char *result_of(struct guest *g, struct product *p)
{
    struct apir_stream_status *status =
        (struct apir_stream_status *)(uintptr_t)guest_reply_at(g, 0);
    memset(status, 0, sizeof(*status));
    put_product(g, p);
    assert_true(guest_run(g));
    return status->failed ? status->why : "";
}

static void expect_computed(struct guest *g, uint64_t offset)
{
    float *arena = (void *)guest_arena(g);
    struct product p = product_of(offset);
    for (int i = 0; i < WIDTH; i++)
        arena[i] = 1;
    put_transfer(g, APIR_MSG_SET, 0, PLAIN, 0, WIDTH * 4, 1, 0);
    assert_string_equal(result_of(g, &p), "");
    put_stream(g, APIR_MSG_STREAM_SYNC, STREAM);
    put_transfer(g, APIR_MSG_GET, 0, PLAIN, RESULT_AT, ROWS * 4, 1, 0);
    assert_true(guest_run(g));
    for (int i = 0; i < ROWS; i++) {
        const float want = (float)(WIDTH * (i + 1));
        if (!(arena[i] > want * 0.99f && arena[i] < want * 1.01f))
            fail_msg("row %d: %g, not %g", i, (double)arena[i], (double)want);
    }
}

EXTRA_TEST(a_weight_is_computed_with_as_the_host_lays_it_out)
{
    put_weight(g, WEIGHT_AT, 1);
    expect_computed(g, WEIGHT_AT);
    /* In pieces, elsewhere, beside it. */
    put_weight(g, 0, 4);
    expect_computed(g, 0);
    expect_computed(g, WEIGHT_AT);
}

EXTRA_TEST(only_a_whole_weight_is_one)
{
    struct product p = product_of(WEIGHT_AT);
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    /* All but its end. */
    write_weight(g);
    put_begin(g, WEIGHT_AT, Q4_0, WIDTH, ROWS);
    put_transfer(g, APIR_MSG_SET, 0, EXTRA, WEIGHT_AT, WEIGHT_BYTES - 8, 1, 0);
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    put_weight(g, WEIGHT_AT, 1);
    assert_string_equal(result_of(g, &p), "");
    /* What another one begins to be written over is gone. */
    put_begin(g, WEIGHT_AT + 1024, Q4_0, WIDTH, ROWS);
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    put_weight(g, WEIGHT_AT, 1);
    put_begin(g, WEIGHT_AT - 1024, Q4_0, WIDTH, ROWS);
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    put_weight(g, WEIGHT_AT, 1);
    guest_put(
        g, &(struct apir_msg){.code = APIR_MSG_BUFFER_CLEAR, .u.buffer_clear = {.buffer = EXTRA}});
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    expect_alive(g);
}

/* Another shape, another type, a part: the layout is of this tensor alone. */
EXTRA_TEST(a_weight_is_named_as_it_was_set)
{
    put_weight(g, WEIGHT_AT, 1);
    struct product p = product_of(WEIGHT_AT + 1024);
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    p = product_of(WEIGHT_AT);
    p.t[WEIGHT].ne[1] = p.t[PRODUCT].ne[0] = ROWS / 2;
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    p = product_of(WEIGHT_AT);
    p.t[WEIGHT].nb[1] = 0;
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    p = product_of(WEIGHT_AT);
    p.t[WEIGHT].type = 0;
    p.t[WEIGHT].nb[0] = 4;
    p.t[WEIGHT].ne[0] = p.t[INPUT].ne[0] = 8;
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    p = product_of(WEIGHT_AT);
    assert_string_equal(result_of(g, &p), "");
    expect_alive(g);
}

/* Kernels for such layouts take rows for packed; other ops would read what they do not know. */
EXTRA_TEST(a_weight_is_for_products_alone)
{
    put_weight(g, WEIGHT_AT, 1);
    struct product p = product_of(WEIGHT_AT);
    strcpy(p.names[0].name, "GET_ROWS");
    p.t[INPUT].type = 26;
    p.t[INPUT].ne[0] = 1;
    p.t[INPUT].nb[1] = p.t[INPUT].nb[2] = p.t[INPUT].nb[3] = 4;
    p.t[PRODUCT].ne[0] = WIDTH;
    p.t[PRODUCT].nb[1] = p.t[PRODUCT].nb[2] = p.t[PRODUCT].nb[3] = WIDTH * 4;
    assert_non_null(strstr(result_of(g, &p), "not support"));
    /* A result there, which would be written as plain numbers. */
    p = product_of(WEIGHT_AT);
    p.t[PRODUCT].buffer = 1;
    assert_non_null(strstr(result_of(g, &p), "no such weight"));
    /* A view of it. */
    p = product_of(WEIGHT_AT);
    p.t[INPUT] = p.t[WEIGHT];
    p.t[INPUT].bits = APIR_TENSOR_VIEW;
    p.t[INPUT].view_src = WEIGHT;
    assert_string_not_equal(result_of(g, &p), "");
    /* Half floats, and rows that do not follow each other. */
    p = product_of(WEIGHT_AT);
    p.t[INPUT].type = 1;
    p.t[INPUT].nb[0] = 2;
    assert_non_null(strstr(result_of(g, &p), "not support"));
    p = product_of(WEIGHT_AT);
    p.t[INPUT].nb[2] = 0;
    assert_non_null(strstr(result_of(g, &p), "not support"));
    expect_alive(g);
}

EXTRA_TEST(numbers_apart_are_no_row)
{
    put_weight(g, WEIGHT_AT, 1);
    struct product p = product_of(WEIGHT_AT);
    p.t[INPUT].nb[0] = 8;
    p.t[INPUT].nb[1] = p.t[INPUT].nb[2] = p.t[INPUT].nb[3] = WIDTH * 8;
    put_product(g, &p);
    expect_fatal(g, "side by side");
}

/* ---- what no plug-in would send ------------------------------------------------------ */

#define BYTES(at, n) {.buffer = EXTRA, .offset = at, .size = n, .blob = 1}

TEST(refused_messages)
{
    static const struct {
        enum { NOTHING, BEGUN, WHOLE } weight; /* at WEIGHT_AT, before it */
        struct apir_msg m;
        const char *reason;
    } rows[] = {
        /* clang-format off */
        {WHOLE, {.code = APIR_MSG_SET, .u.set = BYTES(WEIGHT_AT, 8)}, "whole tensors only"},
        {WHOLE, {.code = APIR_MSG_GET, .u.get = BYTES(WEIGHT_AT, 8)}, "whole tensors only"},
        {NOTHING, {.code = APIR_MSG_MEMSET, .u.memset = {0, EXTRA, 0, 8, 1}}, "whole tensors only"},
        {NOTHING, {.code = APIR_MSG_COPY, .u.copy = {0, 0, PLAIN, 0, EXTRA, 0, 8}}, "whole tensors only"},
        /* Out of order, and more than the weight has. */
        {BEGUN, {.code = APIR_MSG_SET, .u.set = BYTES(WEIGHT_AT + 8, 8)}, "whole tensors only"},
        {BEGUN, {.code = APIR_MSG_SET, .u.set = BYTES(WEIGHT_AT, WEIGHT_BYTES + 8)}, "whole tensors only"},
        /* Beyond its buffer, crooked, in a plain buffer. */
        {NOTHING, BEGIN(EXTRA, SMALL - 1024, Q4_0, WIDTH, ROWS), "range outside its buffer"},
        {NOTHING, BEGIN(EXTRA, WEIGHT_AT + 4, Q4_0, WIDTH, ROWS), "range outside its buffer"},
        {NOTHING, BEGIN(PLAIN, 0, Q4_0, WIDTH, ROWS), "buffer does not exist"},
        /* Without a layout ggml would follow a pointer that is not there. */
        {NOTHING, BEGIN(EXTRA, WEIGHT_AT, Q4_0, WIDTH, 3), "no layout"},
        {NOTHING, BEGIN(EXTRA, 0, Q4_0, APIR_SIZE_MAX, APIR_SIZE_MAX), "tensor: "},
        {NOTHING, BEGIN(EXTRA, 0, 255, WIDTH, ROWS), "does not know its type"},
        {NOTHING, {.code = APIR_MSG_BUFFER_ALLOC_EXTRA,
                   .u.buffer_alloc_extra = {.extra = APIR_EXTRAS_MAX - 1, .buffer = 9, .size = SMALL}},
         "device does not exist"},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct guest g;
        guest_start(&g);
        if (start(&g)) {
            if (rows[i].weight == BEGUN)
                put_begin(&g, WEIGHT_AT, Q4_0, WIDTH, ROWS);
            if (rows[i].weight == WHOLE)
                put_weight(&g, WEIGHT_AT, 1);
            guest_put(&g, &rows[i].m);
            expect_fatal(&g, rows[i].reason);
        }
        guest_stop(&g);
    }
}

/* One thread or many: the same numbers; a stream that there is not ends the context. */
EXTRA_TEST(threads_are_of_a_stream)
{
    put_weight(g, WEIGHT_AT, 1);
    const uint32_t threads[] = {1, 2, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        guest_put(
            g, &(struct apir_msg){.code = APIR_MSG_STREAM_THREADS,
                                  .u.stream_threads = {.stream = STREAM, .threads = threads[i]}});
        expect_computed(g, WEIGHT_AT);
    }
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_STREAM_THREADS,
                                    .u.stream_threads = {.stream = STREAM + 1, .threads = 1}});
    expect_fatal(g, "stream does not exist");
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_extra");
}
