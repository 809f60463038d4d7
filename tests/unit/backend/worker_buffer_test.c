/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches a device's driver of a large transfer: pieces, since drivers that copy through
 * memory of their own keep as much of it as the largest copy took. No byte is touched here. */
#include "backend/worker/ggml/buffer.h"

#include "backend/worker/ggml/fns.h"
#include "tests/lib/unit.h"

#define MIB       (UINT64_C(1) << 20)
#define PIECE_MAX (64 * MIB)

static struct {
    uint64_t next, largest; /* where the next piece must begin */
    unsigned pieces, syncs, queued;
} seen;

static const uint8_t *const memory = (const uint8_t *)(uintptr_t)4096;

static void piece(const void *data, size_t offset, size_t size)
{
    assert_int_equal(offset, seen.next);
    assert_ptr_equal(data, memory + offset);
    seen.next += size;
    seen.pieces++;
    if (size > seen.largest)
        seen.largest = size;
}

static void set(struct gg_tensor *t, const void *data, size_t offset, size_t size)
{
    (void)t;
    piece(data, offset, size);
}

static void get(const struct gg_tensor *t, void *data, size_t offset, size_t size)
{
    (void)t;
    piece(data, offset, size);
}

static void get_async(void *stream, const struct gg_tensor *t, void *data, size_t offset,
                      size_t size)
{
    (void)stream;
    (void)t;
    seen.queued++;
    piece(data, offset, size);
}

static void synchronize(void *stream)
{
    (void)stream;
    seen.syncs++;
}

/* Asked for new buffers alone. */
bool host_device_is_cpu(const struct host_device *d)
{
    return !d;
}

void host_device_memory(struct host_ggml *hg, const struct host_device *d, uint64_t *ret_free,
                        uint64_t *ret_total)
{
    (void)hg;
    (void)d;
    *ret_free = *ret_total = 0;
}

static struct host_ggml_fns fns = {.ggml_backend_tensor_set = set,
                                   .ggml_backend_tensor_get = get,
                                   .ggml_backend_tensor_get_async = get_async,
                                   .ggml_backend_synchronize = synchronize};
static struct host_ggml ggml = {.fns = &fns};

enum way { SET, GET, GET_ASYNC };

static void transfer(enum way way, const uint8_t *cpu_reads, uint64_t size)
{
    struct host_buffer b = {.size = size, .memory = cpu_reads};
    memset(&seen, 0, sizeof(seen));
    if (way == SET)
        host_buffer_set(&ggml, &b, 0, memory, size);
    else if (way == GET)
        host_buffer_get(&ggml, &b, 0, (void *)(uintptr_t)memory, size);
    else
        host_buffer_get_async(&ggml, NULL, &b, 0, (void *)(uintptr_t)memory, size);
    assert_int_equal(seen.next, size);
}

TEST(large_transfers_of_a_device_come_in_pieces)
{
    for (enum way way = SET; way <= GET_ASYNC; way++) {
        transfer(way, NULL, 200 * MIB + 5);
        assert_int_equal(seen.largest, PIECE_MAX);
        assert_int_equal(seen.pieces, 4);
        /* What cannot be queued as one is done at once, after all that is queued. */
        assert_int_equal(seen.queued, 0);
        assert_int_equal(seen.syncs, way == GET_ASYNC);
        transfer(way, NULL, PIECE_MAX);
        assert_int_equal(seen.pieces, 1);
        assert_int_equal(seen.queued, way == GET_ASYNC);
    }
}

TEST(memory_that_the_cpu_reads_is_copied_at_once)
{
    transfer(SET, memory, 200 * MIB);
    assert_int_equal(seen.pieces, 1);
    transfer(GET, memory, 200 * MIB);
    assert_int_equal(seen.pieces, 1);
}
