/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/extra.h"

#include "backend/worker/handlers.h"

#include <stdlib.h>
#include <string.h>

#include "backend/worker/control.h"
#include "backend/worker/rules/op.h"
#include "backend/worker/table.h"
#include "common/log.h"

#define TENSORS_MAX 65536u /* in a buffer; the largest models have some thousand weights */

const char worker_bad_extra[] = "a buffer of an extra type takes and gives whole tensors only";

struct worker_extra *worker_extra_new(uint32_t type)
{
    struct worker_extra *e = calloc(1, sizeof(*e));
    if (e)
        e->type = type;
    return e;
}

static void coming_drop(struct worker *w, struct worker_buffer *b)
{
    struct worker_extra *e = b->extra;
    free(e->plain);
    worker_release(w, b->device, e->reserved);
    e->plain = NULL;
    e->plain_size = e->reserved = 0;
}

void worker_extra_clear(struct worker *w, struct worker_buffer *b)
{
    coming_drop(w, b);
    b->extra->n_tensors = 0;
}

void worker_extra_free(struct worker *w, struct worker_buffer *b)
{
    if (!b->extra)
        return;
    coming_drop(w, b);
    free(b->extra->tensors);
    free(b->extra);
    b->extra = NULL;
}

/* The first tensor that ends behind offset, or n_tensors. */
static uint32_t at(const struct worker_extra *e, uint64_t offset)
{
    uint32_t low = 0, high = e->n_tensors;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (e->tensors[middle].offset + e->tensors[middle].size > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* What is written over is no tensor any more. */
static void forget(struct worker_extra *e, uint64_t offset, uint64_t size)
{
    const uint32_t first = at(e, offset);
    uint32_t end = first;
    while (end < e->n_tensors && e->tensors[end].offset < offset + size)
        end++;
    if (end == first)
        return;
    memmove(&e->tensors[first], &e->tensors[end], (e->n_tensors - end) * sizeof(*e->tensors));
    e->n_tensors -= end - first;
}

/* False: there is no room. Nothing lies where it comes. */
static bool keep(struct worker_extra *e, const struct worker_extra_tensor *t)
{
    if (e->n_tensors == e->room) {
        const uint32_t room = e->room ? 2 * e->room : 64;
        struct worker_extra_tensor *more =
            room <= TENSORS_MAX ? realloc(e->tensors, room * sizeof(*more)) : NULL;
        if (!more)
            return false;
        e->tensors = more;
        e->room = room;
    }
    const uint32_t i = at(e, t->offset);
    memmove(&e->tensors[i + 1], &e->tensors[i], (e->n_tensors - i) * sizeof(*e->tensors));
    e->tensors[i] = *t;
    e->n_tensors++;
    return true;
}

/* The tensor in its plain form, contiguous; *ret_size: its bytes. NULL or the reason for FATAL. */
static const char *plain_tensor(const struct worker *w, const struct worker_extra_tensor *e,
                                struct gg_tensor *ret, uint64_t *ret_size)
{
    const struct host_type *type = e->type < HOST_TYPES_MAX ? &w->ggml.types[e->type] : NULL;
    struct apir_tensor t = {.type = (uint8_t)e->type};
    if (!type || type->block == 0)
        return "tensor: the host's ggml does not know its type";
    memcpy(t.ne, e->ne, sizeof(t.ne));
    /* Each of ne and nb is at most 2^46, a block at most 2^32 elements and bytes. */
    unsigned __int128 bytes = type->size;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (bytes > APIR_SIZE_MAX)
            return "tensor: too large";
        t.nb[i] = (uint64_t)bytes;
        bytes = bytes * (uint64_t)t.ne[i] / (i == 0 ? type->block : 1);
    }
    const char *why = worker_rules_extent(type, &t, ret_size);
    *ret = (struct gg_tensor){.type = (int32_t)e->type};
    memcpy(ret->ne, t.ne, sizeof(ret->ne));
    memcpy(ret->nb, t.nb, sizeof(ret->nb));
    return why;
}

/* Without memory for it the tensor's bytes are dropped, and a graph that wants it fails.
 * docs/decisions.md, Weights are copied before they are converted. */
static void plain_alloc(struct worker *w, struct worker_buffer *b)
{
    struct worker_extra *e = b->extra;
    char why[APIR_WHY_SIZE]; /* the server has logged it */
    if (worker_reserve(w, b->device, e->plain_size, why) != APIR_OK)
        return;
    e->plain = malloc(e->plain_size);
    if (!e->plain) {
        worker_unreserve(w, b->device, e->plain_size);
        return;
    }
    if (worker_taken(w, b->device, e->plain_size, why) == APIR_OK) {
        e->reserved = e->plain_size;
        return;
    }
    free(e->plain);
    e->plain = NULL;
}

const char *worker_tensor_begin(struct worker *w, const struct apir_msg_tensor_begin *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b || !b->extra)
        return worker_bad_buffer;
    struct worker_extra *e = b->extra;
    const struct host_device *d = &w->ggml.devices[b->device];
    coming_drop(w, b);
    e->coming = (struct worker_extra_tensor){
        .offset = m->offset,
        .type = m->type,
        .ne = {(int64_t)m->ne0, (int64_t)m->ne1, (int64_t)m->ne2, 1},
    };
    struct gg_tensor t;
    uint64_t size;
    const char *why = plain_tensor(w, &e->coming, &t, &size);
    if (why)
        return why;
    if (!host_extra_takes(&w->ggml, d, e->type, &t))
        return "tensor: the extra type has no layout for it";
    e->coming.size = host_tensor_alloc_size(&w->ggml, b->host.buft, &t);
    if (m->offset % d->alignment || m->offset > b->host.size ||
        e->coming.size > b->host.size - m->offset || size > e->coming.size)
        return worker_bad_range;
    forget(e, m->offset, e->coming.size);
    e->plain_size = size;
    e->arrived = 0;
    plain_alloc(w, b);
    return NULL;
}

