/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/models/shape.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arch archs[] = {
    {.name = "llama"},
    {.name = "qwen2", .qkv_bias = true},
    {.name = "qwen3", .qk_norm = true},
    {.name = "qwen3moe", .moe = true, .qk_norm = true},
};

/* 135M and 8B have the proportions of models which people run at these sizes. */
static const struct {
    const char *name;
    struct shape shape;
} presets[] = {
    {"3M", {NULL, 4, 256, 4, 2, 64, 512, -1, 0, 1024, 2048}},
    {"135M", {NULL, 30, 576, 9, 3, 64, 1536, -1, 0, 24576, 8192}},
    {"1B", {NULL, 16, 2048, 32, 8, 64, 8192, -1, 0, 32000, 8192}},
    {"8B", {NULL, 32, 4096, 32, 8, 128, 14336, -1, 0, 128256, 8192}},
};

const struct arch *arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    }
    return NULL;
}

static void fill(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

int shape_preset(struct shape *s, const char *name)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        const struct shape *p = &presets[i].shape;
        if (strcmp(presets[i].name, name) != 0)
            continue;
        /* A caller who chose the heads chose what follows from them too. */
        if (s->heads == 0 && s->embd == 0) {
            fill(&s->heads_kv, p->heads_kv);
            fill(&s->head_dim, p->head_dim);
        }
        fill(&s->layers, p->layers);
        fill(&s->embd, p->embd);
        fill(&s->heads, p->heads);
        /* The preset's name counts one dense layer; an expert is a quarter of it. */
        fill(&s->ff, s->arch->moe ? p->ff / 4 : p->ff);
        fill(&s->vocab, p->vocab);
        fill(&s->ctx, p->ctx);
        return 0;
    }
    return -1;
}

void shape_finish(struct shape *s, int64_t block)
{
    const char *arch = s->arch->name;
    (void)shape_preset(s, "3M");
    if (s->experts < 0)
        s->experts = s->arch->moe ? 8 : 0;
    if (s->experts > 0)
        fill(&s->experts_used, s->experts < 2 ? s->experts : 2);
    fill(&s->heads_kv, s->heads);
    if (s->head_dim == 0 && s->embd % s->heads != 0)
        misuse("--embd %" PRId64 " is no multiple of --heads %" PRId64
               "; give --head-dim to choose the size of a head yourself",
               s->embd, s->heads);
    fill(&s->head_dim, s->embd / s->heads);
    if (s->heads % s->heads_kv != 0)
        misuse("--heads must be a multiple of --heads-kv");
    if (s->head_dim % 2 != 0)
        misuse("--head-dim must be even (rotary positions come in pairs)");
    if (s->arch->qkv_bias && s->heads * s->head_dim != s->embd)
        misuse("--arch %s has no --head-dim of its own", arch);
    if (s->arch->moe && s->experts < 1)
        misuse("--arch %s needs --experts 1 or more", arch);
    if (!s->arch->moe && s->experts > 0 && strcmp(arch, "llama") != 0)
        misuse("--arch %s has no experts", arch);
    if (s->experts > 1024 || s->experts_used > s->experts)
        misuse("--experts-used must be at most --experts, and that 1024");
    if (s->embd % block != 0 || s->ff % block != 0 || (s->heads * s->head_dim) % block != 0)
        misuse("this --type stores blocks of %" PRId64
               " values: --embd, --ff and heads x head-dim must be multiples of it",
               block);
}

static void add(struct plan *p, enum role role, double gain, int64_t ne0, int64_t ne1, int64_t ne2,
                const char *fmt, ...) __attribute__((format(printf, 7, 8)));
static void add(struct plan *p, enum role role, double gain, int64_t ne0, int64_t ne1, int64_t ne2,
                const char *fmt, ...)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 64;
        p->entries = reallocarray(p->entries, p->cap, sizeof(*p->entries));
        if (!p->entries)
            fail("out of memory");
    }
    struct plan_entry *e = &p->entries[p->n++];
    *e = (struct plan_entry){.role = role, .ne = {ne0, ne1, ne2}, .gain = gain};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->name, sizeof(e->name), fmt, ap);
    va_end(ap);
}

