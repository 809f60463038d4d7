/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads report failures through what they return: cmocka's asserts are for the
 * main thread only. Each wait has a limit, so that a lost wake-up is a failure
 * and not a test that hangs.
 */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "protocol/ring.h"

#define BLOB_SIZE ((size_t)APIR_RING_SIZE_MIN)
#define CMD_SIZE  (BLOB_SIZE / 2)
#define LIMIT_MS  20000

/* ---- the blob ----------------------------------------------------------------- */

/* What the server writes before the guest may look. */
static void blob_fill(struct apir_ring_header *h, uint64_t size)
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

struct ends {
    uint8_t *blob; /* the guest's mapping */
    uint8_t *host_blob;
    struct apir_ring_header *header; /* in blob */
    uint8_t *cmd;                    /* in blob */
    struct apir_ring_guest guest;
    struct apir_ring_host host;
};

static void ends_init(struct ends *e)
{
    e->header = (struct apir_ring_header *)(void *)e->blob;
    e->cmd = e->blob + apir_ring_cmd_offset(BLOB_SIZE);
    blob_fill(e->header, BLOB_SIZE);
    assert_int_equal(apir_ring_guest_init(&e->guest, e->blob, BLOB_SIZE), 0);
    apir_ring_host_init(&e->host, e->host_blob, BLOB_SIZE);
}

/*
 * One mapping for both sides: TSan knows memory by its address, and would not
 * see a race between two mappings.
 */
static void ends_open(struct ends *e)
{
    e->blob = mmap(NULL, BLOB_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(e->blob != MAP_FAILED);
    e->host_blob = e->blob;
    ends_init(e);
}

/* Two mappings of a memfd, with a page behind each that nobody may touch. */
static void ends_open_memfd(struct ends *e)
{
    int fd = memfd_create("ring", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)BLOB_SIZE), 0);
    uint8_t **maps[2] = { &e->blob, &e->host_blob };
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

static void ends_close(struct ends *e)
{
    if (e->host_blob != e->blob) {
        munmap(e->host_blob, BLOB_SIZE + 4096);
        munmap(e->blob, BLOB_SIZE + 4096);
    } else {
        munmap(e->blob, BLOB_SIZE);
    }
}

/* Both sides as if this many bytes had passed already. */
static void ends_start_at(struct ends *e, uint64_t at)
{
    e->guest.tail = e->guest.published = at;
    e->host.head = e->host.limit = e->host.shown = at;
    apir_store_release64(&e->header->tail, at);
    apir_store_release64(&e->header->head, at);
}

/* The message at hand is done, and shown. */
static void complete(struct apir_ring_host *host)
{
    apir_ring_host_done(host);
    apir_ring_host_show(host);
}

/* A message of `size` bytes whose contents tell it from every other. */
static void message_fill(uint8_t *buf, size_t size, uint64_t seed)
{
    struct apir_msg_header h = { .code = (uint16_t)seed, .size = (uint32_t)size };
    memcpy(buf, &h, sizeof(h));
    for (size_t i = sizeof(h); i < size; i += 8) {
        uint64_t v = (seed << 20) + i;
        memcpy(buf + i, &v, 8);
    }
}

static bool message_is(const uint8_t *buf, size_t size, uint64_t seed)
{
    static _Thread_local uint8_t want[APIR_MESSAGE_MAX];
    message_fill(want, size, seed);
    return memcmp(buf, want, size) == 0;
}

static size_t random_size(uint64_t *seed)
{
    /* mostly small, as real messages are */
    uint64_t r = unit_random(seed);
    size_t most = r % 16 ? 128 : APIR_MESSAGE_MAX;
    return 8 * (1 + (size_t)(unit_random(seed) % (most / 8)));
}

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Waits for the head as the guest does: on the futex. False: LIMIT_MS passed. */
static bool wait_head(struct apir_ring_header *h, uint64_t pos)
{
    uint64_t until = now_ms() + LIMIT_MS;
    bool ok = true;
    for (;;) {
        uint32_t seen = apir_load_acquire32(&h->wake);
        apir_store_release32(&h->waiting, 1);
        apir_full_fence();
        if ((int64_t)(apir_load_acquire64(&h->head) - pos) >= 0)
            break;
        struct timespec ts = { .tv_sec = LIMIT_MS / 1000 };
        syscall(SYS_futex, &h->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
        if (now_ms() >= until) {
            ok = false;
            break;
        }
    }
    apir_store_release32(&h->waiting, 0);
    return ok;
}

/* ---- layout ------------------------------------------------------------------- */

static void the_guest_takes_only_a_layout_that_we_make(void **state)
{
    (void)state;
    struct apir_ring_guest g;
    struct apir_ring_header *h = test_malloc(APIR_RING_HEADER_SIZE);
    for (uint64_t size = APIR_RING_SIZE_MIN; size <= APIR_RING_SIZE_MAX; size *= 2) {
        blob_fill(h, size);
        assert_int_equal(apir_ring_guest_init(&g, h, size), 0);
        assert_true(g.cmd_size == size / 2);
        assert_int_equal(apir_ring_guest_init(&g, h, size * 2), -EPROTO);
        assert_int_equal(apir_ring_guest_init(&g, h, size / 2), -EPROTO);
    }
    const uint64_t size = APIR_RING_SIZE;
    static const uint64_t sizes[] = { 0, 4096, APIR_RING_SIZE_MIN / 2, APIR_RING_SIZE + 65536,
                                      APIR_RING_SIZE_MAX * UINT64_C(2), UINT64_MAX };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        blob_fill(h, size);
        h->blob_size = sizes[i];
        assert_int_equal(apir_ring_guest_init(&g, h, sizes[i]), -EPROTO);
    }
    uint32_t *fields[] = { &h->reply_offset, &h->reply_size, &h->cmd_offset, &h->cmd_size };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        blob_fill(h, size);
        *fields[i] += 8;
        assert_int_equal(apir_ring_guest_init(&g, h, size), -EPROTO);
    }
    blob_fill(h, size);
    h->magic ^= 1;
    assert_int_equal(apir_ring_guest_init(&g, h, size), -ENODEV);
    memset(h, 0, APIR_RING_HEADER_SIZE);
    assert_int_equal(apir_ring_guest_init(&g, h, size), -ENODEV);
    test_free(h);
}

