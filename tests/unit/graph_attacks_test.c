/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that were attacks on ggml-rpc and on the reference implementation, as payloads
 * through the worker's own dispatcher, decoder and validator to the packaged ggml's CPU
 * backend. Each first in its honest form, which computes, then as the attack.
 */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/worker.h"
#include "tests/unit/graph_write.h"

#define STREAM 1u
#define MEMORY 65536u
#define ARENA  ((uint64_t)48 << 20)
enum { F32 = 0, Q4_0 = 2, I8 = 24, I32 = 26, I64 = 27 };

static struct worker w = { .control_fd = -1 };

/* ---- the worker, without a server ------------------------------------------------------ */

static int start(void **state)
{
    (void)state;
    static const char *const devices[] = { "CPU", NULL };
    struct host_ggml_options options = { .devices = devices, .n_threads = 1 };
    struct apir_error err = { 0 };
    if (host_ggml_load(&w.ggml, &options, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    w.state = APIR_ST_READY;
    w.blobs[0] = (struct worker_blob){ .map = calloc(1, APIR_RING_SIZE), .size = APIR_RING_SIZE };
    w.blobs[1] = (struct worker_blob){ .map = calloc(1, ARENA), .size = ARENA };
    struct apir_msg m = { .code = APIR_MSG_STREAM_OPEN,
                          .u.stream_open = { .stream = STREAM, .reply = 4096 } };
    return !w.blobs[0].map || !w.blobs[1].map || worker_dispatch(&w, &m) != NULL;
}

static const char *send_alloc(uint32_t id)
{
    struct apir_msg m = { .code = APIR_MSG_BUFFER_ALLOC,
                          .u.buffer_alloc = { .buffer = id, .size = MEMORY, .reply = 4096 } };
    return worker_dispatch(&w, &m);
}

static const char *send_free(uint32_t id)
{
    struct apir_msg m = { .code = APIR_MSG_BUFFER_FREE, .u.buffer_free = { id } };
    return worker_dispatch(&w, &m);
}

static const char *send_exec(uint32_t slot)
{
    struct apir_msg m = { .code = APIR_MSG_GRAPH_EXEC,
                          .u.graph_exec = { .slot = slot, .stream = STREAM } };
    memset(worker_reply(&w, 0), 0, APIR_REPLY_SIZE);
    return worker_dispatch(&w, &m);
}

/* What the stream says of the computation: 0 is fine. */
static uint32_t failed(void)
{
    struct apir_stream_status st;
    memcpy(&st, worker_reply(&w, 0), sizeof(st));
    return st.failed;
}

static int each_start(void **state)
{
    (void)state;
    return send_alloc(1) || send_alloc(2);
}

static int each_stop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        worker_slot_clear(&w, &w.slots[i]);
    for (uint32_t id = 1; id <= 2; id++) {
        if (worker_buffer_find(&w, id))
            send_free(id);
    }
    return 0;
}

/* ---- graphs ------------------------------------------------------------------------------ */

/* Leaves in buffer 1, 4 KiB each; the result, last, in buffer 2. */
struct sheet {
    struct apir_name names[2];
    struct apir_graph_buffer buffers[2];
    struct apir_tensor t[8];
    struct apir_graph g;
};

static struct apir_tensor *add(struct sheet *s, uint8_t type, int64_t n0, int64_t n1, int64_t n2,
                               int64_t n3)
{
    const struct host_type *h = &w.ggml.types[type];
    struct apir_tensor *t = &s->t[s->g.n_tensors];
    *t = sample_tensor(APIR_TENSOR_BUFFER, APIR_NO_NAME);
    t->type = type;
    t->offset = 4096 * (uint64_t)s->g.n_tensors++;
    int64_t ne[4] = { n0, n1, n2, n3 };
    uint64_t nb = h->size;
    for (int i = 0; i < 4; i++) {
        t->ne[i] = ne[i];
        t->nb[i] = nb;
        nb = i == 0 ? (uint64_t)ne[0] / h->block * h->size : nb * (uint64_t)ne[i];
    }
    return t;
}

static void sheet_new(struct sheet *s, const char *op)
{
    memset(s, 0, sizeof(*s));
    s->g = (struct apir_graph){ .n_names = 1, .n_buffers = 2, .n_nodes = 1, .names = s->names,
                                .buffers = s->buffers, .tensors = s->t };
    strcpy(s->names[0].name, op);
    s->buffers[0] = (struct apir_graph_buffer){ 1, 1 };
    s->buffers[1] = (struct apir_graph_buffer){ 2, 2 };
}

/* The op itself: all before it are its sources, in their order. */
static struct apir_tensor *add_op(struct sheet *s, uint8_t type, int64_t n0, int64_t n1,
                                  int64_t n2, int64_t n3)
{
    uint32_t n = s->g.n_tensors;
    struct apir_tensor *t = add(s, type, n0, n1, n2, n3);
    t->bits |= APIR_TENSOR_NODE | APIR_TENSOR_PARAM;
    t->op = 0;
    t->buffer = 1;
    t->offset = 0;
    t->n_src = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++)
        t->src[i] = i;
    return t;
}

