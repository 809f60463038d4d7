/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every message of the table, cut short, out of range, in the wrong state: driven by the table
 * itself (tests/lib/message_table.h), so that a new message is attacked as it is declared. Each
 * attempt ends a context, so that some are on their way at the same time.
 */
#include "tests/hostile/attacks/attack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/atomic.h"
#include "tests/lib/message_table.h"

#define AT_ONCE   8
#define BYTES_MAX 96u
#define NO_OFFSET "ring offsets make no sense"
#define HEADER    sizeof(struct apir_msg_header)

struct attempt {
    uint8_t bytes[BYTES_MAX]; /* the ring's, from the tail on */
    uint32_t size;
    bool greeted; /* behind HELLO */
    char what[56];
    char reason[64]; /* why the context must end; a part of it */
};

struct attempts {
    struct attempt *list;
    size_t n, room;
};

static struct attempt *attempt_add(struct attempts *all, const void *bytes, size_t size)
{
    if (all->n == all->room) {
        all->room = all->room ? all->room * 2 : 64;
        all->list = realloc(all->list, all->room * sizeof(*all->list));
    }
    WANT(all->list && size <= BYTES_MAX);
    struct attempt *a = &all->list[all->n++];
    *a = (struct attempt){.size = (uint32_t)size, .greeted = true};
    memcpy(a->bytes, bytes, size);
    return a;
}

static void attempt_ends(struct guest *g, const struct attempt *a)
{
    bool alive = guest_run(g);
    if (alive || guest_state(g) != APIR_STATE_FATAL || !strstr(guest_reason(g), a->reason))
        not_stopped("%s: %s: %s, instead of: %s", a->what, alive ? "accepted" : "the context ended",
                    guest_reason(g), a->reason);
    refused("%s", guest_reason(g));
}

static void attempts_make(struct attempts *all)
{
    static struct guest guests[AT_ONCE];
    char last[320];
    for (size_t i = 0; i < all->n; i += AT_ONCE) {
        size_t n = all->n - i < AT_ONCE ? all->n - i : AT_ONCE;
        for (size_t k = 0; k < n; k++)
            guest_connect(&guests[k]);
        for (size_t k = 0; k < n; k++) {
            const struct attempt *a = &all->list[i + k];
            struct guest *g = &guests[k];
            if (a->greeted)
                guest_greet(g);
            apir_ring_guest_put(&g->ring, a->bytes, a->size);
            guest_show(g, g->ring.tail);
        }
        for (size_t k = 0; k < n; k++) {
            attempt_ends(&guests[k], &all->list[i + k]);
            snprintf(last, sizeof(last), "%s", guest_reason(&guests[k]));
            guest_close(&guests[k]);
        }
    }
    WANT(all->n > 0);
    refused("%zu times, the last: %s", all->n, last);
    free(all->list);
    *all = (struct attempts){0};
}

static const uint8_t payload[APIR_INLINE_MAX];

/* The message with all fields at their lowest, as the encoder writes it. */
static size_t encode(const struct message_row *row, uint8_t *bytes)
{
    struct apir_msg msg;
    message_extreme(&msg, row, false, payload);
    int64_t size = apir_msg_encode(&msg, bytes, BYTES_MAX);
    if (size <= 0)
        not_stopped("%s in its honest form is not encoded", row->name);
    return (size_t)size;
}

/* ---- cut short --------------------------------------------------------------------------- */

/*
 * At every length, the header true to it. What is not whole in multiples of 8 the ring refuses,
 * which looks at no field; the rest is the decoder's to refuse.
 */
static void cut_short(void)
{
    struct attempts all = {0};
    for (size_t r = 0; r < MESSAGE_ROWS; r++) {
        const struct message_row *row = &message_table[r];
        uint8_t bytes[BYTES_MAX];
        size_t whole = encode(row, bytes);
        for (uint32_t size = 1; size < whole; size++) {
            memcpy(bytes + offsetof(struct apir_msg_header, size), &size, sizeof(size));
            struct attempt *a = attempt_add(&all, bytes, size);
            a->greeted = row->code != APIR_MSG_HELLO;
            snprintf(a->what, sizeof(a->what), "%s of %u bytes", row->name, size);
            snprintf(a->reason, sizeof(a->reason), "%s",
                     size < HEADER || size % 8 ? NO_OFFSET : "too short");
        }
    }
    attempts_make(&all);
}

/* The header tells more or less than there is. */
static void sizes_that_lie(void)
{
    struct attempts all = {0};
    static const uint32_t sizes[] = {0, 1, 7, 12, 1u << 16, 1u << 20, 1u << 31, UINT32_MAX - 7};
    for (size_t r = 0; r < MESSAGE_ROWS; r++) {
        const struct message_row *row = &message_table[r];
        uint8_t bytes[BYTES_MAX] = {0};
        size_t whole = encode(row, bytes);
        if (r < N(sizes)) {
            memcpy(bytes + offsetof(struct apir_msg_header, size), &sizes[r], sizeof(sizes[r]));
            struct attempt *a = attempt_add(&all, bytes, whole);
            snprintf(a->what, sizeof(a->what), "%s that says %u bytes", row->name, sizes[r]);
            snprintf(a->reason, sizeof(a->reason), NO_OFFSET);
        }
        uint32_t more = (uint32_t)whole + 8;
        encode(row, bytes);
        memcpy(bytes + offsetof(struct apir_msg_header, size), &more, sizeof(more));
        struct attempt *a = attempt_add(&all, bytes, more);
        a->greeted = row->code != APIR_MSG_HELLO;
        snprintf(a->what, sizeof(a->what), "%s with 8 bytes more", row->name);
        snprintf(a->reason, sizeof(a->reason), "%s: trailing bytes", row->name);
    }
    attempts_make(&all);
}

