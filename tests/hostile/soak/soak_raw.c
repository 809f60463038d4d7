/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that speak to the ring themselves, and badly. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "frontend/link/transport.h"
#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "tests/lib/clock.h"
#include "tests/hostile/soak/soak_client.h"
#include "tests/system/apir_exercise.h"

#define HELLO_SECONDS 60 /* starting a worker, on a machine that is full of them */
#define FATAL_SECONDS 10
#define ARENA_SIZE    (1u << 20)

struct raw {
    struct transport t;
    struct transport_blob ring_blob;
    struct apir_ring_guest ring;
};

static uint32_t raw_state(const struct raw *r)
{
    return apir_load_acquire32(&r->ring.header->state);
}

static void raw_bell(struct raw *r, uint32_t op, uint64_t value)
{
    const struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = op, .value = value};
    if (r->t.doorbell(&r->t, &bell) < 0)
        fail("the VMM takes no doorbell");
}

static void raw_put(struct raw *r, const struct apir_msg *msg)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    const int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    CHECK(size > 0 && apir_ring_guest_has_room(&r->ring, (size_t)size));
    apir_ring_guest_put(&r->ring, buf, (size_t)size);
}

static void raw_flush(struct raw *r)
{
    if (apir_ring_guest_publish(&r->ring))
        raw_bell(r, APIR_DOORBELL_KICK, 0);
}

/* Up to the answer to HELLO. */
static void raw_open(struct raw *r)
{
    struct apir_error err = {0};
    *r = (struct raw){0};
    if (transport_open(&r->t, getenv("APIR_TRANSPORT"), &err) < 0)
        fail("%s", err.msg);
    CHECK(r->t.blob_create(&r->t, APIR_RING_BLOB_ID, APIR_RING_SIZE_MIN, &r->ring_blob) == 0);
    CHECK(apir_ring_guest_init(&r->ring, r->ring_blob.map, r->ring_blob.size) == 0);
    raw_put(r, &(struct apir_msg){.code = APIR_MSG_HELLO,
                                  .u.hello = {.magic = APIR_HELLO_MAGIC,
                                              .major = APIR_PROTOCOL_MAJOR,
                                              .minor = APIR_PROTOCOL_MINOR}});
    raw_flush(r);
    const double end = now_seconds() + patient_ms(HELLO_SECONDS * 1000) / 1e3;
    while (apir_ring_guest_head(&r->ring) != r->ring.tail) {
        if (raw_state(r) >= APIR_STATE_FATAL)
            fail("no answer to HELLO: %.200s", r->ring.header->reason);
        if (now_seconds() > end)
            fail("no answer to HELLO");
        nap_us(1000);
    }
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
    struct raw r;
    raw_open(&r);
    uint8_t bytes[64];
    random_bytes(bytes, sizeof(bytes), c->seed);
    memcpy(bytes, &headers[c->seed % 4], sizeof(headers[0]));
    apir_ring_guest_put(&r.ring, bytes, sizeof(bytes));
    raw_flush(&r);
    const double end = now_seconds() + patient_ms(FATAL_SECONDS * 1000) / 1e3;
    while (raw_state(&r) != APIR_STATE_FATAL) {
        if (now_seconds() > end || raw_state(&r) == APIR_STATE_LOST)
            fail("malformed bytes (%u) did not end the context as FATAL, but in state %u: %.200s",
                 c->seed % 4, raw_state(&r), r.ring.header->reason);
        nap_us(1000);
    }
}

/* Doorbells, as many as the VMM takes. */
void raw_flood(struct soak_client *c)
{
    struct raw r;
    raw_open(&r);
    while (now_seconds() < c->ends) {
        for (uint32_t i = 0; i < 100; i++)
            raw_bell(&r, 1 + soak_random(c, 3), soak_random(c, 1u << 20));
    }
    CHECK(raw_state(&r) == APIR_STATE_READY);
}

/* Fills the ring with requests and never looks at an answer. */
void raw_deaf(struct soak_client *c)
{
    struct raw r;
    raw_open(&r);
    do {
        const struct apir_msg ask = {.code = APIR_MSG_DEVICE_MEMORY};
        while (apir_ring_guest_has_room(&r.ring, 64))
            raw_put(&r, &ask);
        raw_flush(&r);
    } while (soak_goes_on(c));
    CHECK(raw_state(&r) == APIR_STATE_READY);
}

/* All the shared memory that there may be, and then some: where that is refused, the stock test
 * server closes the connection, so it is asked once. */
void raw_greedy(struct soak_client *c)
{
    struct raw r;
    raw_open(&r);
    struct transport_blob blobs[APIR_BLOBS_MAX] = {{0}};
    uint32_t made = 0;
    while (made + 1 < APIR_BLOBS_MAX &&
           r.t.blob_create(&r.t, made + 1, 32 * MIB, &blobs[made + 1]) == 0)
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
    struct apir_error err = {0};
    if (transport_open(&t, getenv("APIR_TRANSPORT"), &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        soak_refused("the connection");
    }
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
