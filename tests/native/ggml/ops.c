/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops [--seed N] [--cases N] [--show] [FOLDER]: single operations, made by the builders of whatever
 * ggml this program has been given at run time, computed on that ggml's CPU and on APIR0, whose
 * host may have another ggml. FOLDER: where its backends are.
 *
 * What an operation's parameters mean has changed over time. A host that takes them for something
 * else computes something else: that is found here. Kernels of versions round otherwise, so results
 * may differ by what rounding explains. What the host does not support is not computed there; it is
 * counted by names.
 *
 * What this ggml has not, or does not take, is passed over: a builder that it lacks comes from
 * tests/native/ggml/module.mk, and one that asserts is left by its signal.
 *
 * Prints a line for each operation that differs and for each that is not supported, and exits with
 * 0; with 1 if something differs; with 3 where the host is lost and with 4 where this process is at
 * its end, having printed the next seed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include "tests/native/differ/differ.h"
#include "tests/hostile/fuzz/graph_ops.h"
#include "tests/lib/clock.h"

/* Older versions have no other way to ask for a precision. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { NAMES_MAX = 256, ANY_INTEGER = 20 };

/* By what an op is called; the number that this program was built with may be another one's. */
struct tally {
    char name[64];
    uint64_t computed, left, wrong;
};
static struct tally tallies[NAMES_MAX];

static struct tally *tally_of(const struct ggml_tensor *t)
{
    const char *name = ggml_op_desc(t);
    size_t i = 0;
    while (i < NAMES_MAX - 1 && tallies[i].name[0] && strcmp(tallies[i].name, name) != 0)
        i++;
    snprintf(tallies[i].name, sizeof(tallies[i].name), "%s", name);
    return &tallies[i];
}

static uint64_t count(uint64_t *ret_wrong)
{
    uint64_t computed = 0;
    *ret_wrong = 0;
    for (size_t i = 0; i < NAMES_MAX; i++) {
        computed += tallies[i].computed;
        *ret_wrong += tallies[i].wrong;
    }
    return computed;
}

/* ---- what this ggml does not do ------------------------------------------------- */

static sigjmp_buf refused;
static volatile sig_atomic_t trying;
static uint64_t at; /* the seed of the case at hand */

/* Called by the stand-ins for builders that this ggml lacks. */
__attribute__((visibility("default"))) void ops_missing(void);
void ops_missing(void)
{
    if (trying)
        siglongjmp(refused, 1);
    fputs("ops: this ggml lacks a function\n", stderr);
    _Exit(2);
}

/* Whether this ggml has a function, and not a stand-in for it. */
static bool has(const char *function)
{
    Dl_info info;
    void *p = dlsym(RTLD_DEFAULT, function);
    return p && dladdr(p, &info) && !strstr(info.dli_fname, "libggml-missing");
}

/* For one case. A host that is silent is lost sooner (APIR_SILENCE_SECONDS, 15), so what takes
 * longer is this process: it waits for a lock of the heap, which a kernel has spoilt or a jump has
 * left. */
#define CASE_SECONDS 30

static void on_signal(int number)
{
    if (trying && number != SIGALRM)
        siglongjmp(refused, 1);
    /* A kernel of an earlier case has written where it should not. */
    char text[160];
    uint64_t wrong;
    const uint64_t computed = count(&wrong);
    const int n = snprintf(text, sizeof(text),
                           "ops: %llu computed, %llu wrong\n"
                           "ENDED by signal %d; --seed %llu goes on\n",
                           (unsigned long long)computed, (unsigned long long)wrong, number,
                           (unsigned long long)at + 1);
    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(5);
    _exit(4);
}

static void signals_init(void)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGALRM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

/* ---- more operations whose parameters have changed -------------------------------- */

static struct ggml_tensor *leaf(struct ggml_context *c, int64_t n0, int64_t n1, int64_t n2)
{
    return ggml_new_tensor_4d(c, GGML_TYPE_F32, n0, n1, n2, 1);
}

static struct ggml_tensor *extra_rope(struct ggml_context *c, struct dice *d)
{
    struct ggml_tensor *pos = ggml_new_tensor_1d(c, GGML_TYPE_I32, 5);
    struct ggml_tensor *t =
        ggml_rope_ext(c, leaf(c, 64, 3, 5), pos, NULL, 32, dice_roll(d, 2) ? 2 : 0, 512, 1e4f, 1,
                      (float)dice_roll(d, 2), 1, 32, 1);
    return dice_roll(d, 2) ? ggml_rope_set_offset(t, 16) : t;
}

