/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/worker_ggml.h"
#include "backend/worker_device.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/ggml_probe.h"
#include "protocol/log.h"

/* Symbols of the host's ggml. R: required, O: optional (NULL in older builds). */
#define HOST_SYMBOLS(R, O)                                                                         \
    R(void, ggml_backend_load_all, (void))                                                         \
    R(void, ggml_backend_load_all_from_path, (const char *))                                       \
    R(size_t, ggml_backend_dev_count, (void))                                                      \
    R(void *, ggml_backend_dev_get, (size_t))                                                      \
    R(const char *, ggml_backend_dev_name, (void *))                                               \
    R(const char *, ggml_backend_dev_description, (void *))                                        \
    R(int, ggml_backend_dev_type, (void *))                                                        \
    R(void, ggml_backend_dev_memory, (void *, size_t *, size_t *))                                 \
    R(void, ggml_backend_dev_get_props, (void *, void *))                                          \
    R(void *, ggml_backend_dev_backend_reg, (void *))                                              \
    R(void *, ggml_backend_dev_buffer_type, (void *))                                              \
    R(void *, ggml_backend_dev_init, (void *, const char *))                                       \
    R(bool, ggml_backend_dev_supports_op, (void *, const struct gg_tensor *))                      \
    R(bool, ggml_backend_dev_offload_op, (void *, const struct gg_tensor *))                       \
    R(const char *, ggml_backend_reg_name, (void *))                                               \
    R(void *, ggml_backend_reg_get_proc_address, (void *, const char *))                           \
    R(void *, ggml_backend_buft_alloc_buffer, (void *, size_t))                                    \
    R(size_t, ggml_backend_buft_get_alignment, (void *))                                           \
    R(size_t, ggml_backend_buft_get_max_size, (void *))                                            \
    R(size_t, ggml_backend_buft_get_alloc_size, (void *, const struct gg_tensor *))                \
    R(void *, ggml_backend_buffer_get_base, (void *))                                              \
    R(bool, ggml_backend_buffer_is_host, (void *))                                                 \
    R(void, ggml_backend_buffer_free, (void *))                                                    \
    R(void, ggml_backend_buffer_clear, (void *, uint8_t))                                          \
    R(void, ggml_backend_buffer_reset, (void *))                                                   \
    R(void, ggml_backend_buffer_set_usage, (void *, int))                                          \
    R(int, ggml_backend_buffer_init_tensor, (void *, struct gg_tensor *))                          \
    R(void, ggml_backend_tensor_set, (struct gg_tensor *, const void *, size_t, size_t))           \
    R(void, ggml_backend_tensor_get, (const struct gg_tensor *, void *, size_t, size_t))           \
    R(void, ggml_backend_tensor_get_async,                                                         \
      (void *, const struct gg_tensor *, void *, size_t, size_t))                                  \
    R(void, ggml_backend_tensor_memset, (struct gg_tensor *, uint8_t, size_t, size_t))             \
    R(void, ggml_backend_tensor_copy, (const struct gg_tensor *, struct gg_tensor *))              \
    R(void, ggml_backend_tensor_copy_async,                                                        \
      (void *, void *, const struct gg_tensor *, struct gg_tensor *))                              \
    R(void *, ggml_backend_event_new, (void *))                                                    \
    R(void, ggml_backend_event_free, (void *))                                                     \
    R(void, ggml_backend_event_record, (void *, void *))                                           \
    R(void, ggml_backend_event_synchronize, (void *))                                              \
    R(void, ggml_backend_event_wait, (void *, void *))                                             \
    O(void, ggml_backend_tensor_set_2d,                                                            \
      (struct gg_tensor *, const void *, size_t, size_t, size_t, size_t, size_t))                  \
    O(void, ggml_backend_tensor_get_2d,                                                            \
      (const struct gg_tensor *, void *, size_t, size_t, size_t, size_t, size_t))                  \
    R(void, ggml_backend_free, (void *))                                                           \
    R(void, ggml_backend_synchronize, (void *))                                                    \
    R(int, ggml_backend_graph_compute_async, (void *, void *))                                     \
    R(void *, ggml_init, (struct gg_init_params))                                                  \
    R(void, ggml_free, (void *))                                                                   \
    R(size_t, ggml_graph_overhead_custom, (size_t, bool))                                          \
    R(void *, ggml_new_graph_custom, (void *, size_t, bool))                                       \
    R(void, ggml_build_forward_expand, (void *, struct gg_tensor *))                               \
    R(const char *, ggml_op_name, (int))                                                           \
    R(const char *, ggml_unary_op_name, (int))                                                     \
    O(const char *, ggml_glu_op_name, (int))                                                       \
    R(const char *, ggml_type_name, (int))                                                         \
    R(int64_t, ggml_blck_size, (int))                                                              \
    R(size_t, ggml_type_size, (int))                                                               \
    R(void, ggml_log_set, (void (*)(int, const char *, void *), void *))

