/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots: what servers ask of a model, through libllama on one device, with every result kept.
 *
 *   slots --model FILE --device NAME [--step STEP] --out FILE  runs all of it, or one step
 *   slots --steps                                              names the steps
 *   slots --compare NATIVE REMOTED [TOLERANCE]                 compares two runs
 *
 * One step at a time is for models that end some of them by an assertion, natively too.
 *
 * Tokens come from a fixed sequence and not from what the model says, so that a difference in one
 * result does not spread over the later ones. One thread and no repacked weights: on the CPU both
 * runs then add in one order. What llama.cpp would choose by itself (attention's kernel) it chooses
 * on both sides.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

#include "tests/archs/rows.h"

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

struct run {
    struct llama_model *model;
    struct llama_context *ctx;
    struct llama_batch batch;
    struct rows rows;
    uint32_t n_vocab;
    uint32_t drawn;        /* tokens taken from the fixed sequence so far */
    int offloaded, layers; /* what llama.cpp says of the device */
    int splits;            /* the most parts that a graph was cut into */
};

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    struct run *run = data;
    const char *said = strstr(line, "offloaded ");
    if (said)
        sscanf(said, "offloaded %d/%d", &run->offloaded, &run->layers);
    int splits = 0;
    said = strstr(line, "splits = ");
    if (said && sscanf(said, "splits = %d", &splits) == 1 && splits > run->splits)
        run->splits = splits;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(line, stderr);
}

static llama_token draw(struct run *run)
{
    uint32_t x = ++run->drawn * UINT32_C(2654435761);
    x ^= x >> 15;
    x *= UINT32_C(0x2c1b3c6d);
    x ^= x >> 12;
    return (llama_token)(x % run->n_vocab);
}

static struct llama_context_params context_params(const struct run *run, uint32_t n_seq)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = n_seq * CONTEXT;
    p.n_batch = n_seq * CONTEXT;
    /* What has no cache takes a batch at once. */
    p.n_ubatch = llama_model_is_diffusion(run->model) ? p.n_batch : UBATCH;
    p.n_seq_max = n_seq;
    p.n_threads = p.n_threads_batch = 1;
    p.no_perf = true;
    return p;
}

/* Some contexts cannot be made for some models; then not remoted either. */
static bool open_context(struct run *run, const char *section, struct llama_context_params p)
{
    run->ctx = llama_init_from_model(run->model, p);
    rows_put_code(&run->rows, section, run->ctx ? 0 : 1);
    return run->ctx;
}

static void close_context(struct run *run)
{
    llama_free(run->ctx);
    run->ctx = NULL;
}

static void add(struct run *run, llama_token token, llama_pos pos, llama_seq_id seq)
{
    struct llama_batch *b = &run->batch;
    const int32_t i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = pos;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = seq;
    b->logits[i] = 1;
}

/* Computes the batch, keeps the logits of all its tokens, and empties it. */
static bool decode(struct run *run, const char *section)
{
    const int rc = llama_decode(run->ctx, run->batch);
    const int32_t n = run->batch.n_tokens;
    run->batch.n_tokens = 0;
    if (rc)
        rows_put_code(&run->rows, section, rc);
    for (int32_t i = 0; !rc && i < n; i++) {
        const float *x = llama_get_logits_ith(run->ctx, i);
        if (x)
            rows_put(&run->rows, section, x, run->n_vocab);
        else
            rows_put_code(&run->rows, section, -1000);
    }
    return rc == 0;
}

/* One prompt of several batches of the device, some tokens, and a short one in its place. */
static void run_prompt(struct run *run)
{
    if (!open_context(run, "prompt context", context_params(run, 1)))
        return;
    llama_pos pos = 0;
    bool ok = true;
    while (pos < PROMPT)
        add(run, draw(run), pos++, 0);
    ok = decode(run, "prompt");
    for (int i = 0; ok && i < 6; i++) {
        add(run, draw(run), pos++, 0);
        ok = decode(run, "generation");
    }
    if (ok && llama_get_memory(run->ctx)) {
        llama_memory_clear(llama_get_memory(run->ctx), true);
        for (pos = 0; pos < 7; pos++)
            add(run, draw(run), pos, 0);
        decode(run, "second prompt");
    }
    close_context(run);
}

