/* SPDX-License-Identifier: Apache-2.0 */
/* A guest without manners at the worker's blobs, shared buffers and integers. */
#define _GNU_SOURCE
#include "tests/lib/worker_guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/graph_write.h"

#define PAGE 4096u

/* ---- REGISTER and FORGET ------------------------------------------------------------ */

static void register_refuses_what_is_no_blob(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    put_register(&g, 5, 0);
    expect_fatal(&g, "blob does not exist");
    guest_stop(&g);

    guest_start(&g);
    guest_put_raw(
        &g, &(struct apir_msg){.code = APIR_MSG_BLOB_REGISTER, .u.blob_register = {1, 0, 4096}}, 0,
        APIR_RING_BLOB_ID);
    expect_fatal(&g, "blob out of range");
    guest_stop(&g);

    guest_start(&g);
    guest_put_raw(
        &g, &(struct apir_msg){.code = APIR_MSG_BLOB_REGISTER, .u.blob_register = {1, 0, 4096}}, 0,
        APIR_BLOBS_MAX);
    expect_fatal(&g, "blob out of range");
    guest_stop(&g);

    guest_start(&g);
    put_register(&g, 1, APIR_DEVICES_MAX - 1);
    expect_fatal(&g, "device does not exist");
    guest_stop(&g);

    guest_start(&g);
    guest_put(&g, &(struct apir_msg){.code = APIR_MSG_BLOB_REGISTER,
                                     .u.blob_register = {1, 0, APIR_RING_SIZE}});
    expect_fatal(&g, "reply outside");
    guest_stop(&g);
}

static void register_twice_is_refused_where_it_means_something(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    guest_blob(&g, 2, SMALL);
    bool direct = blob_register(&g, 2, 0);
    put_register(&g, 2, 0);
    if (direct)
        expect_fatal(&g, "registered already");
    else
        expect_alive(&g);
    guest_stop(&g);
}

static void forgotten_blob_is_gone(void **state)
{
    (void)state;
    for (int how = 0; how < 5; how++) {
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
        else if (how == 3)
            put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 2, 0);
        else
            put_share(&g, 1, 2);
        expect_fatal(&g, how == 2 || how == 3 ? "region outside its blob" : "blob does not exist");
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
static void blob_ids_are_reused(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    for (int round = 0; round < 60; round++) {
        uint8_t value = (uint8_t)round;
        guest_blob(&g, 2, SMALL);
        if (round % 2)
            blob_register(&g, 2, 0);
        memset(guest_bytes(&g, 2), value, SMALL);
        put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 2, 0);
        put_forget(&g, 2);
        expect_bytes(&g, 1, 0, 64, value);
        guest_blob_end(&g, 2);
    }
    expect_alive(&g);
    guest_stop(&g);
}

static void all_blobs_at_once(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    guest_alloc(&g, 1, (uint64_t)SMALL * APIR_BLOBS_MAX);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 2; i < APIR_BLOBS_MAX; i++) {
            /* In another order each time. */
            uint32_t id = round % 2 ? APIR_BLOBS_MAX + 1 - i : i;
            guest_blob(&g, id, SMALL);
            memset(guest_bytes(&g, id), (int)id + round, SMALL);
            put_transfer(&g, APIR_MSG_SET, 0, 1, (uint64_t)id * SMALL, SMALL, id, 0);
        }
        assert_int_equal(fixture_create_blob(&g.c, 9999, 5, SMALL), -1);
        assert_int_equal(fixture_create_blob(&g.c, 9999, APIR_BLOBS_MAX, SMALL), -1);
        expect_alive(&g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++) {
            expect_bytes(&g, 1, (uint64_t)id * SMALL, 64, (uint8_t)(id + (uint32_t)round));
            put_forget(&g, id);
        }
        expect_alive(&g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++)
            guest_blob_end(&g, id);
    }
    guest_stop(&g);
}

/* ---- SHARE -------------------------------------------------------------------------- */

