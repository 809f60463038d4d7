/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <ggml-backend.h>

#include "common/cleanup.h"
#include "tests/bench/stamp.h"
#include "tests/lib/clock.h"
#include "tests/lib/accelerators.h"

enum { UBATCH = 512 };
#define SETTLE_SECONDS 0.05 /* of tokens that are not counted, at most */

/* What llama.cpp says about where the model went. */
struct notes {
    bool verbose;
    int offloaded, layers;
};

static struct notes notes;

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    struct notes *n = data;
    const char *at = strstr(line, "offloaded ");
    if (at && sscanf(at, "offloaded %d/%d layers", &n->offloaded, &n->layers) != 2)
        n->offloaded = n->layers = 0;
    if (n->verbose || level == GGML_LOG_LEVEL_ERROR)
        fputs(line, stderr);
}

void engine_setup(bool verbose)
{
    notes = (struct notes){.verbose = verbose};
    llama_log_set(on_log, &notes);
    ggml_backend_load_all();
    unload_accelerators();
}

int engine_setup_stamp(const char *library, struct apir_error *err)
{
    if (library && !ggml_backend_load(library))
        return apir_error_set(err, ENOENT, "--stamp %s: ggml cannot load it; make all builds it",
                              library);
    return 0;
}

void engine_teardown(void)
{
    llama_log_set(NULL, NULL);
}

double engine_now(void)
{
    return (double)now_ns() / 1e9;
}

/* ggml ends the whole process if nobody answers there, with a backtrace and no advice. */
static bool somebody_listens(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    cleanup_free char *host = colon ? strndup(endpoint, (size_t)(colon - endpoint)) : NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    if (!host || getaddrinfo(host, colon + 1, &hints, &all) != 0)
        return false;
    bool ok = false;
    for (const struct addrinfo *a = all; a && !ok; a = a->ai_next) {
        cleanup_fd int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        ok = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0;
    }
    freeaddrinfo(all);
    return ok;
}

static int find_rpc(const char *endpoint, ggml_backend_dev_t *ret_device, struct apir_error *err)
{
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("RPC");
    if (!reg)
        return apir_error_set(err, ENODEV,
                              "ggml has no RPC backend here; install it (Debian: "
                              "libggml0-backend-rpc) or leave this side out");
    ggml_backend_reg_t (*add)(const char *) = (ggml_backend_reg_t (*)(
        const char *))ggml_backend_reg_get_proc_address(reg, "ggml_backend_rpc_add_server");
    ggml_backend_reg_t server = add && somebody_listens(endpoint) ? add(endpoint) : NULL;
    if (!server || ggml_backend_reg_dev_count(server) == 0)
        return apir_error_set(err, ENODEV, "no ggml-rpc-server answers at %s; start it first",
                              endpoint);
    *ret_device = ggml_backend_reg_dev_get(server, 0);
    return 0;
}

static int find_device(const char *name, ggml_backend_dev_t *ret_device, struct apir_error *err)
{
    *ret_device = NULL;
    if (strcmp(name, "CPU") == 0)
        return 0;
    if (strncmp(name, "rpc:", 4) == 0)
        return find_rpc(name + 4, ret_device, err);
    *ret_device = ggml_backend_dev_by_name(name);
    if (*ret_device)
        return 0;
    char there[256] = "";
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        size_t used = strlen(there);
        snprintf(there + used, sizeof(there) - used, " %s",
                 ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    return apir_error_set(err, ENODEV, "no device of that name; there are:%s", there);
}

int engine_init(struct engine *e, const struct option_side *side, struct apir_error *err)
{
    *e = (struct engine){.side = side};
    int ret = find_device(side->device, &e->devices[0], err);
    if (ret < 0)
        (void)apir_error_wrap(err, "--side %s=%s", side->name, side->device);
    return ret;
}

int engine_load(struct engine *e, const struct options *o, const char *path, struct apir_error *err)
{
    struct llama_model_params p = llama_model_default_params();
    p.devices = e->devices;
    p.n_gpu_layers = e->devices[0] ? 9999 : 0;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    p.use_extra_bufts = false;
    notes.offloaded = notes.layers = 0;
    e->is_stamped = o->stamp != NULL;
    e->model = llama_model_load_from_file(path, p);
    if (!e->model)
        return apir_error_set(err, EIO, "%s cannot be loaded on %s; --verbose says why", path,
                              e->side->device);
    /* Loaded is what has arrived there: a question is answered after what was sent before. */
    size_t free_bytes, total;
    if (e->devices[0])
        ggml_backend_dev_memory(e->devices[0], &free_bytes, &total);
    e->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(e->model));
    /* A side that computes half of it on the CPU would be compared under the device's name. */
    if (e->devices[0] && notes.offloaded != notes.layers) {
        engine_unload(e);
        return apir_error_set(err, ENOMEM, "only %d of %d layers went to %s; give a smaller model",
                              notes.offloaded, notes.layers, e->side->device);
    }
    return 0;
}

void engine_unload(struct engine *e)
{
    if (e->model)
        llama_model_free(e->model);
    e->model = NULL;
}

