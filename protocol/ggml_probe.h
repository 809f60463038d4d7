/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out the binary layout of the ggml in this process by asking its public
 * functions: fake objects whose every word is a distinct stub show which word an
 * accessor reads. Nothing is read from version strings.
 */
#pragma once

#include <stddef.h>

#include "protocol/ggml_abi.h"

/* dlsym(handle, name) or what stands for it; NULL where there is none. */
typedef void *(*apir_symbol_fn)(void *handle, const char *name);

/*
 * Probes the ggml behind `handle`. Not thread-safe (the stubs record in static
 * memory): both callers run it once, at load. Returns 0 and *ret_layout; or
 * -ENOENT (a needed symbol is missing) or -ENOTSUP (a layout that we do not
 * know), with the reason in `why` (of why_size bytes).
 */
int ggml_probe_layout(apir_symbol_fn symbol, void *handle, struct ggml_layout *ret_layout,
                      char *why, size_t why_size);
