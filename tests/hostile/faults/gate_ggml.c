/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's ggml with gates: this library is linked to the real one and stands in front of it, so
 * that the worker, which looks its functions up here, finds these first and all others behind.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ggml-backend.h>
#include <stdlib.h>

#include "tests/hostile/faults/gate.h"

static void *behind(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *found = handle ? dlsym(handle, name) : NULL;
    if (!found)
        abort();
    return found;
}

/* Calls the function of this name behind the gate. */
#define REAL(library, name) ((__typeof__(&name))behind(library, #name))
#define BASE(name)          REAL("libggml-base.so.0", name)

void ggml_backend_load_all(void)
{
    gate_pass(GATE_LOAD);
    REAL("libggml.so.0", ggml_backend_load_all)();
}

void ggml_backend_dev_memory(ggml_backend_dev_t dev, size_t *ret_free, size_t *ret_total)
{
    gate_pass(GATE_MEMORY);
    BASE(ggml_backend_dev_memory)(dev, ret_free, ret_total);
}

bool ggml_backend_dev_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor *op)
{
    return !gate_fails(GATE_SUPPORTS) && BASE(ggml_backend_dev_supports_op)(dev, op);
}

ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t dev, const char *params)
{
    return gate_fails(GATE_OPEN) ? NULL : BASE(ggml_backend_dev_init)(dev, params);
}

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size)
{
    /* Of no size is none for a guest: the worker asks what a type is good for. */
    return size && gate_fails(GATE_ALLOC) ? NULL : BASE(ggml_backend_buft_alloc_buffer)(buft, size);
}

void ggml_backend_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value)
{
    gate_pass(GATE_CLEAR);
    BASE(ggml_backend_buffer_clear)(buffer, value);
}

enum ggml_status ggml_backend_buffer_init_tensor(ggml_backend_buffer_t buffer,
                                                 struct ggml_tensor *tensor)
{
    return gate_fails(GATE_INIT) ? GGML_STATUS_ALLOC_FAILED
                                 : BASE(ggml_backend_buffer_init_tensor)(buffer, tensor);
}

void ggml_backend_tensor_set(struct ggml_tensor *tensor, const void *data, size_t offset,
                             size_t size)
{
    gate_pass(GATE_SET);
    BASE(ggml_backend_tensor_set)(tensor, data, offset, size);
}

void ggml_backend_tensor_memset(struct ggml_tensor *tensor, uint8_t value, size_t offset,
                                size_t size)
{
    gate_pass(GATE_MEMSET);
    BASE(ggml_backend_tensor_memset)(tensor, value, offset, size);
}

enum ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    return gate_fails(GATE_COMPUTE) ? GGML_STATUS_FAILED
                                    : BASE(ggml_backend_graph_compute_async)(backend, graph);
}

void ggml_backend_synchronize(ggml_backend_t backend)
{
    gate_pass(GATE_SYNC);
    BASE(ggml_backend_synchronize)(backend);
}

void ggml_backend_tensor_get(const struct ggml_tensor *tensor, void *data, size_t offset,
                             size_t size)
{
    gate_pass(GATE_GET);
    BASE(ggml_backend_tensor_get)(tensor, data, offset, size);
}

void ggml_backend_tensor_get_async(ggml_backend_t backend, const struct ggml_tensor *tensor,
                                   void *data, size_t offset, size_t size)
{
    gate_pass(GATE_GET);
    BASE(ggml_backend_tensor_get_async)(backend, tensor, data, offset, size);
}

void ggml_backend_tensor_copy(const struct ggml_tensor *src, struct ggml_tensor *dst)
{
    gate_pass(GATE_COPY);
    BASE(ggml_backend_tensor_copy)(src, dst);
}

void ggml_backend_buffer_free(ggml_backend_buffer_t buffer)
{
    gate_pass(GATE_FREE);
    BASE(ggml_backend_buffer_free)(buffer);
}

void ggml_backend_free(ggml_backend_t backend)
{
    gate_pass(GATE_CLOSE);
    BASE(ggml_backend_free)(backend);
}
