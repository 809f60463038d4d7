/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns at a device, where classes take them (backend/server/turns/turns.h): the server opens and
 * shuts them in a page that we can only read; what we want and what we hold is in our status page.
 */
#pragma once

#include "backend/worker/worker.h"

/* Before the device's first graph: which of the turns is its. Returns 0 or -errno: the server is
 * gone. */
int worker_turn_find(struct worker *w, uint32_t device);

/* Whether a graph may begin now: then the turn is held until worker_turn_give(). */
bool worker_turn_try(struct worker *w, uint32_t device);
/* The same, once it may. To be called without any turn held: two classes that each hold one of two
 * devices would wait for each other. */
void worker_turn_wait(struct worker *w, uint32_t device);
/* Said before worker_turn_give() by who tries again at once: the graph has not ended. */
void worker_turn_want(struct worker *w, uint32_t device);
/* Nothing of ours computes at the device any more. */
void worker_turn_give(struct worker *w, uint32_t device);
/* Whether others wait for the turn, which is held, or its server wants it back. */
bool worker_turn_is_wanted(const struct worker *w, uint32_t device);

/* Whether classes take turns at the device. */
bool worker_turn_is_taken(const struct worker *w, uint32_t device);

/* Threads of its CPU stream; 0: as many as there are. */
void worker_turn_threads(struct worker *w, uint32_t threads);