/*
 * Gains: query and key are enlarged so that attention looks at single positions; with the usual
 * size it is an average over all of them, each next token would hang on the last one alone, and
 * greedy generation would soon go in a circle.
 */
static void add_layer(struct plan *p, const struct shape *s, int64_t i)
{
    const int64_t q = s->heads * s->head_dim, kv = s->heads_kv * s->head_dim;
    const double sharp = s->arch->qk_norm ? 1.0 : 1.7;

    add(p, ROLE_NORM, 1, s->embd, 1, 1, "blk.%" PRId64 ".attn_norm.weight", i);
    add(p, ROLE_MATRIX, sharp, s->embd, q, 1, "blk.%" PRId64 ".attn_q.weight", i);
    add(p, ROLE_MATRIX, sharp, s->embd, kv, 1, "blk.%" PRId64 ".attn_k.weight", i);
    add(p, ROLE_MATRIX, 1, s->embd, kv, 1, "blk.%" PRId64 ".attn_v.weight", i);
    if (s->arch->qkv_bias) {
        add(p, ROLE_BIAS, 1, q, 1, 1, "blk.%" PRId64 ".attn_q.bias", i);
        add(p, ROLE_BIAS, 1, kv, 1, 1, "blk.%" PRId64 ".attn_k.bias", i);
        add(p, ROLE_BIAS, 1, kv, 1, 1, "blk.%" PRId64 ".attn_v.bias", i);
    }
    if (s->arch->qk_norm) {
        add(p, ROLE_NORM, 1.7, s->head_dim, 1, 1, "blk.%" PRId64 ".attn_q_norm.weight", i);
        add(p, ROLE_NORM, 1.7, s->head_dim, 1, 1, "blk.%" PRId64 ".attn_k_norm.weight", i);
    }
    add(p, ROLE_MATRIX, 1, q, s->embd, 1, "blk.%" PRId64 ".attn_output.weight", i);
    add(p, ROLE_NORM, 1, s->embd, 1, 1, "blk.%" PRId64 ".ffn_norm.weight", i);
    if (s->experts > 0) {
        const int64_t n = s->experts;
        add(p, ROLE_ROUTER, 2, s->embd, n, 1, "blk.%" PRId64 ".ffn_gate_inp.weight", i);
        add(p, ROLE_MATRIX, 1, s->embd, s->ff, n, "blk.%" PRId64 ".ffn_gate_exps.weight", i);
        add(p, ROLE_MATRIX, 2, s->ff, s->embd, n, "blk.%" PRId64 ".ffn_down_exps.weight", i);
        add(p, ROLE_MATRIX, 1, s->embd, s->ff, n, "blk.%" PRId64 ".ffn_up_exps.weight", i);
    } else {
        add(p, ROLE_MATRIX, 1, s->embd, s->ff, 1, "blk.%" PRId64 ".ffn_gate.weight", i);
        add(p, ROLE_MATRIX, 2, s->ff, s->embd, 1, "blk.%" PRId64 ".ffn_down.weight", i);
        add(p, ROLE_MATRIX, 1, s->embd, s->ff, 1, "blk.%" PRId64 ".ffn_up.weight", i);
    }
}

void plan_create(struct plan *ret_plan, const struct shape *s)
{
    *ret_plan = (struct plan){0};
    add(ret_plan, ROLE_EMBED, 0.5, s->embd, s->vocab, 1, "token_embd.weight");
    for (int64_t i = 0; i < s->layers; i++)
        add_layer(ret_plan, s, i);
    add(ret_plan, ROLE_NORM, 1, s->embd, 1, 1, "output_norm.weight");
    add(ret_plan, ROLE_OUTPUT, 3, s->embd, s->vocab, 1, "output.weight");
}

void plan_destroy(struct plan *p)
{
    free(p->entries);
    *p = (struct plan){0};
}
