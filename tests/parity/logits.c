/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits: runs a model on one ggml device through libllama and keeps every logit.
 *
 * The two runs that parity compares must build the same graph, though one has a CPU and the other
 * a device of GPU type. So everything that llama.cpp would choose by device is fixed here: the
 * attention kernel, the batch sizes, the number of threads, where the cache lies, no repacked
 * weights, no BLAS.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

#include "tests/parity/record.h"
#include "tests/lib/accelerators.h"

enum { PERPLEXITY_CHUNK = 128 };

struct options {
    const char *model, *device, *out;
    int prompt, gen, threads, ubatch;
    bool flash_attn, perplexity, verbose;
};

/* Any prose will do; it only must never change. */
static const char text[] =
    "The lighthouse keeper wrote down three things each evening: the height of the water, the "
    "direction of the wind, and the number of ships he had seen. The first two were asked of him "
    "by the harbour office. The third was his own idea, and after thirty years it filled eleven "
    "books. When the office sent a young engineer to measure the rock for a new lamp, she asked "
    "to see them. In winter there were few ships, in spring more, in summer so many that he had "
    "drawn them as small strokes in groups of five. But in every book, on the same day in "
    "October, there was a nought, and nothing else on the page.\n\n"
    "\"Fog?\" she asked. \"No,\" said the keeper. \"I take that day off.\" He showed her the boat "
    "which he kept in a cleft behind the tower, tarred and dry under a sheet. Once a year he "
    "rowed out to the point where the current turns, 2 miles to the west, and looked back at his "
    "own light to be sure that it could be seen from there. \"A lamp is only as good as what "
    "arrives,\" he said, and she wrote that sentence in the margin of her plan.\n";

/* What llama.cpp says about where the model went, kept for the summary. */
struct notes {
    bool verbose;
    char offloaded[160];
    char splits[160];
};

static void keep(char *buf, size_t size, const char *line)
{
    const char *colon = strstr(line, ": ");
    snprintf(buf, size, "%s", colon ? colon + 2 : line);
    buf[strcspn(buf, "\n")] = '\0';
}

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    struct notes *notes = data;
    if (strstr(line, "offloaded "))
        keep(notes->offloaded, sizeof(notes->offloaded), line);
    if (strstr(line, "splits = "))
        keep(notes->splits, sizeof(notes->splits), line);
    if (notes->verbose || level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR)
        fputs(line, stderr);
}

/* Fills a NULL-terminated list: empty for the CPU, which needs no listing. */
static int find_device(const char *name, ggml_backend_dev_t list[2])
{
    list[0] = list[1] = NULL;
    if (strcmp(name, "CPU") == 0 || strcmp(name, "none") == 0)
        return 0;
    list[0] = ggml_backend_dev_by_name(name);
    if (list[0])
        return 0;
    fprintf(stderr, "logits: no device named %s; there are:", name);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++)
        fprintf(stderr, " %s", ggml_backend_dev_name(ggml_backend_dev_get(i)));
    fputc('\n', stderr);
    return -1;
}

static struct llama_model *load_model(const struct options *o, ggml_backend_dev_t *devices)
{
    struct llama_model_params p = llama_model_default_params();
    p.devices = devices;
    p.n_gpu_layers = devices[0] ? 9999 : 0;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    p.use_extra_bufts = false;
    struct llama_model *model = llama_model_load_from_file(o->model, p);
    if (!model)
        fprintf(stderr, "logits: %s cannot be loaded on %s\n", o->model, o->device);
    return model;
}

static struct llama_context *make_context(const struct options *o, struct llama_model *model)
{
    struct llama_context_params p = llama_context_default_params();
    int tokens = o->prompt + o->gen;
    if (tokens < PERPLEXITY_CHUNK)
        tokens = PERPLEXITY_CHUNK;
    p.n_ctx = (uint32_t)tokens;
    p.n_batch = (uint32_t)tokens;
    p.n_ubatch = (uint32_t)o->ubatch;
    p.n_seq_max = 1;
    p.n_threads = p.n_threads_batch = o->threads;
    p.flash_attn_type =
        o->flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.offload_kqv = true;
    p.op_offload = true;
    p.no_perf = true;
    struct llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx)
        fprintf(stderr, "logits: no context on %s\n", o->device);
    return ctx;
}

/*
 * Evaluates n tokens from position pos on, all of them with logits, and copies these to `rows`.
 * Returns 0, or -1 after a message.
 */
