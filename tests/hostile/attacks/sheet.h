/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs, to be sent in their honest form and then as attacks. */
#ifndef APIR_TESTS_ATTACK_SHEET_H
#define APIR_TESTS_ATTACK_SHEET_H

#include "protocol/graph.h"
#include "tests/hostile/attacks/attack.h"

/* GGUF's numbers. */
enum { F32 = 0, F16 = 1, Q4_0 = 2, I8 = 24, I32 = 26, I64 = 27 };

/* One op: its sources in buffer 1, 4 KiB apart, its result in buffer 2 at 0. */
struct sheet {
    struct apir_name names[2];
    struct apir_graph_buffer buffers[2];
    struct apir_tensor t[12];
    struct apir_graph g;
};

void sheet_new(struct sheet *s, const char *op);
/* The next source, packed. */
struct apir_tensor *sheet_leaf(struct sheet *s, uint8_t type, int64_t n0, int64_t n1, int64_t n2,
                               int64_t n3);
/* The op itself: all before it are its sources, in their order. */
struct apir_tensor *sheet_op(struct sheet *s, uint8_t type, int64_t n0, int64_t n1, int64_t n2,
                             int64_t n3);
/* SQR of 4 x 4 floats; returns the op. */
struct apir_tensor *sheet_square(struct sheet *s);
/* The op as a view of its source `index`, as ggml makes CPY and SET_ROWS. */
void sheet_in_place(struct sheet *s, uint32_t index);

/* Writes it at the arena's start; returns its size. */
size_t sheet_write(struct guest *g, const struct sheet *s);

/* OP_QUERY of the sheet without its buffers: the whole answer. */
struct apir_reply_op_query sheet_query(struct guest *g, const struct sheet *s);

/* The slot is computed; returns what the stream says of it (enum apir_status). */
uint32_t exec_status(struct guest *g, uint32_t slot);

/* The honest form: slot 0 computes it. */
void sheet_runs(struct guest *g, const struct sheet *s);
/* The same of sheet_square(): in an open context, in one of its own, in one that stays open. */
void square_runs(struct guest *g);
void square_runs_alone(void);
void guest_open_square(struct guest *g, struct sheet *ret_s);
/* Once that was sheet_square(): slot 0 squares the numbers from `first` on. */
void expect_squares(struct guest *g, float first);
/* In a context of its own: the definition ends it for this reason. */
void sheet_fatal(const struct sheet *s, const char *reason);
/* Its honest form is computed, and the other ends a context for this reason; make() says in g what
 * leaves hold that are not just any numbers. */
void sheet_attack(void (*make)(struct guest *g, struct sheet *s, bool honest), const char *why);
/* A row that is this and no more. */
#define SHEET_ROW(run, make, why)                                                                  \
    static void run(void)                                                                          \
    {                                                                                              \
        sheet_attack(make, why);                                                                   \
    }
/* Well-formed, but not computed: the stream has this status, and no buffer has changed. */
void sheet_not_computed(struct guest *g, const struct sheet *s, uint32_t status);

/* `n` row numbers, the first of them `first` and the others 0, to the leaf's place in buffer 1. */
void sheet_ids(struct guest *g, const struct apir_tensor *leaf, int n, int64_t first);

#endif
