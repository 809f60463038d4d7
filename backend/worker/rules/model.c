/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of attention, positions and recurrent layers. As in backend/worker/rules/basic.c:
 * GGML_ASSERTs of the builders in ggml.c, and "kernel:" for what ggml-cpu relies on.
 */
#include <stddef.h>

#include "backend/worker/rules/model.h"

static bool is_vector(const struct apir_tensor *t)
{
    return t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1;
}

static bool is_matrix(const struct apir_tensor *t)
{
    return t->ne[2] == 1 && t->ne[3] == 1;
}

/* ---- attention -------------------------------------------------------------------- */

const char *rules_soft_max(const struct rules_op *o)
{
    const struct apir_tensor *mask = S1, *sinks = S2;
    if (!rules_contiguous(o, S0, 0))
        return "op: a tensor is not contiguous";
    if (mask && (mask->ne[0] != S0->ne[0] || mask->ne[1] < S0->ne[1] ||
                 !rules_divides(mask->ne[2], S0->ne[2]) || !rules_divides(mask->ne[3], S0->ne[3])))
        return BAD_SHAPE;
    if (!mask && rules_param_float(D, 1) > 0.0f)
        return "op: a source is missing";
    if (sinks && sinks->ne[0] != S0->ne[2])
        return BAD_SHAPE;
    return o->cpu && S0->type != APIR_TYPE_F32 ? "op: type of a source" : NULL;
}

const char *rules_soft_max_back(const struct rules_op *o)
{
    return param_if(!o->cpu || rules_param_float(D, 1) == 0.0f);
}

const char *rules_rope(const struct rules_op *o)
{
    enum { NEOX = 2, MROPE = 8, VISION = 24, IMROPE = 40 };
    int32_t n_dims = P(1), mode = P(2), n_offs = P(15);
    int64_t ne0 = S0->ne[0];
    if (mode != 0 && mode != NEOX && mode != MROPE && mode != VISION && mode != IMROPE)
        return BAD_PARAM;
    bool mrope = (mode & MROPE) != 0;
    if (!is_vector(S1) || S1->ne[0] != (mrope ? 4 : 1) * S0->ne[2])
        return BAD_SHAPE;
    /* So llama.cpp asks whether the factors may lie here. */
    if (n_dims == 0 && o->cpu)
        o->reach->only_asked = "the CPU's kernel never ends where nothing is turned";
    if (n_dims < 0 || n_dims % 2 || n_offs < 0 || n_offs % 2 || (int64_t)n_offs + n_dims > ne0)
        return BAD_PARAM;
    /* kernel: goes by pairs, also through what is not turned */
    if (ne0 % 2)
        return BAD_SHAPE;
    if (mode == VISION && (n_dims != ne0 / 2 || n_offs != 0))
        return BAD_PARAM;
    if (mrope) {
        int64_t sum = 0;
        for (int i = 11; i <= 14; i++) {
            if (P(i) < 0)
                return BAD_PARAM;
            sum += P(i);
        }
        /* kernel: positions modulo this; one of the first three must be there */
        if (P(11) + (int64_t)P(12) + P(13) <= 0 || (o->cpu && sum > ne0))
            return BAD_PARAM;
    }
    if (S2 && S2->ne[0] < n_dims / 2)
        return BAD_SHAPE;
    /* kernel: reads a factor per pair of a row, also of those not turned */
    if (S2 && o->cpu)
        rules_reach(o, 2, rules_mul(ne0 / 2, 4));
    return NULL;
}

const char *rules_flash_attn(const struct rules_op *o)
{
    const struct apir_tensor *q = S0, *k = S1, *v = S2, *mask = S3, *sinks = S4;
    if (k->ne[0] != q->ne[0] || k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3] ||
        !rules_divides(k->ne[2], q->ne[2]))
        return BAD_SHAPE;
    /* kernel: as many values as keys, shared between heads in the same way; the builder
     * does not look. */
    if (v->ne[1] != k->ne[1] || !rules_divides(v->ne[2], q->ne[2]))
        return BAD_SHAPE;
    if (!rules_shape_is(D, v->ne[0], q->ne[2], q->ne[1], q->ne[3]))
        return BAD_SHAPE;
    /* kernel: reads a row of the mask per query, a column per key */
    if (mask && (!rules_divides(mask->ne[2], q->ne[2]) || !rules_divides(mask->ne[3], q->ne[3]) ||
                 mask->ne[0] < k->ne[1] || mask->ne[1] < q->ne[1]))
        return BAD_SHAPE;
    if (!mask && rules_param_float(D, 1) > 0.0f)
        return "op: a source is missing";
    if (sinks && sinks->ne[0] != q->ne[2])
        return BAD_SHAPE;
    /* ggml_flash_attn_ext_set_n_kv_max(): a bound of what the mask lets through, 0: none. A ggml
     * before 0.23 passes over it and looks at every key, with the same result. */
    if (P(4) < 0)
        return BAD_PARAM;
    /* kernel: GGML_PREC_DEFAULT or GGML_PREC_F32, which was 1 once (meaning.c) */
    if (o->cpu && P(3) != 0 && P(3) != 1 && P(3) != 10)
        return BAD_PARAM;
    return NULL;
}

