/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf-write: writes a GGUF file with random weights, for tests that need a model of a given
 * shape and must not download one. The result depends on the options only.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

#include "tests/lib/models/shape.h"
#include "tests/lib/models/vocab.h"
#include "tests/lib/models/weights.h"

enum {
    ALIGNMENT = 32, /* GGUF's default: tensors start at multiples of it */
    THREADS_MAX = 64,
};

/* The number is llama.cpp's general.file_type for that type. */
static const struct {
    const char *name;
    enum ggml_type type;
    uint32_t file_type;
} types[] = {
    {"f32", GGML_TYPE_F32, 0},   {"f16", GGML_TYPE_F16, 1},    {"q4_0", GGML_TYPE_Q4_0, 2},
    {"q8_0", GGML_TYPE_Q8_0, 7}, {"q4_k", GGML_TYPE_Q4_K, 14}, {"q6_k", GGML_TYPE_Q6_K, 18},
};

struct options {
    struct shape shape;
    const char *preset;
    size_t type; /* index into types[] */
    uint64_t seed;
    const char *output;
};

static char *partial; /* the file that is being written, or NULL */

static void say(const char *fmt, va_list ap)
{
    fputs("gguf-write: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void misuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    exit(2);
}

/* At once: other threads may be writing. */
void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    if (partial)
        remove(partial);
    _exit(1);
}

static void usage(FILE *f)
{
    fprintf(f,
            "usage: gguf-write [OPTION]... --output FILE\n"
            "Writes a GGUF model with random weights and a byte-level vocabulary.\n"
            "\n"
            "  --arch NAME         llama, qwen2, qwen3 or qwen3moe (default llama)\n"
            "  --type TYPE         f32, f16, q8_0, q4_0, q4_k or q6_k (default q4_0)\n"
            "  --preset SIZE       3M, 135M, 1B or 8B: the shape as far as it is not given\n"
            "  --layers N --embd N --heads N --heads-kv N --head-dim N --ff N\n"
            "  --experts N         mixture of experts; --ff is then one expert's size\n"
            "  --experts-used N    experts per token (default 2)\n"
            "  --vocab N           at least %d\n"
            "  --ctx N             trained context length\n"
            "  --seed N            same options and seed, same file (default 1)\n"
            "  --output FILE       written under a temporary name first\n"
            "  --help\n",
            VOCAB_MIN);
}

static uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || v < min || v > max)
        misuse("--%s %s: not a whole number between %" PRIu64 " and %" PRIu64, option, text, min,
               max);
    return v;
}

static size_t find_type(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0)
            return i;
    }
    misuse("--type %s: not one of f32, f16, q8_0, q4_0, q4_k, q6_k", name);
}

