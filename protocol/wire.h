/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded cursors over little-endian bytes. Both are sticky: after the first
 * read past the end (or write past the capacity) every further call does
 * nothing and reads give 0, so a decoder checks `bad` once, at its end, and a
 * value that was read is never used as a size before that check or its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct apir_reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static inline struct apir_reader apir_reader_init(const void *data, size_t size)
{
    return (struct apir_reader){.p = data, .left = size, .bad = false};
}

/* n bytes in place, or NULL. They live as long as the buffer under the reader. */
static inline const void *apir_reader_bytes(struct apir_reader *r, size_t n)
{
    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    const void *out = r->p;
    r->p += n;
    r->left -= n;
    return out;
}

#define APIR_READER_DEF(name, type)                                                                \
    static inline type apir_reader_##name(struct apir_reader *r)                                   \
    {                                                                                              \
        type v = 0;                                                                                \
        const void *p = apir_reader_bytes(r, sizeof(v));                                           \
        if (p)                                                                                     \
            memcpy(&v, p, sizeof(v));                                                              \
        return v;                                                                                  \
    }
APIR_READER_DEF(u8, uint8_t)
APIR_READER_DEF(u16, uint16_t)
APIR_READER_DEF(u32, uint32_t)
APIR_READER_DEF(u64, uint64_t)
APIR_READER_DEF(i32, int32_t)
APIR_READER_DEF(i64, int64_t)
#undef APIR_READER_DEF

struct apir_writer {
    uint8_t *buf;
    size_t size; /* bytes written */
    size_t cap;
    bool full; /* something did not fit; the contents are useless */
};

static inline struct apir_writer apir_writer_init(void *buf, size_t cap)
{
    return (struct apir_writer){.buf = buf, .size = 0, .cap = cap, .full = false};
}

static inline void apir_writer_bytes(struct apir_writer *w, const void *data, size_t n)
{
    if (w->full || n > w->cap - w->size) {
        w->full = true;
        return;
    }
    if (n)
        memcpy(w->buf + w->size, data, n);
    w->size += n;
}

#define APIR_WRITER_DEF(name, type)                                                                \
    static inline void apir_writer_##name(struct apir_writer *w, type v)                           \
    {                                                                                              \
        apir_writer_bytes(w, &v, sizeof(v));                                                       \
    }
APIR_WRITER_DEF(u8, uint8_t)
APIR_WRITER_DEF(u16, uint16_t)
APIR_WRITER_DEF(u32, uint32_t)
APIR_WRITER_DEF(u64, uint64_t)
APIR_WRITER_DEF(i32, int32_t)
APIR_WRITER_DEF(i64, int64_t)
#undef APIR_WRITER_DEF
