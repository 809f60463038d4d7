/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message table as data, and a walk over the fields of one message: so that
 * no test names a message or a field, and a new row is tested as it is declared.
 */
#ifndef APIR_TEST_MESSAGE_TABLE_H
#define APIR_TEST_MESSAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol/messages.h"

struct message_row {
    const char *name;
    enum apir_msg_code code;
    unsigned states;
    bool tail;
};

#define TABLE_TAIL_TAIL true
#define TABLE_TAIL_FLAT false
#define TABLE_TAIL_ASKS false
static const struct message_row message_table[] = {
#define M(NAME, name, code, states, tail) {#NAME, APIR_MSG_##NAME, (states), TABLE_TAIL_##tail},
    APIR_MESSAGES(M)
#undef M
};
#define MESSAGE_ROWS (sizeof(message_table) / sizeof(message_table[0]))
#define MESSAGE_END  (message_table + MESSAGE_ROWS)

struct message_field {
    const char *name;
    void *value; /* in the message's struct */
    size_t size; /* bytes, in the struct and on the wire */
    uint64_t lowest, highest;
};

typedef void (*message_visit)(const struct message_field *f, void *user);

/* Calls visit for each field of msg->code's struct, in wire order. */
static inline void message_walk(struct apir_msg *msg, message_visit visit, void *user)
{
    switch (msg->code) {
#define F(type, field, lo, hi)                                                                     \
    visit(&(const struct message_field){#field, &m->field, sizeof(m->field), (lo), (hi)}, user);
#define M(NAME, name, code, states, tail)                                                          \
    case APIR_MSG_##NAME: {                                                                        \
        struct apir_msg_##name *m = &msg->u.name;                                                  \
        APIR_FIELDS_##name(F) break;                                                               \
    }
        APIR_MESSAGES(M)
#undef M
#undef F
    }
}

static inline uint64_t message_field_get(const struct message_field *f)
{
    uint64_t v = 0;
    memcpy(&v, f->value, f->size); /* little-endian: shm.h insists */
    return v;
}

static inline void message_field_put(const struct message_field *f, uint64_t v)
{
    memcpy(f->value, &v, f->size);
}

static inline void message_put_lowest(const struct message_field *f, void *user)
{
    (void)user;
    message_field_put(f, f->lowest);
}

static inline void message_put_highest(const struct message_field *f, void *user)
{
    (void)user;
    message_field_put(f, f->highest);
}

/* A message with every field at its lowest or highest value; tail: payload for
 * TAIL messages, at least APIR_INLINE_MAX bytes. */
static inline void message_extreme(struct apir_msg *msg, const struct message_row *row, bool high,
                                   const uint8_t *tail)
{
    memset(msg, 0, sizeof(*msg));
    msg->code = row->code;
    msg->tail = row->tail ? tail : NULL;
    message_walk(msg, high ? message_put_highest : message_put_lowest, NULL);
}

#endif