/* The options whose numbers are sizes of the model. */
static const struct {
    const char *name;
    size_t at; /* in struct shape */
} sizes[] = {
    {"layers", offsetof(struct shape, layers)},
    {"embd", offsetof(struct shape, embd)},
    {"heads", offsetof(struct shape, heads)},
    {"heads-kv", offsetof(struct shape, heads_kv)},
    {"head-dim", offsetof(struct shape, head_dim)},
    {"ff", offsetof(struct shape, ff)},
    {"experts", offsetof(struct shape, experts)},
    {"experts-used", offsetof(struct shape, experts_used)},
    {"vocab", offsetof(struct shape, vocab)},
    {"ctx", offsetof(struct shape, ctx)},
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void parse_size(struct options *o, size_t index, const char *text)
{
    const bool may_be_none = sizes[index].at == offsetof(struct shape, experts);
    *(int64_t *)(void *)((char *)&o->shape + sizes[index].at) =
        (int64_t)parse_number(sizes[index].name, text, !may_be_none, 1 << 24);
}

static void parse_one(struct options *o, int opt)
{
    switch (opt) {
    case 'a':
        o->shape.arch = arch_find(optarg);
        if (!o->shape.arch)
            misuse("--arch %s: unknown; see --help", optarg);
        break;
    case 't':
        o->type = find_type(optarg);
        break;
    case 'p':
        o->preset = optarg;
        break;
    case 's':
        o->seed = parse_number("seed", optarg, 0, UINT64_MAX);
        break;
    case 'o':
        o->output = optarg;
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default: /* getopt has said what is wrong */
        exit(2);
    }
}

static void parse(struct options *o, int argc, char **argv)
{
    static struct option all[SIZES + 7] = {
        [SIZES] = {"arch", required_argument, NULL, 'a'}, {"type", required_argument, NULL, 't'},
        {"preset", required_argument, NULL, 'p'},         {"seed", required_argument, NULL, 's'},
        {"output", required_argument, NULL, 'o'},         {"help", no_argument, NULL, 'h'},
    };
    int opt, index = 0;
    for (size_t i = 0; i < SIZES; i++)
        all[i] = (struct option){sizes[i].name, required_argument, NULL, 0};
    *o = (struct options){
        .shape = {.arch = arch_find("llama"), .experts = -1},
        .preset = "3M",
        .type = find_type("q4_0"),
        .seed = 1,
    };
    while ((opt = getopt_long(argc, argv, "", all, &index)) != -1) {
        if (opt == 0)
            parse_size(o, (size_t)index, optarg);
        else
            parse_one(o, opt);
    }
    if (optind < argc)
        misuse("%s: unexpected argument", argv[optind]);
    if (!o->output)
        misuse("--output FILE is missing; see --help");
    if (shape_preset(&o->shape, o->preset) < 0)
        misuse("--preset %s: not one of 3M, 135M, 1B, 8B", o->preset);
    shape_finish(&o->shape, ggml_blck_size(types[o->type].type));
    if (o->shape.vocab < VOCAB_MIN)
        misuse("--vocab must be at least %d: one token per byte and a few more", VOCAB_MIN);
}

static void set_u32(struct gguf_context *gguf, const char *arch, const char *key, int64_t value)
{
    char name[96];
    snprintf(name, sizeof(name), "%s.%s", arch, key);
    gguf_set_val_u32(gguf, name, (uint32_t)value);
}

static void set_f32(struct gguf_context *gguf, const char *arch, const char *key, float value)
{
    char name[96];
    snprintf(name, sizeof(name), "%s.%s", arch, key);
    gguf_set_val_f32(gguf, name, value);
}

static void set_keys(struct gguf_context *gguf, const struct options *o)
{
    const struct shape *s = &o->shape;
    const char *arch = s->arch->name;
    char name[96];

    snprintf(name, sizeof(name), "random %s, seed %" PRIu64, arch, o->seed);
    gguf_set_val_str(gguf, "general.architecture", arch);
    gguf_set_val_str(gguf, "general.type", "model");
    gguf_set_val_str(gguf, "general.name", name);
    gguf_set_val_u32(gguf, "general.file_type", types[o->type].file_type);
    gguf_set_val_u32(gguf, "general.quantization_version", GGML_QNT_VERSION);
    set_u32(gguf, arch, "vocab_size", s->vocab);
    set_u32(gguf, arch, "context_length", s->ctx);
    set_u32(gguf, arch, "embedding_length", s->embd);
    set_u32(gguf, arch, "block_count", s->layers);
    set_u32(gguf, arch, "feed_forward_length", s->ff);
    set_u32(gguf, arch, "attention.head_count", s->heads);
    set_u32(gguf, arch, "attention.head_count_kv", s->heads_kv);
    set_u32(gguf, arch, "attention.key_length", s->head_dim);
    set_u32(gguf, arch, "attention.value_length", s->head_dim);
    set_u32(gguf, arch, "rope.dimension_count", s->head_dim);
    set_f32(gguf, arch, "rope.freq_base", 10000.0f);
    set_f32(gguf, arch, "attention.layer_norm_rms_epsilon", 1e-5f);
    if (s->experts > 0) {
        set_u32(gguf, arch, "expert_count", s->experts);
        set_u32(gguf, arch, "expert_used_count", s->experts_used);
        set_u32(gguf, arch, "expert_feed_forward_length", s->ff);
    }
    vocab_write(gguf, s->vocab);
}

/* Chunks of the file, given out to whichever thread comes next. */
struct writing {
    const struct options *o;
    const struct plan *plan;
    const struct gguf_context *gguf;
    int fd;
    off_t data; /* where tensors begin in the file */
    pthread_mutex_t lock;
    size_t entry; /* the next chunk */
    int64_t row;
};

struct chunk {
    size_t entry;
    int64_t row, n;
};

static bool chunk_take(struct writing *w, struct chunk *ret_chunk)
{
    pthread_mutex_lock(&w->lock);
    const bool taken = w->entry < w->plan->n;
    if (taken) {
        const struct plan_entry *e = &w->plan->entries[w->entry];
        const int64_t rows = e->ne[1] * e->ne[2], step = weights_step(e);
        *ret_chunk = (struct chunk){
            .entry = w->entry, .row = w->row, .n = rows - w->row < step ? rows - w->row : step};
        w->row += ret_chunk->n;
        if (w->row == rows) {
            w->row = 0;
            w->entry++;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return taken;
}

static void write_at(int fd, const void *data, size_t size, off_t at)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = pwrite(fd, p, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            fail("%s: writing failed: %s", partial, strerror(n < 0 ? errno : EIO));
        p += n;
        at += n;
        size -= (size_t)n;
    }
}

static void chunk_write(struct writing *w, const struct chunk *c)
{
    const struct plan_entry *e = &w->plan->entries[c->entry];
    const enum ggml_type type = weights_type(e, types[w->o->type].type);
    const size_t row_size = ggml_row_size(type, e->ne[0]);
    float *values = malloc((size_t)(c->n * e->ne[0]) * sizeof(*values));
    void *stored = malloc((size_t)c->n * row_size);
    if (!values || !stored)
        fail("out of memory");
    weights_make(e, type, w->o->seed, c->entry + 1, c->row, c->n, values, stored);
    write_at(w->fd, stored, (size_t)c->n * row_size,
             w->data + (off_t)gguf_get_tensor_offset(w->gguf, (int64_t)c->entry) +
                 (off_t)((size_t)c->row * row_size));
    free(stored);
    free(values);
}

static void *writing_thread(void *arg)
{
    struct chunk c;
    while (chunk_take(arg, &c))
        chunk_write(arg, &c);
    return NULL;
}

/* Every core takes part: a model of 8B is made of 8 thousand million values. */
static void write_tensors(struct writing *w)
{
    pthread_t threads[THREADS_MAX];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0;

    /* This thread works too, and alone where no other can be started. */
    while (n + 1 < cores && n < THREADS_MAX &&
           pthread_create(&threads[n], NULL, writing_thread, w) == 0)
        n++;
    writing_thread(w);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

static void write_model(FILE *f, const struct options *o, const struct plan *plan,
                        struct gguf_context *gguf, struct ggml_context *ctx)
{
    size_t end = 0;
    for (size_t i = 0; i < plan->n; i++) {
        const struct plan_entry *e = &plan->entries[i];
        struct ggml_tensor *t = ggml_new_tensor_3d(ctx, weights_type(e, types[o->type].type),
                                                   e->ne[0], e->ne[1], e->ne[2]);
        ggml_set_name(t, e->name);
        gguf_add_tensor(gguf, t);
        end = gguf_get_tensor_offset(gguf, (int64_t)i) + ggml_nbytes(t);
    }
    end = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    errno = EIO;
    if (!gguf_write_to_file_ptr(gguf, f, true) || fflush(f) != 0)
        fail("%s: writing failed: %m", partial);
    struct writing w = {
        .o = o,
        .plan = plan,
        .gguf = gguf,
        .fd = fileno(f),
        .data = ftello(f),
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    /* What lies between tensors, and behind the last one, is never written: zeros. */
    if (w.data < 0 || ftruncate(w.fd, w.data + (off_t)end) < 0)
        fail("%s: writing failed: %m", partial);
    write_tensors(&w);
}

int main(int argc, char **argv)
{
    struct options o;
    struct plan plan;
    parse(&o, argc, argv);
    plan_create(&plan, &o.shape);
    struct gguf_context *gguf = gguf_init_empty();
    struct ggml_context *ctx = ggml_init(
        (struct ggml_init_params){.mem_size = plan.n * ggml_tensor_overhead(), .no_alloc = true});
    if (!gguf || !ctx || asprintf(&partial, "%s.part", o.output) < 0)
        fail("out of memory");
    set_keys(gguf, &o);
    FILE *f = fopen(partial, "wbe");
    if (!f)
        fail("%s: %m", partial);
    write_model(f, &o, &plan, gguf, ctx);
    if (fclose(f) != 0 || rename(partial, o.output) < 0)
        fail("%s: %m", o.output);
    ggml_free(ctx);
    gguf_free(gguf);
    ggml_quantize_free();
    plan_destroy(&plan);
    free(partial);
    return 0;
}
