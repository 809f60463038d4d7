/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each op must look like before the host's ggml sees it. ggml's own checks
 * are asserts; these keep a guest from reaching them, and from the memory they
 * do not guard. One table (backend/worker/rules/rules.c) has a row per op; an op that no row
 * knows is refused. The same function serves GRAPH_DEF, OP_QUERY and GRAPH_OPTIMIZE.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/worker/ggml/ggml.h"
#include "backend/worker/rules/reach.h"
#include "protocol/graph.h"

/*
 * Whether tensor `index` (which has an op) is one that ggml's builders could have
 * made. `types` has HOST_TYPES_MAX entries; the types of the tensor and of its
 * sources are known, and their extents have been checked. `cpu`: the CPU backend's
 * kernels will run it, and what they assume counts too. Returns NULL with *ret_reach,
 * or the static reason why not.
 */
const char *worker_rules_check(const struct apir_graph *g, uint32_t index,
                               const struct host_type *types, bool cpu,
                               struct worker_reach *ret_reach);

/*
 * The table that source 1 or 2 of this op indexes: returns the number of that
 * source, with the numbers that are valid in it in [0, *ret_limit), or -1 where the
 * op has no indices.
 */
int worker_rules_index(const struct apir_graph *g, uint32_t index, int64_t *ret_limit);
