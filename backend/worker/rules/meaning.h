/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parameters of an op have come to mean. An older ggml has the op and takes a newer one's
 * parameters for something else, or passes over them: it would compute, and wrongly. Whether the
 * host's ggml knows a meaning is told by a function that came with it.
 *
 * ggml's backends say that they support what their kernels abort over. Newer ones have kernels for
 * more, so what they can be asked is not what an older host survives: that is in here, too.
 */
#ifndef APIR_WORKER_MEANING_H
#define APIR_WORKER_MEANING_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/graph.h"

/* Whether the host's ggml has a function of this name. */
typedef bool meaning_has(const void *data, const char *function);

/*
 * Whether the host's ggml, on its CPU if `cpu`, knows all that tensor `index`, which has passed
 * worker_rules_check(), asks for. Where it does not, the op is the guest's to compute.
 */
bool worker_meaning_is_known(const struct apir_graph *g, uint32_t index, bool cpu, meaning_has *has,
                             const void *data);

/* What an older guest's ggml does not say of this op, as a newer one would say it. */
void worker_meaning_complete(const char *op, int32_t *params);

#endif
