/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/models/weights.h"

#include <math.h>

#include "tests/lib/models/vocab.h"

enum { CHUNK_VALUES = 1 << 20 };

#define STEP UINT64_C(0x9e3779b97f4a7c15)

/* splitmix64: one multiplication chain per 64 bits, and any start value is good. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += STEP);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The sum of four 16-bit uniforms: near enough to a normal distribution, mean 0, variance 1. */
static float normal(uint64_t *state)
{
    uint64_t r = next(state);
    int32_t sum = (int32_t)((r & 0xffff) + ((r >> 16) & 0xffff) + ((r >> 32) & 0xffff) + (r >> 48));
    /* 65536 / sqrt(3) is the standard deviation of that sum. */
    return (float)(sum - 131070) * (1.7320508f / 65536.0f);
}

enum ggml_type weights_type(const struct plan_entry *e, enum ggml_type matrix)
{
    switch (e->role) {
    case ROLE_MATRIX:
    case ROLE_EMBED:
    case ROLE_OUTPUT:
        return matrix;
    case ROLE_ROUTER:
    case ROLE_NORM:
    case ROLE_BIAS:
        break;
    }
    return GGML_TYPE_F32;
}

static void fill_row(float *row, const struct plan_entry *e, int64_t index, uint64_t *state)
{
    const int64_t n = e->ne[0];
    float scale = (float)(e->gain / sqrt((double)n));

    switch (e->role) {
    case ROLE_NORM:
        for (int64_t i = 0; i < n; i++)
            row[i] = (float)e->gain * (1.0f + 0.1f * normal(state));
        return;
    case ROLE_BIAS:
        scale = 0.1f;
        break;
    case ROLE_EMBED:
        scale = (float)e->gain;
        break;
    case ROLE_OUTPUT:
        /*
         * A token that is no readable text keeps a logit near 0, so greedy generation never
         * stops early and its text can be shown.
         */
        if (!vocab_is_text(index))
            scale *= 1.0f / 64.0f;
        break;
    case ROLE_MATRIX:
    case ROLE_ROUTER:
        break;
    }
    for (int64_t i = 0; i < n; i++)
        row[i] = scale * normal(state);
}

int64_t weights_step(const struct plan_entry *e)
{
    const int64_t rows = e->ne[1] * e->ne[2], step = CHUNK_VALUES / e->ne[0];
    return step < 1 ? 1 : step > rows ? rows : step;
}

void weights_make(const struct plan_entry *e, enum ggml_type type, uint64_t seed, uint64_t salt,
                  int64_t row, int64_t n, float *values, void *stored)
{
    uint64_t start = seed ^ (salt * UINT64_C(0xd1342543de82ef95));
    uint64_t state = next(&start);
    float *to = type == GGML_TYPE_F32 ? stored : values;

    /* Each value takes one step, so any row can be reached at once. */
    state += (uint64_t)row * (uint64_t)e->ne[0] * STEP;
    for (int64_t i = 0; i < n; i++)
        fill_row(to + i * e->ne[0], e, row + i, &state);
    if (type != GGML_TYPE_F32)
        ggml_quantize_chunk(type, values, stored, 0, n, e->ne[0], NULL);
}
