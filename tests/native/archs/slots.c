/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots: what servers ask of a model, through libllama on one device, with every result kept.
 *
 *   slots --model FILE [--device NAME] [--step STEP] --out FILE  runs all of it, or one step
 *   slots --steps                                                names those for every model
 *
 * One step at a time is for models that end some of them by an assertion, natively too.
 *
 * Tokens come from a fixed sequence and not from what the model says, so that a difference in one
 * result does not spread over the later ones. One thread and no repacked weights: on the CPU both
 * runs then add in one order. What llama.cpp would choose by itself (attention's kernel) it chooses
 * on both sides. tests/native/options/compare.c compares two runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/options/run.h"

enum {
    SLOTS = 8,        /* sequences at a time, as of llama-server -np 8 */
    SLOT_TOKENS = 10, /* what a request generates */
    STEPS = 26,       /* each slot serves two requests, or more */
    CONTEXT = 64,     /* tokens of a sequence; the smallest models know 128 positions */
    PROMPT = 48,      /* more than one batch on the device */
    UBATCH = 32,
    BATCH_MAX = SLOTS * CONTEXT,
    EMBEDDED = 4, /* sequences of one batch with embeddings */
};

struct slots {
    struct run run;
    struct llama_batch batch;
    uint32_t n_vocab;
    uint32_t drawn; /* tokens taken from the fixed sequence so far */
    int splits;     /* the most parts that a graph was cut into */
    ggml_log_callback log;
    void *log_data;
};

/* llama.cpp says how many parts it cut a graph into; what it says goes on as before. */
static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    struct slots *slots = data;
    const char *said = strstr(line, "splits = ");
    int splits;
    if (said && sscanf(said, "splits = %d", &splits) == 1 && splits > slots->splits)
        slots->splits = splits;
    slots->log(level, line, slots->log_data);
}

static void keep(struct slots *slots, const char *section, const float *x, size_t n)
{
    record_masked(&slots->run.record, section, x, n);
}

/* Both runs must fail alike. */
static void keep_code(struct slots *slots, const char *section, int code)
{
    record_int(&slots->run.record, section, code);
}

static llama_token draw(struct slots *slots)
{
    return (llama_token)(stream_number(slots->drawn++) % slots->n_vocab);
}

static struct llama_context_params context_params(const struct slots *slots, uint32_t n_seq)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = n_seq * CONTEXT;
    p.n_batch = n_seq * CONTEXT;
    /* What has no cache takes a batch at once. */
    p.n_ubatch = llama_model_is_diffusion(slots->run.model) ? p.n_batch : UBATCH;
    p.n_seq_max = n_seq;
    p.n_threads = p.n_threads_batch = 1;
    p.no_perf = true;
    return p;
}

/* Some contexts cannot be made for some models; then not remoted either. */
static bool open_context(struct slots *slots, const char *section, struct llama_context_params p)
{
    slots->run.ctx = llama_init_from_model(slots->run.model, p);
    keep_code(slots, section, slots->run.ctx ? 0 : 1);
    return slots->run.ctx;
}

static void close_context(struct slots *slots)
{
    llama_free(slots->run.ctx);
    slots->run.ctx = NULL;
}

static void add(struct slots *slots, llama_token token, llama_pos pos, llama_seq_id seq)
{
    batch_add(&slots->batch, token, pos, seq, true);
}

/* Computes the batch, keeps the logits of all its tokens, and empties it. */
static bool decode(struct slots *slots, const char *section)
{
    const int rc = llama_decode(slots->run.ctx, slots->batch);
    const int32_t n = slots->batch.n_tokens;
    slots->batch.n_tokens = 0;
    if (rc)
        keep_code(slots, section, rc);
    for (int32_t i = 0; !rc && i < n; i++) {
        const float *x = llama_get_logits_ith(slots->run.ctx, i);
        if (x)
            keep(slots, section, x, slots->n_vocab);
        else
            keep_code(slots, section, -1000);
    }
    return rc == 0;
}

/* One prompt of several batches of the device, some tokens, and a short one in its place. */
static void run_prompt(struct slots *slots)
{
    if (!open_context(slots, "prompt context", context_params(slots, 1)))
        return;
    llama_pos pos = 0;
    bool ok = true;
    while (pos < PROMPT)
        add(slots, draw(slots), pos++, 0);
    ok = decode(slots, "prompt");
    for (int i = 0; ok && i < 6; i++) {
        add(slots, draw(slots), pos++, 0);
        ok = decode(slots, "generation");
    }
    if (ok && llama_get_memory(slots->run.ctx)) {
        llama_memory_clear(llama_get_memory(slots->run.ctx), true);
        for (pos = 0; pos < 7; pos++)
            add(slots, draw(slots), pos, 0);
        decode(slots, "second prompt");
    }
    close_context(slots);
}

