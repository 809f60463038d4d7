/* SPDX-License-Identifier: Apache-2.0 */
/* What reading ggml-cpu and the fuzzer have found: graphs that its kernels leave their memory with.
 */
#include <string.h>

#include "tests/hostile/attacks/sheet.h"

/* The work buffer has room for a row of the result; a row of the source is what is put there. */
static void long_rows(struct guest *g, struct sheet *s, bool honest)
{
    const int64_t rows = honest ? 32 : 1;
    (void)g;
    sheet_new(s, "CPY");
    sheet_leaf(s, F32, 1024 / rows, rows, 1, 1);
    sheet_leaf(s, Q4_0, 32, 32, 1, 1);
    sheet_op(s, Q4_0, 32, 32, 1, 1);
    sheet_in_place(s, 1);
}
SHEET_ROW(copy_of_long_rows, long_rows, "side by side")

/* Bytes of one type are copied by rows, of which ggml takes a block for an element: 32 times too
 * long. */
static void blocks(struct sheet *s, const char *op, bool honest)
{
    sheet_new(s, op);
    struct apir_tensor *a = sheet_leaf(s, Q4_0, 32, 2, 1, 1);
    if (!honest) /* rows apart, so that the bytes are not one piece */
        a->nb[1] = a->nb[2] = a->nb[3] = 36;
}

static void blocks_cont(struct guest *g, struct sheet *s, bool honest)
{
    (void)g;
    blocks(s, "CONT", honest);
    sheet_op(s, Q4_0, 64, 1, 1, 1)->offset = MEMORY - 64;
}

static void blocks_cpy(struct guest *g, struct sheet *s, bool honest)
{
    (void)g;
    blocks(s, "CPY", honest);
    sheet_leaf(s, Q4_0, 64, 1, 1, 1)->offset = MEMORY - 64;
    sheet_op(s, Q4_0, 64, 1, 1, 1);
    sheet_in_place(s, 1);
}

/* A row of one block: nb[0] says nothing, and yet decides about the road. */
static void blocks_dup(struct guest *g, struct sheet *s, bool honest)
{
    (void)g;
    sheet_new(s, "DUP");
    struct apir_tensor *a = sheet_leaf(s, Q4_0, 32, 2, 1, 1);
    if (!honest)
        a->nb[0] = 36, a->nb[1] = a->nb[2] = a->nb[3] = 36;
    sheet_op(s, Q4_0, 32, 2, 1, 1)->offset = MEMORY - 64;
}

static void copies_of_blocks(void)
{
    sheet_attack(blocks_cont, "blocks that lie apart");
    sheet_attack(blocks_cpy, "blocks that lie apart");
    sheet_attack(blocks_dup, "blocks that lie apart");
}

/* Row numbers two elements apart: the kernel reads them side by side, and so numbers that nobody
 * has checked. */
static void numbers_apart(struct guest *g, struct sheet *s, bool honest)
{
    sheet_new(s, "GET_ROWS_BACK");
    sheet_leaf(s, F32, 4, 3, 1, 1);
    struct apir_tensor *ids = sheet_leaf(s, I32, 3, 1, 1, 1);
    if (!honest)
        ids->nb[0] = 8, ids->nb[1] = ids->nb[2] = ids->nb[3] = 24;
    sheet_op(s, F32, 4, 5, 1, 1);
    sheet_ids(g, ids, 3, 0);
}
SHEET_ROW(row_numbers_apart, numbers_apart, "wants it contiguous")

/* The scan reads floats, whatever the type of a source: of bytes at the end of the buffer as well.
 */
static void scan(struct guest *g, struct sheet *s, bool honest)
{
    sheet_new(s, "SSM_SCAN");
    sheet_leaf(s, F32, 8, 2, 1, 1);
    sheet_leaf(s, F32, 2, 1, 3, 1);
    sheet_leaf(s, F32, 1, 3, 1, 1);
    struct apir_tensor *a = sheet_leaf(s, honest ? F32 : I8, 1, 1, 1, 1);
    if (!honest)
        a->offset = MEMORY - 1;
    sheet_leaf(s, F32, 8, 1, 3, 1);
    sheet_leaf(s, F32, 8, 1, 3, 1);
    sheet_ids(g, sheet_leaf(s, I32, 1, 1, 1, 1), 1, 0);
    sheet_op(s, F32, 22, 1, 1, 1)->params[0] = 1;
}
SHEET_ROW(scan_of_bytes, scan, "type of a source")

/* Pairs of channels are turned or copied; the last of an odd number has no other. */
static void pairs(struct guest *g, struct sheet *s, bool honest)
{
    const int64_t n = honest ? 8 : 7;
    (void)g;
    sheet_new(s, "ROPE");
    sheet_leaf(s, F32, n, 2, 3, 1);
    sheet_leaf(s, I32, 3, 1, 1, 1);
    sheet_op(s, F32, n, 2, 3, 1)->params[1] = 4;
}
SHEET_ROW(rope_without_pairs, pairs, "shapes that do not fit")

