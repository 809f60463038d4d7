/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "protocol/messages.h"
#include "tests/lib/message_table.h"

static uint8_t payload[APIR_INLINE_MAX];
static const char *const poison = "untouched";

/* Decodes a copy of exactly `size` bytes, so that ASan sees a read behind them. */
static int decode(const void *data, size_t size, unsigned state, struct apir_msg *ret_msg,
                  const char **ret_why, uint8_t **ret_copy)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, data, size);
    *ret_why = poison;
    int err = apir_msg_decode(copy, size, state, ret_msg, ret_why);
    if (ret_copy)
        *ret_copy = copy; /* the tail points into it */
    else
        free(copy);
    return err;
}

static const char *expect_bad(const struct message_row *row, const void *data, size_t size,
                              unsigned state)
{
    struct apir_msg out;
    const char *why;
    int err = decode(data, size, state, &out, &why, NULL);
    if (err != -EBADMSG)
        fail_msg("%s: decode gave %d for %zu bytes", row ? row->name : "?", err, size);
    assert_ptr_not_equal(why, poison);
    return why;
}

static void table_encode(const struct apir_msg *msg, uint8_t *buf, size_t *ret_size)
{
    memset(buf, 0xee, APIR_MESSAGE_MAX);
    int64_t size = apir_msg_encode(msg, buf, APIR_MESSAGE_MAX);
    if (size <= 0)
        fail_msg("%s: encode gave %d", apir_msg_name(msg->code), (int)size);
    assert_int_equal(size % 8, 0);
    *ret_size = (size_t)size;
}

static void compare_field(const struct message_field *f, void *user)
{
    struct message_field **other = user;
    if (message_field_get(f) != message_field_get(*other))
        fail_msg("field %s differs", f->name);
    (*other)++;
}

static void collect_field(const struct message_field *f, void *user)
{
    struct message_field **out = user;
    *(*out)++ = *f;
}

#define FIELDS_MAX 16

static size_t message_fields(struct apir_msg *msg, struct message_field fields[FIELDS_MAX])
{
    struct message_field *end = fields;
    message_walk(msg, collect_field, &end);
    assert_true(end - fields <= FIELDS_MAX);
    return (size_t)(end - fields);
}

/* One state bit out of those in which the message is allowed. */
static unsigned state_of(const struct message_row *row)
{
    return row->states & -row->states;
}

static void every_message_survives_the_trip_at_both_ends(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX], again[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        for (int high = 0; high < 2; high++) {
            struct apir_msg in, out;
            message_extreme(&in, row, high, payload);
            size_t size, again_size;
            table_encode(&in, bytes, &size);
            const char *why;
            uint8_t *copy;
            int err = decode(bytes, size, state_of(row), &out, &why, &copy);
            if (err)
                fail_msg("%s: %s", row->name, why);
            assert_int_equal(out.code, row->code);
            struct message_field fields[FIELDS_MAX], *f = fields;
            message_fields(&in, fields);
            message_walk(&out, compare_field, &f);
            assert_int_equal(out.tail != NULL, row->tail);
            table_encode(&out, again, &again_size);
            assert_int_equal(again_size, size);
            assert_memory_equal(again, bytes, size);
            free(copy);
        }
    }
}

static void the_wire_is_the_header_and_the_fields_in_table_order(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, true, payload);
        size_t size, at = 8;
        table_encode(&msg, bytes, &size);
        assert_int_equal(bytes[0] | bytes[1] << 8, row->code);
        assert_int_equal(bytes[2] | bytes[3], 0);
        assert_int_equal(bytes[4] | bytes[5] << 8 | bytes[6] << 16, size);
        struct message_field fields[FIELDS_MAX];
        size_t n = message_fields(&msg, fields), tail = 0;
        for (size_t k = 0; k < n; at += fields[k++].size) {
            assert_memory_equal(bytes + at, fields[k].value, fields[k].size);
            if (row->tail && strcmp(fields[k].name, "size") == 0)
                tail = (size_t)message_field_get(&fields[k]);
        }
        assert_memory_equal(bytes + at, payload, tail);
        at += tail;
        assert_true(size - at < 8);
        for (; at < size; at++)
            assert_int_equal(bytes[at], 0);
    }
}