static int eval(struct llama_context *ctx, struct llama_batch *batch, const int32_t *tokens, int n,
                int pos, float *rows, uint32_t n_vocab)
{
    batch->n_tokens = n;
    for (int i = 0; i < n; i++) {
        batch->token[i] = tokens[i];
        batch->pos[i] = pos + i;
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = 1;
    }
    int err = llama_decode(ctx, *batch);
    if (err) {
        fprintf(stderr, "logits: llama_decode failed with %d at token %d\n", err, pos);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        const float *x = llama_get_logits_ith(ctx, i);
        if (!x) {
            fprintf(stderr, "logits: no logits at token %d\n", pos + i);
            return -1;
        }
        memcpy(rows + (size_t)i * n_vocab, x, n_vocab * sizeof(*x));
    }
    return 0;
}

/* Tokens spread over the vocabulary; the few control tokens at its start are left out. */
static int32_t prompt_token(uint32_t i, uint32_t n_vocab)
{
    uint32_t x = (i + 1) * UINT32_C(2654435761);
    x ^= x >> 15;
    x *= UINT32_C(0x2c1b3c6d);
    x ^= x >> 12;
    return (int32_t)(n_vocab > 8 ? 3 + x % (n_vocab - 3) : x % n_vocab);
}

static int32_t most_likely(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return (int32_t)best;
}

static int run_prompt(const struct options *o, struct llama_context *ctx, struct llama_batch *batch,
                      struct record *r)
{
    for (uint32_t i = 0; i < r->n_prompt; i++)
        r->tokens[i] = prompt_token(i, r->n_vocab);
    if (eval(ctx, batch, r->tokens, o->prompt, 0, r->logits, r->n_vocab) < 0)
        return -1;
    for (int i = o->prompt; i < o->prompt + o->gen; i++) {
        r->tokens[i] = most_likely(record_row(r, (size_t)i - 1), r->n_vocab);
        if (eval(ctx, batch, &r->tokens[i], 1, i, record_row(r, (size_t)i), r->n_vocab) < 0)
            return -1;
    }
    return 0;
}