/* ---- one thread ----------------------------------------------------------------- */

static void nothing_shows_before_publish_and_nothing_completes_before_complete(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[64], got[APIR_MESSAGE_MAX];
    size_t size = 12345;
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), -EAGAIN);
    message_fill(msg, sizeof(msg), 1);
    uint64_t pos = apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    assert_int_equal(pos, sizeof(msg));
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), -EAGAIN);
    assert_int_equal(size, 12345);
    assert_false(apir_ring_guest_publish(&e.guest)); /* the host is awake: no kick */
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    assert_int_equal(size, sizeof(msg));
    assert_memory_equal(got, msg, sizeof(msg));
    assert_true(apir_ring_guest_head(&e.guest) == 0);
    complete(&e.host);
    assert_true(apir_ring_guest_head(&e.guest) == pos);
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), -EAGAIN);
    ends_close(&e);
}

static void a_taken_message_stays_until_it_is_completed(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[24], got[APIR_MESSAGE_MAX];
    size_t size;
    message_fill(msg, sizeof(msg), 1);
    apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    apir_ring_guest_publish(&e.guest);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
        assert_int_equal(size, sizeof(msg));
    }
    ends_close(&e);
}

static void progress_shows_inside_the_message_only(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[48], got[APIR_MESSAGE_MAX];
    size_t size;
    message_fill(msg, sizeof(msg), 1);
    uint64_t first = apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    uint64_t second = apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    apir_ring_guest_publish(&e.guest);
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    for (uint64_t left = sizeof(msg) - 1; left > 0; left--) {
        apir_ring_host_progress(&e.host, left);
        assert_int_equal(apir_ring_guest_head(&e.guest), first - left);
        assert_true(apir_ring_guest_has_room(&e.guest, CMD_SIZE - 2 * sizeof(msg)));
    }
    /* It is at hand still. */
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    assert_true(apir_ring_host_has_more(&e.host));
    complete(&e.host);
    assert_int_equal(apir_ring_guest_head(&e.guest), first);
    assert_true(apir_ring_host_has_more(&e.host));
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    assert_false(apir_ring_host_has_more(&e.host));
    complete(&e.host);
    assert_int_equal(apir_ring_guest_head(&e.guest), second);
    assert_false(apir_ring_host_has_more(&e.host));
    ends_close(&e);
}

static void what_is_done_shows_once(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[48], got[APIR_MESSAGE_MAX];
    size_t size;
    message_fill(msg, sizeof(msg), 1);
    for (int i = 0; i < 3; i++)
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    apir_ring_guest_publish(&e.guest);
    assert_false(apir_ring_host_show(&e.host));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
        apir_ring_host_done(&e.host);
        assert_int_equal(apir_ring_guest_head(&e.guest), 0);
    }
    assert_true(apir_ring_host_show(&e.host));
    assert_int_equal(apir_ring_guest_head(&e.guest), 2 * sizeof(msg));
    assert_false(apir_ring_host_show(&e.host));
    /* Steps of the next message count from what is done, shown or not. */
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    apir_ring_host_progress(&e.host, 5);
    assert_int_equal(apir_ring_guest_head(&e.guest), 3 * sizeof(msg) - 5);
    apir_ring_host_done(&e.host);
    assert_true(apir_ring_host_show(&e.host));
    assert_int_equal(apir_ring_guest_head(&e.guest), 3 * sizeof(msg));
    ends_close(&e);
}

static void showing_is_due_at_the_end_and_after_a_quarter_of_the_ring(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[CMD_SIZE / 64], got[APIR_MESSAGE_MAX];
    size_t size;
    for (uint64_t start = 0; start < 3; start++) {
        ends_start_at(&e, (start - 1) * CMD_SIZE);
        for (unsigned i = 0; i < 40; i++) {
            message_fill(msg, sizeof(msg), i);
            apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        }
        apir_ring_guest_publish(&e.guest);
        for (unsigned i = 1; i <= 40; i++) {
            assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
            apir_ring_host_done(&e.host);
            assert_int_equal(apir_ring_host_show_due(&e.host), i == 16 || i == 32 || i == 40);
            if (apir_ring_host_show_due(&e.host))
                apir_ring_host_show(&e.host);
        }
        assert_true(apir_ring_guest_head(&e.guest) == e.guest.tail);
    }
    ends_close(&e);
}

