/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says, once it has been read (backend/config/config.h). */
#pragma once

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

enum apir_config_choice {
    APIR_CONFIG_OFF,
    APIR_CONFIG_AUTO,     /* where it can be had */
    APIR_CONFIG_REQUIRED, /* nobody computes without */
};

/*
 * A row for each key, in the order of their documentation: K(kind, key, lowest, highest, default).
 * Of a limit 0 is none. `ahead` and the like are rooms of backend/server/.
 */
/* clang-format off */
#define APIR_CONFIG_KEYS(K)                                                                        \
    /* the host's ggml devices to offer, in this order; none or "auto": every GPU, or the CPU      \
     * where there is none */                                                                      \
    K(DEVICES, devices, 1, APIR_CONFIG_DEVICES_MAX, 0)                                             \
    /* of the CPU per context; 0: ggml's own choice */                                             \
    K(NUMBER, threads, 0, APIR_CONFIG_THREADS_MAX, 0)                                              \
    /* apir contexts per server; and of one user on the socket of the `unix` transport */          \
    K(NUMBER, max_contexts, 1, APIR_CONFIG_CONTEXTS_MAX, 64)                                       \
    K(NUMBER, max_contexts_per_user, 1, APIR_CONFIG_CONTEXTS_MAX, 32)                              \
    /* of one of the host's devices, over all contexts of all servers (limits/limits.h) */         \
    K(NUMBER, max_contexts_per_device, 0, 65536, 0)                                                \
    K(NUMBER, device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0)                                        \
    /* of all contexts of one server, which is a class: memory of each device, shared memory */    \
    K(NUMBER, class_device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0)                                  \
    K(NUMBER, class_shm_mib, 0, APIR_CONFIG_MIB_MAX, 0)                                            \
    /* of one context: memory of each device; shared memory and buffers in main memory */          \
    K(NUMBER, context_device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0)                                \
    K(NUMBER, context_host_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0)                                  \
    /* its ring and arenas; what its graphs are kept in; transfers queued at a time */             \
    K(NUMBER, context_shm_mib, 1, 65536, 1024)                                                     \
    K(NUMBER, context_graph_mib, 1, 65536, 1024)                                                   \
    K(NUMBER, context_queue_mib, 1, 65536, 256)                                                    \
    /* one computation, or one operation of it where the worker sees those (of a CPU) */           \
    K(NUMBER, seconds_per_graph, 0, APIR_CONFIG_SECONDS_MAX, 600)                                  \
    /* a worker, with its drivers */                                                               \
    K(NUMBER, seconds_to_start, 0, APIR_CONFIG_SECONDS_MAX, 300)                                   \
    /* ready before their context comes (ahead/spare.h), so long after the last one's start */     \
    K(NUMBER, spare_workers, 0, APIR_CONFIG_SPARES_MAX, 1)                                         \
    K(NUMBER, spare_seconds, 1, APIR_CONFIG_SECONDS_MAX, 600)                                      \
    /* how long a server may fill the shader cache for, once (ahead/shaders.h); 0: not at all */   \
    K(NUMBER, shader_seconds, 0, APIR_CONFIG_SECONDS_MAX, 300)                                     \
    /* NVIDIA's Multi-Process Service for workers that compute through CUDA (share/mps.h) */       \
    K(CHOICE, mps, APIR_CONFIG_OFF, APIR_CONFIG_REQUIRED, APIR_CONFIG_OFF)                         \
    /* servers of one user that name the same one share one MPS; NULL: alone */                    \
    K(NAME, mps_group, 1, APIR_CONFIG_GROUP_MAX, 0)                                                \
    /* nvidia-cuda-mps-control; NULL: it is looked for */                                          \
    K(PATH, mps_control, 0, 0, 0)                                                                  \
    /* of the multiprocessors, by MPS */                                                           \
    K(NUMBER, context_gpu_percent, 1, 100, 100)                                                    \
    /* between a machine's servers, which are its classes (turns/turns.h): the share of a device   \
     * that others want too, 0: it takes no part; and whether it comes first, within that */       \
    K(NUMBER, weight, 0, 100, 0)                                                                   \
    K(FLAG, latency, 0, 0, 0)                                                                      \
    /* where servers tell each other what their contexts have; NULL: limits/limits.h chooses */    \
    K(PATH, limits_dir, 0, 0, 0)                                                                   \
    /* who may connect to the `unix` transport's socket; with neither, all who can open it */      \
    K(NAMES, allow_users, 1, APIR_CONFIG_NAMES_MAX, 0)                                             \
    K(NAMES, allow_groups, 1, APIR_CONFIG_NAMES_MAX, 0)                                            \
    /* required: a worker that gets no file rules or no system call filter refuses to work */      \
    K(CHOICE, sandbox, APIR_CONFIG_AUTO, APIR_CONFIG_REQUIRED, APIR_CONFIG_AUTO)                   \
    /* paths for workers, beyond what backend/worker/sandbox/files.c lists */                      \
    K(PATHS, sandbox_read, 1, APIR_CONFIG_NAMES_MAX, 0)                                            \
    K(PATHS, sandbox_write, 1, APIR_CONFIG_NAMES_MAX, 0)                                           \
    /* the host's libggml; NULL: the loader finds libggml.so.0. And where it finds its backends;   \
     * NULL: its own choice */                                                                     \
    K(PATH, ggml, 0, 0, 0)                                                                         \
    K(PATH, ggml_backends_dir, 0, 0, 0)                                                            \
    /* virglrenderer's server, for contexts that are not ours; NULL (false): they are refused */   \
    K(PATH_OR_FALSE, stock_server, 0, 0, 0)                                                        \
    /* apir-worker; NULL: it lies beside apir-render-server */                                     \
    K(PATH, worker, 0, 0, 0)
/* clang-format on */

#define APIR_CONFIG_TYPE_NUMBER        uint32_t
#define APIR_CONFIG_TYPE_CHOICE        uint32_t /* enum apir_config_choice */
#define APIR_CONFIG_TYPE_FLAG          bool
#define APIR_CONFIG_TYPE_NAME          char *
#define APIR_CONFIG_TYPE_PATH          char *
#define APIR_CONFIG_TYPE_PATH_OR_FALSE char *
#define APIR_CONFIG_TYPE_NAMES         struct apir_config_names
#define APIR_CONFIG_TYPE_PATHS         struct apir_config_names
#define APIR_CONFIG_TYPE_DEVICES       struct apir_config_names

struct apir_config {
#define K(kind, key, lowest, highest, otherwise) APIR_CONFIG_TYPE_##kind key;
    APIR_CONFIG_KEYS(K)
#undef K
    uint64_t given; /* bit per key, in the order of the rows: it is in the file */
};