struct host_ggml_fns {
#define S(ret, name, args) ret(*name) args;
    HOST_SYMBOLS(S, S)
#undef S
};

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

struct range_query {
    uintptr_t inside; /* an address of the library */
    uintptr_t lo, hi;
};

static int range_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct range_query *q = data;
    uintptr_t lo = UINTPTR_MAX, hi = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_LOAD)
            continue;
        uintptr_t a = info->dlpi_addr + ph->p_vaddr;
        if (a < lo)
            lo = a;
        if (a + ph->p_memsz > hi)
            hi = a + ph->p_memsz;
    }
    if (q->inside < lo || q->inside >= hi)
        return 0;
    q->lo = lo;
    q->hi = hi;
    return 1;
}

/*
 * ggml's name functions have no bounds check: past its end an array yields some
 * neighbour's word. A word that does not point into the library, or points to
 * something that is no upper-case identifier, ends the list.
 */
static bool looks_like_name(const struct range_query *lib, const char *s)
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
                       const struct range_query *lib)
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
        if (names->name[i] && strcmp(names->name[i], name) == 0)
            return (int)i;
    }
    return -1;
}

/* GGUF's type numbers and ggml's names for them; gaps are removed types. */
static const struct {
    uint8_t number;
    const char *name;
} type_names[] = {
    { 0, "f32" },      { 1, "f16" },      { 2, "q4_0" },     { 3, "q4_1" },     { 6, "q5_0" },
    { 7, "q5_1" },     { 8, "q8_0" },     { 9, "q8_1" },     { 10, "q2_K" },    { 11, "q3_K" },
    { 12, "q4_K" },    { 13, "q5_K" },    { 14, "q6_K" },    { 15, "q8_K" },    { 16, "iq2_xxs" },
    { 17, "iq2_xs" },  { 18, "iq3_xxs" }, { 19, "iq1_s" },   { 20, "iq4_nl" },  { 21, "iq3_s" },
    { 22, "iq2_s" },   { 23, "iq4_xs" },  { 24, "i8" },      { 25, "i16" },     { 26, "i32" },
    { 27, "i64" },     { 28, "f64" },     { 29, "iq1_m" },   { 30, "bf16" },    { 34, "tq1_0" },
    { 35, "tq2_0" },   { 39, "mxfp4" },   { 40, "nvfp4" },   { 41, "q1_0" },    { 42, "q2_0" },
};

static void types_load(struct host_ggml *hg, const struct range_query *lib)
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
            hg->types[n] = (struct host_type){ (uint32_t)block, (uint32_t)size };
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

