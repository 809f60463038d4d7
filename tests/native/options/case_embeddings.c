/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings as what comes out, of tokens or pooled of sequences, and as what goes in. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

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

/* Of every token, beside its logits; or of each sequence, where they are pooled. */
void case_embeddings(struct run *r)
{
    struct setup *s = &r->setup;
    s->context.n_seq_max = SEQUENCES;
    run_open(r);
    const bool pooled = s->context.pooling_type > LLAMA_POOLING_TYPE_NONE;
    const bool rank = s->context.pooling_type == LLAMA_POOLING_TYPE_RANK;
    const size_t size = rank ? llama_model_n_cls_out(r->model) : context_embd(r->ctx);
    struct llama_batch batch = batch_make(128, 1);
    for (uint32_t round = 0; round < 3; round++) {
        llama_memory_clear(llama_get_memory(r->ctx), true);
        fill_sequences(&batch, 50 * round);
        if (pooled) {
            const int32_t code = llama_decode(r->ctx, batch);
            record_int(&r->record, "code", code);
            if (code)
                run_fail("llama_decode returned %d", code);
        } else {
            decode_record(r->ctx, &r->record, "logits", batch);
        }
        for (int i = 0; i < (pooled ? SEQUENCES : batch.n_tokens); i++) {
            const float *x =
                pooled ? llama_get_embeddings_seq(r->ctx, i) : llama_get_embeddings_ith(r->ctx, i);
            if (!x)
                run_fail("no embedding of %s %d", pooled ? "sequence" : "token", i);
            record_floats(&r->record, pooled ? "pooled" : "embedding", x, size);
        }
    }
    llama_batch_free(batch);
}

/* As an image's or another model's output comes in: vectors in the place of tokens. */
void case_embeddings_in(struct run *r)
{
    enum { N = 80 };

    run_open(r);
    const int embd = llama_model_n_embd(r->model);
    struct llama_batch batch = llama_batch_init(N, embd, 1);
    feed(r->ctx, &r->record, "text", 0, 0, 0, 20);
    for (int round = 0; round < 2; round++) {
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
        decode_record(r->ctx, &r->record, name, batch);
    }
    feed_singly(r->ctx, &r->record, "text again", 0, 100, 21 + N, 6);
    llama_batch_free(batch);
}
