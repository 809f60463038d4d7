/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings as what comes out, of tokens or pooled of sequences, and as what goes in. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

#include <stdio.h>

enum { SEQUENCES = 3, LENGTH = 30 };

/* A batch of several sequences of different lengths. */
static void fill_sequences(struct llama_batch *batch, uint32_t from)
{
    batch->n_tokens = 0;
    for (int seq = 0; seq < SEQUENCES; seq++) {
        for (int i = 0; i < LENGTH - 7 * seq; i++)
            batch_add(batch, stream_token(from + (uint32_t)(100 * seq + i)), i, seq, true);
    }
}

/* Of every token, beside its logits. */
int case_embeddings(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = 0;

    setup_case(&s, r);
    s.context.n_seq_max = SEQUENCES;
    if (pair_init(&p, r, &s) < 0)
        return -1;
    struct llama_batch batch = batch_make(128, 1);
    for (uint32_t round = 0; !err && round < 3; round++) {
        llama_memory_clear(llama_get_memory(p.ctx), true);
        fill_sequences(&batch, 50 * round);
        err = decode_record(p.ctx, &r->record, "logits", batch);
        for (int i = 0; !err && i < batch.n_tokens; i++) {
            const float *x = llama_get_embeddings_ith(p.ctx, i);
            if (x)
                record_floats(&r->record, "embedding", x, context_embd(p.ctx));
            else
                err = run_fail("no embedding of token %d", i);
        }
    }
    llama_batch_free(batch);
    pair_fini(&p);
    return err;
}

int case_pooling(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = 0;

    setup_case(&s, r);
    s.context.n_seq_max = SEQUENCES;
    if (pair_init(&p, r, &s) < 0)
        return -1;
    const bool rank = s.context.pooling_type == LLAMA_POOLING_TYPE_RANK;
    const size_t n = rank ? llama_model_n_cls_out(p.model) : context_embd(p.ctx);
    struct llama_batch batch = batch_make(128, 1);
    for (uint32_t round = 0; !err && round < 3; round++) {
        llama_memory_clear(llama_get_memory(p.ctx), true);
        fill_sequences(&batch, 50 * round);
        const int32_t code = llama_decode(p.ctx, batch);
        record_int(&r->record, "code", code);
        if (code)
            err = run_fail("llama_decode returned %d", code);
        for (int seq = 0; !err && seq < SEQUENCES; seq++) {
            const float *x = llama_get_embeddings_seq(p.ctx, seq);
            if (x)
                record_floats(&r->record, "pooled", x, n);
            else
                err = run_fail("no embedding of sequence %d", seq);
        }
    }
    llama_batch_free(batch);
    pair_fini(&p);
    return err;
}

/* As an image's or another model's output comes in: vectors in the place of tokens. */
int case_embeddings_in(struct run *r)
{
    struct setup s;
    struct pair p;
    enum { N = 80 };

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    const int embd = llama_model_n_embd(p.model);
    struct llama_batch batch = llama_batch_init(N, embd, 1);
    int err = feed(p.ctx, &r->record, "text", 0, 0, 0, 20);
    for (int round = 0; !err && round < 2; round++) {
        const int n = round == 0 ? N : 1; /* a single one takes another kernel */
        char name[32];
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < embd; k++)
                batch.embd[i * embd + k] =
                    0.01f * (float)(stream_token((uint32_t)(i * embd + k + round)) - 135);
            batch.pos[i] = 20 + round * N + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        batch.n_tokens = n;
        snprintf(name, sizeof(name), "vectors %d", n);
        err = decode_record(p.ctx, &r->record, name, batch);
    }
    if (!err)
        err = feed_singly(p.ctx, &r->record, "text again", 0, 100, 21 + N, 6);
    llama_batch_free(batch);
    pair_fini(&p);
    return err;
}