static const char *define_raw(uint32_t slot, uint64_t size)
{
    struct apir_msg m = { .code = APIR_MSG_GRAPH_DEF,
                          .u.graph_def = { .slot = slot, .stream = STREAM, .blob = 1,
                                           .size = size } };
    return worker_dispatch(&w, &m);
}

static const char *define(uint32_t slot, const struct sheet *s)
{
    struct apir_graph g = s->g;
    g.names = (struct apir_name *)s->names;
    g.buffers = (struct apir_graph_buffer *)s->buffers;
    g.tensors = (struct apir_tensor *)s->t;
    size_t size = graph_write(&g, w.blobs[1].map, ARENA);
    assert_true(size > 0);
    return define_raw(slot, size);
}

static void expect_runs(const struct sheet *s)
{
    const char *why = define(0, s);
    if (why)
        fail_msg("%s in its honest form: %s", s->names[0].name, why);
    assert_null(send_exec(0));
    assert_int_equal(failed(), APIR_OK);
}

static void expect_fatal(const struct sheet *s, const char *reason)
{
    const char *why = define(1, s);
    if (!why)
        fail_msg("%s is accepted, instead of: %s", s->names[0].name, reason);
    if (!strstr(why, reason))
        fail_msg("%s: %s, instead of: %s", s->names[0].name, why, reason);
}

/* SQR of 4 × 4 floats. */
static struct apir_tensor *square(struct sheet *s)
{
    sheet_new(s, "SQR");
    add(s, F32, 4, 4, 1, 1);
    return add_op(s, F32, 4, 4, 1, 1);
}

static void fill_ids(uint64_t offset, int n, int64_t first, bool wide)
{
    uint8_t bytes[256];
    for (int i = 0; i < n; i++) {
        int32_t narrow = (int32_t)first;
        if (wide)
            memcpy(bytes + 8 * i, &first, 8);
        else
            memcpy(bytes + 4 * i, &narrow, 4);
    }
    host_buffer_set(&w.ggml, &worker_buffer_find(&w, 1)->host, offset, bytes,
                    (uint64_t)n * (wide ? 8 : 4));
}

/* ---- published against ggml-rpc --------------------------------------------------------- */

static void type_out_of_range_cve_2024_42477(void **state)
{
    (void)state;
    static const uint8_t types[] = { 43, 63, 64, 200, 255 };
    struct sheet s;
    square(&s);
    expect_runs(&s);
    for (size_t i = 0; i < sizeof(types); i++) {
        s.t[0].type = types[i];
        assert_null(define(1, &s)); /* well-formed: another ggml might have it */
        assert_null(send_exec(1));
        assert_int_equal(failed(), APIR_E_UNSUPPORTED);
    }
}

