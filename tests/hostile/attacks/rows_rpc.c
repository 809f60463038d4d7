/* SPDX-License-Identifier: Apache-2.0 */
/* What was published against ggml-rpc, which does the same work: the same mistakes, tried here. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/hostile/attacks/watch.h"
#include "tests/hostile/attacks/sheet.h"
#include "tests/lib/graph_write.h"

/* Places that begin or end outside a buffer of MEMORY bytes; the second is the size. */
static const uint64_t address = UINT64_C(0x7f1234567000); /* as one looks */
static const uint64_t outside[][2] = {
    {MEMORY - 63, 64},
    {MEMORY, 1},
    {0, MEMORY + 1},
    {UINT64_C(1) << 46, 64},
};

/* Buffers that are none: never made, of another generation, freed (2, see below). */
static const uint32_t no_buffers[] = {9, 1 + APIR_BUFFERS_MAX, UINT32_MAX, 2};

/* A guest whose buffer 2 is gone. */
static void open_without_2(struct guest *g)
{
    guest_open(g);
    put_free(g, 2);
    WANT(guest_run(g));
}

/* ---- types ------------------------------------------------------------------------------- */

static void type_out_of_range(void)
{
    static const uint8_t types[] = {43, 63, 64, 200, 255};
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open_square(&g, &s);
    for (size_t i = 0; i < N(types); i++) {
        /* Well-formed: another ggml might have it. */
        s.t[0].type = types[i];
        sheet_not_computed(&g, &s, APIR_E_UNSUPPORTED);
    }
}

static void type_without_a_block(void)
{
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open_square(&g, &s);
    for (uint8_t removed = 4; removed <= 5; removed++) { /* Q4_2, Q4_3 */
        for (int i = 0; i < 2; i++) {
            sheet_square(&s);
            s.t[i].type = removed;
            WANT(!(sheet_query(&g, &s).flags & APIR_OP_SUPPORTED));
            sheet_not_computed(&g, &s, APIR_E_UNSUPPORTED);
        }
    }
}

/* An abort in the worker would be seen: each question is answered, in one context. */
static void questions_of_any_type(void)
{
    struct guest g;
    struct sheet s;
    guest_open(&g);
    sheet_square(&s);
    WANT(sheet_query(&g, &s).flags & APIR_OP_SUPPORTED);
    for (unsigned type = 0; type < 256; type++) {
        for (uint32_t i = 0; i < 2; i++) {
            sheet_square(&s);
            s.t[i].type = (uint8_t)type;
            bool floats = type == F32;
            if (!(sheet_query(&g, &s).flags & APIR_OP_SUPPORTED) != !floats)
                not_stopped("type %u of tensor %u is said to be supported", type, i);
        }
    }
    sheet_square(&s)->nb[1] = UINT64_MAX;
    WANT(sheet_query(&g, &s).flags == 0);
    sheet_square(&s);
    sheet_runs(&g, &s);
    guest_close(&g);
    sheet_square(&s);
    sheet_in_place(&s, 0);
    s.t[1].view_offs = UINT64_MAX - 15;
    sheet_fatal(&s, "view begins outside its buffer");
}

/* ---- places ------------------------------------------------------------------------------ */

static void transfers_outside(enum apir_msg_code code)
{
    struct apir_msg m = {.code = code};
    for (size_t i = 0; i < N(outside); i++) {
        m.u.get = (struct apir_msg_get){
            .buffer = 1, .offset = outside[i][0], .size = outside[i][1], .blob = 1};
        message_fatal(&m, "range outside its buffer");
    }
    message_fatal_changed(&m, 8, &address, sizeof(address), "offset out of range");
}

/* Rows whose last one lies outside; where 64 bits are not enough to say so, too. */
static void rows_outside(enum apir_msg_code code)
{
    static const uint64_t rows[][3] = {/* size, count, stride */
                                       {64, 2, MEMORY - 63},
                                       {64, MEMORY / 64 + 1, 64},
                                       {1, UINT64_C(1) << 18, UINT64_C(1) << 46},
                                       {1, UINT64_C(1) << 30, UINT64_C(1) << 34}};
    for (size_t i = 0; i < N(rows); i++) {
        struct apir_msg m = {.code = code,
                             .u.get_2d = {.buffer = 1,
                                          .size = rows[i][0],
                                          .count = rows[i][1],
                                          .stride = rows[i][2],
                                          .blob = 1}};
        message_fatal(&m, "range outside its buffer");
    }
}

