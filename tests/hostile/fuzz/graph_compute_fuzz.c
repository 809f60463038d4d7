/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops as ggml's builders make them, with some numbers changed, through the worker's decoder
 * and validator; what these accept, the host's CPU backend computes. Every tensor lies in a
 * buffer of its own between pages without access, and so does the memory that ggml works in:
 * what a kernel touches outside is a crash, and a rule that is missing.
 *
 * Input: one byte that picks the op, then numbers for dimensions and changes; more are drawn
 * from those.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "backend/worker/graph.h"
#include "backend/worker/handlers.h"
#include "backend/worker/rules/op.h"
#include "backend/worker/rules/rules.h"
#include "tests/hostile/fuzz/cage.h"
#include "tests/hostile/fuzz/graph_ops.h"
#include "tests/hostile/fuzz/graph_random.h"
#include "tests/lib/graph_write.h"

const char fuzz_corpus[] = "graph_compute";

#define ROOM     ((size_t)64 << 10) /* bytes of a buffer, and so of a tensor */
#define BUFFERS  GRAPH_SCENE_MAX
#define ELEMENTS (1 << 20) /* beyond it, only time would pass */

static struct worker w = {.control_fd = -1};
static void *stream;
static uint8_t *memory[BUFFERS];
static struct worker_slot slot;

/* operator new[] and delete[], where ggml-cpu has its work buffer. */
FUZZ_DEFINE(void *_Znam(size_t size))
{
    void *work = cage_alloc(size, 16);
    FUZZ_CHECK(work);
    return work;
}

FUZZ_DEFINE(void _ZdaPv(void *p))
{
    FUZZ_CHECK(cage_free(p) || !p);
}

FUZZ_DEFINE(void _ZdaPvm(void *p, size_t size))
{
    _ZdaPv(p);
}

/* ---- the worker ------------------------------------------------------------------------ */

static void setup(void)
{
    cage_load(&w.ggml);
    worker_meaning_init(&w.meaning, host_ggml_has, &w.ggml);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        memory[i] = cage_alloc(ROOM, 64);
        struct worker_buffer *b = &w.buffers[i + 1];
        *b = (struct worker_buffer){.id = i + 1};
        FUZZ_CHECK(host_buffer_wrap(&w.ggml, &w.ggml.devices[0], memory[i], ROOM, &b->host) == 0);
    }
}

/* ---- places ------------------------------------------------------------------------------- */

/* Each at the end of its buffer or at the start. */
static void scene_place(struct graph_scene *s, struct dice *d)
{
    for (uint32_t i = 0; i < s->g.n_tensors; i++) {
        struct apir_tensor *t = &s->tensors[i];
        uint64_t extent = 0;
        t->offset = 0;
        if (t->type < HOST_TYPES_MAX && w.ggml.types[t->type].block &&
            !worker_rules_extent(&w.ggml.types[t->type], t, &extent) && extent <= ROOM &&
            dice_roll(d, 4))
            t->offset = ROOM - extent;
    }
}

static void scene_fill(const struct graph_scene *s, struct dice *d)
{
    for (uint32_t i = 0; i < s->g.n_tensors; i++) {
        const struct apir_tensor *t = &s->tensors[i];
        uint8_t *at = memory[i];
        bool wild = dice_roll(d, 8) == 0;
        /* Of the state of the dice: one draw for all of a buffer. */
        uint64_t x = ((uint64_t)dice_roll(d, UINT32_MAX) << 32) | 1;
        for (size_t n = 0; n < ROOM; n += 8) {
            x = x * UINT64_C(6364136223846793005) + 1;
            uint64_t v = x;
            if (t->type == GGML_TYPE_I32)
                v = wild ? x >> (x % 40) : (x >> 32 & 1) | (x >> 8 & 1) << 32;
            else if (t->type == GGML_TYPE_I64)
                v = wild ? x : x >> 32 & 1;
            else if (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_F16)
                v = (x >> 3 & UINT64_C(0x0fff0fff0fff0fff)) | UINT64_C(0x3000300030003000);
            memcpy(at + n, &v, 8);
        }
    }
}

/* ---- run ------------------------------------------------------------------------------------ */