/* ---- out of range ------------------------------------------------------------------------ */

struct field_walk {
    struct attempts *all;
    const struct message_row *row;
    const uint8_t *bytes;
    size_t size, at; /* of the message; where the next field is */
};

static void field_attempt(struct field_walk *w, const struct message_field *f, uint64_t value)
{
    struct attempt *a = attempt_add(w->all, w->bytes, w->size);
    memcpy(a->bytes + w->at, &value, f->size);
    a->greeted = w->row->code != APIR_MSG_HELLO;
    snprintf(a->what, sizeof(a->what), "%s, %s %llu", w->row->name, f->name,
             (unsigned long long)value);
    snprintf(a->reason, sizeof(a->reason), "%s: %s out of range", w->row->name, f->name);
}

static void field_visit(const struct message_field *f, void *user)
{
    struct field_walk *w = user;
    uint64_t most = f->size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * f->size)) - 1;
    if (f->lowest > 0)
        field_attempt(w, f, f->lowest - 1);
    if (f->highest < most) {
        field_attempt(w, f, f->highest + 1);
        if (f->highest + 1 < most)
            field_attempt(w, f, most);
    }
    w->at += f->size;
}

static void fields_out_of_range(void)
{
    struct attempts all = {0};
    for (size_t r = 0; r < MESSAGE_ROWS; r++) {
        uint8_t bytes[BYTES_MAX];
        struct apir_msg msg;
        struct field_walk w = {.all = &all, .row = &message_table[r], .bytes = bytes, .at = HEADER};
        w.size = encode(w.row, bytes);
        message_extreme(&msg, w.row, false, payload);
        message_walk(&msg, field_visit, &w);
    }
    attempts_make(&all);
}

/* ---- codes and states -------------------------------------------------------------------- */

static void wrong_state(void)
{
    struct attempts all = {0};
    for (size_t r = 0; r < MESSAGE_ROWS; r++) {
        const struct message_row *row = &message_table[r];
        uint8_t bytes[BYTES_MAX];
        struct attempt *a = attempt_add(&all, bytes, encode(row, bytes));
        encode(row, a->bytes);
        a->greeted = row->states == APIR_ST_NEW;
        snprintf(a->what, sizeof(a->what), "%s %s HELLO", row->name,
                 a->greeted ? "after" : "before");
        snprintf(a->reason, sizeof(a->reason), "%s in the wrong state", row->name);
    }
    attempts_make(&all);
}

static bool is_known(uint32_t code)
{
    for (size_t r = 0; r < MESSAGE_ROWS; r++) {
        if (message_table[r].code == code)
            return true;
    }
    return false;
}

static void unknown_codes(void)
{
    struct attempts all = {0};
    static const uint16_t far[] = {64, 127, 128, 255, 256, 0x0101, 0x7fff, 0x8001, 0xffff};
    for (uint16_t i = 0; i < 40 + N(far); i++) {
        struct apir_msg_header h = {.code = i < 40 ? i : far[i - 40], .size = sizeof(h) + 8};
        uint8_t bytes[sizeof(h) + 8] = {0};
        if (is_known(h.code))
            continue;
        memcpy(bytes, &h, sizeof(h));
        struct attempt *a = attempt_add(&all, bytes, sizeof(bytes));
        snprintf(a->what, sizeof(a->what), "code %u", h.code);
        snprintf(a->reason, sizeof(a->reason), "unknown message code");
    }
    /* The place behind the code is zero, for whoever may need it one day. */
    uint8_t bytes[BYTES_MAX];
    for (int bit = 0; bit < 16; bit++) {
        const struct message_row *row = &message_table[1];
        uint16_t zero = (uint16_t)(1u << bit);
        size_t size = encode(row, bytes);
        memcpy(bytes + offsetof(struct apir_msg_header, zero), &zero, sizeof(zero));
        struct attempt *a = attempt_add(&all, bytes, size);
        snprintf(a->what, sizeof(a->what), "%s with a bit behind its code", row->name);
        snprintf(a->reason, sizeof(a->reason), "message header");
    }
    attempts_make(&all);
}

const struct attack_row attack_rows_messages[] = {
    {"message-cut-short", "every message cut short at every length", cut_short, 0, 600},
    {"message-size-lies", "a header that tells another size", sizes_that_lie, 0, 0},
    {"message-fields", "every field at its lowest - 1 and its highest + 1", fields_out_of_range, 0,
     300},
    {"message-wrong-state", "every message in the wrong state", wrong_state, 0, 0},
    {"message-unknown-code", "unknown codes", unknown_codes, 0, 0},
    {0},
};
