/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama-differ: the same random operations of libllama with a model on the CPU and with the same
 * model on a remote device. Where the host computes with its CPU and one thread too, all numbers
 * are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/llama_steps.h"

enum { THREADS_MAX = 4, CONTEXTS_MAX = 3, ALL_LAYERS = 99 };

static ggml_backend_dev_t devices[SIDES];
static struct llama_model *model[SIDES]; /* of the sequence */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/*
 * Natively llama.cpp repacks all weights that it can, and beside a device it leaves the CPU's part
 * plain, which rounds otherwise. So no layer stays with the CPU where weights are of a type that
 * some CPU repacks; files of such weights (run.sh) have it in their names.
 */
static bool repacks(const char *file)
{
    return strstr(file, "-q8_0.") || strstr(file, "-q4_0.") || strstr(file, "-f16.");
}

/* Natively nothing is offloaded. Some layers of the remote one may stay with the CPU. */
static struct llama_model *load(const char *file, int side, int layers, bool no_host)
{
    ggml_backend_dev_t list[2] = {side == REMOTE ? devices[REMOTE] : NULL, NULL};
    struct llama_model_params p = llama_model_default_params();
    p.devices = list;
    p.n_gpu_layers = side == REMOTE ? layers : 0;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    p.no_host = no_host;
    return llama_model_load_from_file(file, p);
}

static void do_contexts(uint64_t seed, unsigned thread)
{
    struct differ_random r = differ_random(seed + UINT64_C(0x100000000) * (thread + 1));
    struct twin twins[CONTEXTS_MAX];
    bool open[CONTEXTS_MAX] = {false};
    const unsigned n = 1 + differ_below(&r, CONTEXTS_MAX);
    uint64_t steps = 10 + differ_below(&r, 50);
    if (differ_options.steps && steps > differ_options.steps)
        steps = differ_options.steps;
    for (uint64_t i = 0; i < steps; i++) {
        const unsigned which = differ_below(&r, n);
        if (open[which] && differ_chance(&r, 3)) {
            differ_step("the end of context %u", which);
            twin_close(&twins[which]);
            open[which] = false;
        }
        if (!open[which]) {
            open[which] = twin_open(&twins[which], &r, model);
            if (!open[which])
                twin_close(&twins[which]);
        } else {
            twin_step(&twins[which]);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if (open[i])
            twin_close(&twins[i]);
    }
}

/* Some sequences have several threads with contexts of their own, of the same models. */
static void sequence(uint64_t seed)
{
    static const int layers[] = {ALL_LAYERS, ALL_LAYERS, ALL_LAYERS, 1, 2, 0};
    struct differ_random r = differ_random(seed);
    const char *file = differ_options.files[differ_below(&r, (uint32_t)differ_options.n_files)];
    const int picked = layers[differ_below(&r, sizeof(layers) / sizeof(layers[0]))];
    const int offloaded = repacks(file) ? ALL_LAYERS : picked;
    const bool no_host = differ_chance(&r, 15);
    const unsigned n = differ_n_threads(&r, 3, THREADS_MAX);

    differ_sequence(seed, 0);
    differ_uses(file);
    differ_step("%s with %d layers offloaded%s, %u threads", base_name(file), offloaded,
                no_host ? ", no host buffers" : "", n);
    for (int s = 0; s < SIDES; s++) {
        model[s] = load(file, s, offloaded, no_host);
        if (!model[s])
            differ_found("%s cannot be loaded on the %s side", file, side_names[s]);
    }
    differ_threads(seed, n, do_contexts);
    for (int s = 0; s < SIDES; s++)
        llama_model_free(model[s]);
}

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    (void)data;
    /* Errors that both sides have alike are part of the test. */
    if (differ_options.verbose && level >= GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_CONT)
        fputs(line, stderr);
}

int main(int argc, char **argv)
{
    if (differ_parse("llama-differ", argc, argv) < 0)
        return 2;
    if (differ_options.n_files == 0) {
        fprintf(stderr, "llama-differ: which models?\n");
        return 2;
    }
    llama_log_set(on_log, NULL);
    if (differ_devices(devices) < 0)
        return 2;
    const int rc = differ_run(sequence);
    llama_log_set(NULL, NULL);
    return rc;
}
