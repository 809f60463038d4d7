/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences of a cache that share tokens and are mixed in batches. Copied, removed, shifted,
 * divided, kept, and their states saved: tests/differ, and llama.cpp's own suite
 * (tests/archs/suites.sh).
 */
#include "tests/options/cases.h"
#include "tests/options/run.h"

#include <stdio.h>

/* One token of each of n sequences in every batch, each sequence with tokens of its own. */
static void feed_together(struct llama_context *ctx, struct record *record, const char *name, int n,
                          const llama_pos *pos, int steps)
{
    struct llama_batch batch = batch_make(n, 1);

    for (int step = 0; step < steps; step++) {
        char item[48];
        batch.n_tokens = 0;
        for (int seq = 0; seq < n; seq++)
            batch_add(&batch, stream_token((uint32_t)(10000 + 100 * seq + step)), pos[seq] + step,
                      seq, true);
        snprintf(item, sizeof(item), "%s %d", name, step);
        decode_record(ctx, record, item, batch);
    }
    llama_batch_free(batch);
}

/* A beginning that belongs to all sequences, then parts of other lengths in one batch. */
static void feed_mixed(struct llama_context *ctx, struct record *record, llama_pos pos[4])
{
    struct llama_batch batch = batch_make(128, 4);
    const llama_pos lengths[4] = {9, 31, 1, 17};

    for (int i = 0; i < 20; i++) {
        batch_add(&batch, stream_token((uint32_t)i), i, 0, i % 3 == 0);
        batch.n_seq_id[i] = 4;
        for (int seq = 0; seq < 4; seq++)
            batch.seq_id[i][seq] = seq;
    }
    decode_record(ctx, record, "shared", batch);
    batch.n_tokens = 0;
    for (int i = 0; i < 31; i++) {
        for (int seq = 0; seq < 4; seq++) {
            if (i < lengths[seq])
                batch_add(&batch, stream_token((uint32_t)(500 * seq + i)), 20 + i, seq, true);
        }
    }
    for (int seq = 0; seq < 4; seq++)
        pos[seq] = 20 + lengths[seq];
    decode_record(ctx, record, "mixed", batch);
    llama_batch_free(batch);
}

void case_sequences(struct run *r)
{
    llama_pos pos[4] = {0};

    r->setup.context.n_seq_max = 4;
    run_open(r);
    if (r->setup.context.kv_unified) {
        feed_mixed(r->ctx, &r->record, pos);
    } else {
        /* A token cannot lie in several caches: each sequence begins by itself. */
        for (int seq = 0; seq < 4; seq++) {
            pos[seq] = 10 + 13 * seq;
            feed(r->ctx, &r->record, "begin", seq, (uint32_t)(50 * seq), 0, pos[seq]);
        }
    }
    feed_together(r->ctx, &r->record, "together", 4, pos, 12);
    llama_memory_seq_rm(llama_get_memory(r->ctx), 1, -1, -1);
    feed(r->ctx, &r->record, "again", 1, 3000, 0, 40);
}