static void share_refuses_politely(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    stream_new(&g, STREAM, 0);
    guest_alloc(&g, 1, 2 * SMALL);
    guest_alloc(&g, 2, SMALL);
    guest_blob(&g, 2, SMALL);
    guest_blob(&g, 3, 4 * SMALL);
    guest_blob(&g, 4, 2 * SMALL);
    guest_blob(&g, 5, 2 * SMALL);
    const uint32_t ok = guest_is_cpu() ? APIR_OK : APIR_E_UNSUPPORTED;
    memset(guest_bytes(&g, 1), 0x21, SMALL);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 1, 0);
    /* Too small. */
    assert_int_equal(buffer_share(&g, 1, 2), APIR_E_UNSUPPORTED);
    expect_bytes(&g, 1, 0, 64, 0x21);
    /* Larger: it would take more than what the buffer is in the books with. */
    assert_int_equal(buffer_share(&g, 1, 3), APIR_E_UNSUPPORTED);
    expect_bytes(&g, 1, 0, 64, 0x21);
    /* Registered as what it is not: allowed where nothing came of that. */
    blob_register(&g, 5, 0);
    memset(guest_bytes(&g, 5), 0x43, 2 * SMALL);
    assert_int_equal(buffer_share(&g, 1, 5), ok);
    if (!guest_is_cpu()) {
        guest_stop(&g);
        return;
    }
    expect_bytes(&g, 1, 2 * SMALL - 64, 64, 0x43);
    /* A second time. */
    assert_int_equal(buffer_share(&g, 1, 4), APIR_E_UNSUPPORTED);
    /* Its memory is a buffer's now. */
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 2 * SMALL + 1, 4, 0);
    expect_fatal(&g, "range outside its buffer");
    guest_stop(&g);
}

static void share_refuses_what_is_not_there(void **state)
{
    (void)state;
    struct guest g;
    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    put_share(&g, 1, 9);
    expect_fatal(&g, "blob does not exist");
    guest_stop(&g);

    guest_start(&g);
    put_share(&g, 1, 1);
    expect_fatal(&g, "buffer does not exist");
    guest_stop(&g);

    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    put_free(&g, 1);
    put_share(&g, 1, 1);
    expect_fatal(&g, "buffer does not exist");
    guest_stop(&g);
    if (!guest_is_cpu())
        return;

    /* A blob that is another buffer's. */
    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    guest_alloc(&g, 2, SMALL);
    guest_blob(&g, 2, SMALL);
    assert_int_equal(buffer_share(&g, 1, 2), APIR_OK);
    put_share(&g, 2, 2);
    expect_fatal(&g, "blob does not exist");
    guest_stop(&g);

    guest_start(&g);
    guest_alloc(&g, 1, SMALL);
    guest_blob(&g, 2, SMALL);
    assert_int_equal(buffer_share(&g, 1, 2), APIR_OK);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, 64, 2, 0);
    expect_fatal(&g, "region outside its blob");
    guest_stop(&g);

    /* The arena itself. */
    guest_start(&g);
    guest_alloc(&g, 1, ARENA);
    assert_int_equal(buffer_share(&g, 1, 1), APIR_OK);
    put_free(&g, 1);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 64, 1, 0);
    expect_fatal(&g, "buffer does not exist");
    guest_stop(&g);
}

/* The buffer, its blob's resource and graphs that use it end in every order. */
static void shared_buffer_lives_and_dies(void **state)
{
    (void)state;
    struct guest g;
    if (!guest_is_cpu())
        return;
    guest_start(&g);
    stream_new(&g, STREAM, 0);
    guest_alloc(&g, 9, SMALL);
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t id = (i + 1) * APIR_BUFFERS_MAX + 5; /* one index, many generations */
        guest_alloc(&g, id, SMALL);
        guest_blob(&g, 2, SMALL);
        lookup_fill(guest_bytes(&g, 2), 8192, 8);
        assert_int_equal(buffer_share(&g, id, 2), APIR_OK);
        if (i % 2)
            guest_blob_end(&g, 2);
        put_lookup(&g, 3, id, 9, 8192, 8, 4096);
        put_exec(&g, 3);
        expect_lookup(&g, 9, 8);
        if (i % 3 == 0)
            put_drop(&g, 3);
        if (i % 4 < 2)
            put_free(&g, id);
        expect_alive(&g);
        if (guest_bytes(&g, 2))
            guest_blob_end(&g, 2);
        if (i % 4 >= 2) {
            if (i % 3) {
                put_exec(&g, 3);
                expect_lookup(&g, 9, 8);
            }
            put_free(&g, id);
        }
        /* Another blob of that id, and another buffer. */
        guest_blob(&g, 2, SMALL);
        expect_alive(&g);
        put_forget(&g, 2);
        expect_alive(&g);
        guest_blob_end(&g, 2);
    }
    put_exec(&g, 3);
    expect_fatal(&g, "graph slot is not defined");
    guest_stop(&g);
}

