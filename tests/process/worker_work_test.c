/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the worker goes through a guest's work: what is done shows while there is more to do, and
 * work without end takes no memory.
 */
#include <signal.h>

#include "tests/lib/worker_guest.h"

#include "protocol/atomic.h"

#define ENDLESS 20000
/* ASan keeps for a while what was freed. Without bounds it is 100 MiB and more. */
#if defined(__SANITIZE_ADDRESS__) || (defined(__has_feature) && __has_feature(address_sanitizer))
#define GROWTH_KIB 65536
#else
#define GROWTH_KIB 1024
#endif

/* ---- reads -------------------------------------------------------------------------- */

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at / 4096 * 7 | 1);
}

/* Looks at the target while it is filled. True: a step was there before the whole. */
static bool watch_read(struct guest *g, uint32_t blob, uint64_t size)
{
    const uint64_t step = apir_get_step(size), steps = size / step, until = g->ring.tail;
    const int64_t give_up = now_ms() + patient_ms(10000);
    bool seen = false;
    for (uint64_t left; (left = until - apir_ring_guest_head(&g->ring)) > 0;) {
        if (left < steps) {
            assert_int_equal(guest_bytes(g, blob)[(steps - left) * step - 1],
                             pattern((steps - left) * step - 1));
            seen = true;
        }
        assert_int_equal(guest_state(g), APIR_STATE_READY);
        assert_true(now_ms() < give_up);
    }
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(guest_bytes(g, blob)[i], pattern(i));
    return seen;
}

GUEST_TEST(a_read_arrives_in_steps)
{
    /* Longer than the kernel lets one of us have the core, where there is one for both. */
    enum { SIZE = 2048 * SMALL };
    guest_alloc(g, 1, SIZE);
    guest_blob(g, 2, SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        guest_bytes(g, 2)[i] = pattern(i);
    put_transfer(g, APIR_MSG_SET, 0, 1, 0, SIZE, 2, 0);
    expect_alive(g);
    bool seen = false;
    /* While others keep the machine busy the worker may be done before we look. */
    const int64_t give_up = now_ms() + patient_ms(10000);
    do {
        memset(guest_bytes(g, 2), 0, SIZE);
        put_transfer(g, APIR_MSG_GET, 0, 1, 0, SIZE, 2, 0);
        guest_flush(g);
        seen = watch_read(g, 2, SIZE);
        /* A device with memory of its own writes into the blob itself. */
    } while (!seen && guest_is_cpu() && now_ms() < give_up);
    assert_true(seen || !guest_is_cpu());
    expect_alive(g);
}

/* Whoever waits for what was set does not wait for what comes behind it. */
GUEST_TEST(what_is_set_shows_before_long_work)
{
    enum { LONG = 256 << 20 };
    if (!guest_is_cpu())
        return;
    guest_alloc(g, 1, LONG);
    expect_alive(g);
    uint8_t byte = 1;
    const struct apir_msg set = {
        .code = APIR_MSG_SET_INLINE, .tail = &byte, .u.set_inline = {.buffer = 1, .size = 1}};
    const struct apir_msg fill = {.code = APIR_MSG_MEMSET,
                                  .u.memset = {.buffer = 1, .size = LONG, .value = 7}};
    /* A tenth of a second or so; again, should we have been away for longer. */
    const int64_t give_up = now_ms() + patient_ms(10000);
    bool seen = false;
    while (!seen && now_ms() < give_up) {
        guest_put(g, &set);
        guest_put(g, &set);
        const uint64_t are_set = g->ring.tail;
        guest_put(g, &fill);
        guest_flush(g);
        uint64_t head;
        while ((head = apir_ring_guest_head(&g->ring)) < are_set)
            assert_true(now_ms() < give_up);
        seen = head == are_set;
        assert_true(guest_run(g));
    }
    assert_true(seen);
    expect_alive(g);
}

/* Whatever follows it: here something that ends the context. */
GUEST_TEST(what_is_done_shows_before_the_end)
{
    guest_alloc(g, 1, SMALL);
    expect_alive(g);
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_MEMSET,
                                    .u.memset = {.buffer = 1, .size = SMALL, .value = 7}});
    const uint64_t filled = g->ring.tail;
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_SET_INLINE,
                                    .tail = (const uint8_t *)"",
                                    .u.set_inline = {.buffer = 2, .size = 1}});
    expect_fatal(g, "buffer");
    assert_true(apir_ring_guest_head(&g->ring) == filled);
}

/* ---- work without end ---------------------------------------------------------------- */

static long resident_kib(const struct guest *g)
{
    char path[32];
    long pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", fixture_child(&g->f, "apir-worker", NULL));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Two buffers to copy between, and one for writes out of registered memory, by the device: of
 * any size on a stream, and without one if they are large. */
enum { SHARED = 9 << 18, SHARED_QUEUED = 512 << 10 };

static void buffers_new(struct guest *g)
{
    guest_alloc(g, 1, SMALL);
    guest_alloc(g, 2, SMALL);
    guest_alloc(g, 3, SHARED);
    guest_blob(g, 2, SHARED);
    blob_register(g, 2, 0);
}

static void put_endless(struct guest *g, int kind, int i)
{
    switch (kind) {
    case 0:
        put_transfer(g, APIR_MSG_SET, (uint32_t)i % 2, 3, 0, i % 2 ? SHARED_QUEUED : SHARED, 2, 0);
        break;
    case 1:
        put_event(g, APIR_MSG_EVENT_RECORD, 0, 1);
        break;
    case 2:
        put_event(g, APIR_MSG_EVENT_RECORD, 1, 1);
        put_event(g, APIR_MSG_EVENT_WAIT, 1, 2);
        break;
    default:
        put_copy(g, 1, 1, 1, 2, SMALL);
        break;
    }
}

/* Drivers keep something of each piece of work until somebody waits for it. This guest never does.
 */
GUEST_TEST(work_without_end_takes_no_memory)
{
    stream_new(g, 1, 0);
    stream_new(g, 2, 0);
    buffers_new(g);
    for (int kind = 0; kind < 4; kind++) {
        long before = 0;
        for (int i = 0; i < ENDLESS; i++) {
            if (i == ENDLESS / 4) {
                expect_alive(g);
                before = resident_kib(g);
            }
            put_endless(g, kind, i);
        }
        expect_alive(g);
        const long grown = resident_kib(g) - before;
        if (grown > GROWTH_KIB)
            fail_msg("kind %d: the worker grew by %ld KiB", kind, grown);
    }
}

/* Each message is a line of the log, and nobody is there who could take one. */
TEST(work_goes_on_when_the_logs_reader_ends)
{
    struct guest g;
    int fds[2];
    const int stderr_kept = dup(STDERR_FILENO);
    assert_true(stderr_kept >= 0);
    /* Not for the worker: the server starts it with what is usual. */
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    close(fds[1]);
    assert_int_equal(setenv("APIR_LOG", "debug", 1), 0);
    guest_start(&g);
    assert_int_equal(unsetenv("APIR_LOG"), 0);
    assert_int_equal(dup2(stderr_kept, STDERR_FILENO), STDERR_FILENO);
    close(stderr_kept);
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 100; i++)
        expect_alive(&g);
    guest_stop(&g);
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_work");
}
