/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/apir_exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- synchronous; behind a stream, between threads and around graphs: tests/native/differ
 * ---------- */

/* Sizes around every border that a transport could have: nothing, a byte, what fits a message,
 * what fits a piece of shared memory, what fits all of it, and more. */
static const size_t sizes[] = {0,       1,           3,       64,          255,     256,     257,
                               4095,    4096,        4097,    65535,       65537,   MIB - 1, MIB,
                               MIB + 1, 3 * MIB + 5, 8 * MIB, 8 * MIB + 1, 20 * MIB};

static void plain_transfers(struct bytes *b)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i], offset = (i * 977) % (b->size - size + 1);
        char after[64];
        snprintf(after, sizeof(after), "set of %zu at %zu", size, offset);
        random_bytes(b->want + offset, size, (uint32_t)i);
        ggml_backend_tensor_set(b->t, b->want + offset, offset, size);
        memset(b->got, 0xa5, size + 1);
        ggml_backend_tensor_get(b->t, b->got, offset, size);
        if (memcmp(b->got, b->want + offset, size) != 0 || b->got[size] != 0xa5)
            fail("%s: reads back otherwise", after);
        bytes_check(b, after);
    }
    /* The very last byte. */
    b->want[b->size - 1] ^= 0xff;
    ggml_backend_tensor_set(b->t, b->want + b->size - 1, b->size - 1, 1);
    bytes_check(b, "set of the last byte");
}

static void fill_transfers(struct bytes *b)
{
    const size_t at[][2] = {{0, 1}, {5, 1000}, {b->size - 7, 7}, {100, 3 * MIB}};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        memset(b->want + at[i][0], (int)(0x11 + i), at[i][1]);
        ggml_backend_tensor_memset(b->t, (uint8_t)(0x11 + i), at[i][0], at[i][1]);
    }
    bytes_check(b, "memset");
    /* Zeros come in another way than other values. */
    const uint8_t values[] = {0x77, 0, 0x78};
    for (size_t i = 0; i < sizeof(values); i++) {
        memset(b->want, values[i], b->size);
        ggml_backend_buffer_clear(b->buffer, values[i]);
        bytes_check(b, "clear");
    }
}

/* Rows of `row` bytes, `n` of them, `st` apart on the device and `sd` apart here. */
static void rows_transfer(struct bytes *b, size_t row, size_t n, size_t st, size_t sd,
                          size_t offset)
{
    char after[96];
    snprintf(after, sizeof(after), "2d of %zu rows of %zu, %zu and %zu apart", n, row, st, sd);
    CHECK(offset + (n - 1) * st + row <= b->size);
    uint8_t *src = malloc(n * sd), *back = malloc(n * sd);
    CHECK(src && back);
    random_bytes(src, n * sd, (uint32_t)(row + n));
    for (size_t i = 0; i < n; i++)
        memcpy(b->want + offset + i * st, src + i * sd, row);
    ggml_backend_tensor_set_2d(b->t, src, offset, row, n, st, sd);
    bytes_check(b, after);
    memset(back, 0xee, n * sd);
    ggml_backend_tensor_get_2d(b->t, back, offset, row, n, st, sd);
    for (size_t i = 0; i < n; i++) {
        if (memcmp(back + i * sd, src + i * sd, row) != 0)
            fail("%s: row %zu reads back otherwise", after, i);
        for (size_t k = row; k < sd; k++) {
            if (back[i * sd + k] != 0xee)
                fail("%s: wrote between the rows", after);
        }
    }
    free(src);
    free(back);
}

int transfers_run(ggml_backend_dev_t dev)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 24 * MIB + 13);
    bytes_check(&b, "the first clear");
    plain_transfers(&b);
    fill_transfers(&b);
    rows_transfer(&b, 1, 1, 1, 1, 0);
    rows_transfer(&b, 16, 1, 16, 16, 3);
    rows_transfer(&b, 100, 37, 128, 100, 11);
    rows_transfer(&b, 128, 1000, 128, 160, 0);
    rows_transfer(&b, 4096, 700, 8192, 4096, 64);          /* several pieces of shared memory */
    rows_transfer(&b, MIB + 64, 3, 2 * MIB, MIB + 100, 5); /* one row is more than a piece */
    return 0;
}

/* ---- copies --------------------------------------------------------------------------- */

/* Devices may not copy between ranges that overlap: ggml does it then, through memory of its own.
 */
static void copy_within(ggml_backend_dev_t dev, size_t distance)
{
    cleanup_bytes struct bytes a;
    bytes_init(&a, dev, MIB + 5);
    const size_t n = a.size - distance;
    struct ggml_tensor *low = ggml_view_1d(a.ctx, a.t, (int64_t)n, 0);
    struct ggml_tensor *high = ggml_view_1d(a.ctx, a.t, (int64_t)n, distance);
    CHECK(ggml_backend_view_init(low) == GGML_STATUS_SUCCESS);
    CHECK(ggml_backend_view_init(high) == GGML_STATUS_SUCCESS);
    bytes_set(&a, (uint32_t)distance);
    ggml_backend_tensor_copy(low, high);
    memmove(a.want + distance, a.want, n);
    bytes_check(&a, "a copy to a later range that overlaps");
    ggml_backend_tensor_copy(high, low);
    memmove(a.want, a.want + distance, n);
    bytes_check(&a, "a copy to an earlier range that overlaps");
}

int copies_run(ggml_backend_dev_t dev)
{
    /* On the CPU itself ggml copies with memcpy, whatever overlaps. */
    if (ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_CPU)
        return 0;
    copy_within(dev, 1);
    copy_within(dev, MIB / 2);
    copy_within(dev, MIB + 4);
    return 0;
}

/* ---- buffers ---------------------------------------------------------------------------- */

int buffers_run(ggml_backend_dev_t dev)
{
    enum { N = 300 };
    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(dev);
    /* The CPU's buffer type may belong to another registration of it. */
    if (ggml_backend_dev_type(dev) != GGML_BACKEND_DEVICE_TYPE_CPU)
        CHECK(ggml_backend_buft_get_device(buft) == dev);
    size_t alignment = ggml_backend_buft_get_alignment(buft);
    CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    CHECK(ggml_backend_buft_get_max_size(buft) >= 64 * MIB);

    static ggml_backend_buffer_t many[N];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            many[i] = ggml_backend_buft_alloc_buffer(buft, 1000 + i * 64);
            CHECK(many[i]);
            CHECK(ggml_backend_buffer_get_size(many[i]) >= 1000 + i * 64);
            CHECK((uintptr_t)ggml_backend_buffer_get_base(many[i]) % alignment == 0);
        }
        /* Every second one first: what comes next lies in the gaps. */
        for (size_t i = 0; i < N; i += 2)
            ggml_backend_buffer_free(many[i]);
        for (size_t i = 1; i < N; i += 2)
            ggml_backend_buffer_free(many[i]);
    }
    /* More than any machine has: refused, and nothing else suffers. */
    cleanup_problem struct problem p;
    problem_init(&p, dev, 32, 3);
    CHECK(!ggml_backend_buft_alloc_buffer(buft, (size_t)1 << 50));
    CHECK(problem_run(&p, 9) == RIGHT);
    ggml_backend_buffer_reset(p.buffer);
    CHECK(problem_run(&p, 10) == RIGHT);
    return 0;
}
