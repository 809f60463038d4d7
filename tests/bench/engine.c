/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/engine.h"

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

void engine_setup(const struct options *o)
{
    notes = (struct notes){.verbose = o->verbose};
    llama_log_set(on_log, &notes);
    ggml_backend_load_all();
    unload_accelerators();
    if (o->stamp && !ggml_backend_load(o->stamp))
        fail("--stamp %s: ggml cannot load it; make all builds it", o->stamp);
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

static ggml_backend_dev_t find_rpc(const struct option_side *side)
{
    const char *endpoint = side->device + 4;
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("RPC");
    if (!reg)
        fail("--side %s=%s: ggml has no RPC backend here; install it (Debian: "
             "libggml0-backend-rpc) or leave this side out",
             side->name, side->device);
    ggml_backend_reg_t (*add)(const char *) = (ggml_backend_reg_t (*)(
        const char *))ggml_backend_reg_get_proc_address(reg, "ggml_backend_rpc_add_server");
    ggml_backend_reg_t server = add && somebody_listens(endpoint) ? add(endpoint) : NULL;
    if (!server || ggml_backend_reg_dev_count(server) == 0)
        fail("--side %s=%s: no ggml-rpc-server answers there; start it first", side->name,
             side->device);
    return ggml_backend_reg_dev_get(server, 0);
}

static ggml_backend_dev_t find_device(const struct option_side *side)
{
    if (strncmp(side->device, "rpc:", 4) == 0)
        return find_rpc(side);
    ggml_backend_dev_t found = ggml_backend_dev_by_name(side->device);
    if (found)
        return found;
    char there[256] = "";
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        size_t used = strlen(there);
        snprintf(there + used, sizeof(there) - used, " %s",
                 ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    fail("--side %s=%s: no device of that name; there are:%s", side->name, side->device, there);
}

void engine_init(struct engine *e, const struct option_side *side)
{
    *e = (struct engine){.side = side};
    if (strcmp(side->device, "CPU") != 0)
        e->devices[0] = find_device(side);
}

/* Waits until the device has done all that was sent to it: it answers a question after that. */
static void settle(const struct engine *e)
{
    size_t free_bytes, total;
    if (e->devices[0])
        ggml_backend_dev_memory(e->devices[0], &free_bytes, &total);
}

void engine_load(struct engine *e, const struct options *o, const char *path)
{
    struct llama_model_params p = llama_model_default_params();
    p.devices = e->devices;
    p.n_gpu_layers = e->devices[0] ? 9999 : 0;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    notes.offloaded = notes.layers = 0;
    e->is_stamped = o->stamp;
    e->model = llama_model_load_from_file(path, p);
    if (!e->model)
        fail("%s cannot be loaded on %s; --verbose says why", path, e->side->device);
    /* Loaded is what the device has, not what is on its way there. */
    settle(e);
    e->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(e->model));
    /* A side that computes half of it on the CPU would be compared under the device's name. */
    if (e->devices[0] && notes.offloaded != notes.layers)
        fail("only %d of %d layers went to %s; give a smaller model", notes.offloaded, notes.layers,
             e->side->device);
}

void engine_unload(struct engine *e)
{
    if (e->model) {
        llama_model_free(e->model);
        /* The device may still be giving memory back, and the next load would wait for that. */
        settle(e);
    }
    e->model = NULL;
}

void engine_start(struct engine *e, const struct options *o, const struct option_side *side,
                  const char *path, int n)
{
    struct llama_context_params p = llama_context_default_params();
    engine_init(e, side);
    engine_load(e, o, path);
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
        fail("no context on %s; --verbose says why", side->device);
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

static void decode(struct engine *e, int32_t *tokens, int n)
{
    int rc = llama_decode(e->ctx, llama_batch_get_one(tokens, n));
    if (rc)
        fail("%s: llama_decode failed with %d; --verbose says why", e->side->name, rc);
}

/* A made-up prompt of n tokens from an empty cache, until the device is done with it. */
static double prompt(struct engine *e, int n)
{
    cleanup_free int32_t *tokens = allocate((size_t)n, sizeof(*tokens));
    for (int i = 0; i < n; i++)
        tokens[i] = prompt_token((uint32_t)i, (uint32_t)e->n_vocab);
    engine_clear(e);
    llama_synchronize(e->ctx);
    double began = engine_now();
    decode(e, tokens, n);
    llama_synchronize(e->ctx);
    return engine_now() - began;
}

static const float *logits(struct engine *e)
{
    const float *x = llama_get_logits_ith(e->ctx, -1);
    if (!x)
        fail("%s: no logits", e->side->name);
    return x;
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

double engine_generate(struct engine *e, int n, int32_t *tokens)
{
    double began = engine_now();
    for (int i = 0; i < n; i++) {
        decode(e, &e->last, 1);
        e->last = most_likely(logits(e), e->n_vocab);
        if (tokens)
            tokens[i] = e->last;
    }
    return engine_now() - began;
}

static void stamp_check(struct engine *e, const float *x)
{
    struct stamp stamp = {0};
    if ((size_t)e->n_vocab * sizeof(*x) >= sizeof(stamp))
        memcpy(&stamp, x, sizeof(stamp));
    if (stamp.magic != STAMP_MAGIC || stamp.count <= e->stamps)
        fail("%s: no new stamp where logits should be", e->side->name);
    e->stamps = stamp.count;
}

void engine_check(struct engine *e)
{
    const float *x = logits(e);
    if (e->is_stamped)
        stamp_check(e, x);
    for (int i = 0; !e->is_stamped && i < e->n_vocab; i++) {
        if (!isfinite(x[i]))
            fail("%s: logit %d is not a number: this side computes wrongly, so its speed means "
                 "nothing",
                 e->side->name, i);
    }
}

static void generation_settle(struct engine *e, int n)
{
    double spent = 0;
    engine_clear(e);
    for (int i = 0; i < n && spent < SETTLE_SECONDS; i++)
        spent += engine_generate(e, 1, NULL);
}

void engine_turn(struct engine *e, const struct options *o, struct turn *turn)
{
    if (o->pp && o->settle)
        prompt(e, o->pp);
    turn->pp = turn->tg = 0;
    for (int i = 0; o->pp && i < o->prompts; i++) {
        turn->pp += prompt(e, o->pp) / o->prompts;
        engine_check(e);
    }
    if (o->tg == 0)
        return;
    if (o->settle)
        generation_settle(e, o->tg);
    engine_clear(e);
    turn->tg = engine_generate(e, o->tg, turn->tokens);
    engine_check(e);
}