/*
 * Eight slots, which start one after the other: in each step a slot adds its prompt, of a length
 * of its own, or its next token to the common batch. A request that is done leaves the memory.
 */
static void run_slots(struct slots *slots, bool unified)
{
    const char *name = unified ? "slots, one cache" : "slots";
    struct llama_context_params p = context_params(slots, SLOTS);
    llama_pos pos[SLOTS] = {0}, end[SLOTS] = {0};
    bool ok = true;

    p.kv_unified = unified;
    if (!open_context(slots, name, p))
        return;
    llama_memory_t memory = llama_get_memory(slots->run.ctx);
    for (int step = 0; ok && memory && step < STEPS; step++) {
        for (int s = 0; s < SLOTS && s <= step; s++) {
            if (pos[s] > 0 && pos[s] == end[s]) {
                llama_memory_seq_rm(memory, s, -1, -1);
                pos[s] = 0;
            }
            const llama_pos prompt = 2 + (s * 5 + step) % 13;
            const llama_pos until = pos[s] == 0 ? prompt : pos[s] + 1;
            if (pos[s] == 0)
                end[s] = prompt + SLOT_TOKENS;
            while (pos[s] < until)
                add(slots, draw(slots), pos[s]++, s);
        }
        ok = decode(slots, name);
    }
    close_context(slots);
}

/* A state whose cells stay on the device: a way back for one of two sequences. */
static void run_go_back(struct slots *slots)
{
    const llama_state_seq_flags flags = LLAMA_STATE_SEQ_FLAGS_ON_DEVICE;
    struct llama_context_params p = context_params(slots, 2);
    p.kv_unified = true;
    if (!open_context(slots, "state on the device", p))
        return;
    struct llama_context *ctx = slots->run.ctx;
    for (llama_pos pos = 0; pos < 20; pos++) {
        add(slots, draw(slots), pos, 0);
        add(slots, draw(slots), pos, 1);
    }
    decode(slots, "before it is kept");
    const size_t size = llama_state_seq_get_size_ext(ctx, 0, flags);
    uint8_t *state = calloc(1, size + 1);
    if (!state)
        abort();
    keep_code(slots, "kept", (int)llama_state_seq_get_data_ext(ctx, state, size, 0, flags));
    for (llama_pos pos = 20; pos < 40; pos++)
        add(slots, draw(slots), pos, 0);
    decode(slots, "astray");
    llama_memory_seq_rm(llama_get_memory(ctx), 0, -1, -1);
    keep_code(slots, "set", (int)llama_state_seq_set_data_ext(ctx, state, size, 0, flags));
    for (llama_pos pos = 20; pos < 30; pos++) {
        add(slots, draw(slots), pos, 0);
        add(slots, draw(slots), pos, 1);
    }
    decode(slots, "from there on");
    free(state);
    close_context(slots);
}

static void run_encoder(struct slots *slots)
{
    struct llama_context_params p = context_params(slots, 1);
    p.n_ubatch = CONTEXT; /* an encoder takes a prompt at once */
    const bool encodes = llama_model_has_encoder(slots->run.model);
    keep_code(slots, "has an encoder", encodes);
    if (!encodes || !open_context(slots, "encoder context", p))
        return;
    for (llama_pos i = 0; i < 20; i++)
        add(slots, draw(slots), i, 0);
    const int rc = llama_encode(slots->run.ctx, slots->batch);
    slots->batch.n_tokens = 0;
    keep_code(slots, "encoder", rc);
    const float *x = llama_get_embeddings(slots->run.ctx);
    if (!rc && x)
        keep(slots, "encoder", x, (size_t)llama_model_n_embd(slots->run.model) * 20);
    bool ok = rc == 0 && llama_model_has_decoder(slots->run.model);
    for (llama_pos i = 0; ok && i < 6; i++) {
        add(slots, draw(slots), i, 0);
        ok = decode(slots, "decoder");
    }
    close_context(slots);
}

static void keep_embeddings(struct slots *slots, enum llama_pooling_type pooling, int32_t n_tokens)
{
    const bool ranks = pooling == LLAMA_POOLING_TYPE_RANK;
    const size_t size = ranks ? llama_model_n_cls_out(slots->run.model)
                              : (size_t)llama_model_n_embd_out(slots->run.model);
    const bool tokens = pooling == LLAMA_POOLING_TYPE_NONE;
    for (int32_t i = 0; i < (tokens ? n_tokens : EMBEDDED); i++) {
        const float *x = tokens ? llama_get_embeddings_ith(slots->run.ctx, i)
                                : llama_get_embeddings_seq(slots->run.ctx, i);
        if (x)
            keep(slots, "embeddings", x, size);
        else
            keep_code(slots, "embeddings", -1000);
    }
}

