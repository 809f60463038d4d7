/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs of ggml itself on one backend, for cases that need no model. */
#ifndef APIR_TESTS_OPTIONS_GRAPH_H
#define APIR_TESTS_OPTIONS_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <ggml-backend.h>
#include <ggml.h>

struct record;

/* A context of ggml for some tensors and one graph, without data of its own. */
struct ggml_context *graph_context(void);

/* A backend on the device that computes with one thread. */
ggml_backend_t graph_backend(ggml_backend_dev_t device);

/* Fills a tensor of F32 with numbers around 0 that follow from the seed. */
void graph_fill(struct ggml_tensor *t, uint32_t seed);

/*
 * Multiplies, adds, normalises and takes a row-wise maximum, all in a buffer of its own, and
 * records what comes out. False if the backend says that the graph failed.
 */
bool graph_try(ggml_backend_t backend, struct record *record, const char *name, uint32_t seed);
/* Where it may not fail. */
void graph_compute(ggml_backend_t backend, struct record *record, const char *name, uint32_t seed);

#endif
