/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is around a worker: its server, which keeps the books and hands it blobs; the memory of
 * its devices, between pages without access; and beside the CPU a device with a queue, events and
 * an order of nodes. All of it does what it likes where the input says so.
 */
#ifndef APIR_FUZZ_WORKER_WORLD_H
#define APIR_FUZZ_WORKER_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/blob.h"
#include "backend/worker/control.h"
#include "backend/worker/dispatch.h"
#include "backend/worker/extra.h"
#include "backend/worker/graph.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"
#include "tests/hostile/fuzz/fuzz.h"
#include "tests/hostile/fuzz/graph_random.h"

#define BLOBS      5u /* ids below it are used: the ring and four more */
#define GUEST_MAPS 16
#define QUEUED     1u /* the device that is no CPU: graphs for it are checked, not computed */

extern struct worker worker;
extern struct apir_ring_guest ring;

/* What the guest has mapped, and keeps. */
struct guest_map {
    uint8_t *map;
    uint64_t size;
};
extern struct guest_map guest[GUEST_MAPS];
extern unsigned n_guest;

/* The input; where it ends, zeros follow. */
extern struct fuzz_input world_in;
uint64_t world_take(size_t bytes);
struct dice world_dice(void); /* some bytes of it, and what follows from them */

void world_load(void); /* once */
/* narrow: with little for graphs and for what is queued. */
void world_open(bool narrow);
void world_close(void); /* as the end of the process would; nothing is left of it */

/* The server adds a blob, or destroys one. */
void world_blob_add(uint32_t blob, uint64_t size);
void world_blob_step(void);

/* What each ready slot promises, and that all counts are right. */
void world_check_slots(void);
void world_check_books(void);

#endif
