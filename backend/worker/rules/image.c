/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of convolutions, pooling, padding and what else images and signals need. As in
 * backend/worker/rules/basic.c: GGML_ASSERTs of the builders in ggml.c, and "kernel:" for what
 * ggml-cpu relies on. The result's shape follows from sources and parameters, so it is
 * computed here again, in 128 bits.
 */
#include <limits.h>
#include <stddef.h>

#include "backend/worker/rules/image.h"

/* ggml_calc_conv_output_size(), rounding towards 0 as there; 0 or less: no output. */
static rules_int conv_out(int64_t in, int64_t kernel, int32_t stride, int32_t pad, int32_t dilation)
{
    if (stride <= 0 || dilation <= 0 || pad < 0)
        return -1;
    return ((rules_int)in + 2 * (rules_int)pad - (rules_int)dilation * (kernel - 1) - 1) / stride +
           1;
}

static bool strides_are_int(const struct apir_tensor *t)
{
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (t->nb[i] > INT_MAX)
            return false;
    }
    return true;
}

/* kernel: n planes of `plane` bytes, `nb` apart in two dimensions, each packed in itself. */
static void reach_planes(const struct rules_op *o, int source, const struct apir_tensor *t, int dim,
                         rules_int plane)
{
    rules_int end = plane;
    for (int i = dim; i < APIR_TENSOR_DIMS; i++)
        end += rules_mul(t->ne[i] > 0 ? t->ne[i] - 1 : 0, (rules_int)t->nb[i]);
    if (!rules_empty(t))
        rules_reach(o, source, end);
}

/* ---- convolution ------------------------------------------------------------------ */

const char *rules_conv_transpose_1d(const struct rules_op *o)
{
    int32_t s = P(0);
    if (s <= 0 || P(1) != 0 || P(2) != 1)
        return BAD_PARAM;
    if (S1->ne[2] != 1 || S1->ne[3] != 1 || S0->ne[2] != S1->ne[1] || S0->ne[3] != 1)
        return BAD_SHAPE;
    if (o->cpu && S0->type != APIR_TYPE_F32 && S0->type != APIR_TYPE_F16)
        return "op: type of a source";
    return shape_if(rules_shape_is(D, rules_mul(S1->ne[0] - 1, s) + S0->ne[0], S0->ne[1], 1, 1));
}

/* What IM2COL and IM2COL_BACK say of kernel, image and columns. */
static const char *check_columns(const struct rules_op *o, const struct apir_tensor *kernel,
                                 const struct apir_tensor *image, const struct apir_tensor *columns)
{
    int32_t is_2d = P(6);
    if (is_2d != 0 && is_2d != 1)
        return BAD_PARAM;
    if (is_2d ? kernel->ne[2] != image->ne[2] : kernel->ne[1] != image->ne[1] || image->ne[3] != 1)
        return BAD_SHAPE;
    rules_int ow = conv_out(image->ne[0], kernel->ne[0], P(0), P(2), P(4));
    rules_int oh = is_2d ? conv_out(image->ne[1], kernel->ne[1], P(1), P(3), P(5)) : 0;
    if (ow <= 0 || (is_2d && oh <= 0))
        return BAD_PARAM;
    rules_int row = rules_mul(kernel->ne[0], kernel->ne[1]);
    if (is_2d)
        row = rules_mul(row, kernel->ne[2]);
    return shape_if(
        rules_shape_is(columns, row, ow, is_2d ? oh : image->ne[2], is_2d ? image->ne[3] : 1));
}

const char *rules_im2col(const struct rules_op *o)
{
    const char *why = check_columns(o, S0, S1, D);
    if (why || !o->cpu)
        return why;
    /* kernel: these pairs of types; offsets in int; rows of an image in line */
    if (D->type == APIR_TYPE_BF16 || S1->type == APIR_TYPE_BF16 ||
        (D->type == APIR_TYPE_F32 && S1->type != APIR_TYPE_F32))
        return "op: type of a source";
    if (!strides_are_int(S1))
        return "op: a stride beyond 2^31";
    rules_int plane = rules_mul(S1->ne[0], P(6) ? S1->ne[1] : 1);
    reach_planes(o, 1, S1, P(6) ? 2 : 1, rules_mul(plane, (rules_int)rules_type_size(o, S1)));
    return NULL;
}