/* The guest writes to lines in advance: only to free ones, however few there are. */
static void publishing_leaves_what_is_not_taken(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    static uint8_t msg[APIR_MESSAGE_MAX / 8], got[APIR_MESSAGE_MAX];
    const size_t size = sizeof(msg);
    for (uint64_t start = 0; start < 128; start += 8)
        for (uint64_t room = 0; room <= 2 * size; room += 8) {
            ends_start_at(&e, start);
            unsigned n = 0;
            uint64_t used = 0;
            for (uint64_t want; (want = CMD_SIZE - room - used) > 0; n++) {
                const size_t next = want < size ? want : size;
                message_fill(msg, next, n);
                apir_ring_guest_put(&e.guest, msg, next);
                used += next;
                if (n % 2)
                    apir_ring_guest_publish(&e.guest);
            }
            apir_ring_guest_publish(&e.guest);
            for (unsigned i = 0; i < n; i++) {
                size_t is;
                assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &is), 0);
                assert_true(message_is(got, is, i));
                apir_ring_host_done(&e.host);
            }
            assert_false(apir_ring_host_has_more(&e.host));
        }
    ends_close(&e);
}

static void messages_straddle_the_end_at_every_offset(void **state)
{
    (void)state;
    struct ends e;
    ends_open_memfd(&e);
    static uint8_t msg[APIR_MESSAGE_MAX], got[APIR_MESSAGE_MAX];
    static const size_t sizes[] = { 8, 16, 64, 1000, APIR_MESSAGE_MAX };
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (uint64_t at = CMD_SIZE - sizes[s]; at <= CMD_SIZE; at += 8) {
            ends_start_at(&e, at);
            message_fill(msg, sizes[s], at);
            apir_ring_guest_put(&e.guest, msg, sizes[s]);
            apir_ring_guest_publish(&e.guest);
            size_t size;
            memset(got, 0, sizes[s]);
            assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
            assert_int_equal(size, sizes[s]);
            assert_memory_equal(got, msg, size);
            complete(&e.host);
        }
    }
    ends_close(&e);
}

/* Puts until nothing fits, takes all, and does it again from where it stands. */
static void fill_and_drain(struct ends *e, uint64_t start)
{
    static uint8_t msg[APIR_MESSAGE_MAX], got[APIR_MESSAGE_MAX];
    static size_t sizes[CMD_SIZE / 8];
    ends_start_at(e, start);
    uint64_t seed = start | 1;
    for (int round = 0; round < 20; round++) {
        uint64_t used = 0;
        unsigned n = 0;
        for (;;) {
            size_t size = round == 0 ? 8 : random_size(&seed);
            assert_int_equal(apir_ring_guest_has_room(&e->guest, size), used + size <= CMD_SIZE);
            if (used + size > CMD_SIZE)
                break;
            message_fill(msg, size, n);
            apir_ring_guest_put(&e->guest, msg, size);
            used += size;
            sizes[n++] = size;
        }
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE - used));
        assert_false(apir_ring_guest_has_room(&e->guest, CMD_SIZE - used + 8));
        apir_ring_guest_publish(&e->guest);
        for (unsigned i = 0; i < n; i++) {
            size_t size;
            assert_int_equal(apir_ring_host_take(&e->host, got, sizeof(got), &size), 0);
            assert_int_equal(size, sizes[i]);
            assert_true(message_is(got, size, i));
            complete(&e->host);
        }
        size_t size;
        assert_int_equal(apir_ring_host_take(&e->host, got, sizeof(got), &size), -EAGAIN);
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE));
    }
}

static void a_full_ring_has_no_room_and_loses_nothing(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    fill_and_drain(&e, 0);
    fill_and_drain(&e, 4096 + 8);
    ends_close(&e);
}

static void offsets_run_freely_over_their_end(void **state)
{
    (void)state;
    struct ends e;
    ends_open_memfd(&e);
    static const uint64_t back[] = { 8, 16, 64, 4096, CMD_SIZE, CMD_SIZE + 8, 10 * CMD_SIZE };
    for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
        fill_and_drain(&e, 0 - back[i]);
    fill_and_drain(&e, (UINT64_C(1) << 63) - 64);
    fill_and_drain(&e, (UINT64_C(1) << 32) - 64);
    ends_close(&e);
}

/* ---- a hostile guest ------------------------------------------------------------ */

static void expect_host_refuses(struct ends *e, size_t cap)
{
    uint8_t *buf = test_malloc(cap);
    memset(buf, 0x77, cap);
    size_t size = 12345;
    struct apir_ring_host before = e->host;
    assert_int_equal(apir_ring_host_take(&e->host, buf, cap, &size), -EBADMSG);
    assert_int_equal(size, 12345);
    assert_true(e->host.head == before.head);
    test_free(buf); /* cmocka looks at the bytes around it */
}

static void a_tail_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    /* Good messages wherever the host might look: only the tail is wrong. */
    for (size_t at = 0; at < CMD_SIZE; at += 8)
        message_fill(e.cmd + at, 8, 1);
    static const uint64_t heads[] = { 0, 8, 4096, CMD_SIZE, 3 * CMD_SIZE + 24, UINT64_MAX - 63,
                                      UINT64_C(1) << 63 };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        const uint64_t h = heads[i];
        const uint64_t tails[] = { h - 1, h - 8, h - CMD_SIZE, h + CMD_SIZE + 1, h + CMD_SIZE + 8,
                                   h + 2 * CMD_SIZE, h + (UINT64_C(1) << 32),
                                   h ^ UINT64_C(1) << 63 };
        for (size_t k = 0; k < sizeof(tails) / sizeof(tails[0]); k++) {
            ends_start_at(&e, h);
            apir_store_release64(&e.header->tail, tails[k]);
            expect_host_refuses(&e, APIR_MESSAGE_MAX);
        }
        /* Less than a header: a tail is a multiple of 8, so this is no message yet to come. */
        for (uint64_t part = 1; part < 8; part++) {
            ends_start_at(&e, h);
            apir_store_release64(&e.header->tail, h + part);
            expect_host_refuses(&e, APIR_MESSAGE_MAX);
        }
    }
    ends_close(&e);
}