/* The honest form of both directions: the last bytes of a buffer, and nothing beside them. */
static void transfers_inside(void)
{
    cleanup_guest struct guest g;
    uint8_t bytes[64], back[64];
    guest_open(&g);
    memset(bytes, 0x5a, sizeof(bytes));
    guest_remember(&g);
    guest_set(&g, 1, MEMORY - 64, bytes, sizeof(bytes));
    guest_get(&g, 1, MEMORY - 64, back, sizeof(back));
    WANT(memcmp(bytes, back, sizeof(bytes)) == 0);
    guest_remember_as(1, MEMORY - 64, bytes, sizeof(bytes));
    guest_unchanged(&g);
}

static void reads_outside_a_buffer(void)
{
    struct sheet s;
    transfers_inside();
    transfers_outside(APIR_MSG_GET);
    rows_outside(APIR_MSG_GET_2D);
    for (size_t i = 0; i < N(outside); i++) {
        sheet_square(&s);
        s.t[0].offset = outside[i][0] ? outside[i][0] : address;
        sheet_fatal(&s, "outside its buffer");
    }
}

static void writes_outside_a_buffer(void)
{
    struct sheet s;
    const uint8_t bytes[64] = {1};
    transfers_inside();
    transfers_outside(APIR_MSG_SET);
    rows_outside(APIR_MSG_SET_2D);
    for (size_t i = 0; i < N(outside); i++) {
        struct apir_msg m = {
            .code = APIR_MSG_MEMSET,
            .u.memset = {.buffer = 1, .offset = outside[i][0], .size = outside[i][1], .value = 7}};
        message_fatal(&m, "range outside its buffer");
        m = (struct apir_msg){.code = APIR_MSG_SET_INLINE, .tail = bytes};
        m.u.set_inline = (struct apir_msg_set_inline){
            .buffer = 1, .offset = outside[i][0] ? outside[i][0] : MEMORY - 63, .size = 64};
        message_fatal(&m, "range outside its buffer");
        sheet_square(&s)->offset = outside[i][0] ? outside[i][0] : UINT64_MAX - 15;
        sheet_fatal(&s, "outside its buffer");
    }
}

static void copy_over_a_smaller_destination(void)
{
    struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int64_t rows = 4; rows <= 5; rows++) {
        sheet_new(&s, "CPY");
        sheet_leaf(&s, F32, 4, rows, 1, 1);
        sheet_leaf(&s, F32, 4, 4, 1, 1);
        sheet_op(&s, F32, 4, 4, 1, 1);
        sheet_in_place(&s, 1);
        if (rows == 4)
            sheet_runs(&g, &s);
        else
            sheet_fatal(&s, "shapes that do not fit");
    }
    guest_copy(&g, 1, 0, 2, MEMORY - 64, 64);
    WANT(guest_run(&g));
    guest_copy(&g, 1, 0, 2, MEMORY - 64, 65);
    end_refused(&g, "range outside its buffer");
    guest_open(&g);
    guest_alloc(&g, 4, 64);
    guest_copy(&g, 1, 0, 4, 0, MEMORY);
    end_refused(&g, "range outside its buffer");
}

/* ---- buffers that are none --------------------------------------------------------------- */

static void with_buffer(const struct apir_msg *m, size_t at)
{
    struct guest g;
    for (size_t i = 0; i < N(no_buffers); i++) {
        open_without_2(&g);
        guest_put_changed(&g, m, at, &no_buffers[i], sizeof(no_buffers[i]));
        end_refused(&g, "buffer does not exist");
    }
    /* What other protocols use for "none". */
    const uint32_t none = 0;
    message_fatal_changed(m, at, &none, sizeof(none), "out of range");
}

static void transfers_of_no_buffer(void)
{
    struct apir_msg m = {.code = APIR_MSG_SET};
    transfers_inside();
    m.u.set = (struct apir_msg_set){.buffer = 1, .size = 64, .blob = 1};
    with_buffer(&m, 4);
    m.code = APIR_MSG_GET;
    with_buffer(&m, 4);
    m = (struct apir_msg){.code = APIR_MSG_COPY};
    m.u.copy = (struct apir_msg_copy){.src_buffer = 1, .dst_buffer = 3, .size = 64};
    with_buffer(&m, 8);
    with_buffer(&m, 20);
    m = (struct apir_msg){.code = APIR_MSG_BUFFER_CLEAR, .u.buffer_clear = {1, 0}};
    with_buffer(&m, 0);
    m = (struct apir_msg){.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {1}};
    with_buffer(&m, 0);
}

