/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says, once it has been read (backend/config/config.h). */
#ifndef APIR_CONFIG_SETTINGS_H
#define APIR_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APIR_CONFIG_CONTEXTS_MAX 256u /* what virglrenderer's own server allows */
#define APIR_CONFIG_DEVICES_MAX  16u
#define APIR_CONFIG_THREADS_MAX  1024u
#define APIR_CONFIG_MIB_MAX      (1u << 26) /* APIR_SIZE_MAX */
#define APIR_CONFIG_SECONDS_MAX  86400u
#define APIR_CONFIG_SPARES_MAX   16u

#define APIR_CONFIG_NAMES_MAX 64u
#define APIR_CONFIG_GROUP_MAX 24u /* characters */

/* Names of users or groups, or numbers in decimal; or of devices; or paths. */
struct apir_config_names {
    char **names;
    size_t n;
};

enum apir_config_mps {
    APIR_CONFIG_MPS_OFF,
    APIR_CONFIG_MPS_AUTO,     /* where it can be had */
    APIR_CONFIG_MPS_REQUIRED, /* nobody computes without */
};

struct apir_config {
    /* "stock_server": path of virglrenderer's server, which serves all contexts
     * that are not ours; false (NULL here): they are refused. */
    char *stock_server;
    /* "worker": path of apir-worker; NULL: it lies beside apir-render-server. */
    char *worker;
    /* "max_contexts": apir contexts per server, 1 to 256; 64 by default. */
    uint32_t max_contexts;
    /* "context_shm_mib": shared memory (ring and arenas) per context in MiB,
     * 1 to 65536; 1024 by default. */
    uint32_t context_shm_mib;
    /*
     * Limits; 0, where it is a default: none.
     *
     * Of one of the host's devices, over all contexts of all servers
     * (backend/server/limits/limits.h): "device_memory_mib": its memory in MiB;
     * "max_contexts_per_device": who uses it. 0.
     */
    uint32_t device_memory_mib;
    uint32_t max_contexts_per_device;
    /* Of all contexts of one server, which is a class: "class_device_memory_mib": memory of each
     * device; "class_shm_mib": shared memory. 0. */
    uint32_t class_device_memory_mib;
    uint32_t class_shm_mib;
    /* Of one context: "context_device_memory_mib": memory of each device;
     * "context_host_memory_mib": shared memory and buffers in the host's main memory. 0. */
    uint32_t context_device_memory_mib;
    uint32_t context_host_memory_mib;
    /* "context_graph_mib": what its graphs are kept in, 1 and up; 1024. */
    uint32_t context_graph_mib;
    /* "context_queue_mib": transfers that are queued on a device at a time; 1 and up; 256. */
    uint32_t context_queue_mib;
    /* "seconds_per_graph": one computation, or one operation of it where the worker sees those (of
     * a CPU), to 86400; 600. */
    uint32_t seconds_per_graph;
    /* "seconds_to_start": a worker, with its drivers, to 86400; 300. */
    uint32_t seconds_to_start;
    /* "spare_workers": ready before their context comes (backend/server/ahead/spare.h), to 16; 1.
     * "spare_seconds": how long after the last context's start, 1 to 86400; 600. */
    uint32_t spare_workers;
    uint32_t spare_seconds;
    /* "shader_seconds": how long a server may fill the shader cache for, once, to 86400; 300. 0:
     * there is none (backend/server/ahead/shaders.h). */
    uint32_t shader_seconds;
    /* "mps": NVIDIA's Multi-Process Service for workers that compute through CUDA
     * (backend/server/share/mps.h); "off" by default. "mps_control": path of
     * nvidia-cuda-mps-control; NULL: it is looked for. */
    enum apir_config_mps mps;
    /* "mps_group": servers of one user that name the same one share one MPS; NULL: alone. */
    char *mps_group;
    char *mps_control;
    /* "context_gpu_percent": of the multiprocessors, by MPS; 1 to 100; 100. */
    uint32_t context_gpu_percent;
    /*
     * Between the servers of a machine, which are its classes (backend/server/turns/turns.h).
     * "weight": its share of a device that others want too, 1 to 100; 0, the default: it takes no
     * part. "latency": true: it comes first, within its share.
     */
    uint32_t weight;
    bool latency;
    /* "limits_dir": the folder where servers tell each other what their contexts have; NULL:
     * backend/server/limits/limits.h chooses. */
    char *limits_dir;
    /* "ggml": path of the host's libggml; NULL: the loader finds libggml.so.0. */
    char *ggml;
    /* "ggml_backends_dir": where that ggml finds its backends; NULL: its own choice. */
    char *ggml_backends_dir;
    /* "devices": names of the host's ggml devices to offer, in this order;
     * none (or "auto"): every GPU, or the CPU where there is none. */
    struct apir_config_names devices;
    /* "threads": CPU threads per context; 0: ggml's own choice. */
    uint32_t threads;
    /* "allow_users", "allow_groups": who may connect to the `unix` transport's socket, each a
     * list of names and numbers; with neither, all who can open it. */
    struct apir_config_names allow_users;
    struct apir_config_names allow_groups;
    /* "max_contexts_per_user": of the `unix` transport, 1 to 256; 32 by default. */
    uint32_t max_contexts_per_user;
    /* "sandbox": "required": a worker that gets no file rules or no system call filter from
     * this kernel refuses to work; "auto" (the default): it takes what there is. */
    bool sandbox_required;
    /* "sandbox_read", "sandbox_write": absolute paths that workers may read, or read and
     * write, beyond what backend/worker/sandbox/files.c lists. */
    struct apir_config_names sandbox_read;
    struct apir_config_names sandbox_write;
    uint64_t given; /* bit per key, in the order of apir_config_show: it is in the file */
};

#endif