/* The host keeps its own head: whatever the guest writes there, it is not read. */
static void the_shared_head_is_never_read_by_the_host(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[64], got[APIR_MESSAGE_MAX];
    static const uint64_t lies[] = { 8, 64, 1 << 20, UINT64_MAX, UINT64_C(1) << 63 };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        ends_start_at(&e, 4096);
        message_fill(msg, sizeof(msg), i);
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        apir_ring_guest_publish(&e.guest);
        apir_store_release64(&e.header->head, lies[i]);
        size_t size;
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
        assert_memory_equal(got, msg, sizeof(msg));
        complete(&e.host);
        assert_true(apir_load_acquire64(&e.header->head) == 4096 + sizeof(msg));
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), -EAGAIN);
        /* both moved, by the same amount */
        apir_store_release64(&e.header->head, e.host.head + 2 * CMD_SIZE);
        apir_store_release64(&e.header->tail, e.host.head + 2 * CMD_SIZE);
        expect_host_refuses(&e, APIR_MESSAGE_MAX);
    }
    ends_close(&e);
}

/* Once seen, a tail is not looked at again before its messages are done. */
static void a_tail_pulled_back_takes_no_message_away(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[64], got[APIR_MESSAGE_MAX];
    size_t size;
    for (int i = 0; i < 3; i++) {
        message_fill(msg, sizeof(msg), (uint64_t)i);
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    }
    apir_ring_guest_publish(&e.guest);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
        assert_true(message_is(got, size, i));
        apir_store_release64(&e.header->tail, 8);
        complete(&e.host);
    }
    expect_host_refuses(&e, APIR_MESSAGE_MAX);
    ends_close(&e);
}

static void a_message_size_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    enum { CAP = 256, PUBLISHED = 512 };
    static const uint32_t sizes[] = { 0, 1, 4, 7, 9, 12, 15, 20, 255, CAP + 8, PUBLISHED,
                                      PUBLISHED + 8, CMD_SIZE, CMD_SIZE + 8, 1u << 31,
                                      UINT32_MAX - 7, UINT32_MAX };
    static const uint64_t starts[] = { 0, CMD_SIZE - 8, UINT64_MAX - 7 };
    for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            ends_start_at(&e, starts[s]);
            struct apir_msg_header h = { .code = 1, .size = sizes[i] };
            memcpy(e.cmd + (starts[s] & (CMD_SIZE - 1)), &h, sizeof(h));
            apir_store_release64(&e.header->tail, starts[s] + PUBLISHED);
            expect_host_refuses(&e, CAP);
        }
        /* a message that ends behind the tail, with room for it in the buffer */
        for (uint32_t more = 8; more < CAP; more += 8) {
            ends_start_at(&e, starts[s]);
            struct apir_msg_header h = { .code = 1, .size = 8 + more };
            memcpy(e.cmd + (starts[s] & (CMD_SIZE - 1)), &h, sizeof(h));
            apir_store_release64(&e.header->tail, starts[s] + more);
            expect_host_refuses(&e, CAP);
        }
    }
    ends_close(&e);
}

static void a_buffer_too_small_is_not_written_behind(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[64];
    message_fill(msg, sizeof(msg), 1);
    apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    apir_ring_guest_publish(&e.guest);
    for (size_t cap = 1; cap < sizeof(msg); cap++)
        expect_host_refuses(&e, cap);
    ends_close(&e);
}

/* A hostile header page: every word is noise, again and again. */
static void noise_in_the_header_page_never_leads_out_of_the_ring(void **state)
{
    (void)state;
    struct ends e;
    ends_open_memfd(&e);
    uint64_t seed = 99;
    static uint8_t got[APIR_MESSAGE_MAX];
    unsigned taken = 0;
    for (unsigned round = 0; round < 100000; round++) {
        uint64_t *words = (uint64_t *)(void *)e.blob;
        /* not line 4: no waiter sleeps here, but wake-ups cost a system call each */
        words[unit_random(&seed) % 8] = unit_random(&seed);
        e.header->head = unit_random(&seed);
        e.header->tail = e.host.head + 8 * (unit_random(&seed) % 32);
        if (unit_random(&seed) % 16 == 0)
            e.header->tail = unit_random(&seed);
        struct apir_msg_header h = { .code = 1,
                                     .size = (uint32_t)(8 * (unit_random(&seed) % 32)) };
        if (unit_random(&seed) % 16 == 0)
            h.size = (uint32_t)unit_random(&seed);
        memcpy(e.cmd + (e.host.head & (CMD_SIZE - 1)), &h, sizeof(h));
        size_t size = 0;
        int err = apir_ring_host_take(&e.host, got, sizeof(got), &size);
        if (err == 0) {
            assert_true(size >= 8 && size % 8 == 0 && size <= sizeof(got));
            assert_true(e.host.limit - e.host.head <= CMD_SIZE);
            complete(&e.host);
            taken++;
        } else {
            assert_true(err == -EBADMSG || err == -EAGAIN);
            e.host.limit = e.host.head; /* a FATAL context ends here; the test goes on */
        }
    }
    assert_true(taken > 1000);
    ends_close(&e);
}

/* ---- a broken host -------------------------------------------------------------- */