static void tensors_of_no_buffer(void)
{
    struct guest g;
    struct sheet s;
    square_runs_alone();
    for (size_t i = 0; i <= N(no_buffers); i++) {
        sheet_square(&s);
        s.buffers[1].id = i < N(no_buffers) ? no_buffers[i] : 0;
        open_without_2(&g);
        put_define(&g, 0, 0, sheet_write(&g, &s));
        end_refused(&g, "buffer does not exist");
    }
    sheet_square(&s)->bits &= (uint8_t)~APIR_TENSOR_BUFFER;
    sheet_fatal(&s, "neither buffer nor view");
    sheet_square(&s);
    s.t[0].bits &= (uint8_t)~APIR_TENSOR_BUFFER;
    sheet_fatal(&s, "neither buffer nor view");
}

static void graph_of_a_freed_buffer(void)
{
    struct guest g;
    struct sheet s;
    for (uint32_t buffer = 1; buffer <= 2; buffer++) {
        for (int again = 0; again < 2; again++) {
            guest_open_square(&g, &s);
            put_free(&g, buffer);
            if (again) /* the same id, perhaps the same address */
                guest_alloc(&g, buffer, 4096);
            put_exec(&g, 0);
            end_refused(&g, "graph slot is not defined");
        }
    }
}

/* ---- graphs ------------------------------------------------------------------------------ */

static void broken_blocks(struct guest *g, struct sheet *s, bool honest)
{
    const int64_t n = honest ? 64 : 63;
    (void)g;
    sheet_new(s, "MUL_MAT");
    sheet_leaf(s, Q4_0, 64, 4, 1, 1)->ne[0] = n;
    sheet_leaf(s, F32, n, 4, 1, 1);
    sheet_op(s, F32, 4, 4, 1, 1);
}
SHEET_ROW(rows_of_broken_blocks, broken_blocks, "a row ends within a block")

static void function_pointers(void)
{
    static const char *const ops[] = {"MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "CUSTOM"};
    struct sheet s;
    square_runs_alone();
    for (size_t i = 0; i < N(ops); i++) {
        sheet_square(&s)->params[0] = 0x41414141;
        memcpy(s.names[0].name, ops[i], strlen(ops[i]) + 1);
        sheet_fatal(&s, "not one that may be computed");
    }
}

static void source_that_is_none(void)
{
    struct sheet s;
    square_runs_alone();
    sheet_square(&s)->src[0] = APIR_NO_TENSOR;
    sheet_fatal(&s, "a source is missing");
    sheet_square(&s)->n_src = 0;
    sheet_fatal(&s, "a source is missing");
    sheet_square(&s)->src[0] = 1; /* itself */
    sheet_fatal(&s, "source is a later tensor");
    sheet_square(&s)->src[0] = UINT32_MAX - 1;
    sheet_fatal(&s, "source is a later tensor");
}

/* The leaf with row numbers of such a graph. */
static struct apir_tensor *lookup(struct sheet *s, int op)
{
    static const char *const ops[] = {"GET_ROWS", "GET_ROWS_BACK", "SET_ROWS", "MUL_MAT_ID"};
    sheet_new(s, ops[op]);
    if (op == 3) {
        sheet_leaf(s, F32, 4, 4, 8, 1);
        sheet_leaf(s, F32, 4, 3, 1, 1);
        struct apir_tensor *ids = sheet_leaf(s, I32, 3, 1, 1, 1);
        sheet_op(s, F32, 4, 3, 1, 1);
        return ids;
    }
    sheet_leaf(s, F32, 4, op == 0 ? 8 : 3, 1, 1);
    struct apir_tensor *ids = sheet_leaf(s, op == 2 ? I64 : I32, 3, 1, 1, 1);
    sheet_op(s, F32, 4, op == 0 ? 3 : 8, 1, 1);
    return ids;
}

static void row_numbers_out_of_range(void)
{
    static const int64_t bad[] = {8, -1, INT_MAX, INT_MIN, INT64_C(1) << 40};
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int op = 0; op < 4; op++) {
        struct apir_tensor *ids = lookup(&s, op);
        sheet_ids(&g, ids, 3, 7);
        sheet_runs(&g, &s);
        for (size_t i = 0; i < N(bad) - (ids->type != I64); i++) {
            sheet_ids(&g, ids, 3, bad[i]);
            sheet_not_computed(&g, &s, APIR_E_FAILED);
        }
    }
}

