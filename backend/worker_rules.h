/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each op must look like before the host's ggml sees it. ggml's own checks
 * are asserts; these keep a guest from reaching them, and from the memory they
 * do not guard. An op that no rule knows is refused.
 */
#ifndef APIR_WORKER_RULES_H
#define APIR_WORKER_RULES_H

#include <stdint.h>

#include "protocol/graph.h"

/* NULL, or the static reason why tensor `index` (which has an op) is malformed. */
const char *worker_rules_check(const struct apir_graph *g, uint32_t index);

#endif