/*
 * Eight slots, which start one after the other: in each step a slot adds its prompt, of a length
 * of its own, or its next token to the common batch. A request that is done leaves the memory.
 */
static void run_slots(struct run *run, bool unified)
{
    const char *name = unified ? "slots, one cache" : "slots";
    struct llama_context_params p = context_params(run, SLOTS);
    llama_pos pos[SLOTS] = {0}, end[SLOTS] = {0};
    bool ok = true;

    p.kv_unified = unified;
    if (!open_context(run, name, p))
        return;
    llama_memory_t memory = llama_get_memory(run->ctx);
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
                add(run, draw(run), pos[s]++, s);
        }
        ok = decode(run, name);
    }
    close_context(run);
}

static void run_encoder(struct run *run)
{
    struct llama_context_params p = context_params(run, 1);
    p.n_ubatch = CONTEXT; /* an encoder takes a prompt at once */
    if (!llama_model_has_encoder(run->model) || !open_context(run, "encoder context", p))
        return;
    for (llama_pos i = 0; i < 20; i++)
        add(run, draw(run), i, 0);
    const int rc = llama_encode(run->ctx, run->batch);
    run->batch.n_tokens = 0;
    rows_put_code(&run->rows, "encoder", rc);
    const float *x = llama_get_embeddings(run->ctx);
    if (!rc && x)
        rows_put(&run->rows, "encoder", x, (size_t)llama_model_n_embd(run->model) * 20);
    bool ok = rc == 0 && llama_model_has_decoder(run->model);
    for (llama_pos i = 0; ok && i < 6; i++) {
        add(run, draw(run), i, 0);
        ok = decode(run, "decoder");
    }
    close_context(run);
}

static void keep_embeddings(struct run *run, enum llama_pooling_type pooling, int32_t n_tokens)
{
    const bool ranks = pooling == LLAMA_POOLING_TYPE_RANK;
    const size_t size =
        ranks ? llama_model_n_cls_out(run->model) : (size_t)llama_model_n_embd_out(run->model);
    const bool tokens = pooling == LLAMA_POOLING_TYPE_NONE;
    for (int32_t i = 0; i < (tokens ? n_tokens : EMBEDDED); i++) {
        const float *x =
            tokens ? llama_get_embeddings_ith(run->ctx, i) : llama_get_embeddings_seq(run->ctx, i);
        if (x)
            rows_put(&run->rows, "embeddings", x, size);
        else
            rows_put_code(&run->rows, "embeddings", -1000);
    }
}

static void run_embeddings(struct run *run, enum llama_pooling_type pooling)
{
    struct llama_context_params p = context_params(run, EMBEDDED);
    p.embeddings = true;
    p.pooling_type = pooling;
    p.n_ubatch = p.n_batch; /* pooling wants a sequence in one batch */
    p.kv_unified = true;
    if (!open_context(run, "embeddings", p))
        return;
    for (llama_seq_id s = 0; s < EMBEDDED; s++) {
        for (llama_pos i = 0; i < 5 + 3 * s; i++)
            add(run, draw(run), i, s);
    }
    const int32_t n = run->batch.n_tokens;
    /* As llama-server: what has a decoder decodes. */
    const int rc = llama_model_has_decoder(run->model) && !llama_model_has_encoder(run->model)
                       ? llama_decode(run->ctx, run->batch)
                       : llama_encode(run->ctx, run->batch);
    run->batch.n_tokens = 0;
    rows_put_code(&run->rows, "embeddings", rc);
    if (rc == 0)
        keep_embeddings(run, pooling, n);
    close_context(run);
}

static struct llama_model *load(const char *file, ggml_backend_dev_t device)
{
    ggml_backend_dev_t devices[2] = {device, NULL};
    struct llama_model_params p = llama_model_default_params();
    p.devices = devices;
    p.n_gpu_layers = device ? 999 : 0;
    p.use_extra_bufts = false;
    return llama_model_load_from_file(file, p);
}

static void step_slots(struct run *run)
{
    run_slots(run, false);
}

static void step_unified(struct run *run)
{
    run_slots(run, true);
}