static void type_without_blocks_20712(void **state)
{
    (void)state;
    struct sheet s;
    square(&s);
    for (uint8_t removed = 4; removed <= 5; removed++) { /* Q4_2, Q4_3 */
        s.t[1].type = removed;
        assert_null(define(1, &s));
        assert_null(send_exec(1));
        assert_int_equal(failed(), APIR_E_UNSUPPORTED);
    }
}

static void data_outside_its_buffer_cve_2024_42478_42479(void **state)
{
    (void)state;
    static const uint64_t offsets[] = { MEMORY - 63, MEMORY, MEMORY + 1, UINT64_C(1) << 46,
                                        UINT64_MAX - 15, UINT64_MAX };
    struct sheet s;
    square(&s)->offset = MEMORY - 64;
    expect_runs(&s);
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        square(&s)->offset = offsets[i];
        expect_fatal(&s, "outside its buffer");
        square(&s);
        s.t[0].offset = offsets[i];
        expect_fatal(&s, "outside its buffer");
    }
}

static void copy_over_a_smaller_destination_1103(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t rows = 4; rows <= 5; rows++) {
        sheet_new(&s, "CPY");
        add(&s, F32, 4, rows, 1, 1);
        add(&s, F32, 4, 4, 1, 1);
        struct apir_tensor *t = add_op(&s, F32, 4, 4, 1, 1);
        t->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
        t->view_src = 1;
        if (rows == 4)
            expect_runs(&s);
        else
            expect_fatal(&s, "shapes that do not fit");
    }
    struct apir_msg m = { .code = APIR_MSG_COPY,
                          .u.copy = { .src_buffer = 1, .dst_buffer = 2, .size = 64,
                                      .dst_offset = MEMORY - 64 } };
    assert_null(worker_dispatch(&w, &m));
    m.u.copy.dst_offset++;
    assert_ptr_equal(worker_dispatch(&w, &m), worker_bad_range);
}

static void buffer_that_is_none_14868_cve_2026_34159(void **state)
{
    (void)state;
    static const uint32_t ids[] = { 0, 3, 1 + APIR_BUFFERS_MAX, UINT32_MAX };
    struct sheet s;
    square(&s);
    expect_runs(&s);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        s.buffers[0].id = ids[i];
        expect_fatal(&s, "buffer does not exist");
        struct apir_msg m = { .code = APIR_MSG_SET,
                              .u.set = { .buffer = ids[i], .size = 4, .blob = 1 } };
        assert_ptr_equal(worker_dispatch(&w, &m), worker_bad_buffer);
        m.code = APIR_MSG_GET;
        assert_ptr_equal(worker_dispatch(&w, &m), worker_bad_buffer);
    }
    square(&s)->bits &= (uint8_t)~APIR_TENSOR_BUFFER;
    expect_fatal(&s, "neither buffer nor view");
}

static void cached_graph_of_a_freed_buffer_ghsa_2phh(void **state)
{
    (void)state;
    struct sheet s;
    square(&s);
    expect_runs(&s);
    assert_null(send_free(1));
    assert_string_equal(send_exec(0), "graph slot is not defined");
}

static void rows_of_broken_blocks_25288(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t n = 64; n >= 63; n--) {
        sheet_new(&s, "MUL_MAT");
        add(&s, Q4_0, 64, 4, 1, 1)->ne[0] = n;
        add(&s, F32, n, 4, 1, 1);
        add_op(&s, F32, 4, 4, 1, 1);
        if (n == 64)
            expect_runs(&s);
        else
            expect_fatal(&s, "a row ends within a block");
    }
}