static struct ggml_tensor *extra_glu(struct ggml_context *c, struct dice *d)
{
    struct ggml_tensor *a = leaf(c, 64, 3, 5), *b = leaf(c, 64, 3, 5);
    return dice_roll(d, 2) ? ggml_swiglu_oai(c, a, b, 1.5f, 0.5f)
                           : ggml_swiglu_clamp(c, a, b, 0.25f);
}

static struct ggml_tensor *extra_mul_mat(struct ggml_context *c, struct dice *d)
{
    static const enum ggml_prec precisions[] = {GGML_PREC_DEFAULT, GGML_PREC_F32, GGML_PREC_F16,
                                                GGML_PREC_Q8};
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0};
    struct ggml_tensor *a = ggml_new_tensor_2d(c, types[dice_roll(d, 3)], 64, 7);
    struct ggml_tensor *t = ggml_mul_mat(c, a, leaf(c, 64, 3, 1));
    ggml_mul_mat_set_prec(t, precisions[dice_roll(d, 4)]);
    /* In a place of its own since 0.24, when the first one's numbers came, too. */
    if (has("ggml_prec_set_src") && dice_roll(d, 3) == 0)
        ggml_prec_set_src(t, GGML_PREC_Q8, 1);
    return t;
}

static struct ggml_tensor *extra_flash(struct ggml_context *c, struct dice *d)
{
    const int64_t kv = 64;
    struct ggml_tensor *k = ggml_new_tensor_3d(c, GGML_TYPE_F16, 64, kv, 2);
    struct ggml_tensor *v = ggml_new_tensor_3d(c, GGML_TYPE_F16, 64, kv, 2);
    struct ggml_tensor *mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, kv, 64);
    struct ggml_tensor *t = ggml_flash_attn_ext(c, leaf(c, 64, 3, 4), k, v, mask, 0.125f, 0, 0);
    ggml_flash_attn_ext_set_prec(t, dice_roll(d, 2) ? GGML_PREC_F32 : GGML_PREC_DEFAULT);
    if (dice_roll(d, 2))
        ggml_flash_attn_ext_set_n_kv_max(t, (int32_t)kv);
    return t;
}

static struct ggml_tensor *extra_sizes(struct ggml_context *c, struct dice *d)
{
    struct ggml_tensor *a = leaf(c, 5, 4, 3);
    switch (dice_roll(d, 5)) {
    case 0:
        return ggml_pad(c, a, (int)dice_roll(d, 3), (int)dice_roll(d, 3), 1, 0);
    case 1:
        return ggml_pad_circular(c, a, 1, 1, 0, 0);
    case 2:
        return ggml_upscale(c, a, 2, (enum ggml_scale_mode)dice_roll(d, 3));
    case 3:
        return ggml_scale(c, a, 0.5f);
    default:
        return ggml_scale_bias(c, a, 0.5f, 2);
    }
}

static struct ggml_tensor *(*const extras[])(struct ggml_context *, struct dice *) = {
    extra_rope, extra_glu, extra_mul_mat, extra_flash, extra_sizes};
enum { N_EXTRAS = sizeof(extras) / sizeof(extras[0]) };

/* ---- a case ------------------------------------------------------------------------ */

struct world {
    ggml_backend_dev_t dev[SIDES];
    ggml_backend_t backend[SIDES];
};

struct scene {
    struct ggml_context *ctx;
    struct ggml_tensor *result;
    struct ggml_cgraph *graph;
    ggml_backend_buffer_t buffer;
};

static void scene_fini(struct scene *s)
{
    if (s->buffer)
        ggml_backend_buffer_free(s->buffer);
    if (s->ctx)
        ggml_free(s->ctx);
    *s = (struct scene){.ctx = NULL};
}

static bool packed(const struct ggml_tensor *t)
{
    size_t next = ggml_row_size(t->type, t->ne[0]);
    bool yes = t->nb[0] == ggml_type_size(t->type);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        yes = yes && t->nb[i] == next;
        next *= (size_t)t->ne[i];
    }
    return yes;
}