/* All of it is there. */
static void convert(struct worker *w, struct worker_buffer *b)
{
    struct worker_extra *e = b->extra;
    struct gg_tensor t;
    uint64_t size;
    if (!e->plain || plain_tensor(w, &e->coming, &t, &size)) {
        apir_log(APIR_LOG_WARN, "no memory to convert a weight of %llu MiB",
                 (unsigned long long)(e->plain_size >> 20));
        return;
    }
    t.buffer = b->host.handle;
    t.data = b->host.base + e->coming.offset;
    if (host_tensor_init(&w->ggml, &t) < 0)
        return;
    host_tensor_set(&w->ggml, &t, e->plain, size);
    if (!keep(e, &e->coming))
        apir_log(APIR_LOG_WARN, "no room for another weight in a buffer of an extra type");
}

const char *worker_extra_put(struct worker *w, struct worker_buffer *b, uint64_t offset,
                             const void *data, uint64_t size)
{
    struct worker_extra *e = b->extra;
    if (e->plain_size == 0 || offset != e->coming.offset + e->arrived ||
        size > e->plain_size - e->arrived)
        return worker_bad_extra;
    if (e->plain)
        memcpy(e->plain + e->arrived, data, size);
    e->arrived += size;
    if (e->arrived < e->plain_size)
        return NULL;
    convert(w, b);
    coming_drop(w, b);
    return NULL;
}

bool worker_extra_has(const struct worker *w, const struct worker_buffer *b,
                      const struct apir_tensor *t, uint64_t offset)
{
    const struct worker_extra *e = b->extra;
    const uint32_t i = at(e, offset);
    struct gg_tensor plain;
    uint64_t size;
    return i < e->n_tensors && e->tensors[i].offset == offset && e->tensors[i].type == t->type &&
           memcmp(e->tensors[i].ne, t->ne, sizeof(t->ne)) == 0 &&
           !plain_tensor(w, &e->tensors[i], &plain, &size) &&
           memcmp(plain.nb, t->nb, sizeof(t->nb)) == 0;
}
