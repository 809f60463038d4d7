/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded natively: ggml's buffers begin as zeros, as APIR0's do. ggml-vulkan reads some of what
 * nobody has written (with plamo2 and minimax-m3, of Debian's 0.27, what it computes differs then
 * by 1e-3 and 1e-2), so that without this a native result depends on what the memory held before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include <ggml-backend.h>

/* Of libggml-base, which calls itself by way of this one. */
__attribute__((visibility("default"))) ggml_backend_buffer_t
ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size)
{
    ggml_backend_buffer_t (*next)(ggml_backend_buffer_type_t, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "ggml_backend_buft_alloc_buffer");
    ggml_backend_buffer_t buffer = next ? next(buft, size) : NULL;
    if (buffer && size)
        ggml_backend_buffer_clear(buffer, 0);
    return buffer;
}