/* What is not to be compared. */
static bool is_odd(const struct ggml_tensor *t)
{
    const char *op = ggml_op_name(t->op);
    const int32_t *p = t->op_params;
    /* The CPU's kernel never ends where nothing is turned, and an older ggml has no such way. */
    if (strncmp(op, "ROPE", 4) == 0)
        return p[1] == 0 || (p[2] == 40 && !has("ggml_cumsum"));
    /* Nor such a way to scale. */
    if (strcmp(op, "UPSCALE") == 0)
        return p[0] > 1 && !has("ggml_build_forward_select");
    /* Copying blocks the oldest CPU backend writes beyond them. */
    if ((strcmp(op, "CPY") == 0 || strcmp(op, "DUP") == 0) && ggml_is_quantized(t->type))
        return !has("ggml_set_rows");
    /* On CPUs with AVX2 alone that of 3.13.0 is wrong (backend/worker/rules/meaning.c). */
    if (strcmp(op, "SCALE") == 0)
        return p[1] != 0 && !has("ggml_build_forward_select");
    /* Beyond heads of odd sizes the kernel writes. */
    if (strcmp(op, "RWKV_WKV7") == 0)
        return t->ne[0] % 32 != 0;
    /* A matrix of random numbers is not the one that the hint says it is. */
    return strcmp(op, "MUL_MAT") == 0 && p[1] != 0;
}

static bool scene_make(struct scene *s, uint64_t seed)
{
    const struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
    struct dice d = {.state = seed};
    const unsigned which = dice_roll(&d, graph_ops_count + 3 * N_EXTRAS);
    *s = (struct scene){.ctx = ggml_init(params)};
    s->result = which < graph_ops_count ? graph_op_make(s->ctx, &d, which)
                                        : extras[(which - graph_ops_count) % N_EXTRAS](s->ctx, &d);
    if (!s->result)
        return false;
    s->graph = ggml_new_graph_custom(s->ctx, 64, false);
    ggml_build_forward_expand(s->graph, s->result);
    if (is_odd(s->result))
        return false;
    /* Odd leaves are for the same version on both sides (tests/native/differ). */
    if (ggml_graph_n_nodes(s->graph) != 1)
        return false;
    for (struct ggml_tensor *t = ggml_get_first_tensor(s->ctx); t;
         t = ggml_get_next_tensor(s->ctx, t)) {
        if (!t->view_src && (!packed(t) || ggml_nelements(t) < 1))
            return false;
    }
    return true;
}

/* How large an index may be that source i of this op holds. */
static int64_t limit_of(const struct ggml_tensor *t, int i)
{
    static const struct {
        const char *op;
        int ids, of, dimension; /* of a source; -1: the result */
    } indexed[] = {
        {"GET_ROWS", 1, 0, 1}, {"GET_ROWS_BACK", 1, -1, 1}, {"SET_ROWS", 1, -1, 1},
        {"ADD_ID", 2, 1, 1},   {"MUL_MAT_ID", 2, 0, 2},     {"SSM_SCAN", 6, 0, 3},
    };
    for (size_t n = 0; n < sizeof(indexed) / sizeof(indexed[0]); n++) {
        if (indexed[n].ids == i && strcmp(ggml_op_name(t->op), indexed[n].op) == 0)
            return indexed[n].of < 0 ? t->ne[indexed[n].dimension]
                                     : t->src[indexed[n].of]->ne[indexed[n].dimension];
    }
    return ANY_INTEGER;
}

