/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens chosen: by samplers that are part of the device's graph, and by those of the program. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

#include <stdio.h>

enum chain {
    CHAIN_GREEDY,
    CHAIN_DIST,
    CHAIN_TOP_K,
    CHAIN_TOP_P,
    CHAIN_MIN_P,
    CHAIN_BIAS,
    CHAIN_LOGITS, /* no last choice: what is left is given to the program */
    CHAINS
};

static const char *const chain_names[CHAINS] = {"greedy", "dist", "top-k", "top-p",
                                                "min-p",  "bias", "logits"};

static struct llama_sampler *make_chain(enum chain kind, int32_t vocab)
{
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    const llama_logit_bias bias[2] = {{.token = 70, .bias = 9.0f}, {.token = 71, .bias = -9.0f}};

    if (kind == CHAIN_TOP_K || kind == CHAIN_LOGITS)
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(30));
    if (kind == CHAIN_TOP_P)
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.9f, 1));
    if (kind == CHAIN_MIN_P)
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.02f, 1));
    if (kind == CHAIN_BIAS)
        llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(vocab, 2, bias));
    if (kind == CHAIN_TOP_K || kind == CHAIN_LOGITS)
        llama_sampler_chain_add(chain, llama_sampler_init_temp(0.7f));
    if (kind == CHAIN_TOP_P)
        llama_sampler_chain_add(chain, llama_sampler_init_temp_ext(0.8f, 0.3f, 1.0f));
    if (kind == CHAIN_GREEDY || kind == CHAIN_BIAS)
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    else if (kind != CHAIN_LOGITS)
        llama_sampler_chain_add(chain, llama_sampler_init_dist(1234));
    return chain;
}

/* What the device left of the vocabulary, and what it chose. */
static void record_sampled(struct record *record, struct llama_context *ctx, const char *name)
{
    char item[48];
    const llama_token token = llama_get_sampled_token_ith(ctx, -1);
    const float *logits = llama_get_sampled_logits_ith(ctx, -1);
    const float *probs = llama_get_sampled_probs_ith(ctx, -1);
    const llama_token *candidates = llama_get_sampled_candidates_ith(ctx, -1);
    const uint32_t n_logits = llama_get_sampled_logits_count_ith(ctx, -1);
    const uint32_t n_probs = llama_get_sampled_probs_count_ith(ctx, -1);
    const uint32_t n_candidates = llama_get_sampled_candidates_count_ith(ctx, -1);

    snprintf(item, sizeof(item), "%s token", name);
    record_choice(record, item, &token, 1);
    if (candidates && n_candidates) {
        snprintf(item, sizeof(item), "%s candidates", name);
        record_choice(record, item, candidates, n_candidates);
    }
    /* Those that are out are -inf, or their probability is 0: which they are is a choice. */
    if (logits && n_logits) {
        snprintf(item, sizeof(item), "%s logits", name);
        record_choice(record, item, (const int32_t *)(const void *)logits, n_logits);
    }
    if (probs && n_probs) {
        snprintf(item, sizeof(item), "%s probs", name);
        record_choice(record, item, (const int32_t *)(const void *)probs, n_probs);
    }
}

/* Decodes n tokens with logits for the last alone, as a program does that samples. */
static int decode_last(struct llama_context *ctx, uint32_t from, llama_token token, llama_pos pos,
                       int n)
{
    struct llama_batch batch = batch_make(n, 1);
    for (int i = 0; i < n; i++)
        batch_add(&batch, n == 1 ? token : stream_token(from + (uint32_t)i), pos + i, 0,
                  i == n - 1);
    const int32_t code = llama_decode(ctx, batch);
    llama_batch_free(batch);
    return code ? run_fail("llama_decode returned %d", code) : 0;
}

/* A prompt and some tokens, each given to the next graph. */
static int sample_some(struct run *r, struct llama_context *ctx, struct llama_sampler *sampler,
                       const char *name, bool on_device)
{
    llama_token token = 0;
    llama_pos pos = 0;
    int err = 0;

    llama_memory_clear(llama_get_memory(ctx), true);
    for (int i = 0; !err && i < 12; i++) {
        const int n = i == 0 ? 40 : 1;
        err = decode_last(ctx, 0, token, pos, n);
        pos += n;
        if (err)
            break;
        if (on_device)
            record_sampled(&r->record, ctx, name);
        token = llama_sampler_sample(sampler, ctx, -1);
        record_choice(&r->record, name, &token, 1);
    }
    return err;
}

int case_sampler_device(struct run *r)
{
    struct setup s;
    int err = 0;

    setup_case(&s, r);
    struct llama_model *model = run_model(r, r->model, &s);
    if (!model)
        return -1;
    const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int kind = 0; !err && kind < CHAINS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab);
        struct llama_sampler_seq_config config = {.seq_id = 0, .sampler = chain};
        s.context.samplers = &config;
        s.context.n_samplers = 1;
        struct llama_context *ctx = run_context(model, &s);
        if (!ctx)
            err = -1;
        else if (kind != CHAIN_LOGITS)
            err = sample_some(r, ctx, chain, chain_names[kind], true);
        else {
            err = decode_last(ctx, 0, 0, 0, 40);
            if (!err)
                record_sampled(&r->record, ctx, chain_names[kind]);
        }
        if (ctx)
            llama_free(ctx);
        llama_sampler_free(chain);
    }
    llama_model_free(model);
    return err;
}

/* The sampler of a context is exchanged while it is used, and taken away. */
int case_sampler_swap(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = 0;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(p.model));
    for (int kind = 0; !err && kind <= CHAIN_BIAS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab);
        record_int(&r->record, "set", llama_set_sampler(p.ctx, 0, chain));
        err = sample_some(r, p.ctx, chain, chain_names[kind], true);
        llama_set_sampler(p.ctx, 0, NULL);
        llama_sampler_free(chain);
        llama_memory_clear(llama_get_memory(p.ctx), true);
        if (!err)
            err = feed(p.ctx, &r->record, "without", 0, 100, 0, 20);
    }
    pair_fini(&p);
    return err;
}

int case_sampler_host(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = 0;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(p.model));
    for (int kind = 0; !err && kind <= CHAIN_BIAS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab);
        err = sample_some(r, p.ctx, chain, chain_names[kind], false);
        llama_sampler_free(chain);
    }
    pair_fini(&p);
    return err;
}

int case_grammar(struct run *r)
{
    static const char grammar[] = "root ::= (\"the \" | \"a \") word (\" \" word)* \".\"\n"
                                  "word ::= [a-z] [a-z] [a-z]? [a-z]?\n";
    struct setup s;
    struct pair p;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    struct llama_sampler *rules =
        llama_sampler_init_grammar(llama_model_get_vocab(p.model), grammar, "root");
    int err = rules ? 0 : run_fail("the grammar was not understood");
    if (rules) {
        llama_sampler_chain_add(chain, rules);
        llama_sampler_chain_add(chain, llama_sampler_init_dist(99));
        err = sample_some(r, p.ctx, chain, "grammar", false);
    }
    llama_sampler_free(chain);
    pair_fini(&p);
    return err;
}
