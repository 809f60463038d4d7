/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a ring in one process, and messages that can be told apart.
 *
 * Threads report failures through what they return: cmocka's asserts are for the
 * main thread only. Each wait has a limit, so that a lost wake-up is a failure
 * and not a test that hangs.
 */
#ifndef APIR_TEST_RING_ENDS_H
#define APIR_TEST_RING_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/ring.h"
#include "tests/lib/clock.h"

#define BLOB_SIZE ((size_t)APIR_RING_SIZE_MIN)
#define CMD_SIZE  (BLOB_SIZE / 2)
#define LIMIT_MS  patient_ms(20000)

struct ends {
    uint8_t *blob; /* the guest's mapping */
    uint8_t *host_blob;
    struct apir_ring_header *header; /* in blob */
    uint8_t *cmd;                    /* in blob */
    struct apir_ring_guest guest;
    struct apir_ring_host host;
};

/* What the server writes before the guest may look. */
void blob_fill(struct apir_ring_header *h, uint64_t size);
/*
 * One mapping for both sides: TSan knows memory by its address, and would not
 * see a race between two mappings.
 */
void ends_open(struct ends *e);
/* Two mappings of a memfd, with a page behind each that nobody may touch. */
void ends_open_memfd(struct ends *e);
void ends_close(struct ends *e);
/* A test (unit.h) of ends e, which `open` opens; they are closed after it. */
#define ENDS_TEST(name, open)                                                                      \
    static void name##_of(struct ends *e);                                                         \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct ends e;                                                                             \
        open(&e);                                                                                  \
        name##_of(&e);                                                                             \
        ends_close(&e);                                                                            \
    }                                                                                              \
    static void name##_of(struct ends *e)

/* Both sides as if this many bytes had passed already. */
void ends_start_at(struct ends *e, uint64_t at);
/* A message of `size` bytes whose contents tell it from every other. */
void message_fill(uint8_t *buf, size_t size, uint64_t seed);
bool message_is(const uint8_t *buf, size_t size, uint64_t seed);
/* The guest puts one (and returns where it ends), and publishes it (true: wants a kick). */
uint64_t put(struct ends *e, size_t size, uint64_t seed);
bool publish(struct ends *e, size_t size, uint64_t seed);
/* What the host takes is this message, which stays at hand. */
void expect_taken(struct ends *e, size_t size, uint64_t seed);
/* There is none to take. */
void expect_nothing(struct ends *e);
/* The message at hand is done, and shown. */
void complete(struct apir_ring_host *host);
size_t random_size(uint64_t *seed);
/* Waits for the head as the guest does: on the futex. False: LIMIT_MS passed. */
bool wait_head(struct apir_ring_header *h, uint64_t pos);

#endif
