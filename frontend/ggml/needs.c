/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/needs.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "frontend/graph/query.h"
#include "frontend/plugin/plugin.h"
#include "protocol/gguf.h"

/* Only for an op that this ggml has, since a list of names has no end that could be seen. */
static int op_number(const char *name)
{
    int i = 0;
    while (strcmp(plugin.op_name(i), name) != 0)
        i++;
    return i;
}

static struct gg_tensor packed(int type, uint64_t element, int64_t columns, int64_t rows)
{
    const size_t row = element * (size_t)columns;
    return (struct gg_tensor){.type = type,
                              .ne = {columns, rows, 1, 1},
                              .nb = {element, row, row * (size_t)rows, row * (size_t)rows}};
}

/* A row of numbers goes into a cache of f16, as the smallest model would have it. */
static bool sets_rows(struct plugin_device *d, int op)
{
    struct gg_tensor row = packed(APIR_TYPE_F32, 4, 32, 1), index = packed(APIR_TYPE_I64, 8, 1, 1);
    struct gg_tensor cache = packed(APIR_TYPE_F16, 2, 32, 4);
    cache.op = op;
    cache.src[0] = &row;
    cache.src[1] = &index;
    struct apir_reply_op_query answer;
    return query_op(d, &cache, &answer) == 0 && (answer.flags & APIR_OP_SUPPORTED);
}

int needs_check(void *handle, struct apir_error *err)
{
    if (!dlsym(handle, "ggml_set_rows"))
        return 0;
    const int op = op_number("SET_ROWS");
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        struct plugin_device *d = &plugin.devices[i];
        if (!sets_rows(d, op))
            return apir_error_set(err, ENOTSUP,
                                  "%s: the host's ggml cannot write rows of a cache (SET_ROWS) on "
                                  "%s, which this program's ggml expects: it wants a newer one",
                                  plugin.client.transport.where, d->info.name);
    }
    return 0;
}