static void fill(const struct ggml_tensor *result, struct ggml_tensor *t, struct differ_random *r)
{
    const int64_t n = ggml_nelements(t);
    int64_t limit = ANY_INTEGER;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (result->src[i] == t && limit_of(result, i) < limit)
            limit = limit_of(result, i);
    }
    float *numbers = differ_alloc((size_t)n * sizeof(*numbers));
    void *data = differ_alloc(ggml_nbytes(t));
    for (int64_t i = 0; i < n; i++)
        numbers[i] = differ_float(r);
    const int64_t first = differ_below(r, (uint32_t)limit);
    memset(data, 0, ggml_nbytes(t));
    if (t->type == GGML_TYPE_I32) {
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)data)[i] = (int32_t)((first + i) % limit);
    } else if (t->type == GGML_TYPE_I64) {
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)data)[i] = (first + i) % limit;
    } else if (t->type == GGML_TYPE_F32) {
        memcpy(data, numbers, ggml_nbytes(t));
    } else if (t->type == GGML_TYPE_F16) {
        ggml_fp32_to_fp16_row(numbers, data, n);
    } else if (t->type == GGML_TYPE_BF16) {
        ggml_fp32_to_bf16_row(numbers, data, n);
    } else if (ggml_is_quantized(t->type) && t->type != GGML_TYPE_Q8_1 &&
               t->type != GGML_TYPE_Q8_K) {
        float *importance = differ_alloc((size_t)t->ne[0] * sizeof(*importance));
        for (int64_t i = 0; i < t->ne[0]; i++)
            importance[i] = 1;
        ggml_quantize_chunk(t->type, numbers, data, 0, n / t->ne[0], t->ne[0], importance);
        free(importance);
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(numbers);
    free(data);
}

/* The result's bytes, to be freed; NULL: it was not computed. */
static void *scene_compute(struct scene *s, ggml_backend_t backend, uint64_t seed)
{
    struct differ_random r = differ_random(seed);
    s->buffer = ggml_backend_alloc_ctx_tensors(s->ctx, backend);
    if (!s->buffer)
        return NULL;
    ggml_backend_buffer_clear(s->buffer, 0);
    for (struct ggml_tensor *t = ggml_get_first_tensor(s->ctx); t;
         t = ggml_get_next_tensor(s->ctx, t)) {
        if (t != s->result && !t->view_src)
            fill(s->result, t, &r);
    }
    if (ggml_backend_graph_compute(backend, s->graph) != GGML_STATUS_SUCCESS)
        return NULL;
    void *data = differ_alloc(ggml_nbytes(s->result) + 1);
    ggml_backend_tensor_get(s->result, data, 0, ggml_nbytes(s->result));
    return data;
}

/* ---- what differs -------------------------------------------------------------------- */

static double number_at(enum ggml_type type, const void *data, size_t i)
{
    if (type == GGML_TYPE_F32)
        return (double)((const float *)data)[i];
    if (type == GGML_TYPE_F16)
        return (double)ggml_fp16_to_fp32(((const ggml_fp16_t *)data)[i]);
    return (double)ggml_bf16_to_fp32(((const ggml_bf16_t *)data)[i]);
}

/* Of all that differs the square, by all that there is; what has no square is to be alike. */
static double error_of(const struct ggml_tensor *t, const void *native, const void *remote)
{
    const size_t size = ggml_nbytes(t);
    if (t->type != GGML_TYPE_F32 && t->type != GGML_TYPE_F16 && t->type != GGML_TYPE_BF16) {
        /* A number that lies between two steps of a block goes either way. */
        size_t other = 0;
        for (size_t i = 0; i < size; i++)
            other += ((const char *)native)[i] != ((const char *)remote)[i];
        return ggml_is_quantized(t->type) && other * 50 < size ? 0 : (double)other;
    }
    double sum = 0, all = 0;
    for (size_t i = 0; i < size / ggml_type_size(t->type); i++) {
        const double a = number_at(t->type, native, i), b = number_at(t->type, remote, i);
        if (isfinite(a) && isfinite(b)) {
            sum += (a - b) * (a - b);
            all += a * a;
        } else if (!(isnan(a) && isnan(b)) && !(a == b)) {
            return INFINITY;
        }
    }
    return sum > 0 ? sum / (all > 1e-6 ? all : 1e-6) : 0;
}

/* Half of what a result of f16 rounds, squared, is 1e-7; attention over a quantised cache has more.
 */
static const double error_max = 5e-4;

/* All that an operation is told, for a person. */
static void describe(const struct ggml_tensor *t, uint64_t seed)
{
    printf("%s, seed %llu: %s", ggml_op_desc(t), (unsigned long long)seed, ggml_type_name(t->type));
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *s = t->src[i];
        if (s)
            printf(" %s %lldx%lldx%lldx%lld", ggml_type_name(s->type), (long long)s->ne[0],
                   (long long)s->ne[1], (long long)s->ne[2], (long long)s->ne[3]);
    }
    for (int i = 0; i < 16; i++)
        printf(" %d", t->op_params[i]);
    putchar('\n');
    fflush(stdout);
}

