/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the host's ggml that we call: in this folder, and nowhere else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/ggml_abi.h"

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
    R(const char *, ggml_backend_buft_name, (void *))                                              \
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
