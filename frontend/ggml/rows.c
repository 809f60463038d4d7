/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "frontend/ggml/transfer.h"
#include "frontend/graph/encode.h"
#include "frontend/graph/query.h"
#include "frontend/plugin/buffer.h"
#include "frontend/plugin/plugin.h"
#include "protocol/gguf.h"

/* Not in place its result is a tensor of its own, which the CPU may have. */
static bool is_region(const struct gg_tensor *op)
{
    return op->view_src && strcmp(plugin.op_name(op->op), "SET") == 0;
}

bool rows_is_set(const struct gg_tensor *op)
{
    return is_region(op) || strcmp(plugin.op_name(op->op), "SET_ROWS") == 0;
}

/* Bytes of an element; 0: not a type that is done here. */
static size_t element(int type)
{
    return type == APIR_TYPE_F32 ? 4 : type == APIR_TYPE_F16 ? 2 : 0;
}

static size_t number(int type)
{
    return type == APIR_TYPE_I32 ? 4 : type == APIR_TYPE_I64 ? 8 : 0;
}

/* SET's parameters: bytes between a region's rows, matrices and so on, and where it begins. */
struct region {
    size_t nb[4], offset;
};

/* False: it does not lie within op. */
static bool region_of(const struct gg_tensor *op, struct region *ret_region)
{
    const struct gg_tensor *from = op->src[1];
    const int32_t *p = op->op_params;
    if (p[0] < 0 || p[1] < 0 || p[2] < 0 || p[3] < 0)
        return false;
    const struct region r = {.nb = {element(op->type), (size_t)p[0], (size_t)p[1], (size_t)p[2]},
                             .offset = (size_t)p[3]};
    size_t end = r.offset + r.nb[0];
    for (int i = 0; i < 4; i++) {
        /* Four products of numbers below 2^31, the first by an element's size, fit in 64 bits. */
        if (from->ne[i] < 1 || from->ne[i] > INT32_MAX)
            return false;
        end += (size_t)(from->ne[i] - 1) * r.nb[i];
    }
    *ret_region = r;
    return end <= plugin.nbytes(op);
}

static bool can_set_region(const struct gg_tensor *op)
{
    const struct gg_tensor *from = op->src[1];
    struct region r;
    return from && element(op->type) && from->type == op->type &&
           from->nb[0] == element(op->type) && op->nb[0] == from->nb[0] && region_of(op, &r);
}

bool rows_can_set(const struct gg_tensor *op)
{
    const struct gg_tensor *from = op->src[0], *at = op->src[1];
    if (is_region(op))
        return can_set_region(op);
    return rows_is_set(op) && from && at && element(from->type) && element(op->type) &&
           number(at->type) && from->nb[0] == element(from->type) &&
           op->nb[0] == element(op->type) && from->ne[0] == op->ne[0] &&
           (from->type == op->type || (plugin.fp16_to_fp32_row && plugin.fp32_to_fp16_row));
}

bool rows_is_ours(struct plugin_device *d, const struct gg_tensor *op)
{
    struct apir_reply_op_query answer;
    return rows_can_set(op) && graph_node_is_computed(op) && query_op(d, op, &answer) == 0 &&
           !(answer.flags & APIR_OP_SUPPORTED);
}

/* All bytes from a tensor's first to its last, for the caller to free; NULL: out of memory. */
static uint8_t *fetch(const struct gg_tensor *t)
{
    const size_t size = plugin.nbytes(t);
    uint8_t *bytes = malloc(size ? size : 1);
    if (bytes)
        plugin_tensor_get(NULL, t, bytes, 0, size);
    return bytes;
}

static void convert(void *to, int to_type, const void *from, int from_type, int64_t n)
{
    if (to_type == from_type)
        memcpy(to, from, (size_t)n * element(to_type));
    else if (to_type == APIR_TYPE_F16)
        plugin.fp32_to_fp16_row(from, to, n);
    else
        plugin.fp16_to_fp32_row(from, to, n);
}

