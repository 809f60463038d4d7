/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built apir-worker below the built server, with the test as a guest that writes to the ring
 * what no plug-in would. Whatever comes: the context goes on, or becomes FATAL with a reason. A
 * worker that dies by a signal or a sanitizer makes it LOST, and fails the test. So does whatever
 * does not work here, and every wait has a time-out.
 */
#ifndef APIR_TEST_WORKER_GUEST_H
#define APIR_TEST_WORKER_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/graph.h"
#include "tests/lib/guest.h"
#include "tests/lib/unit.h"

#define SMALL 65536u

/*
 * main() of a program of such tests: runs all of them for the CPU; and where Vulkan's loader knows
 * lavapipe, for that, and for both. Or once, for the devices that argv[1] lists as the
 * configuration does: '"Vulkan0", "CPU"'. Returns how many failed.
 */
int guest_main(int argc, char **argv, const char *name);
/* What it is run for. */
bool guest_is_cpu(void);
bool guest_has_two_devices(void);

/* A server and its worker, which has answered HELLO; an arena. */
void guest_start(struct guest *g);
/* Ends all of it. */
void guest_stop(struct guest *g);

/* A test (unit.h) with a guest of its own, g. */
#define GUEST_TEST(name)                                                                           \
    static void name##_of(struct guest *g);                                                        \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct guest g;                                                                            \
        guest_start(&g);                                                                           \
        name##_of(&g);                                                                             \
        guest_stop(&g);                                                                            \
    }                                                                                              \
    static void name##_of(struct guest *g)

/* What the buffer holds there is `value`, as read through the arena. */
void expect_bytes(struct guest *g, uint32_t buffer, uint64_t offset, uint64_t size, uint8_t value);

/* From the beginning of one buffer to that of another. */
void put_copy(struct guest *g, uint32_t src_stream, uint32_t dst_stream, uint32_t src, uint32_t dst,
              uint64_t size);
/* EVENT_*; the stream is of RECORD and WAIT only. */
void put_event(struct guest *g, enum apir_msg_code code, uint32_t event, uint32_t stream);

/* ---- graphs ------------------------------------------------------------------------- */

enum { LOOKUP_WIDTH = 4, LOOKUP_ROWS = 64 };

/* Contiguous, in the first buffer of its graph; size: of one element. */
struct apir_tensor tensor_at(uint8_t bits, uint16_t op, uint8_t type, uint64_t offset, int64_t ne0,
                             int64_t ne1, uint64_t size);

/* A node of 32-bit floats there; `name` may be NULL, and src1 APIR_NO_TENSOR. */
struct apir_tensor node_at(uint16_t op, const char *name, uint64_t offset, int64_t ne0, int64_t ne1,
                           uint32_t src0, uint32_t src1);
/* Writes the graph to the arena's second half; returns its size. */
size_t guest_graph(struct guest *g, const struct apir_graph *graph);
/* The same, and defines it. */
void put_graph(struct guest *g, uint32_t slot, const struct apir_graph *graph);

/*
 * Defines a graph: rows of a table at offset 0 of the buffer, picked by `picks` row numbers at
 * ids_at, to the results' buffer; and the square of the floats beside_at, which may lie on the row
 * numbers.
 */
void put_lookup(struct guest *g, uint32_t slot, uint32_t buffer, uint32_t results, uint64_t ids_at,
                int64_t picks, uint64_t beside_at);

#endif
