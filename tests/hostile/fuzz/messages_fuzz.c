/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hostile guest can do to the worker's reading side: any bytes on the
 * ring, at any offset, under any tail.
 *
 * Input: u32 where the host stands on the ring (a multiple of 8 is made of it),
 * i32 what the tail says beyond the bytes that are there, then those bytes.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "protocol/messages.h"
#include "protocol/ring.h"

const char fuzz_corpus[] = "messages";

#define BLOB_SIZE ((size_t)APIR_RING_SIZE_MIN)
#define CMD_SIZE  (BLOB_SIZE / 2)

static _Alignas(4096) uint8_t blob[BLOB_SIZE];

/* The message in buf decodes to what encodes to the same bytes, or not at all. */
static unsigned check_message(const uint8_t *buf, size_t size, unsigned state)
{
    static uint8_t again[APIR_MESSAGE_MAX];
    /* Of exactly its size, so that ASan sees a read behind it. */
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, buf, size);
    struct apir_msg msg;
    const char *why = NULL;
    int rc = apir_msg_decode(copy, size, state, &msg, &why);
    if (rc) {
        FUZZ_CHECK(rc == -EBADMSG && why);
    } else {
        FUZZ_CHECK(apir_msg_encode(&msg, again, sizeof(again)) == (int64_t)size);
        FUZZ_CHECK(memcmp(again, copy, size) == 0);
        FUZZ_CHECK(strcmp(apir_msg_name(msg.code), "unknown") != 0);
        if (msg.code == APIR_MSG_HELLO)
            state = APIR_ST_READY;
    }
    free(copy);
    return rc ? 0 : state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t start;
    int32_t skew;
    if (size < sizeof(start) + sizeof(skew) || size - 8 > CMD_SIZE)
        return 0;
    memcpy(&start, data, sizeof(start));
    memcpy(&skew, data + 4, sizeof(skew));
    data += 8;
    size -= 8;
    start &= ~7u;

    /* As a guest that knows no rules would put it. */
    uint8_t *cmd = blob + apir_ring_cmd_offset(BLOB_SIZE);
    size_t at = start % CMD_SIZE, first = CMD_SIZE - at < size ? CMD_SIZE - at : size;
    memcpy(cmd + at, data, first);
    memcpy(cmd, data + first, size - first);
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)blob;
    h->tail = start + size + (uint64_t)(int64_t)skew;

    struct apir_ring_host host;
    apir_ring_host_init(&host, blob, BLOB_SIZE);
    host.head = host.limit = host.shown = start;
    static uint8_t buf[APIR_MESSAGE_MAX];
    for (unsigned state = APIR_ST_NEW; state;) {
        size_t got = 0;
        int rc = apir_ring_host_take(&host, buf, sizeof(buf), &got);
        FUZZ_CHECK(host.limit - host.head <= CMD_SIZE);
        if (rc) {
            FUZZ_CHECK(rc == -EAGAIN || rc == -EBADMSG);
            FUZZ_CHECK(rc != -EAGAIN || host.head == h->tail);
            break;
        }
        FUZZ_CHECK(got >= 8 && got % 8 == 0 && got <= sizeof(buf));
        state = check_message(buf, got, state);
        apir_ring_host_done(&host);
        apir_ring_host_show(&host);
    }

    memset(cmd + at, 0, first);
    memset(cmd, 0, size - first);
    return 0;
}
