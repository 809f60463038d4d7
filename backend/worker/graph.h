/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph slots: a decoded graph (protocol/graph.h), checked against the
 * context's buffers and the host's ggml, and laid out as ggml tensors whose
 * addresses stay the same until the slot is redefined.
 */
#pragma once

#include "backend/worker/worker.h"

/*
 * Defines (or redefines) the slot from a private copy of a payload. Returns
 * NULL and leaves the slot READY or BROKEN; or the reason why the payload is
 * malformed: the context is then to become FATAL.
 */
const char *worker_slot_define(struct worker *w, struct worker_slot *slot, uint32_t device,
                               const void *payload, uint64_t size);

/* Whether all row numbers that can be checked are within their tables; else why[APIR_WHY_SIZE] says
 * which is not. */
bool worker_slot_indices_ok(const struct worker_slot *slot, char *why);

/* Makes the slot BROKEN; `why` is a text for the user. */
void worker_slot_break(struct worker_slot *slot, uint32_t status, const char *why);

/* The op and the name of the slot's last node, for messages. Static texts or the slot's own. */
void worker_slot_last(const struct worker_slot *slot, const char **ret_op, const char **ret_name);

void worker_slot_clear(struct worker *w, struct worker_slot *slot);
/* Whether the graph, READY or BROKEN, names the buffer. */
bool worker_slot_uses(const struct worker_slot *slot, uint32_t buffer_id);

/* What a pass over a graph's tensors found. */
struct worker_outcome {
    const char *fatal;       /* malformed: the context ends */
    uint32_t status;         /* well-formed, but not for this host */
    char why[APIR_WHY_SIZE]; /* with status: for the user */
};

/* Checks and fills tensors that have no memory: for questions, not for computing. */
void worker_tensors_imagine(struct worker *w, const struct apir_graph *wire, uint32_t device,
                            struct gg_tensor *tensors, struct worker_outcome *out);

/* By its number in the host's ggml: nothing is computed, the result lies in its source's memory. */
bool worker_op_is_view(const struct worker *w, int32_t op);
