/* SPDX-License-Identifier: Apache-2.0 */
/* The table of messages, at both ends. Those cut short, too long, unknown and in the wrong state:
 * the attacks message-*; any bytes, and that what decodes is canonical: messages_fuzz.c. */
#include "tests/lib/unit.h"

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
    int rc = apir_msg_decode(copy, size, state, ret_msg, ret_why);
    if (ret_copy)
        *ret_copy = copy; /* the tail points into it */
    else
        free(copy);
    return rc;
}

static const char *expect_bad(const struct message_row *row, const void *data, size_t size,
                              unsigned state)
{
    struct apir_msg out;
    const char *why;
    int rc = decode(data, size, state, &out, &why, NULL);
    if (rc != -EBADMSG)
        fail_msg("%s: decode gave %d for %zu bytes", row ? row->name : "?", rc, size);
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

/* A message of a row, what it is made of, and its bytes, to spoil. */
struct sample {
    const struct message_row *row;
    struct apir_msg msg;
    struct message_field fields[FIELDS_MAX]; /* of msg */
    size_t n_fields;
    uint8_t bytes[APIR_MESSAGE_MAX + 64]; /* with room behind the message */
    size_t size;
};

/* With every field at its lowest or highest value. Static memory, until the next call. */
static struct sample *sample_of(const struct message_row *row, bool high)
{
    static struct sample s;
    s.row = row;
    message_extreme(&s.msg, row, high, payload);
    s.n_fields = message_fields(&s.msg, s.fields);
    table_encode(&s.msg, s.bytes, &s.size);
    return &s;
}

/* The sample, as it has been spoiled, must be refused. */
static const char *expect_bad_sample(const struct sample *s)
{
    return expect_bad(s->row, s->bytes, s->size, state_of(s->row));
}

TEST(every_message_survives_the_trip_at_both_ends)
{
    static uint8_t again[APIR_MESSAGE_MAX];
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        for (int high = 0; high < 2; high++) {
            struct sample *s = sample_of(row, high);
            struct apir_msg out;
            size_t again_size;
            const char *why;
            uint8_t *copy;
            int rc = decode(s->bytes, s->size, state_of(row), &out, &why, &copy);
            if (rc)
                fail_msg("%s: %s", row->name, why);
            assert_int_equal(out.code, row->code);
            struct message_field *f = s->fields;
            message_walk(&out, compare_field, &f);
            assert_int_equal(!!out.tail, row->tail);
            table_encode(&out, again, &again_size);
            assert_int_equal(again_size, s->size);
            assert_memory_equal(again, s->bytes, s->size);
            free(copy);
        }
    }
}

TEST(the_wire_is_the_header_and_the_fields_in_table_order)
{
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        const struct sample *s = sample_of(row, true);
        const uint8_t *bytes = s->bytes;
        size_t at = 8, tail = 0;
        assert_int_equal(bytes[0] | bytes[1] << 8, row->code);
        assert_int_equal(bytes[2] | bytes[3], 0);
        assert_int_equal(bytes[4] | bytes[5] << 8 | bytes[6] << 16, s->size);
        for (size_t k = 0; k < s->n_fields; at += s->fields[k++].size) {
            assert_memory_equal(bytes + at, s->fields[k].value, s->fields[k].size);
            if (row->tail && strcmp(s->fields[k].name, "size") == 0)
                tail = (size_t)message_field_get(&s->fields[k]);
        }
        assert_memory_equal(bytes + at, payload, tail);
        at += tail;
        assert_true(s->size - at < 8);
        for (; at < s->size; at++)
            assert_int_equal(bytes[at], 0);
    }
}

/* With each value that is not its own. What comes in with one: the attack message-fields. */
static void expect_range(const struct apir_msg *msg, const struct message_field *f)
{
    static uint8_t scratch[APIR_MESSAGE_MAX];
    const uint64_t most = f->size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * f->size)) - 1;
    const uint64_t good = message_field_get(f);
    const uint64_t bad[] = {f->lowest > 0 ? f->lowest - 1 : f->highest + 1,
                            f->highest < most ? f->highest + 1 : f->lowest - 1};
    if (f->lowest == 0 && f->highest == most)
        return;
    for (size_t b = 0; b < 2; b++) {
        message_field_put(f, bad[b]);
        assert_int_equal(apir_msg_encode(msg, scratch, sizeof(scratch)), -EINVAL);
    }
    message_field_put(f, good);
}

