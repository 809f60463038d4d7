/* SPDX-License-Identifier: Apache-2.0 */
/* Several contexts and several models that take turns in one thread. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

/* Contexts of one model with other sizes and another attention kernel. */
int case_two_contexts(struct run *r)
{
    struct setup s, other;
    struct pair p;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    setup_case(&other, r);
    other.context.n_ctx = 256;
    other.context.n_ubatch = 33;
    other.context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *second = run_context(p.model, &other);
    int err = second ? 0 : -1;
    for (int round = 0; !err && round < 6; round++) {
        const llama_pos at = 30 * round;
        err = feed(p.ctx, &r->record, "first", 0, (uint32_t)at, at, 29);
        if (!err)
            err = feed(second, &r->record, "second", 0, (uint32_t)at + 7000, at, 30);
        if (!err)
            err = feed(p.ctx, &r->record, "first, single", 0, (uint32_t)at + 29, at + 29, 1);
    }
    /* The second goes, the first stays and another one comes. */
    if (second)
        llama_free(second);
    second = err ? NULL : run_context(p.model, &other);
    if (second) {
        err = feed(second, &r->record, "third", 0, 8000, 0, 60);
        if (!err)
            err = feed_singly(p.ctx, &r->record, "first goes on", 0, 180, 180, 5);
        llama_free(second);
    }
    pair_fini(&p);
    return err;
}

enum { DRAFTED = 4, PROMPT = 40, WANTED = 60 };

/* The draft's guesses from a token on, most likely ones; none of it is kept in its cache. */
static int draft(struct llama_context *ctx, llama_token token, llama_pos pos,
                 llama_token guesses[DRAFTED])
{
    struct llama_batch batch = batch_make(1, 1);
    int err = 0;

    for (int i = 0; !err && i < DRAFTED; i++) {
        batch.n_tokens = 0;
        batch_add(&batch, i == 0 ? token : guesses[i - 1], pos + i, 0, true);
        if (llama_decode(ctx, batch) != 0)
            err = run_fail("the draft model failed");
        else
            guesses[i] = most_likely(llama_get_logits_ith(ctx, 0), context_vocab(ctx));
    }
    llama_batch_free(batch);
    llama_memory_seq_rm(llama_get_memory(ctx), 0, pos + 1, -1);
    return err;
}

/* Decodes the token and the guesses in one batch. Returns how many guesses held, or -1. */
static int verify(struct run *r, struct llama_context *ctx, llama_token token, llama_pos pos,
                  const llama_token guesses[DRAFTED], llama_token *ret_next)
{
    struct llama_batch batch = batch_make(1 + DRAFTED, 1);
    int held = 0;

    batch_add(&batch, token, pos, 0, true);
    for (int i = 0; i < DRAFTED; i++)
        batch_add(&batch, guesses[i], pos + 1 + i, 0, true);
    int err = decode_record(ctx, &r->record, "verify", batch);
    while (!err) {
        *ret_next = most_likely(llama_get_logits_ith(ctx, held), context_vocab(ctx));
        if (held == DRAFTED || *ret_next != guesses[held])
            break;
        held++;
    }
    llama_batch_free(batch);
    llama_memory_seq_rm(llama_get_memory(ctx), 0, pos + 1 + held, -1);
    return err ? -1 : held;
}

static int speculate(struct run *r, struct llama_context *target, struct llama_context *drafter)
{
    llama_token guesses[DRAFTED], token = stream_token(PROMPT);
    llama_pos pos = PROMPT;
    int err = feed(target, &r->record, "prompt", 0, 0, 0, PROMPT);

    if (!err)
        err = feed(drafter, &r->record, "draft prompt", 0, 0, 0, PROMPT);
    while (!err && pos < PROMPT + WANTED) {
        llama_token next = 0;
        err = draft(drafter, token, pos, guesses);
        if (err)
            break;
        const int held = verify(r, target, token, pos, guesses, &next);
        if (held < 0)
            return -1;
        record_choice(&r->record, "guesses", guesses, DRAFTED);
        record_choice(&r->record, "next", &next, 1);
        /* The draft model sees what held; its own cache ends before it. */
        for (int i = 0; !err && i < held; i++) {
            struct llama_batch batch = batch_make(1, 1);
            batch_add(&batch, guesses[i], pos + 1 + i, 0, true);
            err = decode_record(drafter, &r->record, "draft", batch);
            llama_batch_free(batch);
        }
        pos += 1 + held;
        token = next;
    }
    return err;
}

/* A draft model beside its target, both on the device. */
int case_draft(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = -1;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    struct llama_model *model = run_model(r, r->extra, &s);
    struct llama_context *drafter = model ? run_context(model, &s) : NULL;
    if (drafter)
        err = speculate(r, p.ctx, drafter);
    if (drafter)
        llama_free(drafter);
    if (model)
        llama_model_free(model);
    pair_fini(&p);
    return err;
}