static void hidden_stride(struct guest *g, struct sheet *s, bool honest)
{
    sheet_new(s, "SET_ROWS");
    sheet_leaf(s, F32, 4, 3, honest ? 1 : 4, 1);
    struct apir_tensor *ids = sheet_leaf(s, I64, 3, 1, 1, 1);
    sheet_op(s, F32, 4, 8, 1, 1)->nb[2] = MEMORY;
    sheet_ids(g, ids, 3, 7);
}
SHEET_ROW(stride_hidden_by_a_one, hidden_stride, "shapes that do not fit")

static void more_slots_than_room(void)
{
    static const int32_t slots[] = {2, 3, 1000, INT_MAX, 0, -1, INT_MIN};
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open(&g);
    for (size_t i = 0; i < N(slots); i++) {
        sheet_new(&s, "GATED_DELTA_NET");
        for (int k = 0; k < 3; k++)
            sheet_leaf(&s, F32, 4, 2, 3, 1);
        sheet_leaf(&s, F32, 1, 2, 3, 1);
        sheet_leaf(&s, F32, 1, 2, 3, 1);
        sheet_leaf(&s, F32, 4, 4, 2, 1);
        sheet_op(&s, F32, 8, 3 + 2 * 4, 1, 1)->params[0] = slots[i];
        if (slots[i] == 2)
            sheet_runs(&g, &s);
        else
            sheet_fatal(&s, slots[i] > 0 ? "shapes that do not fit" : "parameter out of range");
    }
}

static void windows_of_negative_strides(void)
{
    static const int32_t bad[][4] = {
        {-16, 64, 64, 16}, {16, -64, 64, 64}, {16, 64, -64, 64},    {16, 64, 64, -4},
        {16, 64, 64, 48},  {64, 64, 64, 0},   {INT_MAX, 64, 64, 0},
    };
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int op = 0; op < 2; op++) {
        sheet_new(&s, op ? "SET" : "ACC");
        sheet_leaf(&s, F32, 4, 4, 1, 1);
        sheet_leaf(&s, F32, 4, 2, 1, 1);
        struct apir_tensor *t = sheet_op(&s, F32, 4, 4, 1, 1);
        memcpy(t->params, (const int32_t[4]){16, 64, 64, 32}, 16);
        sheet_runs(&g, &s);
        for (size_t i = 0; i < N(bad); i++) {
            memcpy(t->params, bad[i], sizeof(bad[i]));
            sheet_fatal(&s, i < 3 ? "negative stride" : i == 3 ? "negative offset" : "window");
        }
    }
}

/* ---- sizes ------------------------------------------------------------------------------- */

/*
 * SQR of SQR of …; `flags` are the graph's, `nodes` how many of the last are nodes of it. Written
 * to the arena; returns the size.
 */
static size_t write_chain(struct guest *g, uint32_t n, uint32_t flags, uint32_t nodes)
{
    struct sheet s;
    sheet_square(&s);
    s.g.n_tensors = n;
    s.g.n_nodes = nodes;
    s.g.flags = flags;
    s.g.names = s.names;
    s.g.buffers = s.buffers;
    s.t[1].bits = APIR_TENSOR_BUFFER;
    struct apir_writer w = apir_writer_init(guest_arena(g), g->blobs[1].size);
    graph_write_front(&w, &s.g);
    for (uint32_t i = 0; i < n; i++) {
        s.t[1].src[0] = i - 1;
        if (i == n - nodes)
            s.t[1].bits |= APIR_TENSOR_NODE;
        /* Only the last is to be computed, where the flag counts: who goes back from it? */
        s.t[1].flags = i == n - 1 ? APIR_TENSOR_FLAG_COMPUTE : 0;
        apir_tensor_write(&w, &s.t[i ? 1 : 0]);
    }
    WANT(!w.full);
    return w.size;
}

