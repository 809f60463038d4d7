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

#include "tests/models/shape.h"
#include "tests/models/vocab.h"
#include "tests/models/weights.h"

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
    size_t type; /* index into types[] */
    uint64_t seed;
    const char *output;
};

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("gguf-write: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return -1;
}

static void usage(FILE *f)
{
    char names[128];
    arch_names(names, sizeof(names));
    fprintf(f,
            "usage: gguf-write [OPTION]... --output FILE\n"
            "Writes a GGUF model with random weights and a byte-level vocabulary.\n"
            "\n"
            "  --arch NAME         %s (default llama)\n"
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
            names, VOCAB_MIN);
}

static int parse_number(const char *option, const char *text, uint64_t max, uint64_t *ret_value)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || v > max)
        return complain("--%s %s: not a whole number between 0 and %" PRIu64, option, text, max);
    *ret_value = v;
    return 0;
}

enum {
    OPT_ARCH = 256,
    OPT_TYPE,
    OPT_PRESET,
    OPT_LAYERS,
    OPT_EMBD,
    OPT_HEADS,
    OPT_HEADS_KV,
    OPT_HEAD_DIM,
    OPT_FF,
    OPT_EXPERTS,
    OPT_EXPERTS_USED,
    OPT_VOCAB,
    OPT_CTX,
    OPT_SEED,
    OPT_OUTPUT,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"arch", required_argument, NULL, OPT_ARCH},
    {"type", required_argument, NULL, OPT_TYPE},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"embd", required_argument, NULL, OPT_EMBD},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"heads-kv", required_argument, NULL, OPT_HEADS_KV},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"ff", required_argument, NULL, OPT_FF},
    {"experts", required_argument, NULL, OPT_EXPERTS},
    {"experts-used", required_argument, NULL, OPT_EXPERTS_USED},
    {"vocab", required_argument, NULL, OPT_VOCAB},
    {"ctx", required_argument, NULL, OPT_CTX},
    {"seed", required_argument, NULL, OPT_SEED},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* Where the number of a size option goes, or NULL. */
static int64_t *size_field(struct shape *s, int opt)
{
    switch (opt) {
    case OPT_LAYERS:
        return &s->layers;
    case OPT_EMBD:
        return &s->embd;
    case OPT_HEADS:
        return &s->heads;
    case OPT_HEADS_KV:
        return &s->heads_kv;
    case OPT_HEAD_DIM:
        return &s->head_dim;
    case OPT_FF:
        return &s->ff;
    case OPT_EXPERTS:
        return &s->experts;
    case OPT_EXPERTS_USED:
        return &s->experts_used;
    case OPT_VOCAB:
        return &s->vocab;
    case OPT_CTX:
        return &s->ctx;
    default:
        return NULL;
    }
}

static int find_type(const char *name, size_t *ret_index)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *ret_index = i;
            return 0;
        }
    }
    return complain("--type %s: not one of f32, f16, q8_0, q4_0, q4_k, q6_k", name);
}