int engine_open(struct engine *e, const struct options *o, int n, struct apir_error *err)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)(n + 255) / 256 * 256;
    p.n_batch = p.n_ctx;
    p.n_ubatch = UBATCH;
    p.n_seq_max = 1;
    p.n_threads = p.n_threads_batch = o->threads;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    p.offload_kqv = true;
    p.op_offload = true;
    p.no_perf = true;
    e->ctx = llama_init_from_model(e->model, p);
    if (!e->ctx)
        return apir_error_set(err, ENOMEM, "no context on %s; --verbose says why", e->side->device);
    return 0;
}

void engine_fini(struct engine *e)
{
    if (e->ctx)
        llama_free(e->ctx);
    e->ctx = NULL;
    engine_unload(e);
}

void engine_clear(struct engine *e)
{
    llama_memory_clear(llama_get_memory(e->ctx), false);
    e->last = 1;
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

static int decode(struct engine *e, int32_t *tokens, int n, struct apir_error *err)
{
    int ret = llama_decode(e->ctx, llama_batch_get_one(tokens, n));
    if (ret)
        return apir_error_set(err, EIO, "%s: llama_decode failed with %d; --verbose says why",
                              e->side->name, ret);
    return 0;
}

int engine_prompt(struct engine *e, int n, double *ret_seconds, struct apir_error *err)
{
    cleanup_free int32_t *tokens = calloc((size_t)n, sizeof(*tokens));
    if (!tokens)
        return apir_error_sys(err, ENOMEM, "prompt");
    for (int i = 0; i < n; i++)
        tokens[i] = prompt_token((uint32_t)i, (uint32_t)e->n_vocab);
    engine_clear(e);
    llama_synchronize(e->ctx);
    double began = engine_now();
    int ret = decode(e, tokens, n, err);
    llama_synchronize(e->ctx);
    *ret_seconds = engine_now() - began;
    return ret;
}

static int32_t most_likely(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

int engine_generate(struct engine *e, int n, int32_t *tokens, double *ret_seconds,
                    struct apir_error *err)
{
    double began = engine_now();
    for (int i = 0; i < n; i++) {
        int ret = decode(e, &e->last, 1, err);
        if (ret < 0)
            return ret;
        const float *x = llama_get_logits_ith(e->ctx, -1);
        if (!x)
            return apir_error_set(err, EIO, "%s: no logits", e->side->name);
        e->last = most_likely(x, e->n_vocab);
        if (tokens)
            tokens[i] = e->last;
    }
    *ret_seconds = engine_now() - began;
    return 0;
}

static int stamp_check(struct engine *e, const float *logits, struct apir_error *err)
{
    struct stamp stamp = {0};
    if (logits && (size_t)e->n_vocab * sizeof(*logits) >= sizeof(stamp))
        memcpy(&stamp, logits, sizeof(stamp));
    if (stamp.magic != STAMP_MAGIC || stamp.count <= e->stamps)
        return apir_error_set(err, EILSEQ, "%s: no new stamp where logits should be",
                              e->side->name);
    e->stamps = stamp.count;
    return 0;
}

int engine_check(struct engine *e, struct apir_error *err)
{
    const float *x = llama_get_logits_ith(e->ctx, -1);
    if (e->is_stamped)
        return stamp_check(e, x, err);
    for (int i = 0; x && i < e->n_vocab; i++) {
        if (!isfinite(x[i]))
            return apir_error_set(err, ERANGE,
                                  "%s: logit %d is not a number: this side computes wrongly, so "
                                  "its speed means nothing",
                                  e->side->name, i);
    }
    return x ? 0 : apir_error_set(err, EIO, "%s: no logits", e->side->name);
}

static int generation_settle(struct engine *e, int n, struct apir_error *err)
{
    int ret = 0;
    double spent = 0, last;
    engine_clear(e);
    for (int i = 0; i < n && spent < SETTLE_SECONDS && ret == 0; i++) {
        ret = engine_generate(e, 1, NULL, &last, err);
        spent += last;
    }
    return ret;
}

/* As many as the options say, each checked; their mean. */
static int prompts(struct engine *e, const struct options *o, double *ret_seconds,
                   struct apir_error *err)
{
    int ret = 0;
    double sum = 0, last = 0;
    for (int i = 0; i < o->prompts && ret == 0; i++) {
        ret = engine_prompt(e, o->pp, &last, err);
        sum += last;
        if (ret == 0)
            ret = engine_check(e, err);
    }
    *ret_seconds = sum / o->prompts;
    return ret;
}

int engine_turn(struct engine *e, const struct options *o, struct turn *turn,
                struct apir_error *err)
{
    int ret = 0;
    if (o->pp && o->settle)
        ret = engine_prompt(e, o->pp, &turn->pp, err);
    if (ret == 0 && o->pp)
        ret = prompts(e, o, &turn->pp, err);
    if (ret < 0 || o->tg == 0)
        return ret;
    if (o->settle)
        ret = generation_settle(e, o->tg, err);
    engine_clear(e);
    if (ret == 0)
        ret = engine_generate(e, o->tg, turn->tokens, &turn->tg, err);
    return ret == 0 ? engine_check(e, err) : ret;
}
