/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of a cache: mixed in batches, copied, removed, shifted, divided, kept. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

#include <stdio.h>

/* Where a sequence begins and ends afterwards. */
static void record_ends(struct record *record, struct llama_context *ctx, const char *name,
                        llama_seq_id seq)
{
    const int32_t ends[2] = {llama_memory_seq_pos_min(llama_get_memory(ctx), seq),
                             llama_memory_seq_pos_max(llama_get_memory(ctx), seq)};
    record_ints(record, name, ends, 2);
}

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

void case_copy(struct run *r)
{
    const llama_pos pos[4] = {70, 70, 70, 40};
    const bool unified = r->setup.context.kv_unified;

    r->setup.context.n_seq_max = 4;
    run_open(r);
    llama_memory_t memory = llama_get_memory(r->ctx);
    feed(r->ctx, &r->record, "begin", 0, 0, 0, 70);
    llama_memory_seq_cp(memory, 0, 1, -1, -1);
    llama_memory_seq_cp(memory, 0, 2, -1, -1);
    /* Each sequence's cache can only be copied whole where each has its own. */
    llama_memory_seq_cp(memory, 0, 3, -1, unified ? 40 : -1);
    if (!unified)
        llama_memory_seq_rm(memory, 3, 40, -1);
    feed_together(r->ctx, &r->record, "together", 4, pos, 12);
    llama_memory_seq_rm(memory, 0, -1, -1);
    llama_memory_seq_cp(memory, 2, 0, -1, -1);
    feed_singly(r->ctx, &r->record, "after", 0, 900, 82, 8);
    for (llama_seq_id seq = 0; seq < 4; seq++)
        record_ends(&r->record, r->ctx, "ends", seq);
}

void case_remove(struct run *r)
{
    r->setup.context.n_seq_max = 2;
    run_open(r);
    llama_memory_t memory = llama_get_memory(r->ctx);
    feed(r->ctx, &r->record, "begin", 0, 0, 0, 100);
    /* A hole, which the next tokens may be stored in. */
    record_int(&r->record, "hole", llama_memory_seq_rm(memory, 0, 20, 50));
    feed(r->ctx, &r->record, "after the hole", 0, 200, 100, 20);
    record_int(&r->record, "end", llama_memory_seq_rm(memory, 0, 80, -1));
    feed(r->ctx, &r->record, "other end", 0, 300, 80, 60);
    feed(r->ctx, &r->record, "second", 1, 300, 0, 33);
    record_int(&r->record, "any", llama_memory_seq_rm(memory, -1, 25, -1));
    feed_singly(r->ctx, &r->record, "after all", 1, 400, 25, 8);
    record_ends(&r->record, r->ctx, "ends 0", 0);
    record_ends(&r->record, r->ctx, "ends 1", 1);
    llama_memory_clear(memory, true);
    feed(r->ctx, &r->record, "cleared", 0, 0, 0, 40);
}

/* What a program does at the end of its context: keep a beginning, drop half of the rest. */
void case_shift(struct run *r)
{
    enum { KEEP = 8, ROUNDS = 3 };

    r->setup.context.n_ctx = 256;
    run_open(r);
    llama_memory_t memory = llama_get_memory(r->ctx);
    llama_pos n = (llama_pos)llama_n_ctx(r->ctx) - 8;
    record_int(&r->record, "can shift", llama_memory_can_shift(memory));
    feed(r->ctx, &r->record, "begin", 0, 0, 0, n);
    for (int round = 0; round < ROUNDS; round++) {
        const llama_pos drop = (n - KEEP) / 2;
        llama_memory_seq_rm(memory, 0, KEEP, KEEP + drop);
        llama_memory_seq_add(memory, 0, KEEP + drop, -1, -drop);
        n -= drop;
        record_ends(&r->record, r->ctx, "ends", 0);
        feed_singly(r->ctx, &r->record, "single", 0, (uint32_t)(1000 * round), n, 6);
        n += 6;
        feed(r->ctx, &r->record, "more", 0, (uint32_t)(5000 * round), n, 40);
        n += 40;
    }
}

/* Self-extension: groups of positions become one, and what follows moves to them. */
void case_divide(struct run *r)
{
    enum { GROUP = 4, WIDTH = 64 };

    run_open(r);
    llama_memory_t memory = llama_get_memory(r->ctx);
    feed(r->ctx, &r->record, "begin", 0, 0, 0, 2 * WIDTH);
    llama_pos n = 2 * WIDTH;
    for (int i = 0; i < 2; i++) {
        const llama_pos at = WIDTH / GROUP * i, moved = WIDTH - WIDTH / GROUP;
        llama_memory_seq_div(memory, 0, at, at + WIDTH, GROUP);
        llama_memory_seq_add(memory, 0, at + WIDTH, -1, -moved);
        n -= moved;
        record_ends(&r->record, r->ctx, "ends", 0);
        feed_singly(r->ctx, &r->record, "single", 0, (uint32_t)(1000 + i), n, 5);
        n += 5;
        feed(r->ctx, &r->record, "more", 0, (uint32_t)(2000 + i), n, 35);
        n += 35;
    }
}

void case_keep(struct run *r)
{
    r->setup.context.n_seq_max = 4;
    run_open(r);
    for (llama_seq_id seq = 0; seq < 4; seq++)
        feed(r->ctx, &r->record, "begin", seq, (uint32_t)(100 * seq), 0, 20 + 9 * seq);
    llama_memory_seq_keep(llama_get_memory(r->ctx), 2);
    for (llama_seq_id seq = 0; seq < 4; seq++)
        record_ends(&r->record, r->ctx, "ends", seq);
    feed_singly(r->ctx, &r->record, "kept", 2, 700, 38, 8);
    feed(r->ctx, &r->record, "anew", 0, 800, 0, 90);
}