const char *rules_im2col_back(const struct rules_op *o)
{
    const char *why = check_columns(o, S1, D, S0);
    if (why || !o->cpu)
        return why;
    return strides_are_int(D) ? NULL : "op: a stride beyond 2^31";
}

const char *rules_im2col_3d(const struct rules_op *o)
{
    int32_t ic = P(9);
    if (ic <= 0)
        return BAD_PARAM;
    rules_int ow = conv_out(S1->ne[0], S0->ne[0], P(0), P(3), P(6));
    rules_int oh = conv_out(S1->ne[1], S0->ne[1], P(1), P(4), P(7));
    rules_int od = conv_out(S1->ne[2], S0->ne[2], P(2), P(5), P(8));
    if (ow <= 0 || oh <= 0 || od <= 0)
        return BAD_PARAM;
    if (o->cpu && (S1->type != APIR_TYPE_F32 || D->type == APIR_TYPE_BF16))
        return "op: type of a source";
    rules_int row = rules_mul(rules_mul(rules_mul(S0->ne[0], S0->ne[1]), S0->ne[2]), ic);
    return shape_if(rules_shape_is(D, row, ow, oh, rules_mul(od, S1->ne[3] / ic)));
}

const char *rules_col2im_1d(const struct rules_op *o)
{
    int32_t s0 = P(0), oc = P(1), p0 = P(2);
    if (s0 <= 0 || oc <= 0 || p0 < 0)
        return BAD_PARAM;
    if (S0->ne[2] != 1 || S0->ne[3] != 1 || S0->ne[0] % oc || S0->ne[0] == 0 || S0->ne[1] == 0)
        return BAD_SHAPE;
    rules_int out = rules_mul(S0->ne[1] - 1, s0) + S0->ne[0] / oc - 2 * (rules_int)p0;
    return shape_if(out > 0 && rules_shape_is(D, out, oc, 1, 1));
}

const char *rules_conv_2d(const struct rules_op *o)
{
    if (S0->ne[2] != S1->ne[2])
        return BAD_SHAPE;
    rules_int ow = conv_out(S1->ne[0], S0->ne[0], P(0), P(2), P(4));
    rules_int oh = conv_out(S1->ne[1], S0->ne[1], P(1), P(3), P(5));
    return shape_if(ow > 0 && oh > 0 && rules_shape_is(D, ow, oh, S0->ne[3], S1->ne[3]));
}

const char *rules_conv_3d(const struct rules_op *o)
{
    int32_t c = P(9), n = P(10), oc = P(11);
    if (c <= 0 || n <= 0 || oc <= 0)
        return BAD_PARAM;
    if (S0->ne[3] != rules_mul(c, oc) || S1->ne[3] != rules_mul(c, n))
        return BAD_SHAPE;
    rules_int ow = conv_out(S1->ne[0], S0->ne[0], P(0), P(3), P(6));
    rules_int oh = conv_out(S1->ne[1], S0->ne[1], P(1), P(4), P(7));
    rules_int od = conv_out(S1->ne[2], S0->ne[2], P(2), P(5), P(8));
    return shape_if(ow > 0 && oh > 0 && od > 0 && rules_shape_is(D, ow, oh, od, rules_mul(oc, n)));
}

const char *rules_conv_2d_dw(const struct rules_op *o)
{
    if (S0->ne[2] != 1 || S0->ne[3] != S1->ne[2])
        return BAD_SHAPE;
    rules_int ow = conv_out(S1->ne[0], S0->ne[0], P(0), P(2), P(4));
    rules_int oh = conv_out(S1->ne[1], S0->ne[1], P(1), P(3), P(5));
    if (ow <= 0 || oh <= 0 || !rules_shape_is(D, ow, oh, S1->ne[2], S1->ne[3]))
        return BAD_SHAPE;
    if (!o->cpu || rules_contiguous(o, S1, 0))
        return NULL;
    /* kernel: otherwise ggml_is_contiguous_channels(), of weights laid out likewise */
    bool channels =
        S1->nb[0] > S1->nb[2] && S1->nb[1] > S1->nb[0] && S1->nb[2] == rules_type_size(o, S1);
    return channels && S0->nb[0] >= S0->nb[2] && S0->nb[1] >= S0->nb[0]
               ? NULL
               : "op: the CPU wants it contiguous";
}