static void function_pointers_25289(void **state)
{
    (void)state;
    static const char *const ops[] = { "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "CUSTOM" };
    for (int i = 0; i < 4; i++) {
        struct sheet s;
        square(&s)->params[0] = 0x41414141;
        strcpy(s.names[0].name, ops[i]);
        expect_fatal(&s, "not one that may be computed");
    }
}

static void source_that_is_none_25299(void **state)
{
    (void)state;
    struct sheet s;
    square(&s)->src[0] = APIR_NO_TENSOR;
    expect_fatal(&s, "a source is missing");
    square(&s)->n_src = 0;
    expect_fatal(&s, "a source is missing");
    square(&s)->src[0] = 1; /* itself */
    expect_fatal(&s, "source is a later tensor");
}

static void ids_out_of_range_25542_26825(void **state)
{
    (void)state;
    static const int64_t ids[] = { 7, 8, -1, INT_MAX, INT_MIN };
    for (int op = 0; op < 4; op++) {
        struct sheet s;
        sheet_new(&s, op == 0 ? "GET_ROWS" : op == 1 ? "GET_ROWS_BACK" : op == 2 ? "SET_ROWS"
                                                                                : "MUL_MAT_ID");
        if (op == 3) {
            add(&s, F32, 4, 4, 8, 1);
            add(&s, F32, 4, 3, 1, 1);
            add(&s, I32, 3, 1, 1, 1);
            add_op(&s, F32, 4, 3, 1, 1);
        } else {
            add(&s, F32, 4, op == 0 ? 8 : 3, 1, 1);
            add(&s, op == 2 ? I64 : I32, 3, 1, 1, 1);
            add_op(&s, F32, 4, op == 0 ? 3 : 8, 1, 1);
        }
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
            fill_ids(s.t[op == 3 ? 2 : 1].offset, 3, ids[i], op == 2);
            assert_null(define(0, &s));
            assert_null(send_exec(0));
            assert_int_equal(failed(), ids[i] == 7 ? APIR_OK : APIR_E_FAILED);
        }
    }
}

static void set_rows_where_one_hides_a_stride_26912(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t n2 = 1; n2 <= 4; n2 += 3) {
        sheet_new(&s, "SET_ROWS");
        add(&s, F32, 4, 3, n2, 1);
        add(&s, I64, 3, 1, 1, 1);
        add_op(&s, F32, 4, 8, 1, 1)->nb[2] = MEMORY;
        fill_ids(s.t[1].offset, 3, 7, true);
        if (n2 == 1)
            expect_runs(&s);
        else
            expect_fatal(&s, "shapes that do not fit");
    }
}

static void delta_net_with_more_slots_than_room_25704(void **state)
{
    (void)state;
    static const int32_t slots[] = { 2, 3, 1000, INT_MAX, 0, -1, INT_MIN };
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        struct sheet s;
        sheet_new(&s, "GATED_DELTA_NET");
        for (int k = 0; k < 3; k++)
            add(&s, F32, 4, 2, 3, 1);
        add(&s, F32, 1, 2, 3, 1);
        add(&s, F32, 1, 2, 3, 1);
        add(&s, F32, 4, 4, 2, 1);
        add_op(&s, F32, 8, 3 + 2 * 4, 1, 1)->params[0] = slots[i];
        if (slots[i] == 2)
            expect_runs(&s);
        else
            expect_fatal(&s, slots[i] > 0 ? "shapes that do not fit" : "parameter out of range");
    }
}

static void windows_with_negative_strides_25764(void **state)
{
    (void)state;
    for (int op = 0; op < 2; op++) {
        static const int32_t bad[][4] = {
            { -16, 64, 64, 16 }, { 16, -64, 64, 64 }, { 16, 64, -64, 64 }, { 16, 64, 64, -4 },
            { 16, 64, 64, 48 },  { 64, 64, 64, 0 },   { INT_MAX, 64, 64, 0 },
        };
        struct sheet s;
        sheet_new(&s, op ? "SET" : "ACC");
        add(&s, F32, 4, 4, 1, 1);
        add(&s, F32, 4, 2, 1, 1);
        struct apir_tensor *t = add_op(&s, F32, 4, 4, 1, 1);
        t->params[0] = 16;
        t->params[1] = t->params[2] = 64;
        t->params[3] = 32;
        expect_runs(&s);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            memcpy(t->params, bad[i], sizeof(bad[i]));
            expect_fatal(&s, i < 3 ? "negative stride" : i == 3 ? "negative offset" : "window");
        }
    }
}