/* -log of the probability of `token`, in double so that the sum has digits worth comparing. */
static double surprise(const float *x, uint32_t n, int32_t token)
{
    double highest = (double)x[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        highest = fmax(highest, (double)x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - highest);
    return log(sum) + highest - (double)x[token];
}

/* Full chunks only, each from an empty cache; every token but a chunk's first one counts. */
static int run_perplexity(struct llama_context *ctx, struct llama_batch *batch,
                          const struct llama_vocab *vocab, struct record *r)
{
    int32_t tokens[sizeof(text)];
    const int n = llama_tokenize(vocab, text, (int32_t)strlen(text), tokens,
                                 (int32_t)(sizeof(tokens) / sizeof(tokens[0])), false, false);
    if (n < PERPLEXITY_CHUNK) {
        fprintf(stderr, "logits: this vocabulary makes %d tokens of the text, too few\n", n);
        return -1;
    }
    float *rows = calloc(PERPLEXITY_CHUNK, r->n_vocab * sizeof(*rows));
    if (!rows) {
        fprintf(stderr, "logits: out of memory\n");
        return -1;
    }
    double sum = 0;
    int count = 0, err = 0;
    for (int at = 0; at + PERPLEXITY_CHUNK <= n; at += PERPLEXITY_CHUNK) {
        llama_memory_clear(llama_get_memory(ctx), true);
        err = eval(ctx, batch, tokens + at, PERPLEXITY_CHUNK, 0, rows, r->n_vocab);
        if (err)
            break;
        for (int i = 0; i + 1 < PERPLEXITY_CHUNK; i++, count++)
            sum += surprise(rows + (size_t)i * r->n_vocab, r->n_vocab, tokens[at + i + 1]);
    }
    free(rows);
    if (!err)
        r->perplexity = exp(sum / count);
    return err;
}

static int run(const struct options *o)
{
    struct notes notes = {.verbose = o->verbose};
    struct llama_model *model = NULL;
    struct llama_context *ctx = NULL;
    struct llama_batch batch = {0};
    struct record r = {0};
    ggml_backend_dev_t devices[2];
    int err = -1;

    llama_log_set(on_log, &notes);
    ggml_backend_load_all();
    unload_accelerators();
    if (find_device(o->device, devices) < 0)
        goto out;
    model = load_model(o, devices);
    if (!model)
        goto out;
    ctx = make_context(o, model);
    if (!ctx)
        goto out;
    batch = llama_batch_init((int32_t)llama_n_batch(ctx), 0, 1);
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    if (record_init(&r, (uint32_t)llama_vocab_n_tokens(vocab), (uint32_t)o->prompt,
                    (uint32_t)o->gen) < 0) {
        fprintf(stderr, "logits: out of memory\n");
        goto out;
    }
    if (run_prompt(o, ctx, &batch, &r) < 0)
        goto out;
    if (o->perplexity && run_perplexity(ctx, &batch, vocab, &r) < 0)
        goto out;
    if (o->out && record_save(&r, o->out) < 0) {
        fprintf(stderr, "logits: %s: %s\n", o->out, strerror(errno));
        goto out;
    }

    printf("device: %s; %s; %s\n", o->device,
           notes.offloaded[0] ? notes.offloaded : "nothing offloaded", notes.splits);
    printf("logits: %zu rows of %" PRIu32 ", hash %016" PRIx64 "\n", record_rows(&r), r.n_vocab,
           record_hash(&r));
    printf("tokens:");
    for (size_t i = r.n_prompt; i < record_rows(&r); i++)
        printf(" %" PRId32, r.tokens[i]);
    printf("\n");
    if (o->perplexity)
        printf("perplexity: %.17g\n", r.perplexity);
    err = fflush(stdout) == 0 ? 0 : -1;
out:
    record_fini(&r);
    if (batch.token)
        llama_batch_free(batch);
    if (ctx)
        llama_free(ctx);
    if (model)
        llama_model_free(model);
    /* Devices go away at exit and may still log then. */
    llama_log_set(NULL, NULL);
    return err;
}

static void usage(FILE *f)
{
    fputs(
        "usage: logits --model FILE [OPTION]...\n"
        "  --device NAME       a ggml device, such as APIR0; CPU or none: only the CPU (default)\n"
        "  --prompt-tokens N   length of the made-up prompt (default 64)\n"
        "  --gen N             tokens to generate greedily (default 16)\n"
        "  --threads N         (default 2)\n"
        "  --ubatch N          tokens per graph (default 512)\n"
        "  --fa on|off         flash attention (default on)\n"
        "  --perplexity        also of a fixed text\n"
        "  --out FILE          keep tokens and raw logits, for `compare`\n"
        "  --verbose           show llama.cpp's log\n",
        f);
}

static int parse_int(const char *option, const char *arg, int min, int *ret_value)
{
    char *end;
    errno = 0;
    long v = strtol(arg, &end, 10);
    if (errno || end == arg || *end || v < min || v > 65536) {
        fprintf(stderr, "logits: --%s %s: not a number between %d and 65536\n", option, arg, min);
        return -1;
    }
    *ret_value = (int)v;
    return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option long_options[] = {
        {"model", required_argument, NULL, 'm'},  {"device", required_argument, NULL, 'd'},
        {"out", required_argument, NULL, 'o'},    {"prompt-tokens", required_argument, NULL, 'p'},
        {"gen", required_argument, NULL, 'g'},    {"threads", required_argument, NULL, 't'},
        {"ubatch", required_argument, NULL, 'u'}, {"fa", required_argument, NULL, 'f'},
        {"perplexity", no_argument, NULL, 'x'},   {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    int opt, err = 0;

    *o = (struct options){
        .device = "CPU", .prompt = 64, .gen = 16, .threads = 2, .ubatch = 512, .flash_attn = true};
    while (!err && (opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (opt) {
        case 'm':
            o->model = optarg;
            break;
        case 'd':
            o->device = optarg;
            break;
        case 'o':
            o->out = optarg;
            break;
        case 'p':
            err = parse_int("prompt-tokens", optarg, 1, &o->prompt);
            break;
        case 'g':
            err = parse_int("gen", optarg, 0, &o->gen);
            break;
        case 't':
            err = parse_int("threads", optarg, 1, &o->threads);
            break;
        case 'u':
            err = parse_int("ubatch", optarg, 1, &o->ubatch);
            break;
        case 'f':
            o->flash_attn = strcmp(optarg, "on") == 0;
            if (!o->flash_attn && strcmp(optarg, "off") != 0) {
                fprintf(stderr, "logits: --fa is on or off; auto may choose by device\n");
                err = -1;
            }
            break;
        case 'x':
            o->perplexity = true;
            break;
        case 'v':
            o->verbose = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            err = -1;
        }
    }
    if (!err && (optind < argc || !o->model)) {
        usage(stderr);
        err = -1;
    }
    return err;
}

int main(int argc, char **argv)
{
    struct options o;
    if (parse(&o, argc, argv) < 0)
        return 2;
    return run(&o) < 0 ? 1 : 0;
}