static void device_fill(struct host_ggml *hg, struct host_device *d, void *dev)
{
    *d = (struct host_device){ .dev = dev, .buft = fns.ggml_backend_dev_buffer_type(dev) };
    copy_text(d->name, sizeof(d->name), fns.ggml_backend_dev_name(dev));
    copy_text(d->description, sizeof(d->description), fns.ggml_backend_dev_description(dev));
    d->alignment = fns.ggml_backend_buft_get_alignment(d->buft);
    d->max_size = fns.ggml_backend_buft_get_max_size(d->buft);
    if (d->max_size > APIR_SIZE_MAX)
        d->max_size = APIR_SIZE_MAX;
    if (hg->layout.props_device_id) {
        _Alignas(8) unsigned char props[256] = { 0 };
        fns.ggml_backend_dev_get_props(dev, props);
        copy_text(d->device_id, sizeof(d->device_id),
                  GG_AT(props, hg->layout.props_device_id, const char *));
    }
    void *reg = fns.ggml_backend_dev_backend_reg(dev);
    void *set = fns.ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    memcpy(&d->set_n_threads, &set, sizeof(set));
    d->reg = reg;
    d->is_gpu = fns.ggml_backend_dev_type(dev) != GG_DEV_CPU;
    if (!d->is_gpu)
        d->flags |= APIR_DEVICE_SYNC | APIR_DEVICE_UMA;
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

static void devices_load(struct host_ggml *hg, bool gpus)
{
    size_t n = fns.ggml_backend_dev_count();
    for (size_t i = 0; i < n && hg->n_devices < APIR_DEVICES_MAX; i++) {
        void *dev = fns.ggml_backend_dev_get(i);
        if (device_wanted(dev, gpus))
            device_fill(hg, &hg->devices[hg->n_devices++], dev);
    }
}

/* The named ones, each once, in the order of their names. */
static void devices_load_named(struct host_ggml *hg, const char *const *names)
{
    size_t n = fns.ggml_backend_dev_count();
    for (; *names; names++) {
        bool known = false;
        for (uint32_t i = 0; i < hg->n_devices; i++)
            known = known || strcmp(hg->devices[i].name, *names) == 0;
        for (size_t i = 0; !known && i < n && hg->n_devices < APIR_DEVICES_MAX; i++) {
            void *dev = fns.ggml_backend_dev_get(i);
            known = strcmp(fns.ggml_backend_dev_name(dev), *names) == 0;
            if (known)
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

int host_ggml_load(struct host_ggml *hg, const struct host_ggml_options *options,
                   struct apir_error *err)
{
    *hg = (struct host_ggml){ .fns = &fns, .next_graph_uid = UINT64_C(1) << 32 };
    const char *name = options->library ? options->library : "libggml.so.0";
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return apir_error_set(err, ENOENT, "cannot load the host's ggml: %s", dlerror());
    int rc = fns_load(lib, err);
    if (rc)
        return rc;
    char why[256];
    rc = ggml_probe_layout(dlsym, lib, &hg->layout, why, sizeof(why));
    if (rc)
        return apir_error_set(err, -rc, "the host's ggml (%s) cannot be used: %s", name, why);
    fns.ggml_log_set(log_from_ggml, NULL);

    Dl_info info;
    struct range_query range = { 0 };
    void *anchor;
    memcpy(&anchor, &fns.ggml_op_name, sizeof(anchor));
    range.inside = (uintptr_t)anchor;
    if (!dladdr(anchor, &info) || !dl_iterate_phdr(range_visit, &range))
        return apir_error_set(err, ENOTSUP, "cannot find the host's libggml-base in memory");
    names_load(&hg->ops, fns.ggml_op_name, "GLU", &range);
    names_load(&hg->unary, fns.ggml_unary_op_name, NULL, &range);
    names_load(&hg->glu, fns.ggml_glu_op_name, NULL, &range);
    types_load(hg, &range);
    if (host_names_find(&hg->ops, "NONE") != 0 || host_names_find(&hg->ops, "MUL_MAT") < 0)
        return apir_error_set(err, ENOTSUP, "the host's ggml has no op names that we know");

    if (options->backends_dir)
        fns.ggml_backend_load_all_from_path(options->backends_dir);
    else
        fns.ggml_backend_load_all();
    if (options->devices)
        devices_load_named(hg, options->devices);
    else
        devices_load(hg, true);
    if (hg->n_devices == 0 && !options->devices)
        devices_load(hg, false);
    if (hg->n_devices == 0)
        return apir_error_set(err, ENODEV, "the host's ggml has no device that may be offered");
    devices_identify(hg, options);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    hg->n_threads = options->n_threads > 0 ? options->n_threads : cores > 0 ? (int)cores : 1;
    return 0;
}

void host_device_memory(struct host_ggml *hg, const struct host_device *d, uint64_t *ret_free,
                        uint64_t *ret_total)
{
    (void)hg;
    size_t free_bytes = 0, total = 0;
    fns.ggml_backend_dev_memory(d->dev, &free_bytes, &total);
    *ret_free = free_bytes;
    *ret_total = total;
}

/* ---- buffers ---------------------------------------------------------------- */

/* A byte tensor over [offset, offset + size) of a buffer. */
static struct gg_tensor raw_tensor(const struct host_buffer *b, uint64_t offset, uint64_t size)
{
    struct gg_tensor t = { .type = 24 /* I8 */, .buffer = b->handle, .data = b->base + offset };
    t.ne[0] = (int64_t)size;
    t.ne[1] = t.ne[2] = t.ne[3] = 1;
    t.nb[0] = 1;
    t.nb[1] = t.nb[2] = t.nb[3] = size;
    return t;
}

static void buffer_fill(const struct host_ggml *hg, void *handle, uint64_t size,
                        struct host_buffer *ret_buffer)
{
    struct host_buffer b = { .handle = handle, .size = size };
    b.base = fns.ggml_backend_buffer_get_base(handle);
    b.memory = fns.ggml_backend_buffer_is_host(handle) ? b.base : NULL;
    b.raw = raw_tensor(&b, 0, size);
    b.has_memset = GG_AT(handle, hg->layout.buffer.memset, void *) != NULL;
    *ret_buffer = b;
}

#define ZERO_BY_HAND (256u << 10) /* up to here that is as fast */

/*
 * Memory of the heap holds what was there before, addresses of ours as well, and the guest may
 * read it. Whole pages are given back to the kernel, which does not touch them until the guest does.
 */
static void memory_zero(uint8_t *data, uint64_t size)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t before = -(uintptr_t)data & (page - 1);
    uint64_t after = ((uintptr_t)data + size) & (page - 1);
    if (size <= ZERO_BY_HAND ||
        madvise(data + before, size - before - after, MADV_DONTNEED) < 0) {
        memset(data, 0, size);
        return;
    }
    memset(data, 0, before);
    memset(data + size - after, 0, after);
}

int host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, uint64_t size,
                      struct host_buffer *ret_buffer)
{
    void *handle = fns.ggml_backend_buft_alloc_buffer(d->buft, size);
    if (!handle)
        return -ENOMEM;
    buffer_fill(hg, handle, size, ret_buffer);
    /* Private memory of this process. Elsewhere the driver keeps apart whose was whose. */
    if (ret_buffer->memory && host_device_is_cpu(d))
        memory_zero(ret_buffer->base, size);
    return 0;
}

int host_buffer_wrap(struct host_ggml *hg, const struct host_device *d, void *data, uint64_t size,
                     struct host_buffer *ret_buffer)
{
    const struct gg_device *dev = d->dev;
    /* The public function calls through this pointer without a look at it. */
    void *handle = dev->iface.buffer_from_host_ptr
                       ? dev->iface.buffer_from_host_ptr(d->dev, data, size, size)
                       : NULL;
    if (!handle)
        return -ENOTSUP;
    buffer_fill(hg, handle, size, ret_buffer);
    return 0;
}

void host_buffer_free(struct host_ggml *hg, struct host_buffer *b)
{
    (void)hg;
    if (b->handle)
        fns.ggml_backend_buffer_free(b->handle);
    *b = (struct host_buffer){ 0 };
}

void host_buffer_clear(struct host_ggml *hg, struct host_buffer *b, uint8_t value)
{
    (void)hg;
    fns.ggml_backend_buffer_clear(b->handle, value);
}

void host_buffer_reset(struct host_ggml *hg, struct host_buffer *b)
{
    (void)hg;
    fns.ggml_backend_buffer_reset(b->handle);
}

void host_buffer_set_usage(struct host_ggml *hg, struct host_buffer *b, uint32_t usage)
{
    if (GG_AT(b->handle, hg->layout.buffer.usage, int32_t) != (int32_t)usage)
        fns.ggml_backend_buffer_set_usage(b->handle, (int)usage);
}

/* A driver that copies through memory of its own keeps as much of it as the largest copy took. */
#define STAGED_MAX (UINT64_C(64) << 20)

void host_buffer_set(struct host_ggml *hg, struct host_buffer *b, uint64_t offset,
                     const void *data, uint64_t size)
{
    (void)hg;
    for (uint64_t at = 0, n; at < size; at += n) {
        n = b->memory || size - at < STAGED_MAX ? size - at : STAGED_MAX;
        fns.ggml_backend_tensor_set(&b->raw, (const uint8_t *)data + at, offset + at, n);
    }
}

void host_buffer_get(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                     uint64_t size)
{
    (void)hg;
    for (uint64_t at = 0, n; at < size; at += n) {
        n = b->memory || size - at < STAGED_MAX ? size - at : STAGED_MAX;
        fns.ggml_backend_tensor_get(&b->raw, (uint8_t *)data + at, offset + at, n);
    }
}

void host_buffer_get_async(struct host_ggml *hg, void *stream, struct host_buffer *b,
                           uint64_t offset, void *data, uint64_t size)
{
    if (size > STAGED_MAX) {
        fns.ggml_backend_synchronize(stream);
        host_buffer_get(hg, b, offset, data, size);
        return;
    }
    fns.ggml_backend_tensor_get_async(stream, &b->raw, data, offset, size);
}

void host_buffer_set_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset,
                          const void *data, uint64_t row, uint64_t count, uint64_t stride)
{
    if (fns.ggml_backend_tensor_set_2d && (b->memory || row * count <= STAGED_MAX)) {
        fns.ggml_backend_tensor_set_2d(&b->raw, data, offset, row, count, stride, row);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        host_buffer_set(hg, b, offset + i * stride, (const uint8_t *)data + i * row, row);
}

void host_buffer_get_rows(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, void *data,
                          uint64_t row, uint64_t count, uint64_t stride)
{
    if (fns.ggml_backend_tensor_get_2d && (b->memory || row * count <= STAGED_MAX)) {
        fns.ggml_backend_tensor_get_2d(&b->raw, data, offset, row, count, stride, row);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        host_buffer_get(hg, b, offset + i * stride, (uint8_t *)data + i * row, row);
}

int host_buffer_memset(struct host_ggml *hg, struct host_buffer *b, uint64_t offset, uint8_t value,
                       uint64_t size)
{
    (void)hg;
    if (b->has_memset) {
        fns.ggml_backend_tensor_memset(&b->raw, value, offset, size);
        return 0;
    }
    uint64_t chunk = size < (1u << 20) ? size : (1u << 20);
    void *fill = malloc(chunk);
    if (!fill)
        return -ENOMEM;
    memset(fill, value, chunk);
    for (uint64_t at = 0; at < size; at += chunk) {
        uint64_t n = size - at < chunk ? size - at : chunk;
        fns.ggml_backend_tensor_set(&b->raw, fill, offset + at, n);
    }
    free(fill);
    return 0;
}

void host_buffer_copy(struct host_ggml *hg, struct host_buffer *src, uint64_t src_offset,
                      struct host_buffer *dst, uint64_t dst_offset, uint64_t size)
{
    (void)hg;
    struct gg_tensor s = raw_tensor(src, src_offset, size);
    struct gg_tensor d = raw_tensor(dst, dst_offset, size);
    fns.ggml_backend_tensor_copy(&s, &d);
}

void host_buffer_copy_async(struct host_ggml *hg, void *stream, struct host_buffer *src,
                            uint64_t src_offset, struct host_buffer *dst, uint64_t dst_offset,
                            uint64_t size)
{
    (void)hg;
    struct gg_tensor s = raw_tensor(src, src_offset, size);
    struct gg_tensor d = raw_tensor(dst, dst_offset, size);
    fns.ggml_backend_tensor_copy_async(stream, stream, &s, &d);
}

/* ---- tensors ---------------------------------------------------------------- */

int host_tensor_init(struct host_ggml *hg, struct gg_tensor *t)
{
    (void)hg;
    return fns.ggml_backend_buffer_init_tensor(t->buffer, t) == GG_STATUS_SUCCESS ? 0 : -EIO;
}

uint64_t host_tensor_alloc_size(struct host_ggml *hg, const struct host_device *d,
                                const struct gg_tensor *t)
{
    (void)hg;
    return fns.ggml_backend_buft_get_alloc_size(d->buft, t);
}

bool host_device_is_cpu(const struct host_device *d)
{
    return !d->is_gpu;
}

bool host_tensor_supported(struct host_ggml *hg, const struct host_device *d,
                           const struct gg_tensor *t)
{
    (void)hg;
    return fns.ggml_backend_dev_supports_op(d->dev, t);
}

bool host_tensor_offload(struct host_ggml *hg, const struct host_device *d,
                         const struct gg_tensor *t)
{
    (void)hg;
    return fns.ggml_backend_dev_offload_op(d->dev, t);
}

/* ---- streams ---------------------------------------------------------------- */

void *host_stream_open(struct host_ggml *hg, const struct host_device *d)
{
    void *backend = fns.ggml_backend_dev_init(d->dev, NULL);
    if (backend && d->set_n_threads)
        d->set_n_threads(backend, hg->n_threads);
    return backend;
}

void host_stream_close(struct host_ggml *hg, void *stream)
{
    (void)hg;
    if (stream)
        fns.ggml_backend_free(stream);
}

void host_stream_sync(struct host_ggml *hg, void *stream)
{
    (void)hg;
    fns.ggml_backend_synchronize(stream);
}

void *host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream)
{
    const struct ggml_layout *l = &hg->layout;
    if (!GG_AT(stream, l->backend.event_record, void *) ||
        !GG_AT(stream, l->backend.event_wait, void *))
        return NULL;
    return fns.ggml_backend_event_new(d->dev);
}

void host_event_free(struct host_ggml *hg, void *event)
{
    (void)hg;
    fns.ggml_backend_event_free(event);
}

void host_event_record(struct host_ggml *hg, void *event, void *stream)
{
    (void)hg;
    fns.ggml_backend_event_record(event, stream);
}

void host_event_wait(struct host_ggml *hg, void *event, void *stream)
{
    (void)hg;
    fns.ggml_backend_event_wait(stream, event);
}

void host_event_sync(struct host_ggml *hg, void *event)
{
    (void)hg;
    fns.ggml_backend_event_synchronize(event);
}

/* ---- graphs ----------------------------------------------------------------- */

/* Larger of what ggml counted in this split and what the guest counted overall. */
static void graph_use_counts(const struct host_ggml *hg, void *cgraph,
                             const struct gg_tensor *tensors, uint32_t n_tensors,
                             const uint32_t *use_counts)
{
    if (!hg->layout.cgraph_use_counts)
        return;
    int32_t *counts = GG_AT(cgraph, hg->layout.cgraph_use_counts, int32_t *);
    const struct gg_hash_set *set = &GG_AT(cgraph, hg->layout.cgraph_hash_set, struct gg_hash_set);
    for (size_t k = 0; k < set->size; k++) {
        if (!(set->used[k / 32] & (1u << (k % 32))))
            continue;
        ptrdiff_t i = set->keys[k] - tensors;
        if (i >= 0 && (uint32_t)i < n_tensors && use_counts[i] <= INT32_MAX &&
            (int32_t)use_counts[i] > counts[k])
            counts[k] = (int32_t)use_counts[i];
    }
}

/*
 * Whether every source that is computed comes before the node that uses it. ggml would look for
 * the others by recursion, as deep as a hostile guest likes. 0, -EINVAL or -ENOMEM.
 */
static int nodes_in_order(const struct gg_tensor *tensors, uint32_t n_tensors,
                          const uint32_t *node_index, uint32_t n_nodes)
{
    bool *there = calloc(n_tensors, sizeof(*there));
    bool ok = true;
    if (!there)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_nodes && ok; i++) {
        const struct gg_tensor *t = &tensors[node_index[i]];
        for (unsigned k = 0; k < sizeof(t->src) / sizeof(t->src[0]) && ok; k++)
            ok = !t->src[k] || t->src[k]->op == 0 || there[t->src[k] - tensors];
        there[node_index[i]] = true;
    }
    free(there);
    return ok ? 0 : -EINVAL;
}

int host_graph_build(struct host_ggml *hg, struct gg_tensor *tensors, uint32_t n_tensors,
                     const uint32_t *node_index, uint32_t n_nodes, const uint32_t *use_counts,
                     struct host_graph *ret_graph)
{
    struct gg_init_params params = {
        .mem_size = fns.ggml_graph_overhead_custom(n_tensors, false) + 1024,
        .no_alloc = true,
    };
    int err = nodes_in_order(tensors, n_tensors, node_index, n_nodes);
    if (err)
        return err;
    struct host_graph g = { .ctx = fns.ggml_init(params) };
    if (!g.ctx)
        return -ENOMEM;
    g.cgraph = fns.ggml_new_graph_custom(g.ctx, n_tensors, false);
    if (!g.cgraph) {
        host_graph_fini(hg, &g);
        return -ENOMEM;
    }
    int32_t *flags = malloc((n_nodes + 1) * sizeof(*flags)); /* n_nodes may be 0 */
    if (!flags) {
        host_graph_fini(hg, &g);
        return -ENOMEM;
    }
    /*
     * Node by node in the guest's order: everything a node refers to has been
     * visited by then, so ggml appends this node and nothing else, and its hash
     * set and use counts are filled as in a graph it built itself. ggml descends
     * again into sources that lack flag COMPUTE, and recursion here would be as
     * deep as a hostile guest likes: so all nodes have it while we build.
     */
    for (uint32_t i = 0; i < n_nodes; i++) {
        flags[i] = tensors[node_index[i]].flags;
        tensors[node_index[i]].flags |= 16;
    }
    for (uint32_t i = 0; i < n_nodes; i++)
        fns.ggml_build_forward_expand(g.cgraph, &tensors[node_index[i]]);
    for (uint32_t i = 0; i < n_nodes; i++)
        tensors[node_index[i]].flags = flags[i];
    free(flags);
    struct gg_cgraph_head *head = g.cgraph;
    bool same = head->n_nodes == (int32_t)n_nodes;
    for (uint32_t i = 0; same && i < n_nodes; i++)
        same = head->nodes[i] == &tensors[node_index[i]];
    if (!same) {
        host_graph_fini(hg, &g);
        return -EINVAL;
    }
    graph_use_counts(hg, g.cgraph, tensors, n_tensors, use_counts);
    host_graph_touch(hg, &g);
    *ret_graph = g;
    return 0;
}

void host_graph_touch(struct host_ggml *hg, struct host_graph *g)
{
    if (hg->layout.cgraph_uid)
        GG_AT(g->cgraph, hg->layout.cgraph_uid, uint64_t) = hg->next_graph_uid++;
}

void host_graph_fini(struct host_ggml *hg, struct host_graph *g)
{
    (void)hg;
    if (g->ctx)
        fns.ggml_free(g->ctx);
    *g = (struct host_graph){ 0 };
}

int host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g)
{
    (void)hg;
    return fns.ggml_backend_graph_compute_async(stream, g->cgraph);
}