const char *rules_conv_transpose_2d(const struct rules_op *o)
{
    int32_t stride = P(0);
    if (stride <= 0)
        return BAD_PARAM;
    if (S0->ne[3] != S1->ne[2])
        return BAD_SHAPE;
    /* kernel: the planes of the weights are packed */
    rules_int plane = rules_mul(S0->ne[0], S0->ne[1]);
    if (o->cpu)
        reach_planes(o, 0, S0, 2, rules_mul(plane, (rules_int)rules_type_size(o, S0)));
    return shape_if(rules_shape_is(D, rules_mul(S1->ne[0] - 1, stride) + S0->ne[0],
                                   rules_mul(S1->ne[1] - 1, stride) + S0->ne[1], S0->ne[2],
                                   S1->ne[3]));
}

/* ---- pooling -------------------------------------------------------------------- */

static const char *check_pool(const struct rules_op *o, int dims)
{
    if (P(0) != 0 && P(0) != 1)
        return BAD_PARAM; /* maximum and average */
    for (int i = 0; i < dims; i++) {
        /* Every access is checked against the borders, in int. */
        int32_t k = P(1 + i), s = P(1 + dims + i), p = P(1 + 2 * dims + i);
        if (k <= 0 || s <= 0 || p < 0 || k > 1 << 15 || s > 1 << 15 || p > 1 << 15)
            return BAD_PARAM;
    }
    return NULL;
}

static bool pools_to(int64_t in, int64_t out, int32_t k, int32_t s, int32_t p)
{
    rules_int room = (rules_int)in + 2 * (rules_int)p - k;
    return room >= 0 && room < INT_MAX && out == room / s + 1;
}

const char *rules_pool_1d(const struct rules_op *o)
{
    const char *why = check_pool(o, 1);
    if (why)
        return why;
    return shape_if(pools_to(S0->ne[0], D->ne[0], P(1), P(2), P(3)) &&
                    rules_shape_is(D, D->ne[0], S0->ne[1], S0->ne[2], S0->ne[3]));
}

const char *rules_pool_2d(const struct rules_op *o)
{
    const char *why = check_pool(o, 2);
    if (why)
        return why;
    if (!pools_to(S0->ne[0], D->ne[0], P(1), P(3), P(5)) ||
        !pools_to(S0->ne[1], D->ne[1], P(2), P(4), P(6)) || D->ne[2] != S0->ne[2] ||
        D->ne[3] != S0->ne[3])
        return BAD_SHAPE;
    if (!o->cpu || rules_empty(S0))
        return NULL;
    /* kernel: goes on by nb[2] while it is within ggml_nbytes(), a plane of results each;
     * nb[2] may be anything where there is one plane only */
    uint64_t bytes = 0;
    if (worker_rules_extent(&o->types[S0->type], S0, &bytes) || S0->nb[2] == 0)
        return BAD_SHAPE;
    rules_int planes = ((rules_int)bytes + S0->nb[2] - 1) / S0->nb[2];
    if (planes > rules_mul(D->ne[2], D->ne[3]))
        return "op: planes that overlap";
    rules_reach(o, 0,
                (planes - 1) * S0->nb[2] + rules_mul(S0->ne[1] - 1, (rules_int)S0->nb[1]) +
                    rules_mul(S0->ne[0], (rules_int)rules_type_size(o, S0)));
    return NULL;
}

/* Source 0: gradients, like the pooled; source 1: what was pooled. */
const char *rules_pool_2d_back(const struct rules_op *o)
{
    const char *why = check_pool(o, 2);
    if (why)
        return why;
    if (S1->type != D->type)
        return "op: type of a source";
    return shape_if(rules_same_shape(S1, D) && S0->ne[2] == D->ne[2] && S0->ne[3] == D->ne[3] &&
                    pools_to(D->ne[0], S0->ne[0], P(1), P(3), P(5)) &&
                    pools_to(D->ne[1], S0->ne[1], P(2), P(4), P(6)));
}

/* ---- sizes ------------------------------------------------------------------------ */

const char *rules_upscale(const struct rules_op *o)
{
    enum { MODES = 3, BILINEAR = 1, ANTIALIAS = 1 << 9 };
    int32_t mode = P(0) & 0xff;
    if (mode >= MODES || ((P(0) & ANTIALIAS) && mode != BILINEAR))
        return BAD_PARAM;
    /* kernel: source coordinates are quotients of floats, exact enough up to here */
    for (int i = 0; i < APIR_TENSOR_DIMS && o->cpu; i++) {
        if (D->ne[i] > 1 << 20 || S0->ne[i] > 1 << 20)
            return BAD_SHAPE;
    }
    return NULL;
}

