/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/attacks/sheet.h"

#include <string.h>

#include "protocol/atomic.h"
#include "tests/lib/graph_write.h"

static void type_size(uint8_t type, uint64_t *ret_block, uint64_t *ret_size)
{
    *ret_block = type == Q4_0 ? 32 : 1;
    *ret_size = type == Q4_0 ? 18 : type == F16 ? 2 : type == I8 ? 1 : type == I64 ? 8 : 4;
}

void sheet_new(struct sheet *s, const char *op)
{
    *s = (struct sheet){.buffers = {{1, 1}, {2, 2}},
                        .g = {.n_names = 1, .n_buffers = 2, .n_nodes = 1}};
    memcpy(s->names[0].name, op, strlen(op) + 1);
}

struct apir_tensor *sheet_leaf(struct sheet *s, uint8_t type, int64_t n0, int64_t n1, int64_t n2,
                               int64_t n3)
{
    struct apir_tensor *t = &s->t[s->g.n_tensors];
    const int64_t ne[4] = {n0, n1, n2, n3};
    uint64_t block, nb;
    type_size(type, &block, &nb);
    *t = sample_tensor(APIR_TENSOR_BUFFER, APIR_NO_NAME);
    t->type = type;
    t->offset = 4096 * (uint64_t)s->g.n_tensors++;
    for (int i = 0; i < 4; i++) {
        t->ne[i] = ne[i];
        t->nb[i] = nb;
        nb *= i == 0 ? (uint64_t)ne[0] / block : (uint64_t)ne[i];
    }
    return t;
}

struct apir_tensor *sheet_op(struct sheet *s, uint8_t type, int64_t n0, int64_t n1, int64_t n2,
                             int64_t n3)
{
    uint32_t n = s->g.n_tensors;
    struct apir_tensor *t = sheet_leaf(s, type, n0, n1, n2, n3);
    t->bits |= APIR_TENSOR_NODE | APIR_TENSOR_PARAM;
    t->op = 0;
    t->buffer = 1;
    t->offset = 0;
    t->n_src = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++)
        t->src[i] = i;
    return t;
}

struct apir_tensor *sheet_square(struct sheet *s)
{
    sheet_new(s, "SQR");
    sheet_leaf(s, F32, 4, 4, 1, 1);
    return sheet_op(s, F32, 4, 4, 1, 1);
}

void sheet_in_place(struct sheet *s, uint32_t index)
{
    struct apir_tensor *t = &s->t[s->g.n_tensors - 1];
    t->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
    t->view_src = index;
}

/* ---- on the wire ------------------------------------------------------------------------- */

size_t sheet_write(struct guest *g, const struct sheet *s)
{
    struct sheet copy = *s;
    copy.g.names = copy.names;
    copy.g.buffers = copy.buffers;
    copy.g.tensors = copy.t;
    WANT(guest_run(g)); /* what is under way may still be read from there */
    size_t size = graph_write(&copy.g, guest_arena(g), g->blobs[1].size);
    WANT(size > 0);
    return size;
}

struct apir_reply_op_query sheet_query(struct guest *g, const struct sheet *s)
{
    struct sheet q = *s;
    struct apir_reply_op_query r;
    q.g.n_buffers = 0;
    for (uint32_t i = 0; i < q.g.n_tensors; i++)
        q.t[i].bits &= (uint8_t)~APIR_TENSOR_BUFFER;
    struct apir_msg m = {
        .code = APIR_MSG_OP_QUERY,
        .u.op_query = {.blob = 1, .size = sheet_write(g, &q), .reply = guest_reply(g)}};
    guest_put(g, &m);
    if (!guest_run(g))
        not_stopped("a question ended the context (state %u): %s", guest_state(g), guest_reason(g));
    memcpy(&r, guest_reply_at(g, m.u.op_query.reply), sizeof(r));
    return r;
}

uint32_t exec_status(struct guest *g, uint32_t slot)
{
    uint32_t *failed = (uint32_t *)(uintptr_t)guest_reply_at(g, 0);
    WANT(guest_run(g));
    apir_store_release32(failed, APIR_OK);
    put_exec(g, slot);
    put_stream(g, APIR_MSG_STREAM_SYNC, STREAM);
    if (!guest_run(g))
        not_stopped("computing ended the context (state %u): %s", guest_state(g), guest_reason(g));
    return apir_load_acquire32(failed);
}

/* ---- verdicts ---------------------------------------------------------------------------- */

void sheet_runs(struct guest *g, const struct sheet *s)
{
    put_define(g, 0, 0, sheet_write(g, s));
    if (!guest_run(g))
        not_stopped("%s in its honest form is refused: %s", s->names[0].name, guest_reason(g));
    uint32_t status = exec_status(g, 0);
    if (status != APIR_OK)
        not_stopped("%s in its honest form: status %u", s->names[0].name, status);
}

void square_runs(struct guest *g)
{
    struct sheet s;
    sheet_square(&s);
    sheet_runs(g, &s);
}

void square_runs_alone(void)
{
    cleanup_guest struct guest g;
    guest_open(&g);
    square_runs(&g);
}

void guest_open_square(struct guest *g, struct sheet *ret_s)
{
    guest_open(g);
    sheet_square(ret_s);
    sheet_runs(g, ret_s);
}

void expect_squares(struct guest *g, float first)
{
    float x[16], y[16];
    for (int i = 0; i < 16; i++)
        x[i] = first + (float)i;
    guest_set(g, 1, 0, x, sizeof(x));
    WANT(exec_status(g, 0) == APIR_OK);
    guest_get(g, 2, 0, y, sizeof(y));
    for (int i = 0; i < 16; i++)
        WANT(y[i] == x[i] * x[i]);
}

void sheet_fatal(const struct sheet *s, const char *reason)
{
    struct guest g;
    guest_open(&g);
    put_define(&g, 0, 0, sheet_write(&g, s));
    end_refused(&g, reason);
}

void sheet_attack(void (*make)(struct guest *g, struct sheet *s, bool honest), const char *why)
{
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open(&g);
    make(&g, &s, true);
    sheet_runs(&g, &s);
    make(&g, &s, false);
    sheet_fatal(&s, why);
}

void sheet_not_computed(struct guest *g, const struct sheet *s, uint32_t status)
{
    guest_remember(g);
    put_define(g, 1, 0, sheet_write(g, s));
    if (!guest_run(g))
        not_stopped("the context has ended, instead of status %u: %s", status, guest_reason(g));
    uint32_t failed = exec_status(g, 1);
    if (failed != status)
        not_stopped("status %u instead of %u", failed, status);
    guest_unchanged(g);
    refused("computation refused, status %u", status);
}

void sheet_ids(struct guest *g, const struct apir_tensor *leaf, int n, int64_t first)
{
    uint8_t bytes[256] = {0};
    const size_t size = leaf->type == I64 ? 8 : 4;
    int32_t narrow = (int32_t)first;
    WANT((size_t)n * size <= sizeof(bytes));
    memcpy(bytes, leaf->type == I64 ? (const void *)&first : (const void *)&narrow, size);
    guest_set(g, 1, leaf->offset, bytes, (size_t)n * size);
}
