/* SPDX-License-Identifier: Apache-2.0 */
/* A guest without manners at the worker's streams: events, and transfers whose blob goes away.
 * (Whose memory is punched: the attack memory-punched.) */
#include "tests/lib/worker_guest.h"

/* ---- events ------------------------------------------------------------------------- */

/* Numbers that nothing has, or could have: the attacks message-fields and ref-pointer-handles. */
TEST(closed_streams_are_gone)
{
    const struct apir_msg messages[] = {
        {.code = APIR_MSG_STREAM_SYNC, .u.stream_sync = {STREAM}},
        {.code = APIR_MSG_EVENT_RECORD, .u.event_record = {3, STREAM}},
        {.code = APIR_MSG_EVENT_WAIT, .u.event_wait = {3, STREAM}},
        {.code = APIR_MSG_SET, .u.set = {.stream = STREAM, .buffer = 1, .size = 64, .blob = 1}},
        {.code = APIR_MSG_GET, .u.get = {.stream = STREAM, .buffer = 1, .size = 64, .blob = 1}},
        {.code = APIR_MSG_COPY, .u.copy = {STREAM, STREAM, 1, 0, 1, 64, 64}},
    };
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct guest g;
        guest_start(&g);
        guest_alloc(&g, 1, SMALL);
        stream_new(&g, STREAM, 0);
        put_stream(&g, APIR_MSG_STREAM_CLOSE, STREAM);
        guest_put(&g, &messages[i]);
        expect_fatal(&g, "stream does not exist");
        guest_stop(&g);
    }
}

/* A buffer, a blob that device 0 knows, and streams 1 and 2. */
static void scene_open(struct guest *g)
{
    guest_alloc(g, 1, 2u << 20);
    guest_blob(g, 2, 2u << 20);
    blob_register(g, 2, 0);
    stream_new(g, 1, 0);
    stream_new(g, 2, 0);
}

/* Something for a stream to do. */
static void put_work(struct guest *g, uint32_t stream)
{
    put_transfer(g, APIR_MSG_SET, stream, 1, 0, 1u << 20, 2, 0);
}

GUEST_TEST(events_without_a_mark_hold_nobody_up)
{
    stream_new(g, 1, 0);
    for (uint32_t e = 0; e < APIR_EVENTS_MAX; e++) {
        put_event(g, APIR_MSG_EVENT_SYNC, e, 0);
        put_event(g, APIR_MSG_EVENT_WAIT, e, 1);
        put_event(g, APIR_MSG_EVENT_FREE, e, 0);
        put_event(g, APIR_MSG_EVENT_FREE, e, 0);
    }
    put_stream(g, APIR_MSG_STREAM_SYNC, 1);
    expect_alive(g);
}

GUEST_TEST(events_outlive_their_streams)
{
    scene_open(g);
    for (uint32_t i = 0; i < 30; i++) {
        if (i > 0)
            stream_new(g, 1, 0);
        if (i % 2)
            put_work(g, 1);
        put_event(g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(g, APIR_MSG_EVENT_RECORD, 1, 1);
        if (i % 3 == 0)
            put_event(g, APIR_MSG_EVENT_WAIT, 0, 2);
        put_stream(g, APIR_MSG_STREAM_CLOSE, 1);
        put_event(g, APIR_MSG_EVENT_SYNC, 0, 0);
        put_event(g, APIR_MSG_EVENT_WAIT, 1, 2);
        if (i % 5 == 0)
            put_event(g, APIR_MSG_EVENT_FREE, 0, 0);
        put_event(g, APIR_MSG_EVENT_RECORD, 1, 2);
        put_event(g, APIR_MSG_EVENT_SYNC, 1, 0);
        put_stream(g, APIR_MSG_STREAM_SYNC, 2);
        expect_alive(g);
    }
}

/* Marks and waits are under way in the device when the event is freed, recorded anew, or moved
 * to a stream of another device. */
GUEST_TEST(events_freed_under_way)
{
    scene_open(g);
    stream_new(g, 3, guest_has_two_devices() ? 1 : 0);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t e = i % APIR_EVENTS_MAX;
        if (i % 4 == 0)
            put_work(g, 1);
        put_event(g, APIR_MSG_EVENT_RECORD, e, 1);
        if (i % 3 == 1) {
            put_event(g, APIR_MSG_EVENT_WAIT, e, 2);
            put_work(g, 2);
        }
        if (i % 5 == 2)
            put_event(g, APIR_MSG_EVENT_RECORD, e, 3);
        if (i % 5 == 3)
            put_event(g, APIR_MSG_EVENT_WAIT, e, 3);
        if (i % 7 == 3) {
            put_event(g, APIR_MSG_EVENT_RECORD, e, 1);
            put_event(g, APIR_MSG_EVENT_RECORD, e, 1);
        }
        put_event(g, APIR_MSG_EVENT_FREE, e, 0);
        if (i % 16 == 15)
            expect_alive(g);
    }
    put_stream(g, APIR_MSG_STREAM_SYNC, 1);
    put_stream(g, APIR_MSG_STREAM_SYNC, 2);
    put_stream(g, APIR_MSG_STREAM_SYNC, 3);
    expect_alive(g);
}

