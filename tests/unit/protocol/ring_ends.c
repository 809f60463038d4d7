/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/unit/protocol/ring_ends.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "tests/lib/unit.h"

void blob_fill(struct apir_ring_header *h, uint64_t size)
{
    memset(h, 0, APIR_RING_HEADER_SIZE);
    h->major = APIR_PROTOCOL_MAJOR;
    h->blob_size = size;
    h->reply_offset = APIR_RING_HEADER_SIZE;
    h->reply_size = apir_ring_reply_size(size);
    h->cmd_offset = apir_ring_cmd_offset(size);
    h->cmd_size = (uint32_t)(size / 2);
    apir_store_release64(&h->magic, APIR_RING_MAGIC);
}

static void ends_init(struct ends *e)
{
    e->header = (struct apir_ring_header *)(void *)e->blob;
    e->cmd = e->blob + apir_ring_cmd_offset(BLOB_SIZE);
    blob_fill(e->header, BLOB_SIZE);
    assert_int_equal(apir_ring_guest_init(&e->guest, e->blob, BLOB_SIZE), 0);
    apir_ring_host_init(&e->host, e->host_blob, BLOB_SIZE);
}

void ends_open(struct ends *e)
{
    e->blob = mmap(NULL, BLOB_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(e->blob != MAP_FAILED);
    e->host_blob = e->blob;
    ends_init(e);
}

void ends_open_memfd(struct ends *e)
{
    int fd = memfd_create("ring", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)BLOB_SIZE), 0);
    uint8_t **maps[2] = {&e->blob, &e->host_blob};
    for (int i = 0; i < 2; i++) {
        uint8_t *p = mmap(NULL, BLOB_SIZE + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(p != MAP_FAILED);
        p = mmap(p, BLOB_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        assert_true(p != MAP_FAILED);
        *maps[i] = p;
    }
    close(fd);
    ends_init(e);
}

void ends_close(struct ends *e)
{
    if (e->host_blob != e->blob) {
        munmap(e->host_blob, BLOB_SIZE + 4096);
        munmap(e->blob, BLOB_SIZE + 4096);
    } else {
        munmap(e->blob, BLOB_SIZE);
    }
}

void ends_start_at(struct ends *e, uint64_t at)
{
    e->guest.tail = e->guest.published = at;
    e->host.head = e->host.limit = e->host.shown = at;
    apir_store_release64(&e->header->tail, at);
    apir_store_release64(&e->header->head, at);
}

void complete(struct apir_ring_host *host)
{
    apir_ring_host_done(host);
    apir_ring_host_show(host);
}

void message_fill(uint8_t *buf, size_t size, uint64_t seed)
{
    struct apir_msg_header h = {.code = (uint16_t)seed, .size = (uint32_t)size};
    memcpy(buf, &h, sizeof(h));
    for (size_t i = sizeof(h); i < size; i += 8) {
        uint64_t v = (seed << 20) + i;
        memcpy(buf + i, &v, 8);
    }
}

bool message_is(const uint8_t *buf, size_t size, uint64_t seed)
{
    static _Thread_local uint8_t want[APIR_MESSAGE_MAX];
    message_fill(want, size, seed);
    return memcmp(buf, want, size) == 0;
}

uint64_t put(struct ends *e, size_t size, uint64_t seed)
{
    static uint8_t msg[APIR_MESSAGE_MAX];
    message_fill(msg, size, seed);
    return apir_ring_guest_put(&e->guest, msg, size);
}

bool publish(struct ends *e, size_t size, uint64_t seed)
{
    put(e, size, seed);
    return apir_ring_guest_publish(&e->guest);
}

void expect_taken(struct ends *e, size_t size, uint64_t seed)
{
    static uint8_t got[APIR_MESSAGE_MAX];
    size_t is = 0;
    memset(got, 0, size);
    assert_int_equal(apir_ring_host_take(&e->host, got, sizeof(got), &is), 0);
    assert_int_equal(is, size);
    assert_true(message_is(got, size, seed));
}

void expect_nothing(struct ends *e)
{
    uint8_t got[APIR_MESSAGE_MAX];
    size_t size = 12345;
    assert_int_equal(apir_ring_host_take(&e->host, got, sizeof(got), &size), -EAGAIN);
    assert_int_equal(size, 12345);
}

size_t random_size(uint64_t *seed)
{
    /* mostly small, as real messages are */
    uint64_t r = unit_random(seed);
    size_t most = r % 16 ? 128 : APIR_MESSAGE_MAX;
    return 8 * (1 + (size_t)(unit_random(seed) % (most / 8)));
}

bool wait_head(struct apir_ring_header *h, uint64_t pos)
{
    int64_t until = now_ms() + LIMIT_MS;
    bool ok = true;
    for (;;) {
        uint32_t seen = apir_load_acquire32(&h->wake);
        apir_store_release32(&h->waiting, 1);
        apir_full_fence();
        if ((int64_t)(apir_load_acquire64(&h->head) - pos) >= 0)
            break;
        struct timespec ts = {.tv_sec = LIMIT_MS / 1000};
        syscall(SYS_futex, &h->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
        if (now_ms() >= until) {
            ok = false;
            break;
        }
    }
    apir_store_release32(&h->waiting, 0);
    return ok;
}
