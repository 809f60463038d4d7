/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that speak to the ring themselves, and badly. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "protocol/atomic.h"
#include "tests/lib/guest.h"
#include "tests/hostile/soak/soak_client.h"
#include "tests/system/apir_exercise.h"

#define START_MS patient_ms(60000) /* of a worker, on a machine that is full of them */

static void open_transport(struct transport *t)
{
    struct apir_error err = {0};
    if (transport_open(t, getenv("APIR_TRANSPORT"), &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        soak_refused("the connection");
    }
}

static void raw_failed(const char *text)
{
    fail("%s", text);
}

/* Up to the answer to HELLO. */
static void raw_open(struct guest *g)
{
    guest_on_failure = raw_failed;
    *g = (struct guest){0};
    open_transport(&g->transport);
    guest_attach(g);
    const int64_t end = now_ms() + START_MS;
    while (guest_state(g) == APIR_STATE_STARTING && now_ms() < end)
        nap_us(1000);
    guest_greet(g);
}

/* Bytes that no message begins with, in one of four ways. */
void raw_malformed(struct soak_client *c)
{
    static const struct apir_msg_header headers[] = {
        {.code = 0xffff, .size = 8},
        {.code = APIR_MSG_BUFFER_FREE, .size = 7},
        {.code = APIR_MSG_BUFFER_FREE, .zero = 1, .size = 16},
        {.code = APIR_MSG_SET_INLINE, .size = 0x7ffffff8},
    };
    struct guest g;
    raw_open(&g);
    uint8_t bytes[64];
    random_bytes(bytes, sizeof(bytes), c->seed);
    memcpy(bytes, &headers[c->seed % 4], sizeof(headers[0]));
    guest_put_bytes(&g, bytes, sizeof(bytes));
    expect_fatal(&g, "");
}

/* Doorbells, as many as the VMM takes. */
void raw_flood(struct soak_client *c)
{
    struct guest g;
    raw_open(&g);
    while (now_seconds() < c->ends) {
        for (uint32_t i = 0; i < 100; i++) {
            const struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC,
                                               .op = 1 + soak_random(c, 3),
                                               .value = soak_random(c, 1u << 20)};
            CHECK(g.transport.doorbell(&g.transport, &bell) == 0);
        }
    }
    CHECK(guest_state(&g) == APIR_STATE_READY);
}

/* Fills the ring with requests and never looks at an answer. */
void raw_deaf(struct soak_client *c)
{
    const struct apir_msg ask = {.code = APIR_MSG_DEVICE_MEMORY};
    struct guest g;
    raw_open(&g);
    do {
        while (apir_ring_guest_has_room(&g.ring, 64))
            guest_put(&g, &ask);
        guest_flush(&g);
    } while (soak_goes_on(c));
    CHECK(guest_state(&g) == APIR_STATE_READY);
}

/* All the shared memory that there may be, and then some: where that is refused, the stock test
 * server closes the connection, so it is asked once. */
void raw_greedy(struct soak_client *c)
{
    struct guest g;
    raw_open(&g);
    uint32_t made = 0;
    while (made + 1 < APIR_BLOBS_MAX &&
           g.transport.blob_create(&g.transport, made + 1, 32 * MIB, &g.blobs[made + 1]) == 0)
        made++;
    if (made == 0 || made + 1 == APIR_BLOBS_MAX)
        fail("client %u: %u blobs of 32 MiB were granted", c->seed, made);
}

/* Shared memory in pieces until there is no more; some is given back and looked at all the same. In
 * a class there may be none from the first: the server has said why in its log, or the ring has. */
void raw_grab(struct soak_client *c)
{
    struct transport t = {0};
    struct transport_blob blobs[APIR_BLOBS_MAX] = {{0}};
    open_transport(&t);
    int rc = t.blob_create(&t, APIR_RING_BLOB_ID, APIR_RING_SIZE, &blobs[0]);
    for (uint32_t i = 1; rc == 0 && i < APIR_BLOBS_MAX; i++)
        rc = t.blob_create(&t, i, APIR_SHM_ALIGN * (1 + soak_random(c, 64)), &blobs[i]);
    const struct apir_ring_header *ring = blobs[0].map;
    if (rc == -EDQUOT)
        fprintf(stderr, "class_shm_mib: %.200s\n", ring ? ring->reason : "no ring");
    else if (rc)
        fail("client %u: a blob was refused with %d", c->seed, rc);
    if (rc && !blobs[1].map)
        soak_refused("shared memory");
    do {
        const uint32_t at = 1 + soak_random(c, APIR_BLOBS_MAX - 1);
        const uint64_t size = blobs[at].size;
        /* Mapped a second time, it is held after it was given back. */
        void *held = size ? mremap(blobs[at].map, 0, size, MREMAP_MAYMOVE) : NULL;
        if (size)
            t.blob_destroy(&t, &blobs[at]);
        nap_us(100000);
        rc = t.blob_create(&t, at, APIR_SHM_ALIGN * (1 + soak_random(c, 64)), &blobs[at]);
        if (rc && rc != -EDQUOT)
            fail("client %u: a blob was refused with %d", c->seed, rc);
        CHECK(held != MAP_FAILED);
        if (size)
            munmap(held, size);
    } while (soak_goes_on(c));
}
