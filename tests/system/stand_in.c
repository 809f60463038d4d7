/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's ggml that lists what does not compute: a backend whose devices, Bad0 and Good0, are said
 * to be GPUs and are ggml's own for the CPU, but for what STAND_IN says of Bad0:
 *
 * "abort": its first graph prints what CUDA's library does that is too new for its driver, and ends
 * the process. "signal": it ends it without a word. "hang": it never comes to an end. "fail": it
 * returns an error. "wrong": its results are off by one. "memory": it gives no memory. "open": it
 * does not open. "version": the backend is made for another version of ggml's interface.
 *
 * With "only-" before that there is no Good0, and with "both-" it does the same.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/ggml_abi.h"
#include "protocol/ggml_probe.h"

/* Most of what follows has parameters that ggml has chosen. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT       __attribute__((visibility("default")))
#define CPU_BACKENDS "/usr/lib/*/ggml/backends*/libggml-cpu*.so" /* as Debian has them */

const char *ggml_op_name(int op);

static struct ggml_layout layout;
static struct gg_device devices[2]; /* Bad0, Good0 */
static struct gg_device *cpu;
static struct gg_reg registration;
static uint64_t no_memory[GG_BUFT_WORDS];
static const char *fault = "";
static bool only, both;
static int (*compute)(void *backend, void *cgraph); /* the CPU's */

static bool is_bad(const void *dev)
{
    return dev == &devices[0] || both;
}

static bool has(const char *what)
{
    return strcmp(fault, what) == 0;
}

/* ---- what is bad ---------------------------------------------------------------- */

static int bad_compute(void *backend, void *cgraph)
{
    const struct gg_cgraph_head *graph = cgraph;
    if (!has("abort")) {
        fputs("stand-in: a bad device is to compute\n", stderr);
    } else {
        fputs("CUDA error: the provided PTX was compiled with an unsupported toolchain.\n", stderr);
        fputs("\033[31m  at frame #0\n", stderr);
        abort();
    }
    if (has("signal"))
        raise(SIGSEGV);
    while (has("hang"))
        pause();
    if (has("fail"))
        return GG_STATUS_FAILED;
    const int status = compute(backend, cgraph);
    if (has("wrong") && graph->n_nodes > 0)
        *(float *)graph->nodes[graph->n_nodes - 1]->data += 1.0f;
    return status;
}

static void *buft_alloc(void *buft, size_t size)
{
    return NULL;
}

static size_t buft_alignment(void *buft)
{
    return 64;
}

static const char *buft_name(void *buft)
{
    return "Bad0";
}

/* ---- the devices ---------------------------------------------------------------- */

static const char *device_name(void *dev)
{
    return dev == &devices[0] ? "Bad0" : "Good0";
}

static const char *device_description(void *dev)
{
    return dev == &devices[0] ? "lists, computes nothing" : "computes";
}

static void device_memory(void *dev, size_t *ret_free, size_t *ret_total)
{
    *ret_free = *ret_total = (size_t)1 << 30;
}

static int device_type(void *dev)
{
    return GG_DEV_GPU;
}

static void device_props(void *dev, void *props)
{
    cpu->iface.get_props(cpu, props);
    GG_AT(props, 0, const char *) = device_name(dev);
    GG_AT(props, 8, const char *) = device_description(dev);
    device_memory(dev, &GG_AT(props, 16, size_t), &GG_AT(props, 24, size_t));
    GG_AT(props, 32, int32_t) = GG_DEV_GPU;
}

static void *device_init(void *dev, const char *params)
{
    if (is_bad(dev) && has("open"))
        return NULL;
    void *backend = cpu->iface.init_backend(cpu, params);
    if (!backend)
        return NULL;
    GG_AT(backend, layout.backend.device, void *) = dev;
    memcpy(&compute, (char *)backend + layout.backend.graph_compute, sizeof(compute));
    int (*bad)(void *, void *) = bad_compute;
    if (is_bad(dev) && *fault)
        memcpy((char *)backend + layout.backend.graph_compute, &bad, sizeof(bad));
    return backend;
}