TEST(a_field_just_outside_its_range_is_not_encoded)
{
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        struct sample *s = sample_of(row, false);
        for (size_t k = 0; k < s->n_fields; k++)
            expect_range(&s->msg, &s->fields[k]);
    }
}

TEST(padding_that_is_not_zero_is_refused)
{
    unsigned padded = 0;
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        struct sample *s = sample_of(row, false);
        size_t used = 8;
        for (size_t k = 0; k < s->n_fields; k++)
            used += s->fields[k].size;
        used += row->tail; /* at its lowest, the payload is one byte */
        for (size_t at = used; at < s->size; at++, padded++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                s->bytes[at] = (uint8_t)(1u << bit);
                assert_string_equal(expect_bad_sample(s), "padding is not zero");
            }
            s->bytes[at] = 0;
        }
    }
    assert_true(padded > 0);
}

/* Which of the sample's fields says how long its payload is, and where that lies. */
static const struct message_field *size_field(struct sample *s, size_t *ret_at)
{
    size_t k = 0;
    *ret_at = 8;
    for (; k < s->n_fields && strcmp(s->fields[k].name, "size") != 0; k++)
        *ret_at += s->fields[k].size;
    assert_true(k < s->n_fields);
    return &s->fields[k];
}

TEST(payloads_of_every_length_arrive_whole)
{
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(i * 7 + 1);
    unsigned tested = 0;
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        if (!row->tail)
            continue;
        struct sample *s = sample_of(row, false);
        size_t at;
        const struct message_field *f = size_field(s, &at);
        for (uint64_t len = f->lowest; len <= f->highest; len++) {
            struct apir_msg out;
            const char *why;
            uint8_t *copy;
            message_field_put(f, len);
            table_encode(&s->msg, s->bytes, &s->size);
            assert_int_equal(decode(s->bytes, s->size, state_of(row), &out, &why, &copy), 0);
            assert_true(out.tail >= copy && out.tail + len <= copy + s->size);
            assert_memory_equal(out.tail, payload, len);
            free(copy);
        }
        tested++;
    }
    assert_true(tested > 0);
}

TEST(encode_wants_room_and_writes_nothing_behind_it)
{
    for (const struct message_row *row = message_table; row < MESSAGE_END; row++) {
        const struct sample *s = sample_of(row, false);
        for (size_t cap = 0; cap <= s->size; cap++) {
            uint8_t *buf = malloc(cap ? cap : 1); /* ASan watches its end */
            assert_non_null(buf);
            assert_int_equal(apir_msg_encode(&s->msg, buf, cap),
                             cap < s->size ? -ENOSPC : (int64_t)s->size);
            free(buf);
        }
    }
}

TEST(codes_names_and_hello_are_as_published)
{
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

TEST(the_steps_of_a_read_are_fewer_than_its_bytes_on_the_ring)
{
    static const uint64_t sizes[] = {
        1, 16384, 16385, (1 << 19) - 1, 1 << 19, (1 << 19) + 1, APIR_BLOB_SIZE_MAX};
    const struct apir_msg m = {.code = APIR_MSG_GET, .u.get = {.buffer = 1, .size = 1, .blob = 1}};
    uint8_t buf[APIR_MESSAGE_MAX];
    uint64_t room = (uint64_t)apir_msg_encode(&m, buf, sizeof(buf));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t step = apir_get_step(sizes[i]);
        assert_true(step >= 16384 && step % 4096 == 0);
        assert_true((sizes[i] + step - 1) / step < room);
    }
}

/* Whoever answers trusts that the place was looked at. */
TEST(what_asks_has_a_place_for_its_answer)
{
#define IS_FLAT                           0
#define IS_TAIL                           0
#define IS_ASKS                           1
#define F(type, field, lo, hi)            +(strcmp(#field, "reply") == 0)
#define M(NAME, name, code, states, tail) assert_int_equal(IS_##tail, 0 APIR_FIELDS_##name(F));
    APIR_MESSAGES(M)
#undef M
#undef F
}
