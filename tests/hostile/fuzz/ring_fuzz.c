/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the ring, each with a peer that writes what it likes to every shared word and to
 * the messages, at any point. What a message says is messages_fuzz.c's.
 *
 * Input: 64 bytes for the start of the header and a u32 for where both sides stand, then steps,
 * each a byte that picks it and the bytes it needs.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "protocol/messages.h"
#include "protocol/ring.h"

const char fuzz_corpus[] = "ring";

#define BLOB_SIZE ((size_t)APIR_RING_SIZE_MIN)
#define CMD_SIZE  (BLOB_SIZE / 2)

static _Alignas(4096) uint8_t blob[BLOB_SIZE];
static struct fuzz_input in;

static uint64_t take(size_t bytes)
{
    return fuzz_take(&in, bytes);
}

/* What a host says of its ring: as it should be, or not. */
static bool guest_starts(struct apir_ring_guest *guest)
{
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)blob;
    uint8_t flags = (uint8_t)take(1);
    uint64_t size = flags & 2 ? take(4) : BLOB_SIZE;
    *h = (struct apir_ring_header){
        .magic = APIR_RING_MAGIC,
        .blob_size = BLOB_SIZE,
        .reply_offset = APIR_RING_HEADER_SIZE,
        .reply_size = apir_ring_reply_size(BLOB_SIZE),
        .cmd_offset = apir_ring_cmd_offset(BLOB_SIZE),
        .cmd_size = CMD_SIZE,
    };
    if (flags & 1)
        ((uint8_t *)h)[take(1) % 64] = (uint8_t)take(1);
    struct apir_ring_guest before = {.cmd_size = 1};
    *guest = before;
    int rc = apir_ring_guest_init(guest, blob, size);
    if (rc) {
        FUZZ_CHECK(rc == -ENODEV || rc == -EPROTO);
        FUZZ_CHECK(memcmp(guest, &before, sizeof(before)) == 0);
        return false;
    }
    FUZZ_CHECK(guest->cmd == blob + CMD_SIZE && guest->cmd_size == CMD_SIZE);
    return size == BLOB_SIZE;
}

static void guest_puts(struct apir_ring_guest *guest)
{
    static uint8_t message[APIR_MESSAGE_MAX];
    size_t size = (size_t)take(2) % (sizeof(message) / 8) * 8 + 8;
    size = size > sizeof(message) ? sizeof(message) : size;
    uint64_t head = apir_ring_guest_head(guest);
    FUZZ_CHECK(guest->tail - head <= CMD_SIZE);
    if (!apir_ring_guest_has_room(guest, size))
        return;
    const struct apir_msg_header h = {.code = (uint16_t)take(1), .size = (uint32_t)size};
    memcpy(message, &h, sizeof(h));
    uint64_t end = apir_ring_guest_put(guest, message, size);
    FUZZ_CHECK(end == guest->tail && end % 8 == 0);
}

/* A copy of its own; the shared one may change while we look. */
static void host_takes(struct apir_ring_host *host)
{
    static uint8_t message[APIR_MESSAGE_MAX];
    size_t cap = take(1) % 4 ? sizeof(message) : (size_t)take(1);
    uint8_t *buf = malloc(cap ? cap : 1);
    size_t got = 0;
    FUZZ_CHECK(buf);
    int rc = apir_ring_host_take(host, buf, cap, &got);
    FUZZ_CHECK(host->limit - host->head <= CMD_SIZE);
    if (rc) {
        FUZZ_CHECK(rc == -EAGAIN || rc == -EBADMSG);
    } else {
        struct apir_msg_header h;
        memcpy(&h, buf, sizeof(h));
        FUZZ_CHECK(got >= 8 && got % 8 == 0 && got <= cap && h.size == got);
        FUZZ_CHECK(got <= host->limit - host->head);
        apir_ring_host_done(host);
        apir_ring_host_show(host);
        FUZZ_CHECK(host->limit - host->head <= CMD_SIZE);
    }
    free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)blob;
    struct apir_ring_guest guest;
    struct apir_ring_host host;
    in = (struct fuzz_input){data, size};
    if (!guest_starts(&guest))
        return 0;
    apir_ring_host_init(&host, blob, BLOB_SIZE);
    /* Not only where all counters are small. */
    uint64_t start = take(1) % 2 ? (uint64_t)0 - take(2) % 4096 * 8 : take(4) / 8 * 8;
    guest.tail = guest.published = h->tail = h->head = host.head = host.limit = host.shown = start;
    while (in.left) {
        uint8_t kind = (uint8_t)take(1);
        switch (kind % 10) {
        case 0:
        case 1:
        case 2:
            guest_puts(&guest);
            break;
        case 3:
            (void)apir_ring_guest_publish(&guest);
            break;
        case 4:
        case 5:
            host_takes(&host);
            break;
        case 6:
            h->tail = kind & 0x80 ? take(8) : guest.tail + (uint64_t)(int64_t)(int16_t)take(2);
            break;
        case 7:
            h->head = kind & 0x80 ? take(8) : host.head + (uint64_t)(int64_t)(int16_t)take(2);
            break;
        case 8:
            blob[CMD_SIZE + (kind & 0x80 ? take(2) : host.head % CMD_SIZE + take(1) % 8)] =
                (uint8_t)take(1);
            break;
        default:
            if (apir_ring_host_prepare_sleep(&host))
                FUZZ_CHECK(h->idle == 1);
            apir_ring_host_awake(&host);
            break;
        }
    }
    return 0;
}
