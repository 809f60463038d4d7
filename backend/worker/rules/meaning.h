/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parameters of an op have come to mean. An older ggml has the op and takes a newer one's
 * parameters for something else, or passes over them: it would compute, and wrongly. Whether the
 * host's ggml knows a meaning is told by a function that came with it.
 *
 * ggml's backends say that they support what their kernels abort over. Newer ones have kernels for
 * more, so what they can be asked is not what an older host survives: that is in here, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/graph.h"

/* Whether the host's ggml has a function of this name. */
typedef bool meaning_has(const void *data, const char *function);

/* What is known of the host's ggml. */
struct worker_meaning {
    meaning_has *has;
    const void *data;
    int32_t f32; /* its number of GGML_PREC_F32; 0: that cannot be told */
};

/* `data` is handed to `has`, now and later. */
void worker_meaning_init(struct worker_meaning *m, meaning_has *has, const void *data);

/*
 * Whether the host's ggml, on its CPU if `cpu`, knows all that tensor `index`, which has passed
 * worker_rules_check(), asks for. Where it does not, the op is the guest's to compute.
 */
bool worker_meaning_is_known(const struct worker_meaning *m, const struct apir_graph *g,
                             uint32_t index, bool cpu);

/* The guest's parameters of this op as the host's ggml says them: what an older one leaves unsaid,
 * and what has another number there. */
void worker_meaning_complete(const struct worker_meaning *m, const char *op, int32_t *params);
