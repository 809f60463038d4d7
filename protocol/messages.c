/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/messages.h"

#include <errno.h>

#include "protocol/wire.h"

/* Lowest and highest of a field; a macro so that a lowest of 0 draws no warning. */
static inline int in_range(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v >= lo && v <= hi;
}

static void put(struct apir_writer *w, const void *v, size_t size)
{
    apir_writer_bytes(w, v, size);
}

int64_t apir_msg_encode(const struct apir_msg *msg, void *buf, size_t cap)
{
    struct apir_writer w = apir_writer_init(buf, cap);
    struct apir_msg_header h = {.code = (uint16_t)msg->code};
    uint64_t tail_size = 0;
    int ok = 1;
    put(&w, &h, sizeof(h));
    switch (msg->code) {
#define F(type, field, lo, hi)                                                                     \
    put(&w, &m->field, sizeof(m->field));                                                          \
    ok = ok && in_range(m->field, lo, hi);
#define TAIL_SIZE_TAIL tail_size = m->size;
#define TAIL_SIZE_FLAT
#define TAIL_SIZE_ASKS
#define M(NAME, name, code, states, tail)                                                          \
    case APIR_MSG_##NAME: {                                                                        \
        const struct apir_msg_##name *m = &msg->u.name;                                            \
        APIR_FIELDS_##name(F) TAIL_SIZE_##tail break;                                              \
    }
        APIR_MESSAGES(M)
#undef M
#undef F
    default:
        return -EINVAL;
    }
    if (!ok)
        return -EINVAL;
    if (tail_size)
        put(&w, msg->tail, (size_t)tail_size);
    static const uint8_t zeros[8];
    put(&w, zeros, (8 - w.size % 8) % 8);
    if (w.full)
        return -ENOSPC;
    h.size = (uint32_t)w.size;
    memcpy(buf, &h, sizeof(h));
    return (int64_t)w.size;
}

static bool rest_is_padding(struct apir_reader *r)
{
    while (r->left) {
        if (apir_reader_u8(r) != 0)
            return false;
    }
    return true;
}

int apir_msg_decode(const void *buf, size_t size, unsigned state, struct apir_msg *ret_msg,
                    const char **ret_why)
{
    struct apir_reader r = apir_reader_init(buf, size);
    struct apir_msg_header h = {0};
    const void *p = apir_reader_bytes(&r, sizeof(h));
    if (p)
        memcpy(&h, p, sizeof(h));
    const char *why = NULL;
    memset(ret_msg, 0, sizeof(*ret_msg));

#define FAIL(text)                                                                                 \
    do {                                                                                           \
        *ret_why = (text);                                                                         \
        return -EBADMSG;                                                                           \
    } while (0)

    if (r.bad || h.zero != 0 || h.size != size || size % 8 != 0)
        FAIL("message header");

    uint64_t tail_size = 0;
    switch (h.code) {
#define F(type, field, lo, hi)                                                                     \
    p = apir_reader_bytes(&r, sizeof(m->field));                                                   \
    if (p)                                                                                         \
        memcpy(&m->field, p, sizeof(m->field));                                                    \
    if (!why && !in_range(m->field, lo, hi))                                                       \
        why = #field " out of range";
#define M(NAME, name, c, states, tail)                                                             \
    case APIR_MSG_##NAME: {                                                                        \
        if (!((states) & state))                                                                   \
            FAIL(#NAME " in the wrong state");                                                     \
        struct apir_msg_##name *m = &ret_msg->u.name;                                              \
        APIR_FIELDS_##name(F) TAIL_SIZE_##tail break;                                              \
    }
        APIR_MESSAGES(M)
#undef M
#undef F
    default:
        FAIL("unknown message code");
    }
    if (r.bad)
        FAIL("message too short");
    if (why)
        FAIL(why);
    if (tail_size) {
        /* in range, so at most APIR_INLINE_MAX */
        ret_msg->tail = apir_reader_bytes(&r, (size_t)tail_size);
        if (!ret_msg->tail)
            FAIL("payload too short");
    }
    if (r.left > 7)
        FAIL("trailing bytes");
    if (!rest_is_padding(&r))
        FAIL("padding is not zero");
    ret_msg->code = (enum apir_msg_code)h.code;
    return 0;
#undef FAIL
}

const char *apir_msg_name(unsigned code)
{
    switch (code) {
#define M(NAME, name, c, states, tail)                                                             \
    case APIR_MSG_##NAME:                                                                          \
        return #NAME;
        APIR_MESSAGES(M)
#undef M
    default:
        return "unknown";
    }
}
