/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "protocol/wire.h"

TEST(reader_past_the_end_gives_zero_and_stays_bad)
{
    static const uint8_t bytes[] = {1, 2, 3};
    struct apir_reader r = apir_reader_init(bytes, sizeof(bytes));
    assert_int_equal(apir_reader_u32(&r), 0);
    assert_true(r.bad);
    /* Three bytes are still there, and nobody gets them. */
    assert_int_equal(apir_reader_u8(&r), 0);
    assert_int_equal(apir_reader_u16(&r), 0);
    assert_true(apir_reader_u64(&r) == 0);
    assert_int_equal(apir_reader_i32(&r), 0);
    assert_int_equal(apir_reader_i64(&r), 0);
    assert_null(apir_reader_bytes(&r, 1));
    assert_null(apir_reader_bytes(&r, 0));
    assert_true(r.bad);
}

TEST(reader_takes_sizes_that_would_wrap_for_what_they_are)
{
    static const uint8_t bytes[16] = {0};
    static const size_t sizes[] = {17, SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct apir_reader r = apir_reader_init(bytes, sizeof(bytes));
        assert_null(apir_reader_bytes(&r, sizes[i]));
        assert_true(r.bad);
        assert_int_equal(r.left, sizeof(bytes));
    }
}

TEST(writer_never_writes_past_its_capacity)
{
    uint8_t buf[16];
    for (size_t cap = 0; cap <= 8; cap++) {
        memset(buf, 0xaa, sizeof(buf));
        struct apir_writer w = apir_writer_init(buf, cap);
        apir_writer_u64(&w, 0);
        assert_int_equal(w.full, cap < 8);
        for (size_t i = cap; i < sizeof(buf); i++)
            assert_int_equal(buf[i], 0xaa);
    }
}

TEST(writer_that_is_full_stays_full)
{
    uint8_t buf[4];
    memset(buf, 0xaa, sizeof(buf));
    struct apir_writer w = apir_writer_init(buf, sizeof(buf));
    apir_writer_u16(&w, 1);
    apir_writer_u32(&w, 2);
    assert_true(w.full);
    apir_writer_u8(&w, 3); /* would fit */
    assert_true(w.full);
    assert_int_equal(w.size, 2);
    assert_int_equal(buf[2], 0xaa);
}

TEST(writer_takes_sizes_that_would_wrap_for_what_they_are)
{
    uint8_t buf[8];
    struct apir_writer w = apir_writer_init(buf, sizeof(buf));
    apir_writer_u32(&w, 1);
    apir_writer_bytes(&w, buf, SIZE_MAX - 3);
    assert_true(w.full);
    assert_int_equal(w.size, 4);
}

TEST(writer_takes_no_bytes_from_nowhere)
{
    uint8_t buf[1];
    struct apir_writer w = apir_writer_init(buf, 0);
    apir_writer_bytes(&w, NULL, 0);
    assert_false(w.full);
    assert_int_equal(w.size, 0);
}
