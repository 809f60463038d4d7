/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a model: its architecture, its sizes, and from these the list of its tensors.
 */
#ifndef APIR_TESTS_MODELS_SHAPE_H
#define APIR_TESTS_MODELS_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arch {
    const char *name; /* the value of general.architecture */
    bool moe;         /* experts by default */
    bool qkv_bias;    /* qwen2 family */
    bool qk_norm;     /* qwen3 family */
};

/* Sizes; 0 means "not given", shape_finish() fills it in. experts is -1 for that. */
struct shape {
    const struct arch *arch;
    int64_t layers, embd, heads, heads_kv, head_dim;
    int64_t ff; /* of a dense layer, or of one expert */
    int64_t experts, experts_used;
    int64_t vocab, ctx;
};

enum role {
    ROLE_MATRIX, /* stored in the type the user asked for */
    ROLE_ROUTER, /* a matrix which stays F32, as in real files */
    ROLE_NORM,   /* around 1, F32 */
    ROLE_BIAS,   /* around 0, F32 */
    ROLE_EMBED,  /* the token embedding */
    ROLE_OUTPUT, /* the output matrix: one row per token */
};

struct plan_entry {
    char name[64];
    enum role role;
    int64_t ne[3]; /* ne[0] is the row length; unused dimensions are 1 */
    double gain;   /* factor on the usual 1/sqrt(fan in) */
};

/* A plan is owned by the caller and freed with plan_destroy(). */
struct plan {
    struct plan_entry *entries;
    size_t n, cap;
};

/* Both end the program: with 2 and what is wrong with the options; with 1. */
_Noreturn void misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

const struct arch *arch_find(const char *name);

/* Fills what `s` leaves open from the named preset. Returns 0, or -1 for an unknown name. */
int shape_preset(struct shape *s, const char *name);

/* Fills the rest with defaults and checks that the shape can exist, with its numbers of 1 to 2^24
 * each, in a type that stores blocks of so many values. */
void shape_finish(struct shape *s, int64_t block);

void plan_create(struct plan *ret_plan, const struct shape *s);
void plan_destroy(struct plan *p);

#endif