const char *rules_pad(const struct rules_op *o)
{
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        int32_t before = P(2 * i), after = P(2 * i + 1);
        if ((rules_int)D->ne[i] != (rules_int)S0->ne[i] + before + after)
            return BAD_SHAPE;
        /* kernel: circular padding adds the size once before it takes the remainder */
        if (P(8) && (before < 0 || before > S0->ne[i]))
            return BAD_PARAM;
    }
    return o->cpu && S0->type != APIR_TYPE_F32 ? "op: type of a source" : NULL;
}

const char *rules_pad_reflect(const struct rules_op *o)
{
    if (P(0) < 0 || P(1) < 0 || P(0) >= S0->ne[0] || P(1) >= S0->ne[0])
        return BAD_PARAM;
    return shape_if(
        rules_shape_is(D, (rules_int)S0->ne[0] + P(0) + P(1), S0->ne[1], S0->ne[2], S0->ne[3]));
}

const char *rules_roll(const struct rules_op *o)
{
    if (S0->nb[0] != rules_type_size(o, S0) || D->nb[0] != S0->nb[0])
        return "op: a tensor has scattered rows";
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        /* Indices wrap around once. */
        int64_t shift = P(i);
        if (S0->ne[i] > 0 && (shift <= -S0->ne[i] || shift >= S0->ne[i]))
            return BAD_PARAM;
    }
    return NULL;
}

const char *rules_arange(const struct rules_op *o)
{
    float start = rules_param_float(D, 0), stop = rules_param_float(D, 1),
          step = rules_param_float(D, 2);
    float steps = (stop - start) / step;
    if (!(steps > 0.0f && steps < 1e9f))
        return BAD_PARAM;
    int64_t n = (int64_t)steps;
    return shape_if(rules_elements(D) == ((float)n < steps ? n + 1 : n));
}

const char *rules_timestep(const struct rules_op *o)
{
    int32_t dim = P(0);
    if (dim <= 0)
        return BAD_PARAM;
    return shape_if(rules_shape_is(D, dim, S0->ne[0], 1, 1));
}

/* ---- windows ---------------------------------------------------------------------- */

static rules_int windows(int64_t size, int32_t w)
{
    return ((rules_int)size + w - 1) / w;
}

const char *rules_win_part(const struct rules_op *o)
{
    int32_t npx = P(0), npy = P(1), w = P(2);
    if (w <= 0 || S0->ne[3] != 1 || windows(S0->ne[1], w) != npx || windows(S0->ne[2], w) != npy)
        return BAD_PARAM;
    return shape_if(rules_shape_is(D, S0->ne[0], w, w, rules_mul(npx, npy)));
}

const char *rules_win_unpart(const struct rules_op *o)
{
    int32_t w = P(0);
    if (w <= 0)
        return BAD_PARAM;
    rules_int n = rules_mul(windows(D->ne[1], w), windows(D->ne[2], w));
    /* The builder does not look at the windows it puts together. */
    return shape_if(D->ne[0] == S0->ne[0] && D->ne[3] == 1 && S0->ne[1] == w && S0->ne[2] == w &&
                    S0->ne[3] >= n);
}

const char *rules_get_rel_pos(const struct rules_op *o)
{
    if (S0->type != APIR_TYPE_F16 && S0->type != APIR_TYPE_BF16)
        return "op: type of a source";
    if (D->ne[1] != D->ne[2] || D->ne[3] != 1 || S0->ne[2] != 1 || S0->ne[3] != 1)
        return BAD_SHAPE;
    return shape_if(D->ne[0] == S0->ne[0] && 2 * D->ne[1] - 1 == S0->ne[1]);
}

const char *rules_add_rel_pos(const struct rules_op *o)
{
    const struct apir_tensor *pw = S1;
    if (!rules_same_shape(S1, S2) || pw->ne[3] != S0->ne[2] || S0->ne[3] != 1 ||
        rules_mul(pw->ne[0], pw->ne[0]) != S0->ne[0] ||
        rules_mul(pw->ne[1], pw->ne[2]) != S0->ne[1])
        return BAD_SHAPE;
    return NULL;
}
