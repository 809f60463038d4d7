/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's ggml: loaded, probed and called in this folder and nowhere else. The rest of
 * the worker sees devices, buffers, streams and graphs made of gg_tensor; it
 * hands over only what it has checked, because ggml answers bad input with
 * abort().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker/ggml/device.h"
#include "common/error.h"
#include "protocol/ggml_abi.h"
#include "protocol/messages.h"

#define HOST_TYPES_MAX 64u
#define HOST_OPS_MAX   256u

struct host_type {
    uint32_t block; /* elements; 0: not a type of this ggml */
    uint32_t size;  /* bytes per block */
};

struct host_names {
    const char *name[HOST_OPS_MAX]; /* NULL: unused number. Borrowed from ggml. */
    uint32_t count;
};

struct host_ggml {
    struct ggml_layout layout;
    struct host_type types[HOST_TYPES_MAX];
    struct host_names ops, unary, glu;
    struct host_device devices[APIR_DEVICES_MAX];
    uint32_t n_devices;
    int n_threads; /* for CPU devices */
    uint64_t next_graph_uid;
    struct host_ggml_fns *fns;
    void *library; /* from dlopen(), for good */
};

struct host_ggml_options {
    const char *library;        /* path or soname; NULL: libggml.so.0 */
    const char *backends_dir;   /* NULL: ggml's own search */
    const char *const *devices; /* names to offer, NULL-terminated; NULL: every GPU, or
                                   the CPU where there is none */
    const char *const *without; /* names that are not offered, NULL-terminated; NULL: none. Where
                                   they are all there is, nothing is */
    int n_threads;              /* 0: as many as cores */
    bool explain; /* where a device is missing, the log says what ggml has passed over */
};

/*
 * Loads ggml and lists its devices. Call once per process. Returns 0 or -errno
 * with *err. On failure nothing is usable and the process should end.
 */
int host_ggml_load(struct host_ggml *hg, const struct host_ggml_options *options,
                   struct apir_error *err);

/* Whether this ggml (a struct host_ggml) has a function of that name. */
bool host_ggml_has(const void *hg, const char *function);

/* Number of a name, or -1. */
int host_names_find(const struct host_names *names, const char *name);

void host_device_memory(struct host_ggml *hg, const struct host_device *d, uint64_t *ret_free,
                        uint64_t *ret_total);

/* Tells the buffer about a tensor whose buffer and data are set. 0 or -EIO. */
int host_tensor_init(struct host_ggml *hg, struct gg_tensor *t);
/* Bytes that t's own data take in a buffer of this type, at least its size. */
uint64_t host_tensor_alloc_size(struct host_ggml *hg, void *buft, const struct gg_tensor *t);
/* ggml-cpu computes on it. */
bool host_device_is_cpu(const struct host_device *d);
bool host_tensor_supported(struct host_ggml *hg, const struct host_device *d,
                           const struct gg_tensor *t);
bool host_tensor_offload(struct host_ggml *hg, const struct host_device *d,
                         const struct gg_tensor *t);

/* ---- extra buffer types: `extra` is less than d->n_extras ---- */

const char *host_extra_name(struct host_ggml *hg, const struct host_device *d, uint32_t extra);
/* Whether the op is supported with its first source, which it has, in a buffer of that type. */
bool host_extra_supported(struct host_ggml *hg, const struct host_device *d, uint32_t extra,
                          struct gg_tensor *op);
/* Whether this contiguous matrix, or list of them, is a weight that the type has a layout for: only
 * then may it be set there. */
bool host_extra_takes(struct host_ggml *hg, const struct host_device *d, uint32_t extra,
                      struct gg_tensor *weight);

/* ---- streams (ggml backends) ---- */

/* step(user), which returns false, is called between a computation's operations, by the thread that
 * computes, where the device's backend offers that (a CPU's does). */
void host_stream_watch(struct host_ggml *hg, const struct host_device *d, void *stream,
                       bool (*step)(void *user), void *user);

/* NULL: the device has no room for another. */
void *host_stream_open(struct host_ggml *hg, const struct host_device *d);
void host_stream_close(struct host_ggml *hg, void *stream);
/* At most as many as the configuration has; nothing where the device has no threads of its own. */
void host_stream_threads(struct host_ggml *hg, const struct host_device *d, void *stream,
                         uint32_t threads);
void host_stream_sync(struct host_ggml *hg, void *stream);

/* An event for streams of this device; NULL: it has none. */
void *host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream);
void host_event_free(struct host_ggml *hg, void *event);
void host_event_record(struct host_ggml *hg, void *event, void *stream);
/* The stream's work that follows starts after what the event has recorded. */
void host_event_wait(struct host_ggml *hg, void *event, void *stream);
void host_event_sync(struct host_ggml *hg, void *event);
