/* SPDX-License-Identifier: Apache-2.0 */
/* Several contexts and several models that take turns in one thread. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

/* Contexts of one model with other sizes and another attention kernel. */
void case_two_contexts(struct run *r)
{
    struct setup other;

    run_open(r);
    setup_case(&other, r);
    other.context.n_ctx = 256;
    other.context.n_ubatch = 33;
    other.context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *second = run_context(r->model, &other);
    for (int round = 0; round < 6; round++) {
        const llama_pos at = 30 * round;
        feed(r->ctx, &r->record, "first", 0, (uint32_t)at, at, 29);
        feed(second, &r->record, "second", 0, (uint32_t)at + 7000, at, 30);
        feed(r->ctx, &r->record, "first, single", 0, (uint32_t)at + 29, at + 29, 1);
    }
    /* The second goes, the first stays and another one comes. */
    llama_free(second);
    second = run_context(r->model, &other);
    feed(second, &r->record, "third", 0, 8000, 0, 60);
    feed_singly(r->ctx, &r->record, "first goes on", 0, 180, 180, 5);
    llama_free(second);
}

enum { DRAFTED = 4, PROMPT = 40, WANTED = 60 };

/* The draft's guesses from a token on, most likely ones; none of it is kept in its cache. */
static void draft(struct llama_context *ctx, llama_token token, llama_pos pos,
                  llama_token guesses[DRAFTED])
{
    for (int i = 0; i < DRAFTED; i++) {
        if (decode_last(ctx, i == 0 ? &token : &guesses[i - 1], pos + i, 1) != 0)
            run_fail("the draft model failed");
        guesses[i] = most_likely(llama_get_logits_ith(ctx, 0), context_vocab(ctx));
    }
    llama_memory_seq_rm(llama_get_memory(ctx), 0, pos + 1, -1);
}

/* Decodes the token and the guesses in one batch. Returns how many guesses held. */
static int verify(struct run *r, llama_token token, llama_pos pos,
                  const llama_token guesses[DRAFTED], llama_token *ret_next)
{
    struct llama_batch batch = batch_make(1 + DRAFTED, 1);
    int held = 0;

    batch_add(&batch, token, pos, 0, true);
    for (int i = 0; i < DRAFTED; i++)
        batch_add(&batch, guesses[i], pos + 1 + i, 0, true);
    decode_record(r->ctx, &r->record, "verify", batch);
    for (;; held++) {
        *ret_next = most_likely(llama_get_logits_ith(r->ctx, held), context_vocab(r->ctx));
        if (held == DRAFTED || *ret_next != guesses[held])
            break;
    }
    llama_batch_free(batch);
    llama_memory_seq_rm(llama_get_memory(r->ctx), 0, pos + 1 + held, -1);
    return held;
}

/* A draft model beside its target, both on the device. */
void case_draft(struct run *r)
{
    llama_token guesses[DRAFTED], token = stream_token(PROMPT);
    llama_pos pos = PROMPT;

    run_open(r);
    struct llama_model *model = run_model(r->extra_file, &r->setup);
    struct llama_context *drafter = run_context(model, &r->setup);
    feed(r->ctx, &r->record, "prompt", 0, 0, 0, PROMPT);
    feed(drafter, &r->record, "draft prompt", 0, 0, 0, PROMPT);
    while (pos < PROMPT + WANTED) {
        llama_token next;
        draft(drafter, token, pos, guesses);
        const int held = verify(r, token, pos, guesses, &next);
        record_choice(&r->record, "guesses", guesses, DRAFTED);
        record_choice(&r->record, "next", &next, 1);
        /* The draft model sees what held; its own cache ends before it. */
        for (int i = 0; i < held; i++) {
            struct llama_batch batch = batch_make(1, 1);
            batch_add(&batch, guesses[i], pos + 1 + i, 0, true);
            decode_record(drafter, &r->record, "draft", batch);
            llama_batch_free(batch);
        }
        pos += 1 + held;
        token = next;
    }
    llama_free(drafter);
    llama_model_free(model);
}