/* Neither the decoder nor the validator nor ggml's builder goes down the chain by recursion. */
static void chain_of_sources(void)
{
    struct guest g;
    guest_open_sized(&g, (uint64_t)48 << 20);
    for (uint32_t flags = 0; flags <= APIR_GRAPH_COMPUTE_FLAG; flags++) {
        put_define(&g, 0, 0, write_chain(&g, 200000, flags, 199999));
        if (!guest_run(&g))
            not_stopped("a long chain in its honest form is refused: %s", guest_reason(&g));
        WANT(exec_status(&g, 0) == APIR_OK);
    }
    put_define(&g, 1, 0, write_chain(&g, 300000, 0, 299999));
    end_refused(&g, "more tensors than bytes");
    /* All but the last with an op, and no node: whoever builds the graph goes and finds them. */
    for (uint32_t flags = 0; flags <= APIR_GRAPH_COMPUTE_FLAG; flags++) {
        guest_open_sized(&g, (uint64_t)48 << 20);
        put_define(&g, 0, 0, write_chain(&g, 200000, flags, 1));
        end_refused(&g, "a source is neither leaf nor node");
    }
}

static void empty_dimensions(void)
{
    struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int dim = 0; dim < 4; dim++) {
        /* Empty in and out is nothing to do; an empty source is none. */
        int64_t ne[4] = {4, 4, 1, 1};
        ne[dim] = 0;
        sheet_new(&s, "SQR");
        sheet_leaf(&s, F32, ne[0], ne[1], ne[2], ne[3]);
        sheet_op(&s, F32, ne[0], ne[1], ne[2], ne[3]);
        sheet_runs(&g, &s);
        sheet_square(&s);
        s.t[0].ne[dim] = 0;
        sheet_fatal(&s, "without elements");
    }
    guest_close(&g);
    sheet_square(&s)->ne[3] = INT64_MAX;
    s.t[1].ne[0] = 0;
    sheet_fatal(&s, "overflow");
}

/* Answers and results have a place that is checked before there is one. */
static void answers_outside_their_place(void)
{
    static const uint32_t bad[] = {1,
                                   4096 + 32,
                                   APIR_RING_SIZE / 2 - 4096 - 448,
                                   APIR_RING_SIZE / 2 - 4096,
                                   UINT32_MAX - 63,
                                   UINT32_MAX};
    struct guest g;
    guest_open(&g);
    struct apir_msg m = {.code = APIR_MSG_DEVICE_INFO,
                         .u.device_info = {.reply = APIR_RING_SIZE / 2 - 4096 - 512}};
    guest_put(&g, &m);
    WANT(guest_run(&g));
    guest_close(&g);
    for (size_t i = 0; i < N(bad); i++) {
        m.u.device_info.reply = bad[i];
        message_fatal(&m, "reply outside the reply area");
        struct apir_msg open = {.code = APIR_MSG_STREAM_OPEN,
                                .u.stream_open = {.stream = 2, .status = bad[i]}};
        message_fatal(&open, "reply outside the reply area");
        struct apir_msg query = {.code = APIR_MSG_OP_QUERY,
                                 .u.op_query = {.blob = 1, .size = 64, .reply = bad[i]}};
        message_fatal(&query, "reply outside the reply area");
    }
    struct apir_msg get = {
        .code = APIR_MSG_GET,
        .u.get = {.buffer = 1, .size = 64, .blob = 1, .blob_offset = ARENA - 63}};
    message_fatal(&get, "region outside its blob");
}

/* ---- addresses --------------------------------------------------------------------------- */

/* Whether the process has memory there. */
static bool is_mapped(FILE *maps, uint64_t at)
{
    unsigned long long from, to;
    char line[512], mode[5];
    rewind(maps);
    while (fgets(line, sizeof(line), maps)) {
        /* What is wider than any memory is a sanitizer's. */
        if (sscanf(line, "%llx-%llx %4s", &from, &to, mode) == 3 && mode[0] == 'r' && at >= from &&
            at < to && (to - from) >> 40 == 0)
            return true;
    }
    return false;
}

static void no_address_in(FILE *maps, const uint8_t *bytes, size_t size, const char *what)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t v;
        memcpy(&v, bytes + i, sizeof(v));
        if (v >> 32 && is_mapped(maps, v))
            not_stopped("%s: at %zu an address: %#llx", what, i, (unsigned long long)v);
    }
}