/* `ranks` is only for models with a head for them; libllama asserts so. */
static const struct step {
    const char *name;
    void (*run)(struct run *run);
    enum llama_pooling_type pooling;
} steps[] = {
    {"prompt", run_prompt, 0},
    {"slots", step_slots, 0},
    {"one-cache", step_unified, 0},
    {"encoder", run_encoder, 0},
    {"tokens", NULL, LLAMA_POOLING_TYPE_NONE},
    {"mean", NULL, LLAMA_POOLING_TYPE_MEAN},
    {"first", NULL, LLAMA_POOLING_TYPE_CLS},
    {"last", NULL, LLAMA_POOLING_TYPE_LAST},
    {"ranks", NULL, LLAMA_POOLING_TYPE_RANK},
};

static void run_step(struct run *run, const struct step *step)
{
    if (step->run)
        step->run(run);
    else
        run_embeddings(run, step->pooling);
}

static void run_all(struct run *run)
{
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].pooling != LLAMA_POOLING_TYPE_RANK)
            run_step(run, &steps[i]);
    }
}

static int run_model(struct run *run, const char *file, const char *device, const struct step *step)
{
    const bool cpu = strcmp(device, "CPU") == 0;
    ggml_backend_dev_t dev = cpu ? NULL : ggml_backend_dev_by_name(device);
    if (!cpu && !dev) {
        fprintf(stderr, "slots: no device named %s\n", device);
        return -1;
    }
    run->model = load(file, dev);
    if (!run->model) {
        fprintf(stderr, "slots: %s cannot be loaded on %s\n", file, device);
        return -1;
    }
    if (dev && (run->layers == 0 || run->offloaded != run->layers)) {
        fprintf(stderr, "slots: %d of %d layers are on %s\n", run->offloaded, run->layers, device);
        return -1;
    }
    run->n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(run->model));
    run->batch = llama_batch_init(BATCH_MAX, 0, 1);
    if (step)
        run_step(run, step);
    else
        run_all(run);
    return 0;
}

static int run_to_file(const char *model, const char *device, const struct step *step,
                       const char *out)
{
    struct run run = {0};
    if (rows_create(&run.rows, out) < 0) {
        fprintf(stderr, "slots: %s cannot be written\n", out);
        return -1;
    }
    llama_log_set(on_log, &run);
    ggml_backend_load_all();
    int err = run_model(&run, model, device, step);
    if (run.batch.token)
        llama_batch_free(run.batch);
    if (run.model)
        llama_model_free(run.model);
    /* Devices go away at exit and may still log then. */
    llama_log_set(NULL, NULL);
    if (rows_close(&run.rows) < 0 && !err) {
        fprintf(stderr, "slots: %s cannot be written\n", out);
        err = -1;
    }
    /* Devices cut graphs as they like, so this is no result; the caller judges it. */
    printf("splits %d\n", run.splits);
    /* (Not of a few return codes.) A model whose every result is 0 would compare well with anything
     * that computes nothing. */
    if (!err && run.rows.n > run.n_vocab && run.rows.nonzero * 2 < run.rows.n) {
        fprintf(stderr, "slots: %zu of %zu values are numbers other than 0\n", run.rows.nonzero,
                run.rows.n);
        err = -1;
    }
    return err;
}

static const struct step *step_find(const char *name)
{
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (strcmp(steps[i].name, name) == 0)
            return &steps[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "--compare") == 0)
        return rows_compare(argv[2], argv[3], argc > 4 ? strtod(argv[4], NULL) : 0) < 0;
    if (argc == 2 && strcmp(argv[1], "--steps") == 0) {
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
            puts(steps[i].name);
        return 0;
    }
    const char *model = NULL, *device = "CPU", *out = NULL;
    const struct step *step = NULL; /* all */
    bool unknown = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--model") == 0)
            model = argv[i + 1];
        else if (strcmp(argv[i], "--device") == 0)
            device = argv[i + 1];
        else if (strcmp(argv[i], "--step") == 0)
            unknown = !(step = step_find(argv[i + 1]));
        else if (strcmp(argv[i], "--out") == 0)
            out = argv[i + 1];
    }
    if (!model || !out || unknown) {
        fputs("usage: slots --model FILE [--device NAME] [--step STEP] --out FILE\n"
              "       slots --steps\n"
              "       slots --compare NATIVE REMOTED [TOLERANCE]\n",
              stderr);
        return 2;
    }
    return run_to_file(model, device, step, out) < 0;
}