static void *device_buft(void *dev)
{
    return is_bad(dev) && has("memory") ? no_memory : cpu->iface.get_buffer_type(cpu);
}

static bool device_supports_op(void *dev, const struct gg_tensor *op)
{
    return cpu->iface.supports_op(cpu, op);
}

static bool device_supports_buft(void *dev, void *buft)
{
    return cpu->iface.supports_buft(cpu, buft);
}

static const char *reg_name(void *reg)
{
    return "STAND-IN";
}

static size_t reg_count(void *reg)
{
    return only ? 1 : 2;
}

static void *reg_device(void *reg, size_t index)
{
    return &devices[index];
}

/* ---- loading -------------------------------------------------------------------- */

/* The best of the CPU's backends for this processor, as ggml's loader chooses it. */
static struct gg_reg *cpu_load(void)
{
    glob_t found;
    void *best = NULL;
    int best_score = 0;
    if (glob(CPU_BACKENDS, 0, NULL, &found))
        return NULL;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        void *library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        void *p = library ? dlsym(library, "ggml_backend_score") : NULL;
        int (*score)(void);
        memcpy(&score, &p, sizeof(score));
        const int value = p ? score() : 0;
        if (value > best_score) {
            best = library;
            best_score = value;
        }
    }
    globfree(&found);
    void *p = best ? dlsym(best, "ggml_backend_init") : NULL;
    void *(*init)(void);
    memcpy(&init, &p, sizeof(init));
    return p ? init() : NULL;
}

static bool layout_find(void)
{
    char why[256];
    Dl_info info;
    void *anchor;
    const char *(*op_name)(int) = ggml_op_name;
    memcpy(&anchor, &op_name, sizeof(anchor));
    void *base = dladdr(anchor, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return base && ggml_probe_layout(dlsym, base, &layout, why, sizeof(why)) == 0;
}

static void fault_read(void)
{
    const char *said = getenv("STAND_IN");
    fault = said ? said : "";
    only = strncmp(fault, "only-", 5) == 0;
    both = strncmp(fault, "both-", 5) == 0;
    fault += only || both ? 5 : 0;
}

EXPORT void *ggml_backend_init(void);

EXPORT void *ggml_backend_init(void)
{
    const char *(*name)(void *) = buft_name;
    void *(*alloc)(void *, size_t) = buft_alloc;
    size_t (*alignment)(void *) = buft_alignment;
    const struct gg_reg *reg = layout_find() ? cpu_load() : NULL;
    if (!reg) {
        fputs("stand-in: no backend of the CPU\n", stderr);
        return NULL;
    }
    fputs("stand-in: loaded\n", stderr);
    fault_read();
    cpu = reg->get_device((void *)(uintptr_t)reg, 0);
    memcpy(no_memory, &name, sizeof(name));
    memcpy((char *)no_memory + layout.buft.alloc, &alloc, sizeof(alloc));
    memcpy((char *)no_memory + layout.buft.align, &alignment, sizeof(alignment));
    GG_AT(no_memory, layout.buft.device, void *) = &devices[0];
    for (int i = 0; i < 2; i++)
        devices[i] = (struct gg_device){
            .iface = {.get_name = device_name,
                      .get_description = device_description,
                      .get_memory = device_memory,
                      .get_type = device_type,
                      .get_props = device_props,
                      .init_backend = device_init,
                      .get_buffer_type = device_buft,
                      .supports_op = device_supports_op,
                      .supports_buft = device_supports_buft},
            .reg = &registration,
        };
    registration = (struct gg_reg){.api_version = layout.api_version - has("version"),
                                   .get_name = reg_name,
                                   .get_device_count = reg_count,
                                   .get_device = reg_device};
    return &registration;
}