static bool too_long(const struct graph_scene *s)
{
    const struct apir_tensor *node = &s->tensors[s->g.n_tensors - 1];
    return random_graph_elements(&s->g) > ELEMENTS ||
           (strcmp(s->names[0].name, "DSV4_HC_COMB") == 0 && node->params[1] > 1000);
}

static const struct graph_scene *scene_now;

/* Called by AddressSanitizer: what was computed when it happened. */
FUZZ_DEFINE(void __asan_on_error(void))
{
    const struct graph_scene *s = scene_now;
    if (!s)
        return;
    fprintf(stderr, "IN %s", s->names[0].name);
    const struct apir_tensor *node = &s->tensors[s->g.n_tensors - 1];
    for (int i = 0; i < APIR_TENSOR_PARAMS; i++)
        fprintf(stderr, " %d", node->params[i]);
    for (uint32_t i = 0; i < s->g.n_tensors; i++) {
        const struct apir_tensor *t = &s->tensors[i];
        fprintf(stderr, "\nIN   tensor %u at %p type %u", i, (void *)(memory[i] + t->offset),
                t->type);
        for (int k = 0; k < APIR_TENSOR_DIMS; k++)
            fprintf(stderr, " %lld/%llu", (long long)t->ne[k], (unsigned long long)t->nb[k]);
        for (int k = 0; k < t->n_src; k++)
            fprintf(stderr, " src %d", (int)t->src[k]);
    }
    fprintf(stderr, "\n");
}

static void compute(const struct graph_scene *s, struct dice *d)
{
    if (slot.state != SLOT_READY || too_long(s))
        return;
    scene_fill(s, d);
    char why[APIR_WHY_SIZE];
    if (!worker_slot_indices_ok(&slot, why))
        return;
    /* A stream of its own, so that the work buffer is as large as asked for and no larger. */
    scene_now = s;
    cage_armed = true;
    if (setjmp(cage) == 0) {
        stream = host_stream_open(&w.ggml, &w.ggml.devices[0]);
        FUZZ_CHECK(stream);
        host_graph_compute(&w.ggml, stream, &slot.graph);
    }
    cage_armed = false;
    host_stream_close(&w.ggml, stream);
    scene_now = NULL;
}

/* The same op as a question: no buffers, and an answer instead of an end. */
static void ask(const struct graph_scene *s)
{
    static uint8_t payload[8192], ring[APIR_RING_SIZE_MIN];
    struct graph_scene q = *s;
    q.g.names = q.names;
    q.g.buffers = q.buffers;
    q.g.tensors = q.tensors;
    graph_imagine(&q.g);
    size_t size = graph_write(&q.g, payload, sizeof(payload));
    const struct apir_msg_op_query m = {.blob = APIR_ARENA_BLOB_ID, .size = size};
    w.blobs[APIR_RING_BLOB_ID] = (struct worker_blob){.map = ring, .size = sizeof(ring)};
    w.blobs[APIR_ARENA_BLOB_ID] = (struct worker_blob){.map = payload, .size = sizeof(payload)};
    cage_armed = true;
    if (size && setjmp(cage) == 0)
        worker_op_query(&w, &m);
    cage_armed = false;
}

static bool define(const struct graph_scene *s)
{
    static uint8_t payload[8192];
    size_t size = graph_write(&s->g, payload, sizeof(payload));
    const char *why = NULL;
    FUZZ_CHECK(size > 0);
    cage_armed = true;
    if (setjmp(cage) == 0)
        why = worker_slot_define(&w, &slot, 0, payload, size);
    cage_armed = false;
    return !why;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct graph_scene s;
    if (size < 2)
        return 0;
    if (!w.ggml.fns)
        setup();
    struct dice d = {.data = data + 1, .left = size - 1, .state = UINT64_C(0xcbf29ce484222325)};
    if (!graph_op_try(&s, &d, data[0]))
        return 0;
    for (uint32_t changes = dice_roll(&d, 4); changes; changes--)
        graph_change(s.tensors, s.g.n_tensors, &d);
    scene_place(&s, &d);
    if (dice_roll(&d, 4) == 0)
        ask(&s);
    if (define(&s))
        compute(&s, &d);
    worker_slot_clear(&w, &slot);
    return 0;
}