/* Decoder, validator and ggml's own graph builder: none goes down the chain by recursion. */
static void chain_of_300000_nodes_25958(void **state)
{
    (void)state;
    const uint32_t n = 200000;
    struct sheet s;
    square(&s);
    s.g.n_tensors = n;
    s.g.n_nodes = n - 1;
    struct apir_writer out = apir_writer_init(w.blobs[1].map, ARENA);
    graph_write_front(&out, &s.g);
    s.t[1].bits &= (uint8_t)~APIR_TENSOR_PARAM;
    for (uint32_t i = 0; i < n; i++) {
        s.t[1].src[0] = i - 1;
        apir_tensor_write(&out, &s.t[i ? 1 : 0]);
    }
    assert_false(out.full);
    assert_null(define_raw(0, out.size));
    assert_null(send_exec(0));
    assert_int_equal(failed(), APIR_OK);

    const uint32_t many = 300000, one = 1;
    memcpy(w.blobs[1].map + out.size, &one, sizeof(one));
    s.g.n_tensors = many;
    s.g.n_nodes = many - 1;
    out = apir_writer_init(w.blobs[1].map, ARENA);
    graph_write_front(&out, &s.g);
    for (uint32_t i = 0; i < many && !out.full; i++)
        apir_tensor_write(&out, &s.t[i ? 1 : 0]);
    assert_false(out.full);
    assert_string_equal(define_raw(1, out.size), "graph: more tensors than bytes");
}

static void empty_dimensions_9799(void **state)
{
    (void)state;
    struct sheet s;
    for (int dim = 0; dim < 4; dim++) {
        /* Empty in and out is nothing to do; an empty source is none. */
        sheet_new(&s, "SQR");
        int64_t ne[4] = { 4, 4, 1, 1 };
        ne[dim] = 0;
        add(&s, F32, ne[0], ne[1], ne[2], ne[3]);
        add_op(&s, F32, ne[0], ne[1], ne[2], ne[3]);
        expect_runs(&s);
        square(&s);
        s.t[0].ne[dim] = 0;
        expect_fatal(&s, "without elements");
    }
    square(&s)->ne[3] = INT64_MAX;
    s.t[1].ne[0] = 0;
    expect_fatal(&s, "overflow");
}

/* ---- read off the reference implementation ------------------------------------------------- */

static void strides_whose_sum_overflows(void **state)
{
    (void)state;
    struct sheet s;
    square(&s);
    s.t[0].ne[1] = INT_MAX;
    s.t[0].nb[1] = UINT64_C(0x80000001);
    expect_fatal(&s, "overflow");
    square(&s)->nb[1] = UINT64_MAX - 15;
    expect_fatal(&s, "overflow");
}

static void ops_by_numbers_and_without_names(void **state)
{
    (void)state;
    struct sheet s;
    square(&s)->op = 1;
    expect_fatal(&s, "op is not a name of this graph");
    square(&s);
    strcpy(s.names[0].name, "COUNT");
    expect_fatal(&s, "not one that may be computed");
    square(&s);
    s.g.n_nodes = 0;
    expect_fatal(&s, "node count");
}

static const char *patch(const struct apir_tensor *t, uint32_t index)
{
    struct apir_writer out = apir_writer_init(w.blobs[1].map, ARENA);
    apir_writer_u32(&out, 1);
    apir_writer_u32(&out, index);
    apir_tensor_write(&out, t);
    struct apir_msg m = { .code = APIR_MSG_GRAPH_PATCH,
                          .u.graph_patch = { .slot = 0, .stream = STREAM, .blob = 1,
                                             .size = out.size } };
    return worker_dispatch(&w, &m);
}

