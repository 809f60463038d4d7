/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/options/run.h"

#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/accelerators.h"

/* Without the end of static objects: other threads may be at work, and models are still open. */
void run_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vwarnx(fmt, ap);
    va_end(ap);
    fflush(NULL);
    _exit(1);
}

bool run_options(const struct run_option *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const struct run_option *o = options;
        while (o->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, o->name) != 0))
            o++;
        if (!o->name || (!o->flag && ++i == argc))
            return false;
        if (o->flag)
            *o->flag = true;
        else if (o->text)
            *o->text = argv[i];
        else
            *o->number = atoi(argv[i]);
    }
    return true;
}

static void on_message(enum ggml_log_level level, const char *line, void *data)
{
    const struct run *r = data;
    if (r->verbose || level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR)
        fputs(line, stderr);
}

void run_init(struct run *r, const char *devices)
{
    char names[128], *rest = names, *name;
    size_t n = 0;

    llama_log_set(on_message, r);
    llama_backend_init();
    ggml_backend_load_all();
    unload_accelerators();
    if (strcmp(devices, "CPU") == 0)
        return;
    snprintf(names, sizeof(names), "%s", devices);
    while ((name = strsep(&rest, ","))) {
        ggml_backend_dev_t dev = ggml_backend_dev_by_name(name);
        if (!dev || n == RUN_DEVICES_MAX)
            run_fail("no device named %s, or more than %d", name, RUN_DEVICES_MAX);
        r->devices[n++] = dev;
    }
}

/* Two devices share alike, whatever memory each has free at the moment. */
static const float halves[64] = {1, 1};

void setup_init(struct setup *s, const struct run *r)
{
    *s = (struct setup){.model = llama_model_default_params(),
                        .context = llama_context_default_params()};
    memcpy(s->devices, r->devices, sizeof(s->devices));
    s->model.devices = s->devices;
    s->model.n_gpu_layers = r->devices[0] ? RUN_ALL_LAYERS : 0;
    s->model.split_mode = LLAMA_SPLIT_MODE_LAYER;
    if (r->devices[1] && llama_max_devices() <= sizeof(halves) / sizeof(halves[0]))
        s->model.tensor_split = halves;
    s->context.n_ctx = 512;
    s->context.n_batch = 128;
    s->context.n_ubatch = 64;
    s->context.n_seq_max = 1;
    s->context.n_threads = s->context.n_threads_batch = 1;
    s->context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    s->context.offload_kqv = true;
    s->context.op_offload = true;
    s->context.kv_unified = true;
    s->context.no_perf = true;
}

/* llama.cpp says how many layers it gave to devices; what it says otherwise goes on as before. */
struct layers_log {
    ggml_log_callback next;
    void *next_data;
    int offloaded; /* -1 until it is said */
};

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    struct layers_log *log = data;
    const char *at = strstr(line, "offloaded ");
    if (at)
        log->offloaded = atoi(at + strlen("offloaded "));
    if (log->next)
        log->next(level, line, log->next_data);
}

struct llama_model *run_model(const char *path, const struct setup *s)
{
    struct layers_log log = {.offloaded = -1};
    llama_log_get(&log.next, &log.next_data);
    llama_log_set(on_log, &log);
    struct llama_model *model = llama_model_load_from_file(path, s->model);
    llama_log_set(log.next, log.next_data);
    if (!model)
        run_fail("%s cannot be loaded", path);
    /* The output layer counts as one more. */
    int wanted = llama_model_n_layer(model) + 1;
    if (s->model.n_gpu_layers < wanted)
        wanted = s->model.n_gpu_layers;
    if (s->model.devices[0] && log.offloaded != wanted)
        run_fail("%d layers were given to the device, not %d", log.offloaded, wanted);
    return model;
}

struct llama_context *run_context(struct llama_model *model, const struct setup *s)
{
    struct llama_context *ctx = llama_init_from_model(model, s->context);
    if (!ctx)
        run_fail("no context could be made");
    return ctx;
}

