/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that see, change or stop what is computed. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

#include <stdlib.h>
#include <string.h>

/*
 * As llama-imatrix does: reads what goes into each multiplication with weights, and the outputs of
 * layers, right after they were computed.
 */
static bool wants(const struct ggml_tensor *t)
{
    return t->op == GGML_OP_MUL_MAT_ID || strncmp(t->name, "l_out", 5) == 0 ||
           (t->op == GGML_OP_MUL_MAT && strncmp(t->src[0]->name, "blk.", 4) == 0);
}

static void *read_bytes(const struct ggml_tensor *t)
{
    void *x = malloc(ggml_nbytes(t));
    if (!x)
        abort();
    ggml_backend_tensor_get(t, x, 0, ggml_nbytes(t));
    return x;
}

static void read_tensor(struct record *record, const char *name, const struct ggml_tensor *t)
{
    if (t->type != GGML_TYPE_F32 || !ggml_is_contiguous(t))
        return;
    float *x = read_bytes(t);
    record_floats(record, name, x, (size_t)ggml_nelements(t));
    free(x);
}

/* Which expert each token went to; the tensor is a view with rows apart. */
static void read_experts(struct record *record, const struct ggml_tensor *ids)
{
    int32_t *x = read_bytes(ids);
    for (int64_t row = 0; row < ids->ne[1]; row++)
        record_choice(record, "experts", x + (size_t)row * ids->nb[1] / sizeof(*x),
                      (size_t)ids->ne[0]);
    free(x);
}

static bool on_eval(struct ggml_tensor *t, bool ask, void *data)
{
    struct run *r = data;
    if (ask)
        return wants(t);
    if (t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID)
        read_tensor(&r->record, "what goes in",
                    t->src[1]); /* its name, where it is a copy, is not native */
    read_tensor(&r->record, t->name, t);
    if (t->op == GGML_OP_MUL_MAT_ID)
        read_experts(&r->record, t->src[2]);
    return true;
}

void case_eval_callback(struct run *r)
{
    r->setup.context.cb_eval = on_eval;
    r->setup.context.cb_eval_user_data = r;
    run_open(r);
    feed(r->ctx, &r->record, "prompt", 0, 0, 0, 70);
    feed_singly(r->ctx, &r->record, "single", 0, 70, 70, 3);
}

/*
 * Only the CPU asks whether to go on, natively too; the first thing of every graph, which tokens
 * there are, is computed there on any device. So the graph of the second part of a batch stops.
 */
struct stop {
    int graphs; /* begun since it was armed */
    bool armed, stop;
};

static bool on_graph(struct ggml_tensor *t, bool ask, void *data)
{
    struct stop *stop = data;
    if (ask && t->op == GGML_OP_GET_ROWS && strcmp(t->src[0]->name, "token_embd.weight") == 0 &&
        stop->armed && ++stop->graphs == 2)
        stop->stop = true;
    return !ask;
}

static bool on_abort(void *data)
{
    return ((struct stop *)data)->stop;
}

void case_abort(struct run *r)
{
    struct stop stop = {0};

    r->setup.context.cb_eval = on_graph;
    r->setup.context.cb_eval_user_data = &stop;
    run_open(r);
    llama_set_abort_callback(r->ctx, on_abort, &stop);
    feed(r->ctx, &r->record, "before", 0, 0, 0, 50);
    llama_pos n = 50;
    for (int round = 0; round < 3; round++) {
        const int size = (int)llama_n_batch(r->ctx);
        struct llama_batch batch = batch_make(size, 1);
        for (int i = 0; i < size; i++)
            batch_add(&batch, stream_token((uint32_t)i), n + i, 0, true);
        stop = (struct stop){.armed = true};
        const int32_t code = llama_decode(r->ctx, batch);
        llama_batch_free(batch);
        stop = (struct stop){0};
        record_int(&r->record, "code", code);
        if (code != 2)
            run_fail("llama_decode returned %d and not 2, aborted", code);
        /* What was computed before stays; it goes on from there. */
        const llama_pos last = llama_memory_seq_pos_max(llama_get_memory(r->ctx), 0);
        record_int(&r->record, "last", last);
        n = last + 1;
        feed(r->ctx, &r->record, "after", 0, (uint32_t)(300 * round), n, 20);
        n += 20;
    }
    run_close(r); /* while `stop` is there */
}
