/* SPDX-License-Identifier: Apache-2.0 */
/* A guest without manners at the worker's blobs; and what new buffers hold. */
#include "tests/lib/worker_guest.h"

/* ---- REGISTER and FORGET ------------------------------------------------------------ */

GUEST_TEST(register_twice_is_refused_where_it_means_something)
{
    guest_blob(g, 2, SMALL);
    bool direct = blob_register(g, 2, 0);
    put_register(g, 2, 0);
    if (direct)
        expect_fatal(g, "registered already");
    else
        expect_alive(g);
}

TEST(forgotten_blob_is_gone)
{
    for (int how = 0; how < 4; how++) {
        struct guest g;
        guest_start(&g);
        guest_alloc(&g, 1, SMALL);
        guest_blob(&g, 2, SMALL);
        blob_register(&g, 2, 0);
        put_forget(&g, 2);
        if (how == 0)
            put_forget(&g, 2);
        else if (how == 1)
            put_register(&g, 2, 0);
        else if (how == 2)
            put_transfer(&g, APIR_MSG_SET, 0, 1, 0, 100, 2, 0);
        else
            put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 2, 0);
        expect_fatal(&g, how >= 2 ? "region outside its blob" : "blob does not exist");
        guest_stop(&g);
    }
    /* The arena is a blob like any other. */
    struct guest g;
    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 1, 0);
    put_forget(&g, 1);
    expect_alive(&g);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 1, 0);
    expect_fatal(&g, "region outside its blob");
    guest_stop(&g);
}

/* The blob and its successor of the same id; the worker is told of both between two messages. */
GUEST_TEST(blob_ids_are_reused)
{
    guest_alloc(g, 1, SMALL);
    for (int round = 0; round < 60; round++) {
        uint8_t value = (uint8_t)round;
        guest_blob(g, 2, SMALL);
        if (round % 2)
            blob_register(g, 2, 0);
        memset(guest_bytes(g, 2), value, SMALL);
        put_transfer(g, APIR_MSG_SET, 0, 1, 0, SMALL, 2, 0);
        put_forget(g, 2);
        expect_bytes(g, 1, 0, 64, value);
        guest_blob_end(g, 2);
    }
    expect_alive(g);
}

/* A device that has been shown the arena must not go on with it once it is another one. */
GUEST_TEST(arena_is_changed_for_another)
{
    enum { LARGE = 5 << 19 }; /* what a device copies, in both directions */
    guest_alloc(g, 1, LARGE);
    for (int round = 0; round < 8; round++) {
        uint8_t value = (uint8_t)(round + 1);
        put_forget(g, 1);
        expect_alive(g);
        guest_blob_end(g, 1);
        guest_blob(g, 1, round % 2 ? LARGE : LARGE + SMALL);
        memset(guest_bytes(g, 1), value, LARGE);
        put_transfer(g, APIR_MSG_SET, 0, 1, 0, LARGE, 1, 0);
        expect_bytes(g, 1, 0, LARGE, value);
        /* Forgotten right behind a transfer. */
        put_transfer(g, APIR_MSG_GET, 0, 1, 0, LARGE, 1, 0);
    }
    expect_alive(g);
}

GUEST_TEST(all_blobs_at_once)
{
    guest_alloc(g, 1, (uint64_t)SMALL * APIR_BLOBS_MAX);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 2; i < APIR_BLOBS_MAX; i++) {
            /* In another order each time. */
            uint32_t id = round % 2 ? APIR_BLOBS_MAX + 1 - i : i;
            guest_blob(g, id, SMALL);
            memset(guest_bytes(g, id), (int)id + round, SMALL);
            put_transfer(g, APIR_MSG_SET, 0, 1, (uint64_t)id * SMALL, SMALL, id, 0);
        }
        assert_int_equal(fixture_create_blob(&g->c, 9999, 5, SMALL), -1);
        assert_int_equal(fixture_create_blob(&g->c, 9999, APIR_BLOBS_MAX, SMALL), -1);
        expect_alive(g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++) {
            expect_bytes(g, 1, (uint64_t)id * SMALL, 64, (uint8_t)(id + (uint32_t)round));
            put_forget(g, id);
        }
        expect_alive(g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++)
            guest_blob_end(g, id);
    }
}

/* What one buffer had must not be what the next one has, on whatever device, to the last byte. */
GUEST_TEST(new_buffers_are_clear)
{
    static const uint64_t sizes[] = {4, 99, 4096, 40001, 262144};
    uint32_t id = 9;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int round = 0; round < 8; round++, id += APIR_BUFFERS_MAX) {
            guest_alloc(g, id, sizes[i]);
            expect_bytes(g, id, 0, sizes[i], 0);
            memset(guest_bytes(g, 1), 0x5a, sizes[i]);
            put_transfer(g, APIR_MSG_SET, 0, id, 0, sizes[i], 1, 0);
            expect_bytes(g, id, 0, sizes[i], 0x5a);
            put_free(g, id);
        }
    }
    expect_alive(g);
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_hostile_blobs");
}