static void each_field_just_outside_its_range_is_refused_on_both_sides(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX], scratch[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        for (int high = 0; high < 2; high++) {
            struct apir_msg msg;
            message_extreme(&msg, row, high, payload);
            size_t size, at = 8;
            table_encode(&msg, bytes, &size);
            struct message_field fields[FIELDS_MAX];
            size_t n = message_fields(&msg, fields);
            for (size_t k = 0; k < n; at += fields[k++].size) {
                const struct message_field *f = &fields[k];
                uint64_t most = f->size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * f->size)) - 1;
                uint64_t bad[4];
                size_t n_bad = 0;
                if (f->lowest > 0) {
                    bad[n_bad++] = f->lowest - 1;
                    bad[n_bad++] = 0;
                }
                if (f->highest < most) {
                    bad[n_bad++] = f->highest + 1;
                    bad[n_bad++] = most;
                }
                uint64_t good = message_field_get(f);
                for (size_t b = 0; b < n_bad; b++) {
                    memcpy(bytes + at, &bad[b], f->size);
                    const char *why = expect_bad(row, bytes, size, state_of(row));
                    if (strncmp(why, f->name, strlen(f->name)) != 0)
                        fail_msg("%s.%s: refused for another reason: %s", row->name, f->name, why);
                    message_field_put(f, bad[b]);
                    assert_int_equal(apir_msg_encode(&msg, scratch, sizeof(scratch)), -EINVAL);
                    message_field_put(f, good);
                }
                memcpy(bytes + at, &good, f->size);
            }
            assert_int_equal(at <= size, 1);
        }
    }
}

static void truncation_at_every_length_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX], cut[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, true, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        for (size_t n = 0; n < size; n++) {
            expect_bad(row, bytes, n, state_of(row));
            /* and where the header owns up to the shorter size */
            memcpy(cut, bytes, n);
            uint32_t claim = (uint32_t)n;
            if (n >= 8)
                memcpy(cut + 4, &claim, sizeof(claim));
            expect_bad(row, cut, n, state_of(row));
        }
    }
}

static void a_message_in_the_wrong_state_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    static const unsigned states[] = {0, APIR_ST_NEW, APIR_ST_READY};
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg, out;
        message_extreme(&msg, row, false, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
            const char *why;
            if (row->states & states[s]) {
                uint8_t *copy;
                assert_int_equal(decode(bytes, size, states[s], &out, &why, &copy), 0);
                free(copy);
            } else {
                why = expect_bad(row, bytes, size, states[s]);
                assert_non_null(strstr(why, "wrong state"));
            }
        }
    }
}

/* A guest learns first that it speaks too early, not what else is wrong. */
static void the_state_is_checked_before_the_fields(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        memset(bytes + 8, 0xff, size - 8);
        assert_non_null(strstr(expect_bad(row, bytes, size, ~row->states & 3u), "wrong state"));
    }
}

static void every_unknown_code_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    for (unsigned code = 0; code <= UINT16_MAX; code++) {
        bool known = false;
        for (size_t i = 0; i < MESSAGE_ROWS; i++)
            known |= code == (unsigned)message_table[i].code;
        if (known)
            continue;
        memset(bytes, 0, sizeof(bytes));
        struct apir_msg_header h = {.code = (uint16_t)code, .size = sizeof(bytes)};
        memcpy(bytes, &h, sizeof(h));
        assert_string_equal(expect_bad(NULL, bytes, sizeof(bytes), APIR_ST_NEW | APIR_ST_READY),
                            "unknown message code");
        assert_string_equal(apir_msg_name(code), "unknown");
        struct apir_msg msg = {.code = (enum apir_msg_code)code};
        assert_int_equal(apir_msg_encode(&msg, bytes, sizeof(bytes)), -EINVAL);
    }
    assert_string_equal(apir_msg_name(UINT16_MAX + 1 + APIR_MSG_HELLO), "unknown");
}