/* Contents that a graph or a set has put there are not thrown away. */
static void share_of_a_buffer_in_use_is_refused(void **state)
{
    (void)state;
    struct guest g;
    if (!guest_is_cpu())
        return;
    guest_start(&g);
    stream_new(&g, STREAM, 0);
    guest_alloc(&g, 1, SMALL);
    guest_alloc(&g, 2, SMALL);
    guest_blob(&g, 2, SMALL);
    memset(guest_bytes(&g, 1), 0, SMALL);
    lookup_fill(guest_bytes(&g, 1), 8192, 4);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 1, 0);
    put_lookup(&g, 0, 1, 2, 8192, 4, 0);
    assert_int_equal(buffer_share(&g, 1, 2), APIR_E_UNSUPPORTED);
    assert_int_equal(buffer_share(&g, 2, 2), APIR_E_UNSUPPORTED);
    put_exec(&g, 0);
    expect_lookup(&g, 2, 4);
    put_drop(&g, 0);
    assert_int_equal(buffer_share(&g, 2, 2), APIR_E_UNSUPPORTED);
    expect_lookup(&g, 2, 4);
    expect_alive(&g);
    guest_stop(&g);
}

/* Row numbers at the very end of a buffer, whose end is no page's; and the guest changes them
 * once they have been checked. */
static void integers_are_out_of_reach(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {SMALL, SMALL - 4, SMALL - 4096, SMALL + 36, 3 * PAGE + 100};
    if (!guest_is_cpu())
        return;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct guest g;
        guest_start(&g);
        stream_new(&g, STREAM, 0);
        guest_alloc(&g, 1, sizes[i]);
        guest_alloc(&g, 2, SMALL);
        uint64_t blob_size = (sizes[i] + SMALL - 1) / SMALL * SMALL;
        guest_blob(&g, 2, blob_size);
        uint64_t at = sizes[i] - 8 * 4;
        lookup_fill(guest_bytes(&g, 2), at, 8);
        assert_int_equal(buffer_share(&g, 1, 2), APIR_OK);
        /* Floats on the same bytes as the row numbers. */
        put_lookup(&g, 0, 1, 2, at, 8, at & ~(uint64_t)15);
        assert_true(guest_run(&g));
        for (uint64_t k = at; k < at + 32; k++)
            guest_bytes(&g, 2)[k] = 0x7f;
        put_exec(&g, 0);
        expect_lookup(&g, 2, 8);
        /* Another graph with the same tensor, and a third one beside it: still the same. */
        put_lookup(&g, 1, 1, 2, at, 8, 4096);
        put_lookup(&g, 2, 1, 2, at, 4, 4096);
        put_exec(&g, 1);
        expect_lookup(&g, 2, 8);
        put_exec(&g, 2);
        expect_lookup(&g, 2, 4);
        /* By message it can be changed. */
        int32_t id = LOOKUP_ROWS - 1;
        struct apir_msg m = {
            .code = APIR_MSG_SET_INLINE,
            .tail = (const uint8_t *)&id,
            .u.set_inline = {.stream = STREAM, .buffer = 1, .offset = at, .size = 4}};
        guest_put(&g, &m);
        put_exec(&g, 0);
        expect_lookup(&g, 2, 8);
        /* One byte too far. */
        put_lookup(&g, 3, 1, 2, at + 1, 8, 0);
        expect_fatal(&g, "data outside its buffer");
        guest_stop(&g);
    }
}

