/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we know of ggml's binary interface, without ggml's headers: ggml has no
 * stable ABI, so neither side links against one. Everything that has moved is in
 * struct ggml_layout, found by probing (ggml_probe.h); everything here has been
 * the same in every build since 2025-01 and is checked by the probe all the same.
 *
 * Sizes and offsets are of LP64 platforms (x86-64, aarch64).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gg_tensor {
    int32_t type;
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int32_t op;
    int32_t op_params[16];
    int32_t flags;
    struct gg_tensor *src[10];
    struct gg_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
};
_Static_assert(offsetof(struct gg_tensor, buffer) == 8, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, ne) == 16, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, op) == 80, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, op_params) == 84, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, flags) == 148, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, src) == 152, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, view_src) == 232, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, data) == 248, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, name) == 256, "ggml_tensor");
_Static_assert(offsetof(struct gg_tensor, extra) == 320, "ggml_tensor");
_Static_assert(sizeof(struct gg_tensor) == 336, "ggml_tensor");

/* The part of ggml_cgraph that never moved; the rest by ggml_layout. */
struct gg_cgraph_head {
    int32_t size;
    int32_t n_nodes;
    int32_t n_leafs;
    struct gg_tensor **nodes;
};
_Static_assert(offsetof(struct gg_cgraph_head, nodes) == 16, "ggml_cgraph");

struct gg_hash_set {
    size_t size;
    uint32_t *used; /* bit set, one bit per slot */
    struct gg_tensor **keys;
};

struct gg_init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

enum gg_status {
    GG_STATUS_ALLOC_FAILED = -2,
    GG_STATUS_FAILED = -1,
    GG_STATUS_SUCCESS = 0,
    GG_STATUS_ABORTED = 1,
};

enum gg_dev_type {
    GG_DEV_CPU = 0,
    GG_DEV_GPU = 1,
    /* IGPU (2) came in 2025-08 and moved ACCEL to 3; a name tells, not the number */
};

enum gg_usage {
    GG_USAGE_ANY = 0,
    GG_USAGE_WEIGHTS = 1,
    GG_USAGE_COMPUTE = 2,
};

/* Device and registration objects: the same in every layout. */
struct gg_device_i {
    const char *(*get_name)(void *dev);
    const char *(*get_description)(void *dev);
    void (*get_memory)(void *dev, size_t *free, size_t *total);
    int (*get_type)(void *dev);
    void (*get_props)(void *dev, void *props);
    void *(*init_backend)(void *dev, const char *params);
    void *(*get_buffer_type)(void *dev);
    void *(*get_host_buffer_type)(void *dev);
    void *(*buffer_from_host_ptr)(void *dev, void *ptr, size_t size, size_t max_tensor_size);
    bool (*supports_op)(void *dev, const struct gg_tensor *op);
    bool (*supports_buft)(void *dev, void *buft);
    bool (*offload_op)(void *dev, const struct gg_tensor *op);
    void *(*event_new)(void *dev);
    void (*event_free)(void *dev, void *event);
    void (*event_synchronize)(void *dev, void *event);
};
_Static_assert(sizeof(struct gg_device_i) == 120, "ggml_backend_device_i");

struct gg_device {
    struct gg_device_i iface;
    void *reg;
    void *context;
};

struct gg_reg {
    int32_t api_version;
    const char *(*get_name)(void *reg);
    size_t (*get_device_count)(void *reg);
    void *(*get_device)(void *reg, size_t index);
    void *(*get_proc_address)(void *reg, const char *name);
    void *context;
};

struct gg_event {
    void *device;
    void *context;
};

/* Every layout's objects fit these; fields are reached by offset (layout). */
#define GG_BUFT_WORDS    16
#define GG_BUFFER_WORDS  16
#define GG_BACKEND_WORDS 24

/* The vtable of a buffer travels by value through ggml_backend_buffer_init. The
 * callee copies as many words as its layout has; more than it needs is harmless
 * where large structs go on the stack (x86-64) or by reference (aarch64). */
struct gg_buffer_i {
    void *fn[16];
};

/*
 * Byte offsets from the start of each object; 0 where the layout has no such
 * member (none of these is ever first).
 */
struct ggml_layout {
    const char *label; /* "L0" … "L4" */
    int32_t api_version;
    struct {
        uint16_t alloc, align, max_size, alloc_size, is_host, device, ctx;
    } buft;
    struct {
        uint16_t base, init, memset, set, get, set_2d, get_2d, cpy, clear, reset, buft, ctx, size,
            usage;
    } buffer;
    struct {
        uint16_t free, set_async, get_async, set_2d_async, get_2d_async, cpy_async, sync,
            graph_compute, event_record, event_wait, graph_optimize, device, ctx;
    } backend;
    uint16_t props_size, props_caps, props_device_id;
    /* found apart from the label: they moved on other days */
    uint16_t cgraph_use_counts, cgraph_hash_set, cgraph_uid;
    bool optimize_params;  /* graph_optimize has the third argument for sure */
    bool has_compute_flag; /* nodes without flag COMPUTE are not to be computed */
};

#define GG_AT(obj, offset, type) (*(type *)(void *)((char *)(obj) + (offset)))
