/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State saved and restored: whole and of one sequence, in memory, in a file and on the device.
 * What is restored into a fresh context goes on as the first one does.
 */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

#include <stdio.h>
#include <stdlib.h>

enum { BEGIN = 90, SEQUENCES = 3 };

static void begin(struct run *r)
{
    r->setup.context.n_seq_max = SEQUENCES;
    run_open(r);
    feed(r->ctx, &r->record, "begin", 0, 0, 0, BEGIN);
    feed(r->ctx, &r->record, "other", 1, 500, 0, BEGIN / 2);
}

/* Both contexts go on, the first of them as if nothing had happened. */
static void go_on(struct run *r, struct llama_context *second, llama_seq_id seq)
{
    feed_singly(second, &r->record, "restored", seq, 700, BEGIN, 6);
    feed(second, &r->record, "restored, more", seq, 800, BEGIN + 6, 70);
    feed_singly(r->ctx, &r->record, "first", 0, 700, BEGIN, 6);
}

static uint8_t *state_alloc(size_t size)
{
    uint8_t *state = calloc(1, size + 1);
    if (!state)
        abort();
    return state;
}

void case_state_whole(struct run *r)
{
    begin(r);
    const size_t size = llama_state_get_size(r->ctx);
    uint8_t *state = state_alloc(size);
    struct llama_context *second = run_context(r->model, &r->setup);
    const size_t got = llama_state_get_data(r->ctx, state, size);
    record_int(&r->record, "size", (int64_t)got);
    record_bytes(&r->record, "state", state, got);
    record_int(&r->record, "set", (int64_t)llama_state_set_data(second, state, got));
    go_on(r, second, 0);
    feed_singly(second, &r->record, "other, restored", 1, 900, BEGIN / 2, 4);
    free(state);
    llama_free(second);
}

void case_state_sequence(struct run *r)
{
    begin(r);
    const size_t size = llama_state_seq_get_size(r->ctx, 0);
    uint8_t *state = state_alloc(size);
    struct llama_context *second = run_context(r->model, &r->setup);
    feed(second, &r->record, "neighbour", 1, 3000, 0, 21);
    record_int(&r->record, "size", (int64_t)llama_state_seq_get_data(r->ctx, state, size, 0));
    record_bytes(&r->record, "state", state, size);
    record_int(&r->record, "set", (int64_t)llama_state_seq_set_data(second, state, size, 2));
    go_on(r, second, 2);
    feed_singly(second, &r->record, "neighbour goes on", 1, 3100, 21, 4);
    free(state);
    llama_free(second);
}

/* All of it, or the first sequence as the third one of the other context. */
static void through_file(struct run *r, bool whole)
{
    char path[512];
    llama_token tokens[BEGIN], loaded[BEGIN] = {0};
    size_t n = 0;

    begin(r);
    stream_tokens(tokens, 0, BEGIN);
    snprintf(path, sizeof(path), "%s/state", r->scratch);
    struct llama_context *second = run_context(r->model, &r->setup);
    const size_t saved = whole ? llama_state_save_file(r->ctx, path, tokens, BEGIN)
                               : llama_state_seq_save_file(r->ctx, path, 0, tokens, BEGIN);
    const size_t taken = whole ? llama_state_load_file(second, path, loaded, BEGIN, &n)
                               : llama_state_seq_load_file(second, path, 2, loaded, BEGIN, &n);
    record_int(&r->record, "saved", (int64_t)saved);
    record_int(&r->record, "loaded", (int64_t)taken);
    record_int(&r->record, "tokens", (int64_t)n);
    record_ints(&r->record, "loaded tokens", loaded, BEGIN);
    go_on(r, second, whole ? 0 : 2);
    llama_free(second);
}

void case_state_file(struct run *r)
{
    through_file(r, true);
}

void case_state_sequence_file(struct run *r)
{
    through_file(r, false);
}

/* The cells stay in buffers of the device: a way back to an earlier state of the same context. */
void case_state_on_device(struct run *r)
{
    const llama_state_seq_flags flags = LLAMA_STATE_SEQ_FLAGS_ON_DEVICE;

    begin(r);
    const size_t size = llama_state_seq_get_size_ext(r->ctx, 0, flags);
    uint8_t *state = state_alloc(size);
    record_int(&r->record, "size",
               (int64_t)llama_state_seq_get_data_ext(r->ctx, state, size, 0, flags));
    feed(r->ctx, &r->record, "astray", 0, 4000, BEGIN, 50);
    llama_memory_seq_rm(llama_get_memory(r->ctx), 0, -1, -1);
    record_int(&r->record, "set",
               (int64_t)llama_state_seq_set_data_ext(r->ctx, state, size, 0, flags));
    feed_singly(r->ctx, &r->record, "restored", 0, 700, BEGIN, 6);
    feed_singly(r->ctx, &r->record, "other", 1, 900, BEGIN / 2, 4);
    free(state);
}