static void a_head_that_makes_no_sense_gives_the_guest_no_room(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    static const uint64_t tails[] = { 0, 64, 5 * CMD_SIZE, UINT64_MAX - 7 };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const uint64_t t = tails[i];
        ends_start_at(&e, t);
        const uint64_t heads[] = { t + 1, t + 8, t - CMD_SIZE - 1, t - CMD_SIZE - 8,
                                   t ^ UINT64_C(1) << 63 };
        for (size_t k = 0; k < sizeof(heads) / sizeof(heads[0]); k++) {
            apir_store_release64(&e.header->head, heads[k]);
            assert_true(apir_ring_guest_head(&e.guest) == t - CMD_SIZE);
            assert_false(apir_ring_guest_has_room(&e.guest, 8));
        }
        apir_store_release64(&e.header->head, t);
        assert_true(apir_ring_guest_has_room(&e.guest, CMD_SIZE));
    }
    ends_close(&e);
}

/* ---- two threads ----------------------------------------------------------------- */

#ifdef APIR_TSAN
#define STREAM_MESSAGES 100000u
#else
#define STREAM_MESSAGES 500000u
#endif

struct consumer {
    struct ends *e;
    unsigned count;
    const char *failed; /* NULL: fine */
};

static void *consume_stream(void *user)
{
    struct consumer *c = user;
    static uint8_t got[APIR_MESSAGE_MAX];
    uint64_t seed = 5, until = now_ms() + LIMIT_MS;
    for (unsigned i = 0; i < c->count;) {
        size_t size;
        int err = apir_ring_host_take(&c->e->host, got, sizeof(got), &size);
        if (err == -EAGAIN) {
            if (now_ms() > until) {
                c->failed = "nothing came";
                return NULL;
            }
            sched_yield();
            continue;
        }
        if (err) {
            c->failed = "a message was refused";
            return NULL;
        }
        if (size != random_size(&seed) || !message_is(got, size, i)) {
            c->failed = "a message arrived changed";
            return NULL;
        }
        complete(&c->e->host);
        until = now_ms() + LIMIT_MS;
        i++;
    }
    return NULL;
}

static void stream(uint64_t start, unsigned count)
{
    struct ends e;
    ends_open(&e);
    ends_start_at(&e, start);
    struct consumer c = { .e = &e, .count = count };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, consume_stream, &c), 0);
    static uint8_t msg[APIR_MESSAGE_MAX];
    uint64_t seed = 5, chance = 17, pos = start, until = now_ms() + LIMIT_MS;
    const char *failed = NULL;
    for (unsigned i = 0; i < count && !failed; i++) {
        size_t size = random_size(&seed);
        while (!apir_ring_guest_has_room(&e.guest, size) && !failed) {
            apir_ring_guest_publish(&e.guest);
            if (now_ms() > until)
                failed = "room never came";
            sched_yield();
        }
        message_fill(msg, size, i);
        if (!failed)
            pos = apir_ring_guest_put(&e.guest, msg, size);
        if (unit_random(&chance) % 4 == 0) /* several messages to one tail store */
            apir_ring_guest_publish(&e.guest);
        if (i % 1024 == 0)
            until = now_ms() + LIMIT_MS;
    }
    apir_ring_guest_publish(&e.guest);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (failed || c.failed)
        fail_msg("%s", failed ? failed : c.failed);
    assert_true(apir_ring_guest_head(&e.guest) == pos);
    ends_close(&e);
}

static void a_stream_between_threads_arrives_whole_and_in_order(void **state)
{
    (void)state;
    stream(0, STREAM_MESSAGES);
}

static void a_stream_over_the_end_of_the_offsets_arrives_too(void **state)
{
    (void)state;
    stream(0 - (uint64_t)(CMD_SIZE * 4 + 40), STREAM_MESSAGES / 4);
}

/* ---- sleep and kick --------------------------------------------------------------- */

#define KICK_ROUNDS 100000u

struct sleeper {
    struct ends *e;
    int kick_fd;
    unsigned count;
    unsigned slept;
    const char *failed;
};

/* The worker's loop: no spinning, so that it goes to sleep whenever it can. */
static void *consume_sleeping(void *user)
{
    struct sleeper *s = user;
    uint8_t got[APIR_MESSAGE_MAX];
    uint64_t chance = 3;
    for (unsigned i = 0; i < s->count;) {
        size_t size;
        int err = apir_ring_host_take(&s->e->host, got, sizeof(got), &size);
        if (err == 0) {
            complete(&s->e->host);
            i++;
            continue;
        }
        if (err != -EAGAIN) {
            s->failed = "a message was refused";
            return NULL;
        }
        for (uint64_t n = unit_random(&chance) % 64; n; n--)
            apir_cpu_relax(); /* shift the two sides against each other */
        if (apir_ring_host_prepare_sleep(&s->e->host)) {
            struct pollfd p = { .fd = s->kick_fd, .events = POLLIN };
            s->slept++;
            if (poll(&p, 1, LIMIT_MS) != 1) {
                s->failed = "asleep with a message on the ring: the kick was lost";
                apir_ring_host_awake(&s->e->host);
                return NULL;
            }
            uint64_t kicks;
            ssize_t ignored = read(s->kick_fd, &kicks, sizeof(kicks));
            (void)ignored;
        }
        apir_ring_host_awake(&s->e->host);
    }
    return NULL;
}