/* What the worker has computed so far; on a busy machine a clock would say something else. */
static long worker_cpu_ms(const struct guest *g)
{
    char path[32];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", fixture_child(&g->f, "apir-worker", NULL));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &kernel),
                     2);
    fclose(f);
    return (long)(user + kernel) * 1000 / sysconf(_SC_CLK_TCK);
}

/* The same graph defined again and again does not copy its integers every time: 2 MiB of
 * them, 6000 times, would take a quarter of a minute. */
static void integers_are_taken_once(void **state)
{
    (void)state;
    struct guest g;
    if (!guest_is_cpu())
        return;
    /* Larger ones are shared only where the kernel has huge pages for them. */
    const uint64_t size = (2u << 20) - SMALL;
    guest_start(&g);
    stream_new(&g, STREAM, 0);
    guest_alloc(&g, 1, size);
    guest_alloc(&g, 2, SMALL);
    guest_blob(&g, 2, size);
    assert_int_equal(buffer_share(&g, 1, 2), APIR_OK);
    lookup_fill(guest_bytes(&g, 2), PAGE, 8);
    static struct apir_name names[] = {{APIR_NAME_OP, "SQR"}};
    struct apir_graph_buffer buffers[] = {{1, 1}, {2, 2}};
    struct apir_tensor t[3];
    t[0] = tensor_at(0, APIR_NO_NAME, 24, 0, (int64_t)size, 1, 1);
    t[1] = tensor_at(0, APIR_NO_NAME, 0, 0, 4, 1, 4);
    t[2] = tensor_at(APIR_TENSOR_NODE, 0, 0, 0, 4, 1, 4);
    t[2].buffer = 1;
    t[2].n_src = 1;
    t[2].src[0] = 1;
    const struct apir_graph graph = {
        .n_names = 1,
        .n_buffers = 2,
        .n_tensors = 3,
        .n_nodes = 1,
        .names = names,
        .buffers = buffers,
        .tensors = t,
    };
    size_t n = graph_write(&graph, guest_bytes(&g, 1), ARENA);
    assert_true(n > 0);
    const long began = worker_cpu_ms(&g);
    for (uint32_t i = 0; i < 6000; i++) {
        guest_put(&g, &(struct apir_msg){
                          .code = APIR_MSG_GRAPH_DEF,
                          .u.graph_def = {.slot = i % 3, .stream = STREAM, .blob = 1, .size = n}});
        assert_true(guest_run(&g));
    }
    const long took = worker_cpu_ms(&g) - began;
    if (took > 6000)
        fail_msg("6000 definitions took the worker %ld ms", took);
    expect_alive(&g);
    guest_stop(&g);
}

/* What one buffer had must not be what the next one has, on whatever device, to the last byte. */
static void new_buffers_are_clear(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {4, 99, 4096, 40001, 262144};
    struct guest g;
    uint32_t id = 9;
    guest_start(&g);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int round = 0; round < 8; round++, id += APIR_BUFFERS_MAX) {
            guest_alloc(&g, id, sizes[i]);
            expect_bytes(&g, id, 0, sizes[i], 0);
            memset(guest_bytes(&g, 1), 0x5a, sizes[i]);
            put_transfer(&g, APIR_MSG_SET, 0, id, 0, sizes[i], 1, 0);
            expect_bytes(&g, id, 0, sizes[i], 0x5a);
            put_free(&g, id);
        }
    }
    expect_alive(&g);
    guest_stop(&g);
}

static int run(const char *group)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register_refuses_what_is_no_blob),
        cmocka_unit_test(register_twice_is_refused_where_it_means_something),
        cmocka_unit_test(forgotten_blob_is_gone),
        cmocka_unit_test(blob_ids_are_reused),
        cmocka_unit_test(all_blobs_at_once),
        cmocka_unit_test(share_refuses_politely),
        cmocka_unit_test(share_refuses_what_is_not_there),
        cmocka_unit_test(shared_buffer_lives_and_dies),
        cmocka_unit_test(share_of_a_buffer_in_use_is_refused),
        cmocka_unit_test(integers_are_out_of_reach),
        cmocka_unit_test(integers_are_taken_once),
        cmocka_unit_test(new_buffers_are_clear),
    };
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_hostile_blobs", run);
}
