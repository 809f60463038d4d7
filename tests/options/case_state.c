/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State saved and restored: whole and of one sequence, in memory, in a file and on the device.
 * What is restored into a fresh context goes on as the first one does.
 */
#include "tests/options/cases.h"
#include "tests/options/run.h"

#include <stdio.h>
#include <stdlib.h>

enum { BEGIN = 90, SEQUENCES = 3 };

static int begin(struct pair *p, struct run *r, struct setup *s)
{
    setup_case(s, r);
    s->context.n_seq_max = SEQUENCES;
    if (pair_init(p, r, s) < 0)
        return -1;
    int err = feed(p->ctx, &r->record, "begin", 0, 0, 0, BEGIN);
    if (!err)
        err = feed(p->ctx, &r->record, "other", 1, 500, 0, BEGIN / 2);
    if (err)
        pair_fini(p);
    return err;
}

/* Both contexts go on, the first of them as if nothing had happened. */
static int go_on(struct run *r, struct llama_context *first, struct llama_context *second,
                 llama_seq_id seq)
{
    int err = feed_singly(second, &r->record, "restored", seq, 700, BEGIN, 6);
    if (!err)
        err = feed(second, &r->record, "restored, more", seq, 800, BEGIN + 6, 70);
    if (!err)
        err = feed_singly(first, &r->record, "first", 0, 700, BEGIN, 6);
    return err;
}

int case_state_whole(struct run *r)
{
    struct setup s;
    struct pair p;

    if (begin(&p, r, &s) < 0)
        return -1;
    const size_t size = llama_state_get_size(p.ctx);
    uint8_t *state = calloc(1, size);
    struct llama_context *second = run_context(p.model, &s);
    int err = state && second ? 0 : -1;
    if (!err) {
        const size_t got = llama_state_get_data(p.ctx, state, size);
        record_int(&r->record, "size", (int64_t)got);
        record_bytes(&r->record, "state", state, got);
        record_int(&r->record, "set", (int64_t)llama_state_set_data(second, state, got));
        err = go_on(r, p.ctx, second, 0);
    }
    if (!err)
        err = feed_singly(second, &r->record, "other, restored", 1, 900, BEGIN / 2, 4);
    free(state);
    if (second)
        llama_free(second);
    pair_fini(&p);
    return err;
}

/* The name of a file in the run's own directory. */
static const char *state_path(const struct run *r, char path[512])
{
    snprintf(path, 512, "%s/state", r->scratch);
    return path;
}

static void prompt_tokens(llama_token tokens[BEGIN])
{
    for (uint32_t i = 0; i < BEGIN; i++)
        tokens[i] = stream_token(i);
}

int case_state_file(struct run *r)
{
    struct setup s;
    struct pair p;
    char path[512];
    llama_token tokens[BEGIN], loaded[BEGIN] = {0};
    size_t n = 0;

    if (begin(&p, r, &s) < 0)
        return -1;
    prompt_tokens(tokens);
    struct llama_context *second = run_context(p.model, &s);
    int err = second ? 0 : -1;
    if (!err) {
        record_int(&r->record, "saved",
                   llama_state_save_file(p.ctx, state_path(r, path), tokens, BEGIN));
        record_int(&r->record, "loaded", llama_state_load_file(second, path, loaded, BEGIN, &n));
        record_int(&r->record, "tokens", (int64_t)n);
        record_ints(&r->record, "loaded tokens", loaded, BEGIN);
        err = go_on(r, p.ctx, second, 0);
    }
    if (second)
        llama_free(second);
    pair_fini(&p);
    return err;
}

int case_state_sequence(struct run *r)
{
    struct setup s;
    struct pair p;

    if (begin(&p, r, &s) < 0)
        return -1;
    const size_t size = llama_state_seq_get_size(p.ctx, 0);
    uint8_t *state = calloc(1, size);
    struct llama_context *second = run_context(p.model, &s);
    int err = state && second ? 0 : -1;
    if (!err)
        err = feed(second, &r->record, "neighbour", 1, 3000, 0, 21);
    if (!err) {
        record_int(&r->record, "size", (int64_t)llama_state_seq_get_data(p.ctx, state, size, 0));
        record_bytes(&r->record, "state", state, size);
        record_int(&r->record, "set", (int64_t)llama_state_seq_set_data(second, state, size, 2));
        err = go_on(r, p.ctx, second, 2);
    }
    if (!err)
        err = feed_singly(second, &r->record, "neighbour goes on", 1, 3100, 21, 4);
    free(state);
    if (second)
        llama_free(second);
    pair_fini(&p);
    return err;
}

int case_state_sequence_file(struct run *r)
{
    struct setup s;
    struct pair p;
    char path[512];
    llama_token tokens[BEGIN], loaded[BEGIN] = {0};
    size_t n = 0;

    if (begin(&p, r, &s) < 0)
        return -1;
    prompt_tokens(tokens);
    struct llama_context *second = run_context(p.model, &s);
    int err = second ? 0 : -1;
    if (!err) {
        record_int(
            &r->record, "saved",
            (int64_t)llama_state_seq_save_file(p.ctx, state_path(r, path), 0, tokens, BEGIN));
        record_int(&r->record, "loaded",
                   (int64_t)llama_state_seq_load_file(second, path, 2, loaded, BEGIN, &n));
        record_int(&r->record, "tokens", (int64_t)n);
        err = go_on(r, p.ctx, second, 2);
    }
    if (second)
        llama_free(second);
    pair_fini(&p);
    return err;
}

/* The cells stay in buffers of the device: a way back to an earlier state of the same context. */
int case_state_on_device(struct run *r)
{
    struct setup s;
    struct pair p;
    const llama_state_seq_flags flags = LLAMA_STATE_SEQ_FLAGS_ON_DEVICE;

    if (begin(&p, r, &s) < 0)
        return -1;
    const size_t size = llama_state_seq_get_size_ext(p.ctx, 0, flags);
    uint8_t *state = calloc(1, size + 1);
    int err = state ? 0 : -1;
    if (!err) {
        record_int(&r->record, "size",
                   (int64_t)llama_state_seq_get_data_ext(p.ctx, state, size, 0, flags));
        err = feed(p.ctx, &r->record, "astray", 0, 4000, BEGIN, 50);
    }
    if (!err) {
        llama_memory_seq_rm(llama_get_memory(p.ctx), 0, -1, -1);
        record_int(&r->record, "set",
                   (int64_t)llama_state_seq_set_data_ext(p.ctx, state, size, 0, flags));
        err = feed_singly(p.ctx, &r->record, "restored", 0, 700, BEGIN, 6);
    }
    if (!err)
        err = feed_singly(p.ctx, &r->record, "other", 1, 900, BEGIN / 2, 4);
    free(state);
    pair_fini(&p);
    return err;
}