/* ---- state space ------------------------------------------------------------------ */

const char *rules_ssm_conv(const struct rules_op *o)
{
    const struct apir_tensor *sx = S0, *c = S1;
    if (sx->ne[3] != 1 || !is_matrix(c) || sx->ne[1] != c->ne[1])
        return BAD_SHAPE;
    /* kernel: rows of one packed plane */
    if (o->cpu && sx->nb[1] != rules_mul(sx->ne[0], 4))
        return "op: the CPU wants its rows in line";
    return shape_if(rules_shape_is(D, c->ne[1], (rules_int)sx->ne[0] - c->ne[0] + 1, sx->ne[2], 1));
}

/* Both lower dimensions packed, also where there is one of them only. */
static bool is_packed_to_1(const struct apir_tensor *t)
{
    return t->nb[0] == 4 && t->nb[1] == rules_mul(t->ne[0], 4);
}

const char *rules_ssm_scan(const struct rules_op *o)
{
    const struct apir_tensor *s = S0, *x = S1, *dt = S2, *a = S3, *b = S4, *c = S5, *ids = S6;
    int64_t d_state = s->ne[0], dim = x->ne[0], heads = x->ne[1], tokens = x->ne[2],
            seqs = x->ne[3];
    if (!ids)
        return "op: a source is missing";
    if (P(0) < 1)
        return BAD_PARAM;
    if (!is_packed_to_1(x) || !is_packed_to_1(b) || !is_packed_to_1(c))
        return "op: a tensor has rows that are not in line";
    if (!rules_shape_is(dt, heads, tokens, seqs, 1) || s->ne[1] != dim || s->ne[2] != heads ||
        !rules_same_shape(b, c) || b->ne[0] != d_state || b->ne[2] != tokens || b->ne[3] != seqs ||
        !is_vector(ids) || ids->ne[0] != seqs || !is_matrix(a) || a->ne[1] != heads)
        return BAD_SHAPE;
    if (a->ne[0] != 1 && (a->ne[0] != d_state || P(0) != 1))
        return BAD_SHAPE;
    if (!rules_divides(b->ne[1], heads))
        return BAD_SHAPE;
    /* kernel: steps through the result by the strides of the state, which may say anything
     * where there is one of something only */
    if (o->cpu && (seqs > 1 || P(0) > 1) &&
        (s->nb[2] != rules_mul(rules_mul(d_state, 4), dim) ||
         s->nb[3] != rules_mul((rules_int)s->nb[2], heads)))
        return "op: a tensor is not contiguous";
    rules_int states = rules_mul(rules_mul(rules_mul(d_state, dim), heads), seqs);
    return shape_if(rules_shape_is(D, rules_elements(x) + rules_mul(states, P(0)), 1, 1, 1));
}

/* ---- RWKV, GLA -------------------------------------------------------------------- */

/*
 * n sources [S, H, T], and a state of S × S × H per sequence; the result has the outputs,
 * then the states. kernel: T over the number of sequences is what it divides by.
 */
static const char *check_wkv(const struct rules_op *o, const struct apir_tensor *like,
                             const int *streams, int n, const struct apir_tensor *state)
{
    int64_t size = like->ne[0], heads = like->ne[1], tokens = like->ne[2], seqs = state->ne[1];
    if (like->ne[3] != 1)
        return BAD_SHAPE;
    for (int i = 0; i < n; i++) {
        if (!rules_same_shape(o->s[streams[i]], like))
            return BAD_SHAPE;
    }
    if (seqs <= 0 || heads <= 0 || tokens % seqs)
        return BAD_SHAPE;
    rules_int state_size = rules_mul(rules_mul(rules_mul(size, size), heads), seqs);
    if (rules_elements(state) != state_size)
        return BAD_SHAPE;
    return shape_if(
        rules_shape_is(D, rules_mul(size, heads), tokens + rules_mul(size, seqs), 1, 1));
}

const char *rules_wkv6(const struct rules_op *o)
{
    static const int streams[] = {1, 2, 4};
    /* kernel: a bonus per head and channel; the builder does not look at it */
    if (rules_elements(S3) != rules_mul(S0->ne[0], S0->ne[1]))
        return BAD_SHAPE;
    return check_wkv(o, S0, streams, 3, S5);
}

const char *rules_gla(const struct rules_op *o)
{
    static const int streams[] = {1, 2, 3};
    return check_wkv(o, S0, streams, 3, S4);
}