/* every: how many messages go out before the guest waits for them. */
static void kick_rounds(unsigned rounds, unsigned every)
{
    struct ends e;
    ends_open(&e);
    struct sleeper s = { .e = &e, .kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                         .count = rounds };
    assert_true(s.kick_fd >= 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, consume_sleeping, &s), 0);
    uint8_t msg[64];
    uint64_t chance = 11;
    unsigned kicks = 0, round = 0;
    bool ok = true;
    for (; round < rounds && ok; round++) {
        message_fill(msg, sizeof(msg), round);
        uint64_t pos = apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        for (uint64_t n = unit_random(&chance) % 64; n; n--)
            apir_cpu_relax();
        if (apir_ring_guest_publish(&e.guest)) {
            uint64_t one = 1;
            kicks++;
            ok = write(s.kick_fd, &one, sizeof(one)) == sizeof(one);
        }
        if (ok && round % every == every - 1)
            ok = wait_head(e.header, pos);
    }
    if (!ok && !s.failed) { /* let the other side end */
        apir_store_release64(&e.header->tail, e.guest.tail - CMD_SIZE * 2);
        uint64_t one = 1;
        ssize_t ignored = write(s.kick_fd, &one, sizeof(one));
        (void)ignored;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(s.kick_fd);
    if (s.failed)
        fail_msg("round %u: %s", round, s.failed);
    if (!ok)
        fail_msg("round %u: the head moved and the waiter slept on", round);
    assert_true(kicks > 0 && s.slept > 0);
    assert_true(kicks <= rounds);
    /* At most one kick per sleep: a sleep that ends by itself may have drawn one, too. */
    assert_int_equal(apir_load_acquire32(&e.header->idle), 0);
    ends_close(&e);
}

static void no_wake_up_is_lost_when_each_message_is_waited_for(void **state)
{
    (void)state;
    kick_rounds(KICK_ROUNDS, 1);
}

static void no_wake_up_is_lost_in_bursts(void **state)
{
    (void)state;
    kick_rounds(KICK_ROUNDS, 32);
}

static void a_host_about_to_sleep_sees_what_came_meanwhile(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[8], got[APIR_MESSAGE_MAX];
    size_t size;
    assert_true(apir_ring_host_prepare_sleep(&e.host));
    message_fill(msg, sizeof(msg), 1);
    apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    assert_true(apir_ring_guest_publish(&e.guest)); /* idle: kick */
    apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    assert_false(apir_ring_guest_publish(&e.guest)); /* one kick is enough */
    assert_false(apir_ring_guest_publish(&e.guest)); /* and nothing new wants none */
    apir_ring_host_awake(&e.host);
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    complete(&e.host);
    assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
    complete(&e.host);
    apir_ring_guest_put(&e.guest, msg, sizeof(msg));
    apir_ring_guest_publish(&e.guest);
    assert_false(apir_ring_host_prepare_sleep(&e.host)); /* do not: a message is there */
    apir_ring_host_awake(&e.host);
    ends_close(&e);
}

static void *wake_when_asleep(void *user)
{
    struct ends *e = user;
    while (!apir_ring_host_sleeps(e->header))
        apir_cpu_relax();
    apir_ring_wake_host(e->header);
    return NULL;
}

static void a_host_knows_whether_somebody_woke_it(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    assert_false(apir_ring_host_sleeps(e.header));
    assert_true(apir_ring_host_prepare_sleep(&e.host));
    assert_true(apir_ring_host_sleeps(e.header));
    assert_false(apir_ring_host_sleep(&e.host, 1000000)); /* nobody: a millisecond is over */
    apir_ring_host_awake(&e.host);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_when_asleep, &e), 0);
    assert_true(apir_ring_host_prepare_sleep(&e.host));
    assert_true(apir_ring_host_sleep(&e.host, UINT64_C(60) * 1000000000));
    apir_ring_host_awake(&e.host);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ends_close(&e);
}

static void a_hostile_tail_keeps_the_host_awake_to_refuse_it(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    ends_start_at(&e, 4096);
    apir_store_release64(&e.header->tail, 8);
    assert_false(apir_ring_host_prepare_sleep(&e.host));
    apir_ring_host_awake(&e.host);
    expect_host_refuses(&e, APIR_MESSAGE_MAX);
    ends_close(&e);
}

static void completion_wakes_only_where_somebody_waits(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    uint8_t msg[8], got[APIR_MESSAGE_MAX];
    size_t size;
    message_fill(msg, sizeof(msg), 1);
    for (uint32_t waiting = 0; waiting < 2; waiting++) {
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        apir_ring_guest_publish(&e.guest);
        apir_store_release32(&e.header->waiting, waiting);
        uint32_t before = apir_load_acquire32(&e.header->wake);
        assert_int_equal(apir_ring_host_take(&e.host, got, sizeof(got), &size), 0);
        complete(&e.host);
        assert_int_equal(apir_load_acquire32(&e.header->wake), before + waiting);
    }
    ends_close(&e);
}

/* ---- both sides at the very same moment ------------------------------------------- */

/*
 * The loops above sleep, so their two sides seldom meet within the few
 * nanoseconds in which a store has not left its core yet. Here they meet on
 * purpose, round after round; what each saw is compared afterwards. Before each
 * round either side writes to the cache line that it is about to read, beside the
 * word: its load is then quick, and the other's store to that line slow. Without
 * the full fences in ring.c, this finds a lost wake-up in nearly every run.
 */
#ifdef APIR_TSAN
#define MEETINGS 50000u
#else
#define MEETINGS 200000u
#endif

struct meeting {
    struct ends *e;
    void (*act)(struct meeting *m); /* the thread's part of a round */
    bool slept;                     /* what act found */
    uint8_t *line[2];               /* a spare byte of the line that each side reads */
    uint8_t pad0[64];
    uint32_t arrived[2]; /* count of meetings of each side; both spin for the other */
    uint32_t stuck;
    uint8_t pad1[64];
};