/* The leaf of a valid slot, changed: what its consumer was allowed holds no longer. */
static void patch_that_makes_a_valid_slot_invalid(void **state)
{
    (void)state;
    static const char *const reasons[] = { "not the shape", "outside its buffer", "broken elements",
                                           "missing", "outside its buffer" };
    for (int i = 0; i < 5; i++) {
        struct sheet s;
        square(&s);
        expect_runs(&s);
        struct apir_tensor leaf = s.t[0], node = s.t[1];
        leaf.ne[1] = i == 0 ? 3 : 4;
        leaf.offset = i == 1 ? MEMORY - 60 : 0;
        leaf.nb[1] = i == 2 ? 15 : 16;
        node.src[0] = i == 3 ? APIR_NO_TENSOR : 0;
        if (i == 4) {
            node.bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
            node.view_src = 0;
            node.view_offs = UINT64_MAX - 3;
        }
        const char *why = i < 3 ? patch(&leaf, 0) : patch(&node, 1);
        if (!why || !strstr(why, reasons[i]))
            fail_msg("patch %d: %s instead of: %s", i, why ? why : "accepted", reasons[i]);
        worker_slot_clear(&w, &w.slots[0]);
    }
}

static void view_of_a_view_and_behind_the_end(void **state)
{
    (void)state;
    struct sheet s;
    sheet_new(&s, "VIEW");
    add(&s, F32, 4, 4, 1, 1);
    struct apir_tensor *t = add_op(&s, F32, 4, 1, 1, 1);
    t->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
    t->view_src = 0;
    t->view_offs = 48;
    assert_null(define(0, &s));
    t->view_offs = MEMORY - 15;
    expect_fatal(&s, "outside its buffer");
    t->view_offs = UINT64_MAX;
    expect_fatal(&s, "outside its buffer");
    s.t[0].offset = 4096;
    t->view_offs = UINT64_MAX - 4095; /* the sum is 0 */
    expect_fatal(&s, "outside its buffer");
    t->view_offs = 0;
    struct apir_tensor *second = add_op(&s, F32, 4, 1, 1, 1);
    second->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
    second->view_src = 1;
    second->n_src = 1;
    s.g.n_nodes = 2;
    expect_fatal(&s, "view of a view");
}

/* ---- found by reading ggml-cpu, and by the fuzzer ------------------------------------------ */

/* The work buffer has room for a row of the result; a row of the source is what is put there. */
static void copy_of_long_rows_to_short_quantised_ones(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t rows = 32; rows >= 1; rows -= 31) {
        sheet_new(&s, "CPY");
        add(&s, F32, 1024 / rows, rows, 1, 1);
        add(&s, Q4_0, 32, 32, 1, 1);
        struct apir_tensor *t = add_op(&s, Q4_0, 32, 32, 1, 1);
        t->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
        t->view_src = 1;
        if (rows == 32)
            expect_runs(&s);
        else
            expect_fatal(&s, "side by side");
    }
}

/* Pairs of channels are turned or copied; the last of an odd number has no other. */
static void rope_of_rows_without_pairs(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t n = 8; n >= 7; n--) {
        sheet_new(&s, "ROPE");
        add(&s, F32, n, 2, 3, 1);
        add(&s, I32, 3, 1, 1, 1);
        add_op(&s, F32, n, 2, 3, 1)->params[1] = 4;
        if (n == 8)
            expect_runs(&s);
        else
            expect_fatal(&s, "shapes that do not fit");
    }
}

/* With the hint, rows as long as source 1's are written into those of the result. */
static void hint_on_a_matrix_that_is_not_square(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t rows = 16; rows >= 4; rows -= 12) {
        sheet_new(&s, "MUL_MAT");
        add(&s, F32, 16, rows, 1, 1);
        add(&s, F32, 16, 2, 1, 1);
        add_op(&s, F32, rows, 2, 1, 1)->params[1] = 1;
        if (rows == 16)
            expect_runs(&s);
        else
            expect_fatal(&s, "no Hadamard matrix");
    }
}