/* Returns 0, -1 after a message, or 1 when --help was served. */
static int parse(struct options *o, int argc, char **argv)
{
    const char *preset = "3M";
    int opt, index = 0;

    *o = (struct options){.seed = 1};
    o->shape.arch = arch_find("llama");
    o->shape.experts = -1;
    if (find_type("q4_0", &o->type) < 0)
        return -1;
    while ((opt = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        int64_t *size = size_field(&o->shape, opt);
        uint64_t value;
        if (size) {
            if (parse_number(long_options[index].name, optarg, 1 << 24, &value) < 0)
                return -1;
            if (value == 0 && opt != OPT_EXPERTS)
                return complain("--%s must not be 0", long_options[index].name);
            *size = (int64_t)value;
            continue;
        }
        switch (opt) {
        case OPT_ARCH:
            o->shape.arch = arch_find(optarg);
            if (!o->shape.arch)
                return complain("--arch %s: unknown; see --help", optarg);
            break;
        case OPT_TYPE:
            if (find_type(optarg, &o->type) < 0)
                return -1;
            break;
        case OPT_PRESET:
            preset = optarg;
            break;
        case OPT_SEED:
            if (parse_number("seed", optarg, UINT64_MAX, &o->seed) < 0)
                return -1;
            break;
        case OPT_OUTPUT:
            o->output = optarg;
            break;
        case OPT_HELP:
            usage(stdout);
            return 1;
        default: /* getopt has said what is wrong */
            return -1;
        }
    }
    if (optind < argc)
        return complain("%s: unexpected argument", argv[optind]);
    if (!o->output)
        return complain("--output FILE is missing; see --help");
    if (shape_preset(&o->shape, preset) < 0)
        return complain("--preset %s: not one of 3M, 135M, 1B, 8B", preset);

    char why[256];
    if (shape_finish(&o->shape, ggml_blck_size(types[o->type].type), why, sizeof(why)) < 0)
        return complain("%s", why);
    if (o->shape.vocab < VOCAB_MIN)
        return complain("--vocab must be at least %d: one token per byte and a few more",
                        VOCAB_MIN);
    return 0;
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

static int set_keys(struct gguf_context *gguf, const struct options *o)
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
    return vocab_write(gguf, s->vocab);
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
    int err; /* errno of the first failure, after which no more chunks are given out */
};

struct chunk {
    size_t entry;
    int64_t row, n;
};

static bool chunk_take(struct writing *w, struct chunk *ret_chunk)
{
    bool taken = false;
    pthread_mutex_lock(&w->lock);
    if (!w->err && w->entry < w->plan->n) {
        const struct plan_entry *e = &w->plan->entries[w->entry];
        const int64_t rows = e->ne[1] * e->ne[2], step = weights_step(e);
        *ret_chunk = (struct chunk){
            .entry = w->entry, .row = w->row, .n = rows - w->row < step ? rows - w->row : step};
        w->row += ret_chunk->n;
        if (w->row == rows) {
            w->row = 0;
            w->entry++;
        }
        taken = true;
    }
    pthread_mutex_unlock(&w->lock);
    return taken;
}

static void writing_fail(struct writing *w, int err)
{
    pthread_mutex_lock(&w->lock);
    if (!w->err)
        w->err = err;
    pthread_mutex_unlock(&w->lock);
}

/* Returns 0 or an errno. */
static int write_at(int fd, const void *data, size_t size, off_t at)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = pwrite(fd, p, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        p += n;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

static int chunk_write(struct writing *w, const struct chunk *c)
{
    const struct plan_entry *e = &w->plan->entries[c->entry];
    const enum ggml_type type = weights_type(e, types[w->o->type].type);
    const size_t row_size = ggml_row_size(type, e->ne[0]);
    float *values = malloc((size_t)(c->n * e->ne[0]) * sizeof(*values));
    void *stored = malloc((size_t)c->n * row_size);
    int err = ENOMEM;

    if (values && stored) {
        weights_make(e, type, w->o->seed, c->entry + 1, c->row, c->n, values, stored);
        err = write_at(w->fd, stored, (size_t)c->n * row_size,
                       w->data + (off_t)gguf_get_tensor_offset(w->gguf, (int64_t)c->entry) +
                           (off_t)((size_t)c->row * row_size));
    }
    free(stored);
    free(values);
    return err;
}

static void *writing_thread(void *arg)
{
    struct writing *w = arg;
    struct chunk c;
    while (chunk_take(w, &c)) {
        int err = chunk_write(w, &c);
        if (err)
            writing_fail(w, err);
    }
    return NULL;
}

/* Returns 0 or an errno. Every core takes part: a model of 8B is made of 8 thousand million values.
 */
static int write_tensors(struct writing *w)
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
    return w->err;
}

/* Returns 0 or an errno. */
static int write_model(FILE *f, const struct options *o, const struct plan *plan,
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
    errno = 0;
    if (!gguf_write_to_file_ptr(gguf, f, true) || fflush(f) != 0)
        return errno ? errno : EIO;
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
        return errno;
    return write_tensors(&w);
}

static int run(const struct options *o)
{
    struct plan plan = {0};
    struct gguf_context *gguf = NULL;
    struct ggml_context *ctx = NULL;
    FILE *f = NULL;
    char *partial = NULL;
    int err = -1;

    if (plan_create(&plan, &o->shape) < 0 || asprintf(&partial, "%s.part", o->output) < 0) {
        partial = NULL;
        complain("out of memory");
        goto out;
    }
    gguf = gguf_init_empty();
    ctx = ggml_init(
        (struct ggml_init_params){.mem_size = plan.n * ggml_tensor_overhead(), .no_alloc = true});
    if (!gguf || !ctx || set_keys(gguf, o) < 0) {
        complain("out of memory");
        goto out;
    }
    f = fopen(partial, "wbe");
    if (!f) {
        complain("%s: %s", partial, strerror(errno));
        goto out;
    }
    int failed = write_model(f, o, &plan, gguf, ctx);
    if (failed) {
        complain("%s: writing failed: %s", partial, strerror(failed));
        goto out;
    }
    int closed = fclose(f);
    f = NULL;
    if (closed != 0 || rename(partial, o->output) < 0) {
        complain("%s: %s", o->output, strerror(errno));
        goto out;
    }
    err = 0;
out:
    if (f)
        fclose(f);
    if (err && partial)
        remove(partial);
    ggml_free(ctx);
    gguf_free(gguf);
    plan_destroy(&plan);
    free(partial);
    return err;
}

int main(int argc, char **argv)
{
    struct options o;
    int parsed = parse(&o, argc, argv);
    if (parsed != 0)
        return parsed > 0 ? 0 : 2;
    int err = run(&o);
    ggml_quantize_free();
    return err ? 1 : 0;
}