/* A wait for the first of two marks, and the host reuses what the first was made of. */
GUEST_TEST(event_marked_again_before_its_wait)
{
    scene_open(g);
    for (uint32_t i = 0; i < 10; i++) {
        put_work(g, 1);
        put_event(g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(g, APIR_MSG_EVENT_WAIT, 0, 2);
        put_event(g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(g, APIR_MSG_EVENT_SYNC, 0, 0);
        put_work(g, 2);
        put_stream(g, APIR_MSG_STREAM_SYNC, 2);
        expect_alive(g);
    }
}

/* ---- transfers ---------------------------------------------------------------------- */

static void put_copy_within(struct guest *g, uint32_t stream, uint64_t from, uint64_t to,
                            uint64_t size)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_COPY,
                                    .u.copy = {.src_stream = stream,
                                               .dst_stream = stream,
                                               .src_buffer = 1,
                                               .src_offset = from,
                                               .dst_buffer = 1,
                                               .dst_offset = to,
                                               .size = size}});
}

TEST(copies_that_overlap)
{
    struct guest g;
    for (uint32_t stream = 0; stream < 2; stream++) {
        for (int how = 0; how < 3; how++) {
            guest_start(&g);
            stream_new(&g, 1, 0);
            guest_alloc(&g, 1, SMALL);
            memset(guest_bytes(&g, 1), 0x31, SMALL);
            memset(guest_bytes(&g, 1) + SMALL / 2, 0x32, SMALL / 2);
            put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 1, 0);
            /* Next to each other is not an overlap. */
            put_copy_within(&g, stream, 0, SMALL / 2, SMALL / 2);
            put_stream(&g, APIR_MSG_STREAM_SYNC, 1);
            expect_bytes(&g, 1, 0, SMALL, 0x31);
            static const uint64_t from[] = {0, SMALL / 2 - 1, 64}, to[] = {SMALL / 2 - 1, 0, 64};
            put_copy_within(&g, stream, from[how], to[how], SMALL / 2);
            expect_fatal(&g, "overlap");
            guest_stop(&g);
        }
    }
}

GUEST_TEST(transfers_of_other_devices)
{
    if (!guest_has_two_devices())
        return;
    /* A blob that the first device knows, buffers and streams of both, in every mixture. */
    stream_new(g, 1, 0);
    stream_new(g, 2, 1);
    guest_alloc_on(g, 0, 1, 4 * SMALL);
    guest_alloc_on(g, 1, 2, 4 * SMALL);
    guest_blob(g, 2, 4 * SMALL);
    guest_blob(g, 3, 4 * SMALL);
    blob_register(g, 2, 0);
    blob_register(g, 3, 1);
    uint8_t value = 1;
    for (uint32_t stream = 0; stream < 3; stream++) {
        for (uint32_t buffer = 1; buffer < 3; buffer++) {
            for (uint32_t blob = 1; blob < 4; blob++, value++) {
                memset(guest_bytes(g, blob), value, 4 * SMALL);
                put_transfer(g, APIR_MSG_SET, stream, buffer, 0, 4 * SMALL, blob, 0);
                if (stream)
                    put_stream(g, APIR_MSG_STREAM_SYNC, stream);
                expect_bytes(g, buffer, 0, 4 * SMALL, value);
                memset(guest_bytes(g, blob), 0, 4 * SMALL);
                put_transfer(g, APIR_MSG_GET, stream, buffer, 0, 4 * SMALL, blob, 0);
                expect_alive(g);
                assert_int_equal(guest_bytes(g, blob)[0], value);
                assert_int_equal(guest_bytes(g, blob)[4 * SMALL - 1], value);
            }
        }
    }
}

/* Transfers are queued, and what they name is taken away behind them. */
GUEST_TEST(blob_taken_away_under_transfers)
{
    enum { N = 16, PART = 262144 };
    stream_new(g, STREAM, 0);
    guest_alloc(g, 1, (uint64_t)N * PART);
    for (int round = 0; round < 12; round++) {
        uint8_t value = (uint8_t)(round + 1);
        /* An id may come back only where FORGET was said. */
        uint32_t id = 2 + (uint32_t)round;
        guest_blob(g, id, (uint64_t)N * PART);
        blob_register(g, id, 0);
        memset(guest_bytes(g, id), value, (uint64_t)N * PART);
        for (uint64_t i = 0; i < N; i++)
            put_transfer(g, APIR_MSG_SET, STREAM, 1, i * PART, PART, id, i * PART);
        if (round % 4 == 1) {
            /* and an event behind it, unsynchronized */
            put_event(g, APIR_MSG_EVENT_RECORD, 7, STREAM);
        }
        if (round % 3 != 2) {
            put_forget(g, id);
            expect_alive(g);
        } else {
            guest_run(g);
        }
        /* Without FORGET: the server takes it away from the worker. */
        guest_blob_end(g, id);
        put_stream(g, APIR_MSG_STREAM_SYNC, STREAM);
        expect_bytes(g, 1, 0, PART, value);
        expect_bytes(g, 1, (uint64_t)(N - 1) * PART, PART, value);
    }
    /* Read into memory that is given up at once. */
    for (int round = 0; round < 6; round++) {
        uint32_t id = 20 + (uint32_t)round;
        guest_blob(g, id, (uint64_t)N * PART);
        blob_register(g, id, 0);
        for (uint64_t i = 0; i < N; i++)
            put_transfer(g, APIR_MSG_GET, STREAM, 1, i * PART, PART, id, i * PART);
        guest_flush(g);
        if (round % 2)
            put_forget(g, id);
        else
            guest_blob_end(g, id); /* while they run, or have not begun */
        if (round % 2 == 0 && !guest_run(g)) {
            expect_fatal(g, "region outside its blob");
            return;
        }
        expect_alive(g);
        if (round % 2)
            guest_blob_end(g, id);
    }
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_hostile_streams");
}