/* One plane of results is written per nb[2] of the source, which one plane does not need. */
static void pool_of_one_plane_with_a_small_stride(void **state)
{
    (void)state;
    struct sheet s;
    for (int i = 0; i < 2; i++) {
        sheet_new(&s, "POOL_2D");
        add(&s, F32, 8, 8, 1, 1)->nb[2] = i == 0 ? 256 : 4;
        struct apir_tensor *t = add_op(&s, F32, 4, 4, 1, 1);
        for (int k = 1; k <= 4; k++)
            t->params[k] = 2;
        if (i == 0)
            expect_runs(&s);
        else
            expect_fatal(&s, "planes that overlap");
    }
}

/* Rows nb[1] apart, also those of other planes: past the end of the buffer. */
static void rows_behind_the_buffer(void **state)
{
    (void)state;
    struct sheet s;
    sheet_new(&s, "CLAMP");
    struct apir_tensor *a = add(&s, F32, 4, 1, 4, 1);
    a->offset = MEMORY - 64;
    a->nb[1] = 16;
    add_op(&s, F32, 4, 1, 4, 1);
    expect_runs(&s);
    s.t[0].nb[1] = 4096;
    expect_fatal(&s, "beyond a buffer");
}

/* A question never ends the context: the guest's ggml may be another. */
static void question_about_an_attack_is_answered_with_no(void **state)
{
    (void)state;
    struct sheet s;
    for (int64_t n2 = 1; n2 <= 4; n2 += 3) {
        sheet_new(&s, "SET_ROWS");
        add(&s, F32, 4, 3, n2, 1);
        add(&s, I64, 3, 1, 1, 1);
        add_op(&s, F32, 4, 8, 1, 1);
        for (uint32_t i = 0; i < s.g.n_tensors; i++)
            s.t[i].bits &= (uint8_t)~APIR_TENSOR_BUFFER;
        s.g.n_buffers = 0;
        size_t size = graph_write(&s.g, w.blobs[1].map, ARENA);
        struct apir_msg m = { .code = APIR_MSG_OP_QUERY,
                              .u.op_query = { .blob = 1, .size = size, .reply = 4096 } };
        assert_null(worker_dispatch(&w, &m));
        struct apir_reply_op_query r;
        memcpy(&r, worker_reply(&w, 4096), sizeof(r));
        assert_int_equal(r.flags & APIR_OP_SUPPORTED, n2 == 1 ? APIR_OP_SUPPORTED : 0);
    }
}

#define ATTACK(f) cmocka_unit_test_setup_teardown(f, each_start, each_stop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ATTACK(type_out_of_range_cve_2024_42477),
        ATTACK(type_without_blocks_20712),
        ATTACK(data_outside_its_buffer_cve_2024_42478_42479),
        ATTACK(copy_over_a_smaller_destination_1103),
        ATTACK(buffer_that_is_none_14868_cve_2026_34159),
        ATTACK(cached_graph_of_a_freed_buffer_ghsa_2phh),
        ATTACK(rows_of_broken_blocks_25288),
        ATTACK(function_pointers_25289),
        ATTACK(source_that_is_none_25299),
        ATTACK(ids_out_of_range_25542_26825),
        ATTACK(set_rows_where_one_hides_a_stride_26912),
        ATTACK(delta_net_with_more_slots_than_room_25704),
        ATTACK(windows_with_negative_strides_25764),
        ATTACK(chain_of_300000_nodes_25958),
        ATTACK(empty_dimensions_9799),
        ATTACK(strides_whose_sum_overflows),
        ATTACK(ops_by_numbers_and_without_names),
        ATTACK(patch_that_makes_a_valid_slot_invalid),
        ATTACK(view_of_a_view_and_behind_the_end),
        ATTACK(copy_of_long_rows_to_short_quantised_ones),
        ATTACK(rope_of_rows_without_pairs),
        ATTACK(hint_on_a_matrix_that_is_not_square),
        ATTACK(pool_of_one_plane_with_a_small_stride),
        ATTACK(rows_behind_the_buffer),
        ATTACK(question_about_an_attack_is_answered_with_no),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