static void a_header_that_lies_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX + 64];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        struct apir_msg_header h;
        memcpy(&h, bytes, sizeof(h));
        struct apir_msg_header bad = h;
        for (unsigned bit = 0; bit < 16; bit++) {
            bad.zero = (uint16_t)(1u << bit);
            memcpy(bytes, &bad, sizeof(bad));
            expect_bad(row, bytes, size, state_of(row));
        }
        static const int64_t skews[] = {-8, -1, 1, 8, 1 << 16, INT32_MIN};
        for (size_t s = 0; s < sizeof(skews) / sizeof(skews[0]); s++) {
            bad = h;
            bad.size = (uint32_t)((int64_t)h.size + skews[s]);
            memcpy(bytes, &bad, sizeof(bad));
            expect_bad(row, bytes, size, state_of(row));
        }
    }
}

static void bytes_behind_the_message_are_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX + 64];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        memset(bytes + size, 0, 64);
        for (size_t more = 1; more <= 64; more++) {
            uint32_t claim = (uint32_t)(size + more);
            memcpy(bytes + 4, &claim, sizeof(claim));
            expect_bad(row, bytes, size + more, state_of(row));
        }
    }
}

static void padding_that_is_not_zero_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    unsigned padded = 0;
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        size_t size, used = 8;
        table_encode(&msg, bytes, &size);
        struct message_field fields[FIELDS_MAX];
        size_t n = message_fields(&msg, fields);
        for (size_t k = 0; k < n; k++)
            used += fields[k].size;
        used += row->tail; /* at its lowest, the payload is one byte */
        for (size_t at = used; at < size; at++, padded++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                bytes[at] = (uint8_t)(1u << bit);
                assert_string_equal(expect_bad(row, bytes, size, state_of(row)),
                                    "padding is not zero");
            }
            bytes[at] = 0;
        }
    }
    assert_true(padded > 0);
}

static void payloads_of_every_length_arrive_whole(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(i * 7 + 1);
    unsigned tested = 0;
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        if (!row->tail)
            continue;
        struct apir_msg msg, out;
        message_extreme(&msg, row, false, payload);
        struct message_field fields[FIELDS_MAX];
        size_t n = message_fields(&msg, fields), k = 0;
        while (k < n && strcmp(fields[k].name, "size") != 0)
            k++;
        assert_true(k < n);
        for (uint64_t len = fields[k].lowest; len <= fields[k].highest; len++) {
            message_field_put(&fields[k], len);
            size_t size;
            table_encode(&msg, bytes, &size);
            const char *why;
            uint8_t *copy;
            assert_int_equal(decode(bytes, size, state_of(row), &out, &why, &copy), 0);
            assert_true(out.tail >= copy && out.tail + len <= copy + size);
            assert_memory_equal(out.tail, payload, len);
            free(copy);
        }
        tested++;
    }
    assert_true(tested > 0);
}

static void a_payload_shorter_than_its_size_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        if (!row->tail)
            continue;
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        struct message_field fields[FIELDS_MAX];
        size_t n = message_fields(&msg, fields), k = 0, at = 8;
        for (; k < n && strcmp(fields[k].name, "size") != 0; k++)
            at += fields[k].size;
        message_field_put(&fields[k], 64);
        size_t size;
        table_encode(&msg, bytes, &size);
        size_t behind = size - at - fields[k].size; /* payload and padding */
        for (uint64_t claim = behind + 1; claim <= APIR_INLINE_MAX; claim++) {
            memcpy(bytes + at, &claim, fields[k].size);
            expect_bad(row, bytes, size, state_of(row));
        }
    }
}

static void encode_wants_room_and_writes_nothing_behind_it(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        const struct message_row *row = &message_table[i];
        struct apir_msg msg;
        message_extreme(&msg, row, false, payload);
        size_t size;
        table_encode(&msg, bytes, &size);
        for (size_t cap = 0; cap <= size; cap++) {
            uint8_t *buf = malloc(cap ? cap : 1); /* ASan watches its end */
            assert_non_null(buf);
            assert_int_equal(apir_msg_encode(&msg, buf, cap), cap < size ? -ENOSPC : (int64_t)size);
            free(buf);
        }
    }
}

static void the_largest_message_fits_what_the_worker_reads(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX];
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        struct apir_msg msg;
        message_extreme(&msg, &message_table[i], true, payload);
        assert_true(apir_msg_encode(&msg, bytes, sizeof(bytes)) > 0);
    }
}