static void run_embeddings(struct slots *slots, enum llama_pooling_type pooling)
{
    struct llama_context_params p = context_params(slots, EMBEDDED);
    p.embeddings = true;
    p.pooling_type = pooling;
    p.n_ubatch = p.n_batch; /* pooling wants a sequence in one batch */
    p.kv_unified = true;
    if (!open_context(slots, "embeddings", p))
        return;
    for (llama_seq_id s = 0; s < EMBEDDED; s++) {
        for (llama_pos i = 0; i < 5 + 3 * s; i++)
            add(slots, draw(slots), i, s);
    }
    const int32_t n = slots->batch.n_tokens;
    /* As llama-server: what has a decoder decodes. */
    const int rc =
        llama_model_has_decoder(slots->run.model) && !llama_model_has_encoder(slots->run.model)
            ? llama_decode(slots->run.ctx, slots->batch)
            : llama_encode(slots->run.ctx, slots->batch);
    slots->batch.n_tokens = 0;
    keep_code(slots, "embeddings", rc);
    if (rc == 0)
        keep_embeddings(slots, pooling, n);
    close_context(slots);
}

static void step_slots(struct slots *slots)
{
    run_slots(slots, false);
}

static void step_unified(struct slots *slots)
{
    run_slots(slots, true);
}

static const struct step {
    const char *name;
    void (*run)(struct slots *slots);
    enum llama_pooling_type pooling;
    bool alone; /* not for every model: `ranks` wants a head for them, or libllama asserts */
} steps[] = {
    {"prompt", .run = run_prompt},
    {"slots", .run = step_slots},
    {"one-cache", .run = step_unified},
    {"encoder", .run = run_encoder},
    {"tokens", .pooling = LLAMA_POOLING_TYPE_NONE},
    {"mean", .pooling = LLAMA_POOLING_TYPE_MEAN},
    {"first", .pooling = LLAMA_POOLING_TYPE_CLS},
    {"last", .pooling = LLAMA_POOLING_TYPE_LAST},
    {"ranks", .pooling = LLAMA_POOLING_TYPE_RANK, .alone = true},
    {"go-back", .run = run_go_back, .alone = true},
};
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

/* The one of this name; NULL: all that are for every model. */
static void run_steps(struct slots *slots, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < N_STEPS; i++) {
        if (name ? strcmp(steps[i].name, name) != 0 : steps[i].alone)
            continue;
        found = true;
        if (steps[i].run)
            steps[i].run(slots);
        else
            run_embeddings(slots, steps[i].pooling);
    }
    if (!found)
        run_fail("no step is called %s", name);
}

/*
 * A model whose every result is 0 would compare well with anything that computes nothing. (A few
 * return codes say nothing of that.)
 */
static void check_numbers(const struct slots *slots)
{
    const struct record *r = &slots->run.record;
    size_t n = 0, numbers = 0;
    for (size_t i = 0; i < r->n; i++) {
        const float *x = (const float *)(const void *)r->items[i].values;
        for (uint32_t k = 0; r->items[i].kind == RECORD_MASKED && k < r->items[i].n; k++, n++)
            numbers += isfinite(x[k]) && fpclassify(x[k]) != FP_ZERO;
    }
    if (n > slots->n_vocab && numbers * 2 < n)
        run_fail("%zu of %zu values are numbers other than 0", numbers, n);
}

int main(int argc, char **argv)
{
    struct slots slots = {0};
    struct run *run = &slots.run;
    const char *device = "CPU", *out = NULL, *step = NULL;
    bool list = false;
    const struct run_option options[] = {
        {"model", .text = &run->model_file},
        {"device", .text = &device},
        {"step", .text = &step},
        {"out", .text = &out},
        {"steps", .flag = &list},
        {.name = NULL},
    };
    if (!run_options(options, argc, argv) || (!list && (!run->model_file || !out))) {
        fputs("usage: slots --model FILE [--device NAME] [--step STEP] --out FILE\n"
              "       slots --steps\n",
              stderr);
        return 2;
    }
    for (size_t i = 0; list && i < N_STEPS; i++) {
        if (!steps[i].alone)
            puts(steps[i].name);
    }
    if (list)
        return 0;
    run_init(run, device);
    llama_log_get(&slots.log, &slots.log_data);
    llama_log_set(on_log, &slots);
    setup_init(&run->setup, run);
    run->model = run_model(run->model_file, &run->setup);
    slots.n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(run->model));
    slots.batch = llama_batch_init(BATCH_MAX, 0, 1);
    run_steps(&slots, step);
    llama_batch_free(slots.batch);
    /* Devices cut graphs as they like, so this is no result; the caller judges it. */
    printf("splits %d\n", slots.splits);
    check_numbers(&slots);
    run_end(run, out);
    return 0;
}