const char *rules_wkv7(const struct rules_op *o)
{
    static const int streams[] = {0, 1, 3, 4, 5};
    /* kernel: goes by vectors of 64 floats, also where a head is no multiple of them, and so
     * past the last head */
    enum { STEP = 64 };
    rules_int past = o->cpu ? (STEP - S2->ne[0] % STEP) % STEP : 0;
    for (int i = -1; i < 7 && past; i++)
        rules_reach(o, i, rules_mul(rules_elements(i < 0 ? D : o->s[i]) + past, 4));
    return check_wkv(o, S2, streams, 5, S6);
}

const char *rules_solve_tri(const struct rules_op *o)
{
    if (S0->ne[0] != S0->ne[1] || S0->ne[1] != S1->ne[1] || S0->ne[2] != S1->ne[2] ||
        S0->ne[3] != S1->ne[3])
        return BAD_SHAPE;
    return shape_if(rules_same_shape(D, S1));
}

const char *rules_delta_net(const struct rules_op *o)
{
    const struct apir_tensor *q = S0, *k = S1, *v = S2, *g = S3, *beta = S4, *state = S5;
    int64_t size = v->ne[0], heads = v->ne[1], tokens = v->ne[2], seqs = v->ne[3];
    rules_int slots = P(0);
    if (slots < 1)
        return BAD_PARAM;
    /* kernel: rows of q and k are as long as those of v, heads repeat, sequences group;
     * the builder does not look */
    if (q->ne[0] != size || k->ne[0] != size || q->ne[2] != tokens || k->ne[2] != tokens ||
        !rules_divides(q->ne[1], heads) || !rules_divides(k->ne[1], heads) ||
        !rules_divides(q->ne[3], seqs) || !rules_divides(k->ne[3], seqs))
        return BAD_SHAPE;
    if ((g->ne[0] != 1 && g->ne[0] != size) || !rules_shape_is(g, g->ne[0], heads, tokens, seqs) ||
        !rules_shape_is(beta, 1, heads, tokens, seqs) ||
        !rules_shape_is(state, size, size, heads, seqs))
        return BAD_SHAPE;
    rules_int rows = rules_mul(tokens, seqs) + rules_mul(rules_mul(slots, size), seqs);
    return shape_if(rules_shape_is(D, rules_mul(size, heads), rows, 1, 1));
}

/* ---- DeepSeek --------------------------------------------------------------------- */

const char *rules_indexer(const struct rules_op *o)
{
    const struct apir_tensor *q = S0, *k = S1, *w = S2, *mask = S3;
    if (q->ne[0] != k->ne[0] || k->ne[1] != 1 || q->ne[3] != k->ne[3] ||
        !rules_shape_is(w, q->ne[1], q->ne[2], 1, q->ne[3]) || mask->ne[0] != k->ne[2] ||
        mask->ne[1] != q->ne[2] || mask->ne[2] != 1 || !rules_divides(mask->ne[3], w->ne[3]))
        return BAD_SHAPE;
    return shape_if(rules_shape_is(D, k->ne[2], q->ne[2], 1, q->ne[3]));
}

const char *rules_hc_comb(const struct rules_op *o)
{
    enum { HC = 4, MIX = (2 + HC) * HC };
    const struct apir_tensor *mixes = S0, *scale = S1, *base = S2;
    if (P(1) <= 0)
        return BAD_PARAM;
    if (mixes->ne[0] != MIX || !is_matrix(mixes) || !is_vector(scale) || scale->ne[0] < 3 ||
        !rules_shape_is(base, MIX, 1, 1, 1))
        return BAD_SHAPE;
    return shape_if(rules_shape_is(D, HC, HC, mixes->ne[1], 1));
}

const char *rules_hc_pre(const struct rules_op *o)
{
    const struct apir_tensor *x = S0, *w = S1;
    int64_t hc = x->ne[1], tokens = x->ne[2];
    if (hc <= 0 || x->ne[3] != 1 || !rules_shape_is(D, x->ne[0], tokens, 1, 1))
        return BAD_SHAPE;
    /* A weight per stream; or, gated, one per element (parameter 1). */
    if (P(1) ? !rules_same_shape(w, x) : !rules_shape_is(w, hc, tokens, 1, 1))
        return BAD_SHAPE;
    return S2 ? "op: too many sources" : NULL;
}

const char *rules_hc_post(const struct rules_op *o)
{
    const struct apir_tensor *x = S0, *residual = S1, *post = S2, *comb = S3;
    int64_t hc = residual->ne[1], tokens = x->ne[1];
    if (hc <= 0 || !is_matrix(x) || !rules_shape_is(residual, x->ne[0], hc, tokens, 1) ||
        !rules_shape_is(post, hc, tokens, 1, 1))
        return BAD_SHAPE;
    if (comb && !rules_shape_is(comb, hc, hc, tokens, 1))
        return BAD_SHAPE;
    return shape_if(rules_shape_is(D, x->ne[0], hc, tokens, 1));
}
