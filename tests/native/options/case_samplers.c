/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens chosen: by samplers that are part of the device's graph, and by those of the program. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

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

/* Those that are out are -inf, or their probability is 0: which they are is a choice. */
static void record_values(struct record *record, const char *name, const char *what, const void *x,
                          uint32_t n)
{
    char item[48];
    snprintf(item, sizeof(item), "%s %s", name, what);
    if (x && n)
        record_choice(record, item, x, n);
}

/* What the device left of the vocabulary, and what it chose. */
static void record_sampled(struct record *record, struct llama_context *ctx, const char *name)
{
    const llama_token token = llama_get_sampled_token_ith(ctx, -1);

    record_values(record, name, "token", &token, 1);
    record_values(record, name, "candidates", llama_get_sampled_candidates_ith(ctx, -1),
                  llama_get_sampled_candidates_count_ith(ctx, -1));
    record_values(record, name, "logits", llama_get_sampled_logits_ith(ctx, -1),
                  llama_get_sampled_logits_count_ith(ctx, -1));
    record_values(record, name, "probs", llama_get_sampled_probs_ith(ctx, -1),
                  llama_get_sampled_probs_count_ith(ctx, -1));
}

enum { PROMPT = 40, SAMPLED = 12 };

/* As a program does that samples: only the last token has logits. */
static void decode(struct llama_context *ctx, const llama_token *tokens, llama_pos pos, int n)
{
    const int32_t code = decode_last(ctx, tokens, pos, n);
    if (code)
        run_fail("llama_decode returned %d", code);
}

static void decode_prompt(struct llama_context *ctx)
{
    llama_token tokens[PROMPT];
    stream_tokens(tokens, 0, PROMPT);
    decode(ctx, tokens, 0, PROMPT);
}

/* A prompt and some tokens, each given to the next graph. */
static void sample_some(struct run *r, struct llama_context *ctx, struct llama_sampler *sampler,
                        const char *name, bool on_device)
{
    llama_memory_clear(llama_get_memory(ctx), true);
    decode_prompt(ctx);
    for (int i = 0; i < SAMPLED; i++) {
        if (on_device)
            record_sampled(&r->record, ctx, name);
        const llama_token token = llama_sampler_sample(sampler, ctx, -1);
        record_choice(&r->record, name, &token, 1);
        if (i + 1 < SAMPLED)
            decode(ctx, &token, PROMPT + i, 1);
    }
}

static int32_t vocab_size(const struct run *r)
{
    return llama_vocab_n_tokens(llama_model_get_vocab(r->model));
}

/* A context for each chain, which is made with it. */
void case_sampler_device(struct run *r)
{
    run_open(r);
    for (int kind = 0; kind < CHAINS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab_size(r));
        struct llama_sampler_seq_config config = {.seq_id = 0, .sampler = chain};
        r->setup.context.samplers = &config;
        r->setup.context.n_samplers = 1;
        struct llama_context *ctx = run_context(r->model, &r->setup);
        if (kind == CHAIN_LOGITS) {
            decode_prompt(ctx);
            record_sampled(&r->record, ctx, chain_names[kind]);
        } else {
            sample_some(r, ctx, chain, chain_names[kind], true);
        }
        llama_free(ctx);
        llama_sampler_free(chain);
    }
}

/* The sampler of a context is exchanged while it is used, and taken away. */
void case_sampler_swap(struct run *r)
{
    run_open(r);
    for (int kind = 0; kind <= CHAIN_BIAS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab_size(r));
        record_int(&r->record, "set", llama_set_sampler(r->ctx, 0, chain));
        sample_some(r, r->ctx, chain, chain_names[kind], true);
        llama_set_sampler(r->ctx, 0, NULL);
        llama_sampler_free(chain);
        llama_memory_clear(llama_get_memory(r->ctx), true);
        feed(r->ctx, &r->record, "without", 0, 100, 0, 20);
    }
}

void case_sampler_host(struct run *r)
{
    run_open(r);
    for (int kind = 0; kind <= CHAIN_BIAS; kind++) {
        struct llama_sampler *chain = make_chain((enum chain)kind, vocab_size(r));
        sample_some(r, r->ctx, chain, chain_names[kind], false);
        llama_sampler_free(chain);
    }
}

void case_grammar(struct run *r)
{
    static const char grammar[] = "root ::= (\"the \" | \"a \") word (\" \" word)* \".\"\n"
                                  "word ::= [a-z] [a-z] [a-z]? [a-z]?\n";

    run_open(r);
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    struct llama_sampler *rules =
        llama_sampler_init_grammar(llama_model_get_vocab(r->model), grammar, "root");
    if (!rules)
        run_fail("the grammar was not understood");
    llama_sampler_chain_add(chain, rules);
    llama_sampler_chain_add(chain, llama_sampler_init_dist(99));
    sample_some(r, r->ctx, chain, "grammar", false);
    llama_sampler_free(chain);
}