/* With the hint, rows as long as source 1's are written into those of the result. */
static void hint(struct guest *g, struct sheet *s, bool honest)
{
    const int64_t rows = honest ? 16 : 4;
    (void)g;
    sheet_new(s, "MUL_MAT");
    sheet_leaf(s, F32, 16, rows, 1, 1);
    sheet_leaf(s, F32, 16, 2, 1, 1);
    sheet_op(s, F32, rows, 2, 1, 1)->params[1] = 1;
}
SHEET_ROW(hint_on_no_square, hint, "no Hadamard matrix")

/* One plane of results is written per nb[2] of the source, which one plane does not need. */
static void plane(struct guest *g, struct sheet *s, bool honest)
{
    (void)g;
    sheet_new(s, "POOL_2D");
    sheet_leaf(s, F32, 8, 8, 1, 1)->nb[2] = honest ? 256 : 4;
    struct apir_tensor *t = sheet_op(s, F32, 4, 4, 1, 1);
    for (int k = 1; k <= 4; k++)
        t->params[k] = 2;
}
SHEET_ROW(pool_of_a_small_stride, plane, "planes that overlap")

/* Rows nb[1] apart, also those of other planes: past the end of the buffer. */
static void behind(struct guest *g, struct sheet *s, bool honest)
{
    (void)g;
    sheet_new(s, "CLAMP");
    struct apir_tensor *a = sheet_leaf(s, F32, 4, 1, 4, 1);
    a->offset = MEMORY - 64;
    a->nb[1] = honest ? 16 : 4096;
    sheet_op(s, F32, 4, 1, 4, 1);
}
SHEET_ROW(rows_behind_the_buffer, behind, "beyond a buffer")

/* The sum of a view's offset and its source's is 0 in 64 bits, or past the end; and a second one
 * on top of the first. */
static void views(void)
{
    static const uint64_t offsets[] = {MEMORY - 15, UINT64_MAX, UINT64_MAX - 4095};
    struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int i = -1; i < 3; i++) {
        sheet_new(&s, "VIEW");
        sheet_leaf(&s, F32, 4, 4, 1, 1)->offset = i == 2 ? 4096 : 0;
        struct apir_tensor *t = sheet_op(&s, F32, 4, 1, 1, 1);
        sheet_in_place(&s, 0);
        t->view_offs = i < 0 ? 48 : offsets[i];
        if (i < 0)
            sheet_runs(&g, &s);
        else
            sheet_fatal(&s, "outside its buffer");
        t->view_offs = 0;
    }
    guest_close(&g);
    struct apir_tensor *second = sheet_op(&s, F32, 4, 1, 1, 1);
    sheet_in_place(&s, 1);
    second->n_src = 1;
    second->src[0] = 1;
    s.g.n_nodes = 2;
    sheet_fatal(&s, "view of a view");
}

/* A question never ends the context: the guest's ggml may be another. */
static void questions(void)
{
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open(&g);
    for (int64_t n2 = 1; n2 <= 4; n2 += 3) {
        sheet_new(&s, "SET_ROWS");
        sheet_leaf(&s, F32, 4, 3, n2, 1);
        sheet_leaf(&s, I64, 3, 1, 1, 1);
        sheet_op(&s, F32, 4, 8, 1, 1);
        bool supported = sheet_query(&g, &s).flags & APIR_OP_SUPPORTED;
        if (supported != (n2 == 1))
            not_stopped("SET_ROWS of %d planes is %ssupported", (int)n2, supported ? "" : "not ");
    }
    expect_alive(&g);
    refused("the answer is no");
}

const struct attack_row attack_rows_found[] = {
    {"found-cpy-rows", "a copy of long rows to short quantised ones", copy_of_long_rows, 0, 0},
    {"found-block-copies", "CONT, CPY and DUP of blocks that lie apart", copies_of_blocks, 0, 0},
    {"found-row-numbers", "GET_ROWS_BACK with row numbers that lie apart", row_numbers_apart, 0, 0},
    {"found-scan-types", "SSM_SCAN of bytes at a buffer's end", scan_of_bytes, 0, 0},
    {"found-rope-pairs", "ROPE of rows without pairs", rope_without_pairs, 0, 0},
    {"found-hadamard", "a hint on a matrix that is not square", hint_on_no_square, 0, 0},
    {"found-pool-stride", "POOL_2D of one plane with a small stride", pool_of_a_small_stride, 0, 0},
    {"found-rows-behind", "rows of other planes behind the buffer", rows_behind_the_buffer, 0, 0},
    {"found-views", "views of views, and behind the end", views, 0, 0},
    {"found-questions", "a question about an attack", questions, 0, 0},
    {0},
};
