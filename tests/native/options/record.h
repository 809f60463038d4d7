/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one run saw, as a list of named items: logits, embeddings, tokens, return codes.
 * The same run twice gives the same names in the same order. On disk in the byte order of the
 * machine; both runs are made on the same one.
 *
 * Adding to a record ends the program when there is no memory: a test has nothing better to do.
 */
#ifndef APIR_TESTS_OPTIONS_RECORD_H
#define APIR_TESTS_OPTIONS_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum record_kind {
    RECORD_FLOATS, /* finite, and not all of them the same */
    RECORD_INTS,   /* always equal: counts, positions, return codes */
    RECORD_MASKED, /* floats of any kind: some logits are infinite on both sides */
};

struct record_item {
    char name[56];
    uint32_t kind;
    uint32_t n;
    uint32_t *values; /* floats or 32-bit integers, by kind */
};

struct record {
    struct record_item *items;
    size_t n, cap;
};

void record_fini(struct record *r);

/* Each copies its values. */
void record_floats(struct record *r, const char *name, const float *x, size_t n);
void record_masked(struct record *r, const char *name, const float *x, size_t n);
void record_int(struct record *r, const char *name, int64_t x);

/* Both return 0, or -1 and errno; EPROTO is a file that is no record. */
int record_save(const struct record *r, const char *path);
int record_load(struct record *ret_record, const char *path);

#endif