/* Both leave within a cache miss of each other. False: the other never came. */
static bool meet(struct meeting *m, int side)
{
    uint32_t mine = apir_add32(&m->arrived[side], 1);
    uint64_t until = 0;
    for (unsigned spins = 1; (int32_t)(apir_load_acquire32(&m->arrived[!side]) - mine) < 0;
         spins++) {
        if (spins % 4096)
            continue;
        sched_yield(); /* the other may want this very core */
        uint64_t now = now_ms();
        until = until ? until : now + LIMIT_MS;
        if (now > until || apir_load_acquire32(&m->stuck)) {
            apir_store_release32(&m->stuck, 1);
            return false;
        }
    }
    return true;
}

static bool meet_ready(struct meeting *m, int side, uint64_t *chance)
{
    if (!meet(m, side))
        return false;
    __atomic_fetch_add(m->line[side], 1, __ATOMIC_RELAXED);
    if (!meet(m, side))
        return false;
    for (uint64_t n = unit_random(chance) % 128; n; n--)
        __asm__ __volatile__("" ::: "memory");
    return true;
}

static void *meeting_thread(void *user)
{
    struct meeting *m = user;
    uint64_t chance = 41;
    for (uint32_t i = 0; i < MEETINGS; i++) {
        if (!meet_ready(m, 1, &chance))
            break;
        m->act(m);
        if (!meet(m, 1))
            break;
    }
    return NULL;
}

static void act_prepare_sleep(struct meeting *m)
{
    m->slept = apir_ring_host_prepare_sleep(&m->e->host);
}

/* Either the guest sees that the host sleeps, or the host that there is a message. */
static void a_message_is_never_left_behind_a_sleeping_host(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    struct meeting m = { .e = &e, .act = act_prepare_sleep };
    m.line[0] = e.header->pad4; /* idle */
    m.line[1] = e.header->pad1; /* tail */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, meeting_thread, &m), 0);
    uint8_t msg[8], got[8];
    unsigned lost = 0, kicks = 0;
    uint64_t chance = 43;
    message_fill(msg, sizeof(msg), 1);
    for (uint32_t i = 0; i < MEETINGS; i++) {
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        if (!meet_ready(&m, 0, &chance))
            break;
        bool kick = apir_ring_guest_publish(&e.guest);
        if (!meet(&m, 0))
            break;
        /* The thread waits for the next round: the host is ours until then. */
        kicks += kick;
        lost += m.slept && !kick;
        apir_ring_host_awake(&e.host);
        size_t size;
        if (apir_ring_host_take(&e.host, got, sizeof(got), &size) == 0) {
            complete(&e.host);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(m.stuck, 0);
    assert_int_equal(lost, 0);
    assert_true(kicks > 0);
    ends_close(&e);
}

static void act_complete(struct meeting *m)
{
    complete(&m->e->host);
}

/* Either the guest sees the head, or the host that somebody waits for it. */
static void a_completion_is_never_missed_by_a_waiter(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    struct meeting m = { .e = &e, .act = act_complete };
    m.line[0] = e.header->pad3; /* head */
    m.line[1] = e.header->pad2; /* waiting */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, meeting_thread, &m), 0);
    uint8_t msg[8], got[8];
    unsigned lost = 0;
    uint64_t chance = 47;
    message_fill(msg, sizeof(msg), 1);
    for (uint32_t i = 1; i <= MEETINGS; i++) {
        /* The thread waits: the host is ours until they meet. */
        size_t size;
        apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        apir_ring_guest_publish(&e.guest);
        if (apir_ring_host_take(&e.host, got, sizeof(got), &size) < 0)
            break;
        uint32_t seen = apir_load_acquire32(&e.header->wake);
        if (!meet_ready(&m, 0, &chance))
            break;
        apir_store_release32(&e.header->waiting, 1);
        apir_full_fence();
        bool there = apir_load_acquire64(&e.header->head) == UINT64_C(8) * i;
        if (!meet(&m, 0))
            break;
        /* It would have slept now, and nothing but `wake` ends that sleep. */
        lost += !there && apir_load_acquire32(&e.header->wake) == seen;
        apir_store_release32(&e.header->waiting, 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(m.stuck, 0);
    assert_int_equal(lost, 0);
    ends_close(&e);
}

/* ---- state ------------------------------------------------------------------------ */

static void the_reason_is_cut_and_terminated(void **state)
{
    (void)state;
    struct ends e;
    ends_open(&e);
    char text[APIR_REASON_MAX + 64];
    for (size_t n = 0; n < sizeof(text); n++) {
        memset(text, 'r', n);
        text[n] = '\0';
        uint8_t *behind = (uint8_t *)e.header->reason + APIR_REASON_MAX;
        memset(e.header->reason, 0x55, APIR_REASON_MAX);
        memset(behind, 0x55, 8);
        uint32_t wake = apir_load_acquire32(&e.header->wake);
        apir_ring_set_state(e.header, APIR_STATE_FATAL, text);
        assert_int_equal(apir_load_acquire32(&e.header->state), APIR_STATE_FATAL);
        assert_int_equal(apir_load_acquire32(&e.header->wake), wake + 1);
        size_t want = n < APIR_REASON_MAX ? n : APIR_REASON_MAX - 1;
        assert_int_equal(strnlen(e.header->reason, APIR_REASON_MAX), want);
        assert_memory_equal(e.header->reason, text, want);
        for (int i = 0; i < 8; i++)
            assert_int_equal(behind[i], 0x55);
    }
    apir_ring_set_state(e.header, APIR_STATE_LOST, "gone");
    apir_ring_set_state(e.header, APIR_STATE_READY, NULL); /* no reason: the text stays */
    assert_string_equal(e.header->reason, "gone");
    assert_int_equal(apir_load_acquire32(&e.header->state), APIR_STATE_READY);
    ends_close(&e);
}

static void *lose_context(void *user)
{
    struct ends *e = user;
    apir_ring_set_state(e->header, APIR_STATE_LOST, "the worker was killed");
    return NULL;
}

/* A guest that sleeps for a head that never moves hears of the loss, with the reason. */
static void a_loss_wakes_a_waiter_who_then_reads_the_whole_reason(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct ends e;
        ends_open(&e);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, lose_context, &e), 0);
        uint64_t until = now_ms() + LIMIT_MS;
        uint32_t seen, s;
        do {
            seen = apir_load_acquire32(&e.header->wake);
            s = apir_load_acquire32(&e.header->state);
            if (s != APIR_STATE_LOST) {
                struct timespec ts = { .tv_sec = LIMIT_MS / 1000 };
                syscall(SYS_futex, &e.header->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
            }
        } while (s != APIR_STATE_LOST && now_ms() < until);
        if (s == APIR_STATE_LOST)
            assert_string_equal(e.header->reason, "the worker was killed");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s, APIR_STATE_LOST);
        assert_true(now_ms() < until);
        ends_close(&e);
    }
}