/* Everything that the host has written for us, memory that it gives first of all. */
static void addresses_of_the_host(void)
{
    static const uint64_t sizes[] = {1, 32, 100, 512, 4096, 32768, 200000, 4 << 20};
    static uint8_t bytes[4096];
    cleanup_guest struct guest g;
    struct sheet s;
    char path[64];
    guest_open(&g);
    snprintf(path, sizeof(path), "/proc/%d/maps", host_worker());
    FILE *maps = fopen(path, "re");
    WANT(maps);
    sheet_square(&s);
    sheet_runs(&g, &s);
    uint32_t at = guest_reply(&g);
    guest_put(&g, &(struct apir_msg){.code = APIR_MSG_DEVICE_INFO, .u.device_info = {.reply = at}});
    (void)sheet_query(&g, &s);
    for (int round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < N(sizes); i++) {
            size_t size = sizes[i] < sizeof(bytes) ? (size_t)sizes[i] : sizeof(bytes);
            guest_alloc(&g, 10 + i, sizes[i]);
            guest_get(&g, 10 + i, 0, bytes, size);
            for (size_t k = 0; k < size; k++) {
                if (bytes[k])
                    not_stopped("byte %zu of a new buffer of %llu bytes is %#x", k,
                                (unsigned long long)sizes[i], bytes[k]);
            }
        }
        for (uint32_t i = 0; i < N(sizes); i++)
            put_free(&g, 10 + i);
        /* Something of its own in the memory that was freed. */
        put_define(&g, 1, 0, sheet_write(&g, &s));
    }
    WANT(guest_run(&g));
    no_address_in(maps, guest_reply_at(&g, 0), APIR_RING_SIZE / 2 - APIR_RING_HEADER_SIZE,
                  "answers");
    no_address_in(maps, (const uint8_t *)g.ring_blob.map + 128, APIR_RING_HEADER_SIZE - 128,
                  "header");
    fclose(maps);
    refused("no address in %zu buffers and all answers", 4 * N(sizes));
}

const struct attack_row attack_rows_rpc[] = {
    {"CVE-2024-42477", "a tensor's type out of range", type_out_of_range, 0, 0},
    {"CVE-2024-42478", "the client says where to read", reads_outside_a_buffer, 0, 0},
    {"CVE-2024-42479", "the client says where to write", writes_outside_a_buffer, 0, 0},
    {"ggml-1103", "a copy larger than its destination", copy_over_a_smaller_destination, 0, 0},
    {"llama.cpp-13067", "invalid types and offsets must not abort", questions_of_any_type, 0, 0},
    {"llama.cpp-14868", "transfers of no buffer", transfers_of_no_buffer, 0, 0},
    {"llama.cpp-14882", "addresses of the host in what it answers", addresses_of_the_host, 0, 0},
    {"llama.cpp-20712", "a type whose block has no size", type_without_a_block, 0, 0},
    {"CVE-2026-34159", "tensors of no buffer", tensors_of_no_buffer, 0, 0},
    {"GHSA-2phh-px2f-2qmx", "a graph run after its buffer", graph_of_a_freed_buffer, 0, 0},
    {"llama.cpp-25288", "rows that end within a block", rows_of_broken_blocks, 0, 0},
    {"llama.cpp-25289", "ops that carry a function pointer", function_pointers, 0, 0},
    {"llama.cpp-25299", "a source that is none", source_that_is_none, 0, 0},
    {"llama.cpp-25542+26825", "row numbers out of range", row_numbers_out_of_range, 0, 0},
    {"llama.cpp-26912", "SET_ROWS, a stride hidden by a 1", stride_hidden_by_a_one, 0, 0},
    {"llama.cpp-25704", "GATED_DELTA_NET of too many slots", more_slots_than_room, 0, 0},
    {"llama.cpp-25764", "ACC and SET with negative strides", windows_of_negative_strides, 0, 0},
    {"llama.cpp-25958", "a chain of 300,000 sources", chain_of_sources, 0, 0},
    {"llama.cpp-9799", "dimensions of 0", empty_dimensions, 0, 0},
    {"unsloth-193", "places of answers, and their sizes", answers_outside_their_place, 0, 0},
    {0},
};