static void codes_names_and_hello_are_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        assert_string_equal(apir_msg_name(message_table[i].code), message_table[i].name);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(message_table[i].code, message_table[k].code);
    }
    /* HELLO is frozen for ever, byte by byte. */
    static const uint8_t hello[40] = {
        0x01, 0x00, 0x00, 0x00, 0x28, 0x00, 0x00, 0x00, /* code 1, size 40 */
        'P',  'I',  'R',  'H',  'e',  'l',  'l',  'o',  /* magic */
        0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, /* major, minor */
        0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* features */
        0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* reply, padding */
    };
    struct apir_msg msg;
    const char *why;
    assert_int_equal(decode(hello, sizeof(hello), APIR_ST_NEW, &msg, &why, NULL), 0);
    assert_int_equal(msg.u.hello.major, 1);
    assert_int_equal(msg.u.hello.minor, 2);
    assert_true(msg.u.hello.features == (UINT64_C(1) << 63 | 3));
    assert_int_equal(msg.u.hello.reply, 64);
}

/* Bytes that decode are the only bytes of that message. */
static void what_decodes_encodes_to_the_same_bytes(void **state)
{
    (void)state;
    static uint8_t bytes[APIR_MESSAGE_MAX], again[APIR_MESSAGE_MAX];
    uint64_t seed = 20240607;
    unsigned decoded = 0;
    for (unsigned round = 0; round < 200000; round++) {
        const struct message_row *row = &message_table[unit_random(&seed) % MESSAGE_ROWS];
        struct apir_msg msg, out;
        message_extreme(&msg, row, false, payload);
        size_t size, again_size;
        table_encode(&msg, bytes, &size);
        for (uint64_t n = unit_random(&seed) % 4; n; n--)
            bytes[unit_random(&seed) % size] ^= (uint8_t)(1u << (unit_random(&seed) % 8));
        const char *why;
        uint8_t *copy;
        if (decode(bytes, size, APIR_ST_NEW | APIR_ST_READY, &out, &why, &copy) == 0) {
            decoded++;
            table_encode(&out, again, &again_size);
            assert_int_equal(again_size, size);
            assert_memory_equal(again, bytes, size);
        }
        free(copy);
    }
    assert_true(decoded > 1000);
}

static void the_steps_of_a_read_are_fewer_than_its_bytes_on_the_ring(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        1, 16384, 16385, (1 << 19) - 1, 1 << 19, (1 << 19) + 1, APIR_ARENA_SIZE_MAX};
    const struct apir_msg m = {.code = APIR_MSG_GET, .u.get = {.buffer = 1, .size = 1, .blob = 1}};
    uint8_t buf[APIR_MESSAGE_MAX];
    uint64_t room = (uint64_t)apir_msg_encode(&m, buf, sizeof(buf));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t step = apir_get_step(sizes[i]);
        assert_true(step >= 16384 && step % 4096 == 0);
        assert_true((sizes[i] + step - 1) / step < room);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        UNIT(every_message_survives_the_trip_at_both_ends),
        UNIT(the_wire_is_the_header_and_the_fields_in_table_order),
        UNIT(each_field_just_outside_its_range_is_refused_on_both_sides),
        UNIT(truncation_at_every_length_is_refused),
        UNIT(a_message_in_the_wrong_state_is_refused),
        UNIT(the_state_is_checked_before_the_fields),
        UNIT(every_unknown_code_is_refused),
        UNIT(a_header_that_lies_is_refused),
        UNIT(bytes_behind_the_message_are_refused),
        UNIT(padding_that_is_not_zero_is_refused),
        UNIT(payloads_of_every_length_arrive_whole),
        UNIT(a_payload_shorter_than_its_size_is_refused),
        UNIT(encode_wants_room_and_writes_nothing_behind_it),
        UNIT(the_largest_message_fits_what_the_worker_reads),
        UNIT(the_steps_of_a_read_are_fewer_than_its_bytes_on_the_ring),
        UNIT(codes_names_and_hello_are_as_published),
        UNIT(what_decodes_encodes_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