static void judge(const struct scene *s, const void *native, const void *remote, uint64_t seed)
{
    struct tally *tally = tally_of(s->result);
    const double error = error_of(s->result, native, remote);
    tally->computed++;
    if (error <= error_max)
        return;
    tally->wrong++;
    printf("DIFFERS by %g: ", error);
    describe(s->result, seed); /* and out with it: the process may end in the next case */
}

static bool show; /* each case before it is computed */

/* 0, or -1: the host is lost. */
static int case_run(struct world *w, uint64_t seed)
{
    static struct scene scenes[SIDES]; /* static: they outlive a jump */
    void *volatile native = NULL, *remote;
    volatile int rc = 0;
    trying = 1;
    if (sigsetjmp(refused, 1)) {
        trying = 0;
        /* What the builder or the kernel has left behind stays. */
        memset(scenes, 0, sizeof(scenes));
        return 0;
    }
    if (scene_make(&scenes[NATIVE], seed) && scene_make(&scenes[REMOTE], seed) &&
        ggml_backend_dev_supports_op(w->dev[NATIVE], scenes[NATIVE].result)) {
        /* First: the host's rules refuse what kernels do not survive. */
        if (show)
            describe(scenes[NATIVE].result, seed);
        if (ggml_backend_dev_supports_op(w->dev[REMOTE], scenes[REMOTE].result))
            native = scene_compute(&scenes[NATIVE], w->backend[NATIVE], seed);
        else
            tally_of(scenes[REMOTE].result)->left++;
    }
    trying = 0;
    if (native) {
        remote = scene_compute(&scenes[REMOTE], w->backend[REMOTE], seed);
        if (remote)
            judge(&scenes[REMOTE], native, remote, seed);
        else
            rc = -1;
        free(remote);
    }
    if (rc)
        printf("LOST by %s; --seed %llu goes on\n", ggml_op_desc(scenes[REMOTE].result),
               (unsigned long long)seed + 1);
    free(native);
    scene_fini(&scenes[NATIVE]);
    scene_fini(&scenes[REMOTE]);
    return rc;
}

/* A kernel that is left by a jump must have no others beside it. */
static void one_thread(ggml_backend_dev_t dev, ggml_backend_t backend)
{
    void *p = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set;
    memcpy(&set, &p, sizeof(set));
    if (set)
        set(backend, 1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)level;
    (void)text;
    (void)data;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, cases = 1000;
    const char *folder = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc)
            cases = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--show") == 0)
            show = true;
        else
            folder = argv[i];
    }
    ggml_log_set(quiet, NULL);
    if (folder)
        ggml_backend_load_all_from_path(folder);
    else
        ggml_backend_load_all();
    struct world w = {.dev = {ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU),
                              ggml_backend_dev_by_name("APIR0")}};
    for (int s = 0; s < SIDES; s++) {
        w.backend[s] = w.dev[s] ? ggml_backend_dev_init(w.dev[s], NULL) : NULL;
        if (!w.backend[s]) {
            fprintf(stderr, "ops: no %s\n", s == NATIVE ? "CPU" : "APIR0");
            return 2;
        }
    }
    one_thread(w.dev[NATIVE], w.backend[NATIVE]);
    /* What a kernel has done to the heap is no reason to say nothing. */
    static char lines[1 << 16];
    setvbuf(stdout, lines, _IOFBF, sizeof(lines));
    signals_init();
    int rc = 0;
    for (uint64_t end = seed + cases; seed < end && rc == 0; seed++) {
        at = seed;
        alarm_patiently(CASE_SECONDS);
        rc = case_run(&w, seed);
    }
    uint64_t wrong;
    const uint64_t computed = count(&wrong);
    for (size_t i = 0; i < NAMES_MAX && tallies[i].name[0]; i++) {
        if (tallies[i].left)
            printf("left to the guest: %s, %llu of %llu\n", tallies[i].name,
                   (unsigned long long)tallies[i].left,
                   (unsigned long long)(tallies[i].left + tallies[i].computed));
    }
    printf("ops: %llu computed, %llu wrong\n", (unsigned long long)computed,
           (unsigned long long)wrong);
    fflush(stdout);
    _Exit(rc ? 3 : wrong || !computed ? 1 : 0);
}