/* ---- reordering ------------------------------------------------------------- */

bool host_stream_optimizes(struct host_ggml *hg, void *stream)
{
    return hg->layout.backend.graph_optimize &&
           GG_AT(stream, hg->layout.backend.graph_optimize, void *) != NULL;
}

struct dep_sink {
    const struct gg_tensor *tensors;
    uint32_t n_tensors;
    struct host_dep *deps;
    uint32_t n, max;
    bool bad;
};

static void dep_add(void *user_data, struct gg_tensor *tensor, struct gg_tensor *until)
{
    struct dep_sink *sink = user_data;
    ptrdiff_t a = tensor - sink->tensors, b = until - sink->tensors;
    if (a < 0 || b < 0 || (uint32_t)a >= sink->n_tensors || (uint32_t)b >= sink->n_tensors ||
        sink->n == sink->max) {
        sink->bad = true;
        return;
    }
    sink->deps[sink->n++] = (struct host_dep){ (uint32_t)a, (uint32_t)b };
}

int host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                        const struct gg_tensor *tensors, uint32_t n_tensors, uint32_t n_nodes,
                        uint32_t *ret_order, struct host_dep *ret_deps, uint32_t max_deps)
{
    struct dep_sink sink = { .tensors = tensors, .n_tensors = n_tensors, .deps = ret_deps,
                             .max = max_deps };
    /* ggml_backend_graph_optimize_params; builds whose function takes two
     * arguments do not look at the third. The zeros are members of newer ones. */
    struct {
        void (*add_alloc_dep)(void *, struct gg_tensor *, struct gg_tensor *);
        void *user_data;
        uint64_t later[6];
    } params = { dep_add, &sink, { 0 } };
    void (*optimize)(void *, void *, void *);
    memcpy(&optimize, (char *)stream + hg->layout.backend.graph_optimize, sizeof(optimize));
    optimize(stream, g->cgraph, &params);
    if (sink.bad)
        return -E2BIG;
    const struct gg_cgraph_head *head = g->cgraph;
    if (head->n_nodes != (int32_t)n_nodes)
        return -EINVAL;
    for (uint32_t i = 0; i < n_nodes; i++) {
        ptrdiff_t at = head->nodes[i] - tensors;
        if (at < 0 || (uint32_t)at >= n_tensors)
            return -EINVAL;
        ret_order[i] = (uint32_t)at;
    }
    return (int)sink.n;
}