/* ---- a guest that writes while the host reads --------------------------------------- */

#ifndef APIR_TSAN /* the race is the test */
struct scribbler {
    struct ends *e;
    uint32_t stop;
};

static void *scribble(void *user)
{
    struct scribbler *s = user;
    uint64_t seed = 23;
    while (!apir_load_acquire32(&s->stop)) {
        uint64_t at = unit_random(&seed) % (CMD_SIZE / 8);
        static const uint32_t sizes[] = { 8, 64, APIR_MESSAGE_MAX, APIR_MESSAGE_MAX + 8, 0,
                                          UINT32_MAX, 24 };
        uint64_t word = 1 | (uint64_t)sizes[unit_random(&seed) % 7] << 32;
        /* the first words of the ring most of all: there is where the host reads */
        __atomic_store_n((uint64_t *)(void *)s->e->cmd + (at % 4 ? at % 2 : at), word,
                         __ATOMIC_RELAXED);
    }
    return NULL;
}

/* The header is read once: what the caller gets is what was checked. */
static void a_header_that_changes_under_the_host_is_read_once(void **state)
{
    (void)state;
    struct ends e;
    ends_open_memfd(&e);
    struct scribbler s = { .e = &e };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    static uint8_t got[APIR_MESSAGE_MAX];
    const char *failed = NULL;
    unsigned taken = 0, refused = 0;
    for (unsigned round = 0; round < 1000000 && !failed; round++) {
        e.host.head = e.host.limit = round % 2 * 8;
        apir_store_release64(&e.header->tail, e.host.head + CMD_SIZE);
        size_t size = 0;
        if (apir_ring_host_take(&e.host, got, sizeof(got), &size)) {
            refused++;
            continue;
        }
        taken++;
        struct apir_msg_header h;
        memcpy(&h, got, sizeof(h));
        if (h.size != size || size < 8 || size > sizeof(got) || size % 8)
            failed = "the size that was checked is not the size that was given";
    }
    apir_store_release32(&s.stop, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (failed)
        fail_msg("%s", failed);
    assert_true(taken > 0 && refused > 0);
    ends_close(&e);
}
#endif

int main(void)
{
    static const struct CMUnitTest tests[] = {
        UNIT(the_guest_takes_only_a_layout_that_we_make),
        UNIT(nothing_shows_before_publish_and_nothing_completes_before_complete),
        UNIT(a_taken_message_stays_until_it_is_completed),
        UNIT(progress_shows_inside_the_message_only),
        UNIT(what_is_done_shows_once),
        UNIT(showing_is_due_at_the_end_and_after_a_quarter_of_the_ring),
        UNIT(publishing_leaves_what_is_not_taken),
        UNIT(messages_straddle_the_end_at_every_offset),
        UNIT(a_full_ring_has_no_room_and_loses_nothing),
        UNIT(offsets_run_freely_over_their_end),
        UNIT(a_tail_that_makes_no_sense_is_refused),
        UNIT(the_shared_head_is_never_read_by_the_host),
        UNIT(a_tail_pulled_back_takes_no_message_away),
        UNIT(a_message_size_that_makes_no_sense_is_refused),
        UNIT(a_buffer_too_small_is_not_written_behind),
        UNIT(noise_in_the_header_page_never_leads_out_of_the_ring),
        UNIT(a_head_that_makes_no_sense_gives_the_guest_no_room),
        UNIT(a_stream_between_threads_arrives_whole_and_in_order),
        UNIT(a_stream_over_the_end_of_the_offsets_arrives_too),
        UNIT(no_wake_up_is_lost_when_each_message_is_waited_for),
        UNIT(no_wake_up_is_lost_in_bursts),
        UNIT(a_host_about_to_sleep_sees_what_came_meanwhile),
        UNIT(a_host_knows_whether_somebody_woke_it),
        UNIT(a_hostile_tail_keeps_the_host_awake_to_refuse_it),
        UNIT(completion_wakes_only_where_somebody_waits),
        UNIT(a_message_is_never_left_behind_a_sleeping_host),
        UNIT(a_completion_is_never_missed_by_a_waiter),
        UNIT(the_reason_is_cut_and_terminated),
        UNIT(a_loss_wakes_a_waiter_who_then_reads_the_whole_reason),
#ifndef APIR_TSAN
        UNIT(a_header_that_changes_under_the_host_is_read_once),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
