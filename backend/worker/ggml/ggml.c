/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/ggml.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/worker/ggml/fns.h"
#include "backend/worker/ggml/passed.h"
#include "backend/worker/ggml/system.h"
#include "protocol/gguf.h"
#include "protocol/ggml_probe.h"
#include "protocol/graph.h"
#include "common/log.h"

static struct host_ggml_fns fns; /* one ggml per process, as one worker per context */

/* ---- loading ---------------------------------------------------------------- */

static int fns_load(void *lib, struct apir_error *err)
{
    void *p;
#define R(ret, name, args)                                                                         \
    p = dlsym(lib, #name);                                                                         \
    if (!p)                                                                                        \
        return apir_error_set(err, ENOTSUP, "the host's ggml lacks %s", #name);                    \
    memcpy(&fns.name, &p, sizeof(p));
#define O(ret, name, args)                                                                         \
    p = dlsym(lib, #name);                                                                         \
    memcpy(&fns.name, &p, sizeof(p));
    HOST_SYMBOLS(R, O)
#undef R
#undef O
    return 0;
}

/*
 * ggml's name functions have no bounds check: past its end an array yields some
 * neighbour's word. A word that does not point into the library, or points to
 * something that is no upper-case identifier, ends the list.
 */
static bool looks_like_name(const struct host_range *lib, const char *s)
{
    uintptr_t a = (uintptr_t)s;
    if (a < lib->lo || a + 64 > lib->hi)
        return false;
    size_t n = strnlen(s, 64);
    if (n < 2 || n >= 64)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!((s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') || s[i] == '_'))
            return false;
    }
    return true;
}

static void names_load(struct host_names *names, const char *(*get)(int), const char *last,
                       const struct host_range *lib)
{
    for (int i = 0; get && i < (int)HOST_OPS_MAX; i++) {
        const char *s = get(i);
        if (!looks_like_name(lib, s) || host_names_find(names, s) >= 0)
            break;
        /* GLU's names follow UNARY's in some builds. */
        if (get == fns.ggml_unary_op_name && strcmp(s, "REGLU") == 0)
            break;
        names->name[i] = s;
        names->count = (uint32_t)i + 1;
        if (last && strcmp(s, last) == 0)
            break;
    }
}

int host_names_find(const struct host_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->name[i] && apir_name_is(name, names->name[i]))
            return (int)i;
    }
    return -1;
}

/* GGUF's type numbers and ggml's names for them; gaps are removed types. */
static const struct {
    uint8_t number;
    const char *name;
} type_names[] = {
    {APIR_TYPE_F32, "f32"},       {APIR_TYPE_F16, "f16"},         {APIR_TYPE_Q4_0, "q4_0"},
    {APIR_TYPE_Q4_1, "q4_1"},     {APIR_TYPE_Q5_0, "q5_0"},       {APIR_TYPE_Q5_1, "q5_1"},
    {APIR_TYPE_Q8_0, "q8_0"},     {APIR_TYPE_Q8_1, "q8_1"},       {APIR_TYPE_Q2_K, "q2_K"},
    {APIR_TYPE_Q3_K, "q3_K"},     {APIR_TYPE_Q4_K, "q4_K"},       {APIR_TYPE_Q5_K, "q5_K"},
    {APIR_TYPE_Q6_K, "q6_K"},     {APIR_TYPE_Q8_K, "q8_K"},       {APIR_TYPE_IQ2_XXS, "iq2_xxs"},
    {APIR_TYPE_IQ2_XS, "iq2_xs"}, {APIR_TYPE_IQ3_XXS, "iq3_xxs"}, {APIR_TYPE_IQ1_S, "iq1_s"},
    {APIR_TYPE_IQ4_NL, "iq4_nl"}, {APIR_TYPE_IQ3_S, "iq3_s"},     {APIR_TYPE_IQ2_S, "iq2_s"},
    {APIR_TYPE_IQ4_XS, "iq4_xs"}, {APIR_TYPE_I8, "i8"},           {APIR_TYPE_I16, "i16"},
    {APIR_TYPE_I32, "i32"},       {APIR_TYPE_I64, "i64"},         {APIR_TYPE_F64, "f64"},
    {APIR_TYPE_IQ1_M, "iq1_m"},   {APIR_TYPE_BF16, "bf16"},       {APIR_TYPE_TQ1_0, "tq1_0"},
    {APIR_TYPE_TQ2_0, "tq2_0"},   {APIR_TYPE_MXFP4, "mxfp4"},     {APIR_TYPE_NVFP4, "nvfp4"},
    {APIR_TYPE_Q1_0, "q1_0"},     {APIR_TYPE_Q2_0, "q2_0"},
};

static void types_load(struct host_ggml *hg, const struct host_range *lib)
{
    for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
        int n = type_names[i].number;
        const char *name = fns.ggml_type_name(n);
        uintptr_t a = (uintptr_t)name;
        /* Past the end of an older ggml's table, or renumbered: not ours. */
        if (a < lib->lo || a >= lib->hi || strcmp(name, type_names[i].name) != 0)
            continue;
        int64_t block = fns.ggml_blck_size(n);
        size_t size = fns.ggml_type_size(n);
        if (block > 0 && block <= 65536 && size > 0 && size <= 65536)
            hg->types[n] = (struct host_type){(uint32_t)block, (uint32_t)size};
    }
}

static void log_from_ggml(int level, const char *text, void *user)
{
    (void)user;
    /* ggml's levels: 1 debug, 2 info, 3 warn, 4 error, 5 continuation */
    enum apir_log_level to = level == 4   ? APIR_LOG_ERROR
                             : level == 3 ? APIR_LOG_WARN
                                          : APIR_LOG_DEBUG;
    size_t n = strcspn(text, "\n");
    if (n)
        apir_log(to, "ggml: %.*s", (int)n, text);
}

static void copy_text(char *dst, size_t cap, const char *src)
{
    snprintf(dst, cap, "%s", src ? src : "");
}

/* CUDA's and HIP's devices cannot make buffers of our memory, but keep it in place for their
 * copies. */
static void device_find_pin(struct host_device *d, void *reg)
{
    const struct gg_device *dev = d->dev;
    if (dev->iface.buffer_from_host_ptr)
        return;
    void *pin = fns.ggml_backend_reg_get_proc_address(reg, "ggml_backend_register_host_buffer");
    void *unpin = fns.ggml_backend_reg_get_proc_address(reg, "ggml_backend_unregister_host_buffer");
    if (!pin || !unpin)
        return;
    memcpy(&d->pin, &pin, sizeof(pin));
    memcpy(&d->unpin, &unpin, sizeof(unpin));
}

/*
 * Asked for here, before the sandbox is closed: the first question makes ggml ask the kernel for
 * the processor's matrix registers. Only a CPU's, whose tensors are set as a whole and at once.
 */
static void device_find_extras(struct host_device *d, void *reg)
{
    void *p = fns.ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    void **(*get)(void *);
    memcpy(&get, &p, sizeof(p));
    void **list = get ? get(d->dev) : NULL;
    for (; list && *list && d->n_extras < APIR_EXTRAS_MAX; list++) {
        void *probe = fns.ggml_backend_buft_alloc_buffer(*list, 0);
        const uint64_t alignment = fns.ggml_backend_buft_get_alignment(*list);
        if (!probe)
            continue;
        d->extras[d->n_extras] = *list;
        d->probes[d->n_extras++] = probe;
        d->alignment = alignment > d->alignment ? alignment : d->alignment;
    }
}

static void device_fill(struct host_ggml *hg, struct host_device *d, void *dev)
{
    *d = (struct host_device){.dev = dev, .buft = fns.ggml_backend_dev_buffer_type(dev)};
    copy_text(d->name, sizeof(d->name), fns.ggml_backend_dev_name(dev));
    copy_text(d->description, sizeof(d->description), fns.ggml_backend_dev_description(dev));
    d->alignment = fns.ggml_backend_buft_get_alignment(d->buft);
    d->max_size = fns.ggml_backend_buft_get_max_size(d->buft);
    if (d->max_size > APIR_SIZE_MAX)
        d->max_size = APIR_SIZE_MAX;
    if (hg->layout.props_device_id) {
        _Alignas(8) unsigned char props[256] = {0};
        fns.ggml_backend_dev_get_props(dev, props);
        copy_text(d->device_id, sizeof(d->device_id),
                  GG_AT(props, hg->layout.props_device_id, const char *));
    }
    void *reg = fns.ggml_backend_dev_backend_reg(dev);
    void *set = fns.ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    memcpy(&d->set_n_threads, &set, sizeof(set));
    d->reg = reg;
    device_find_pin(d, reg);
    d->is_gpu = fns.ggml_backend_dev_type(dev) != GG_DEV_CPU;
    if (!d->is_gpu) {
        d->flags |= APIR_DEVICE_SYNC;
        device_find_extras(d, reg);
    }
    if (d->set_n_threads)
        d->flags |= APIR_DEVICE_THREADS;
}

static bool device_is_left_out(void *dev, const char *const *without)
{
    for (; without && *without; without++) {
        if (strcmp(fns.ggml_backend_dev_name(dev), *without) == 0)
            return true;
    }
    return false;
}

static bool device_wanted(void *dev, bool gpus)
{
    int type = fns.ggml_backend_dev_type(dev);
    if (!gpus)
        return type == GG_DEV_CPU;
    if (type == GG_DEV_GPU)
        return true;
    /* IGPU is 2 where it exists. Before, 2 was ACCEL: BLAS and the like, which help
     * the CPU backend and have no memory of their own to offer. */
    const char *reg = fns.ggml_backend_reg_name(fns.ggml_backend_dev_backend_reg(dev));
    return type == 2 && strcmp(reg, "BLAS") != 0;
}

/* Every GPU, or (gpus false) the CPU; but for those of these names (NULL: none). */
static void devices_load(struct host_ggml *hg, bool gpus, const char *const *without)
{
    size_t n = fns.ggml_backend_dev_count();
    for (size_t i = 0; i < n && hg->n_devices < APIR_DEVICES_MAX; i++) {
        void *dev = fns.ggml_backend_dev_get(i);
        if (device_wanted(dev, gpus) && !device_is_left_out(dev, without))
            device_fill(hg, &hg->devices[hg->n_devices++], dev);
    }
}

/* The named ones, each once, in the order of their names. */
static void devices_load_named(struct host_ggml *hg, const char *const *names,
                               const char *const *without)
{
    size_t n = fns.ggml_backend_dev_count();
    for (; *names; names++) {
        bool known = false;
        for (uint32_t i = 0; i < hg->n_devices; i++)
            known = known || strcmp(hg->devices[i].name, *names) == 0;
        for (size_t i = 0; !known && i < n && hg->n_devices < APIR_DEVICES_MAX; i++) {
            void *dev = fns.ggml_backend_dev_get(i);
            known = strcmp(fns.ggml_backend_dev_name(dev), *names) == 0;
            if (known && !device_is_left_out(dev, without))
                device_fill(hg, &hg->devices[hg->n_devices++], dev);
        }
    }
}

static void devices_identify(struct host_ggml *hg, const struct host_ggml_options *o)
{
    static struct worker_vulkan_gpu gpus[WORKER_VULKAN_MAX];
    bool any_gpu = false;
    for (uint32_t i = 0; i < hg->n_devices; i++)
        any_gpu = any_gpu || hg->devices[i].is_gpu;
    /* Vulkan's drivers are not loaded for a CPU's sake. */
    uint32_t n_gpus = any_gpu ? worker_vulkan_list(gpus) : 0;
    worker_devices_identify(hg->devices, hg->n_devices, gpus, n_gpus);
    /* Two devices for one GPU would be taken for twice the memory. Who names both gets both. */
    if (!o->devices)
        hg->n_devices = worker_devices_drop_twins(hg->devices, hg->n_devices);
}

static bool device_is_there(const struct host_ggml *hg, const char *name)
{
    for (uint32_t i = 0; i < hg->n_devices; i++) {
        if (strcmp(hg->devices[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Where a device is missing that somebody wants, or any GPU. Of one that is left out others know
 * why. */
static void backends_explain(const struct host_ggml *hg, const struct host_ggml_options *o)
{
    const char *const *name = o->devices;
    while (name && *name && device_is_there(hg, *name))
        name++;
    if (o->without || (name ? !*name : hg->n_devices > 0 && hg->devices[0].is_gpu))
        return;
    const enum apir_log_level level = name || hg->n_devices == 0 ? APIR_LOG_WARN : APIR_LOG_INFO;
    char folder[PATH_MAX];
    Dl_info info;
    /* By itself ggml looks where the backends are that it has found. */
    void *dev = fns.ggml_backend_dev_count() > 0 ? fns.ggml_backend_dev_get(0) : NULL;
    if (o->backends_dir)
        snprintf(folder, sizeof(folder), "%s", o->backends_dir);
    else if (dev && dladdr(fns.ggml_backend_dev_backend_reg(dev), &info) && info.dli_fname &&
             strrchr(info.dli_fname, '/'))
        snprintf(folder, sizeof(folder), "%.*s",
                 (int)(strrchr(info.dli_fname, '/') - info.dli_fname), info.dli_fname);
    else
        return;
    host_passed_over(folder, hg->layout.api_version, level);
}

int host_ggml_load(struct host_ggml *hg, const struct host_ggml_options *options,
                   struct apir_error *err)
{
    *hg = (struct host_ggml){.fns = &fns, .next_graph_uid = UINT64_C(1) << 32};
    const char *name = options->library ? options->library : host_library_name;
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return apir_error_set(err, ENOENT, "cannot load the host's ggml: %s", dlerror());
    hg->library = lib;
    int rc = fns_load(lib, err);
    if (rc)
        return rc;
    char why[256];
    rc = ggml_probe_layout(dlsym, lib, &hg->layout, why, sizeof(why));
    if (rc)
        return apir_error_set(err, -rc, "the host's ggml (%s) cannot be used: %s", name, why);
    fns.ggml_log_set(log_from_ggml, NULL);

    struct host_range range;
    void *anchor;
    memcpy(&anchor, &fns.ggml_op_name, sizeof(anchor));
    if (!host_range_find(anchor, &range))
        return apir_error_set(err, ENOTSUP, "cannot find the host's libggml-base in memory");
    names_load(&hg->ops, fns.ggml_op_name, "GLU", &range);
    names_load(&hg->unary, fns.ggml_unary_op_name, NULL, &range);
    names_load(&hg->glu, fns.ggml_glu_op_name, NULL, &range);
    types_load(hg, &range);
    if (host_names_find(&hg->ops, "NONE") != 0 || host_names_find(&hg->ops, "MUL_MAT") < 0)
        return apir_error_set(err, ENOTSUP, "the host's ggml has no op names that we know");

    /* Without this ggml's CUDA and HIP backends refuse to pin memory. */
    setenv("GGML_CUDA_REGISTER_HOST", "1", 0);
    if (options->backends_dir)
        fns.ggml_backend_load_all_from_path(options->backends_dir);
    else
        fns.ggml_backend_load_all();
    if (options->devices)
        devices_load_named(hg, options->devices, options->without);
    else
        devices_load(hg, true, options->without);
    /* The CPU takes no place of a GPU that is left out: a model would crawl, and nobody know why.
     */
    if (hg->n_devices == 0 && !options->devices && !options->without)
        devices_load(hg, false, NULL);
    if (options->explain)
        backends_explain(hg, options);
    if (hg->n_devices == 0)
        return apir_error_set(err, ENODEV, "the host's ggml has no device that may be offered");
    devices_identify(hg, options);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    hg->n_threads = options->n_threads > 0 ? options->n_threads : cores > 0 ? (int)cores : 1;
    return 0;
}

bool host_ggml_has(const void *hg, const char *function)
{
    return dlsym(((const struct host_ggml *)hg)->library, function);
}

void host_device_memory(struct host_ggml *hg, const struct host_device *d, uint64_t *ret_free,
                        uint64_t *ret_total)
{
    size_t free_bytes = 0, total = 0;
    hg->fns->ggml_backend_dev_memory(d->dev, &free_bytes, &total);
    /* A CPU of early 2025 says nothing, and llama.cpp shares layers out by what is free. */
    if (total == 0 && !d->is_gpu)
        free_bytes = total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *ret_free = free_bytes;
    *ret_total = total;
}

/* ---- tensors ---------------------------------------------------------------- */

int host_tensor_init(struct host_ggml *hg, struct gg_tensor *t)
{
    const int status = hg->fns->ggml_backend_buffer_init_tensor(t->buffer, t);
    /* Until March 2025 it returned nothing, and status is then whatever was in the register. By
     * graph_optimize, of autumn 2025, a ggml is known to be newer; from in between it is not read
     * either. */
    const bool returns = hg->layout.backend.graph_optimize != 0;
    return !returns || status == GG_STATUS_SUCCESS ? 0 : -EIO;
}

uint64_t host_tensor_alloc_size(struct host_ggml *hg, void *buft, const struct gg_tensor *t)
{
    return hg->fns->ggml_backend_buft_get_alloc_size(buft, t);
}

const char *host_extra_name(struct host_ggml *hg, const struct host_device *d, uint32_t extra)
{
    return hg->fns->ggml_backend_buft_name(d->extras[extra]);
}

bool host_extra_supported(struct host_ggml *hg, const struct host_device *d, uint32_t extra,
                          struct gg_tensor *op)
{
    void *const before = op->src[0]->buffer;
    op->src[0]->buffer = d->probes[extra];
    const bool yes = hg->fns->ggml_backend_dev_supports_op(d->dev, op);
    op->src[0]->buffer = before;
    return yes;
}

/* Contiguous, without memory. */
static struct gg_tensor small_tensor(int type, uint32_t size, int64_t ne0, int64_t ne1)
{
    struct gg_tensor t = {.type = type, .ne = {ne0, ne1, 1, 1}};
    t.nb[0] = size;
    for (int i = 1; i < 4; i++)
        t.nb[i] = t.nb[i - 1] * (uint64_t)t.ne[i - 1];
    return t;
}

bool host_extra_takes(struct host_ggml *hg, const struct host_device *d, uint32_t extra,
                      struct gg_tensor *weight)
{
    const bool experts = weight->ne[2] > 1;
    struct gg_tensor input = small_tensor(0 /* F32 */, 4, weight->ne[0], 1);
    struct gg_tensor ids = small_tensor(26 /* I32 */, 4, 1, 1);
    struct gg_tensor op = small_tensor(0, 4, weight->ne[1], 1);
    const int number = host_names_find(&hg->ops, experts ? "MUL_MAT_ID" : "MUL_MAT");
    op.src[0] = weight;
    op.src[1] = &input;
    op.src[2] = experts ? &ids : NULL;
    op.op = number;
    return weight->ne[3] == 1 && number >= 0 && host_extra_supported(hg, d, extra, &op);
}

bool host_device_is_cpu(const struct host_device *d)
{
    return !d->is_gpu;
}

bool host_tensor_supported(struct host_ggml *hg, const struct host_device *d,
                           const struct gg_tensor *t)
{
    return hg->fns->ggml_backend_dev_supports_op(d->dev, t);
}

bool host_tensor_offload(struct host_ggml *hg, const struct host_device *d,
                         const struct gg_tensor *t)
{
    return hg->fns->ggml_backend_dev_offload_op(d->dev, t);
}

/* ---- streams ---------------------------------------------------------------- */

void *host_stream_open(struct host_ggml *hg, const struct host_device *d)
{
    void *backend = hg->fns->ggml_backend_dev_init(d->dev, NULL);
    if (backend && d->set_n_threads)
        d->set_n_threads(backend, hg->n_threads);
    return backend;
}

/*
 * ggml's CPU backend asks between two operations whether it is to go on (its abort callback): so a
 * long prompt on a slow CPU shows that it gets on. Backends of GPUs do not ask.
 */
void host_stream_watch(struct host_ggml *hg, const struct host_device *d, void *stream,
                       bool (*step)(void *user), void *user)
{
    void *reg = hg->fns->ggml_backend_dev_backend_reg(d->dev);
    void *p = hg->fns->ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_abort_callback");
    void (*set)(void *backend, bool (*step)(void *user), void *user);
    memcpy(&set, &p, sizeof(set));
    if (set)
        set(stream, step, user);
}

void host_stream_threads(struct host_ggml *hg, const struct host_device *d, void *stream,
                         uint32_t threads)
{
    if (d->set_n_threads)
        d->set_n_threads(stream, threads < (uint32_t)hg->n_threads ? (int)threads : hg->n_threads);
}

void host_stream_close(struct host_ggml *hg, void *stream)
{
    if (stream)
        hg->fns->ggml_backend_free(stream);
}

void host_stream_sync(struct host_ggml *hg, void *stream)
{
    hg->fns->ggml_backend_synchronize(stream);
}

void *host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream)
{
    const struct ggml_layout *l = &hg->layout;
    if (!GG_AT(stream, l->backend.event_record, void *) ||
        !GG_AT(stream, l->backend.event_wait, void *))
        return NULL;
    return hg->fns->ggml_backend_event_new(d->dev);
}

void host_event_free(struct host_ggml *hg, void *event)
{
    hg->fns->ggml_backend_event_free(event);
}

void host_event_record(struct host_ggml *hg, void *event, void *stream)
{
    hg->fns->ggml_backend_event_record(event, stream);
}

void host_event_wait(struct host_ggml *hg, void *event, void *stream)
{
    hg->fns->ggml_backend_event_wait(stream, event);
}

void host_event_sync(struct host_ggml *hg, void *event)
{
    hg->fns->ggml_backend_event_synchronize(event);
}