void run_open(struct run *r)
{
    r->model = run_model(r->model_file, &r->setup);
    r->ctx = run_context(r->model, &r->setup);
}

void run_close(struct run *r)
{
    if (!r->model)
        return;
    llama_free(r->ctx);
    llama_model_free(r->model);
    r->model = NULL;
}

void run_end(struct run *r, const char *out)
{
    run_close(r);
    if (out && record_save(&r->record, out) < 0)
        run_fail("%s: %s", out, strerror(errno));
    record_fini(&r->record);
    /* Devices go away at exit and may still log then. */
    llama_log_set(NULL, NULL);
}

size_t context_vocab(const struct llama_context *ctx)
{
    return (size_t)llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(ctx)));
}

uint32_t stream_number(uint32_t i)
{
    uint32_t x = (i + 1) * UINT32_C(2654435761);
    x ^= x >> 15;
    x *= UINT32_C(0x2c1b3c6d);
    return x ^ (x >> 12);
}

/* No control tokens. */
static llama_token stream_token(uint32_t i)
{
    /* The smallest vocabulary that gguf-write makes has 267 tokens, three of them for control. */
    return (llama_token)(3 + stream_number(i) % 264);
}

static struct llama_batch batch_make(int tokens)
{
    struct llama_batch b = llama_batch_init(tokens, 0, 1);
    b.n_tokens = 0;
    return b;
}

void batch_add(struct llama_batch *b, llama_token token, llama_pos pos, llama_seq_id seq,
               bool logits)
{
    const int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = pos;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = seq;
    b->logits[i] = logits;
}

int32_t decode_last(struct llama_context *ctx, const llama_token *tokens, llama_pos pos, int n)
{
    struct llama_batch batch = batch_make(n);
    for (int i = 0; i < n; i++)
        batch_add(&batch, tokens[i], pos + i, 0, i == n - 1);
    const int32_t code = llama_decode(ctx, batch);
    llama_batch_free(batch);
    return code;
}

static void decode_record(struct llama_context *ctx, struct record *record, const char *name,
                          struct llama_batch batch)
{
    char item[64];
    const int32_t code = llama_decode(ctx, batch);

    snprintf(item, sizeof(item), "%s code", name);
    record_int(record, item, code);
    if (code)
        run_fail("%s: llama_decode returned %d", name, code);
    for (int i = 0; i < batch.n_tokens; i++) {
        if (!batch.logits[i])
            continue;
        const float *x = llama_get_logits_ith(ctx, i);
        if (!x)
            run_fail("%s: no logits of token %d", name, i);
        snprintf(item, sizeof(item), "%s %d", name, i);
        record_floats(record, item, x, context_vocab(ctx));
    }
}

void feed(struct llama_context *ctx, struct record *record, const char *name, llama_seq_id seq,
          uint32_t from, llama_pos pos, int n)
{
    const int most = (int)llama_n_batch(ctx);
    struct llama_batch batch = batch_make(most);

    for (int done = 0; done < n; done += batch.n_tokens) {
        char item[48];
        batch.n_tokens = 0;
        while (batch.n_tokens < most && done + batch.n_tokens < n) {
            const int i = done + batch.n_tokens;
            batch_add(&batch, stream_token(from + (uint32_t)i), pos + i, seq, true);
        }
        snprintf(item, sizeof(item), "%s+%d", name, done);
        decode_record(ctx, record, item, batch);
    }
    llama_batch_free(batch);
}

void feed_singly(struct llama_context *ctx, struct record *record, const char *name,
                 llama_seq_id seq, uint32_t from, llama_pos pos, int n)
{
    for (int i = 0; i < n; i++) {
        char item[48];
        snprintf(item, sizeof(item), "%s[%d]", name, i);
        feed(ctx, record, item, seq, from + (uint32_t)i, pos + i, 1);
    }
}

llama_token most_likely(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return (llama_token)best;
}