/* The number of the row that row (i1, i2, i3) of the first source goes to. */
static int64_t row_number(const struct gg_tensor *at, const uint8_t *numbers, int64_t i1,
                          int64_t i2, int64_t i3)
{
    const uint8_t *p = numbers + (size_t)i1 * at->nb[0] + (size_t)(i2 % at->ne[1]) * at->nb[1] +
                       (size_t)(i3 % at->ne[2]) * at->nb[2];
    int32_t narrow;
    int64_t wide;
    if (at->type == APIR_TYPE_I32) {
        memcpy(&narrow, p, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, p, sizeof(wide));
    return wide;
}

static void write_row(const struct gg_tensor *op, const void *row, size_t offset, size_t size)
{
    plugin_tensor_set(NULL, (struct gg_tensor *)(uintptr_t)op, row, offset, size);
}

static int write_rows(const struct gg_tensor *op, const uint8_t *rows, const uint8_t *numbers,
                      void *row)
{
    const struct gg_tensor *from = op->src[0], *at = op->src[1];
    for (int64_t i3 = 0; i3 < from->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < from->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < from->ne[1]; i1++) {
                const int64_t to = row_number(at, numbers, i1, i2, i3);
                if (to < 0 || to >= op->ne[1])
                    return -ERANGE;
                convert(row, op->type,
                        rows + (size_t)i1 * from->nb[1] + (size_t)i2 * from->nb[2] +
                            (size_t)i3 * from->nb[3],
                        from->type, op->ne[0]);
                write_row(op, row,
                          (size_t)to * op->nb[1] + (size_t)i2 * op->nb[2] + (size_t)i3 * op->nb[3],
                          (size_t)op->ne[0] * element(op->type));
            }
        }
    }
    return 0;
}

static int write_region(const struct gg_tensor *op, const uint8_t *bytes)
{
    const struct gg_tensor *from = op->src[1];
    struct region r;
    if (!region_of(op, &r))
        return -ERANGE;
    const size_t row = (size_t)from->ne[0] * r.nb[0];
    /* Rows that lie side by side on both sides go at once. */
    const bool packed = from->nb[1] == row && r.nb[1] == row;
    const int64_t n = packed ? 1 : from->ne[1];
    for (int64_t i3 = 0; i3 < from->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < from->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < n; i1++)
                write_row(op,
                          bytes + (size_t)i1 * from->nb[1] + (size_t)i2 * from->nb[2] +
                              (size_t)i3 * from->nb[3],
                          r.offset + (size_t)i1 * r.nb[1] + (size_t)i2 * r.nb[2] +
                              (size_t)i3 * r.nb[3],
                          packed ? row * (size_t)from->ne[1] : row);
        }
    }
    return 0;
}

/* In the device's memory, and not of a graph that has failed. */
static bool is_there(const struct plugin_device *d, const struct gg_tensor *t)
{
    const struct plugin_buffer *b = plugin_buffer_of(t);
    return b && b->device == d && !plugin_buffer_is_void(b);
}

static int set(const struct plugin_device *d, const struct gg_tensor *op)
{
    if (!is_there(d, op) || !is_there(d, op->src[0]) || !is_there(d, op->src[1]))
        return -EINVAL;
    if (is_region(op)) {
        uint8_t *bytes = fetch(op->src[1]);
        const int rc = bytes ? write_region(op, bytes) : -ENOMEM;
        free(bytes);
        return rc;
    }
    uint8_t *rows = fetch(op->src[0]), *numbers = fetch(op->src[1]);
    void *row = malloc((size_t)op->ne[0] * element(op->type));
    const int rc = rows && numbers && row ? write_rows(op, rows, numbers, row) : -ENOMEM;
    free(row);
    free(numbers);
    free(rows);
    return rc;
}

int rows_set(struct plugin_device *d, const struct gg_tensor *op)
{
    const int rc = set(d, op);
    if (rc)
        apir_log(APIR_LOG_ERROR, "%s: rows cannot be set in '%.64s': %s", d->name, op->name,
                 rc == -ERANGE ? is_region(op) ? "they do not lie within it"
                                               : "it has no row of such a number"
                 : rc == -EINVAL
                     ? "it, or a source, is not in this device's memory, or has not been computed"
                     : "out of memory");
    return rc;
}
