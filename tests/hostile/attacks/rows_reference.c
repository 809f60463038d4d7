/* SPDX-License-Identifier: Apache-2.0 */
/* What the reference implementation of this kind of remoting would have fallen for. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "tests/hostile/attacks/watch.h"
#include "tests/hostile/attacks/sheet.h"

/* ---- handles ----------------------------------------------------------------------------- */

/* A message that is right but for one id, and what is said to one that could be but is not. */
struct handle {
    struct apir_msg m;
    size_t at;
    uint32_t unused;
    const char *why;
};

static void pointers_as_handles(void)
{
    static const uint32_t halves[] = {0x7f123456, 0x5555e000, UINT32_MAX};
    const struct handle handles[] = {
        {{.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {1}}, 0, 4, "buffer does not"},
        {{.code = APIR_MSG_STREAM_SYNC, .u.stream_sync = {STREAM}}, 0, 2, "stream does not"},
        {{.code = APIR_MSG_EVENT_RECORD, .u.event_record = {0, STREAM}},
         4,
         APIR_STREAMS_MAX,
         "stream does not"},
        {{.code = APIR_MSG_EVENT_RECORD, .u.event_record = {0, STREAM}},
         0,
         APIR_EVENTS_MAX,
         "out of range"},
        {{.code = APIR_MSG_EVENT_WAIT, .u.event_wait = {0, STREAM}}, 4, 2, "stream does not"},
        {{.code = APIR_MSG_GRAPH_EXEC, .u.graph_exec = {0, STREAM}}, 0, 1, "is not defined"},
        {{.code = APIR_MSG_DEVICE_INFO}, 0, 1, "device does not"},
        {{.code = APIR_MSG_BLOB_REGISTER, .u.blob_register = {1, 0, 0}}, 0, 2, "blob does not"},
        {{.code = APIR_MSG_BLOB_REGISTER, .u.blob_register = {1, 0, 0}}, 4, 1, "device does not"},
        {{.code = APIR_MSG_BLOB_FORGET, .u.blob_forget = {1}}, 0, 2, "blob does not"},
    };
    struct guest g;
    for (size_t i = 0; i < N(handles); i++) {
        guest_open(&g);
        square_runs(&g);
        guest_put(&g, &handles[i].m);
        WANT(guest_run(&g));
        guest_close(&g);
        message_fatal_changed(&handles[i].m, handles[i].at, &handles[i].unused, 4, handles[i].why);
        for (size_t k = 0; k < N(halves); k++)
            message_fatal_changed(&handles[i].m, handles[i].at, &halves[k], 4,
                                  i == 0 ? "buffer does not" : "out of range");
    }
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* `why` as our server says it; NULL: it need not come as far as that. */
static void blob_refused(struct guest *g, uint64_t id, uint64_t size, const char *why)
{
    const uint32_t request[6] = {
        2, 1, (uint32_t)size, (uint32_t)(size >> 32), (uint32_t)id, (uint32_t)(id >> 32)};
    uint32_t resource;
    vtest_put(g, VTEST_CREATE_BLOB, request, N(request));
    /* virglrenderer hangs up on who asks for what there cannot be. */
    if (vtest_answer(g, VTEST_CREATE_BLOB, &resource, 1))
        not_stopped("a blob %llu of %#llx bytes", (unsigned long long)id, (unsigned long long)size);
    if (why)
        host_said(why);
}

static void sizes_of_shared_memory(void)
{
    static const uint64_t sizes[] = {1, 4096, 65537, APIR_BLOB_SIZE_MAX + 65536};
    static const uint64_t absurd[] = {0, UINT64_C(1) << 63, UINT64_MAX - 65535};
    static const uint64_t rings[] = {4096, 65536, 100000, 1 << 25, UINT64_C(1) << 40};
    static const uint64_t ids[] = {APIR_BLOBS_MAX, UINT32_MAX, UINT64_C(1) << 32};
    struct guest g;
    for (size_t i = 0; i < N(sizes); i++) {
        guest_open(&g);
        guest_blob(&g, 2, 65536);
        blob_refused(&g, 3, sizes[i], "bad size of a blob");
        guest_close(&g);
    }
    for (size_t i = 0; i < N(absurd); i++) {
        guest_open(&g);
        blob_refused(&g, 3, absurd[i], NULL);
        guest_close(&g);
    }
    for (size_t i = 0; i < N(rings); i++) {
        guest_connect_bare(&g);
        blob_refused(&g, APIR_RING_BLOB_ID, rings[i], "bad size of the ring blob");
        guest_close(&g);
    }
    for (size_t i = 0; i < N(ids); i++) {
        guest_open(&g);
        blob_refused(&g, ids[i], 65536, "blob id out of range");
        guest_close(&g);
    }
    /* Regions of what there is. */
    static const uint64_t regions[][2] = {{ARENA - 63, 64}, {ARENA, 1}, {0, ARENA + 1}};
    for (size_t i = 0; i < N(regions); i++) {
        struct apir_msg m = {
            .code = APIR_MSG_GRAPH_DEF,
            .u.graph_def = {
                .stream = STREAM, .blob = 1, .blob_offset = regions[i][0], .size = regions[i][1]}};
        message_fatal(&m, "region outside its blob");
        m.u.graph_def.blob = 2;
        message_fatal(&m, "region outside its blob");
    }
}

static void null_arrays(void)
{
    static const uint8_t nothing[64];
    struct apir_msg define = {.code = APIR_MSG_GRAPH_DEF,
                              .u.graph_def = {.stream = STREAM, .blob = 1, .size = 64}};
    const uint64_t zero = 0;
    struct guest g;
    struct sheet s;
    square_runs_alone();
    guest_open(&g);
    memcpy(guest_arena(&g), nothing, sizeof(nothing));
    put_define(&g, 0, 0, 64);
    end_refused(&g, "more tensors than bytes");
    message_fatal_changed(&define, 20, &zero, sizeof(zero), "size out of range");
    sheet_square(&s);
    s.g.n_names = 0;
    sheet_fatal(&s, "op is not a name of this graph");
    sheet_square(&s);
    s.g.n_buffers = 0;
    sheet_fatal(&s, "buffer is not one of this graph");
}

/* ---- graphs ------------------------------------------------------------------------------ */

static void no_nodes(void)
{
    struct sheet s;
    square_runs_alone();
    sheet_square(&s);
    s.g.n_nodes = 0;
    sheet_fatal(&s, "node count");
    sheet_new(&s, "SQR");
    sheet_leaf(&s, F32, 4, 4, 1, 1);
    s.g.n_nodes = 0;
    sheet_fatal(&s, "node count");
}

static void strides_whose_sum_overflows(void)
{
    /* Dimension, how many, how far apart: in 32 bits, or in 64, the last one lies inside. */
    static const struct {
        int dim;
        int64_t ne;
        uint64_t nb;
    } bad[] = {{1, 65537, 65536},
               {1, INT_MAX, UINT64_C(0x80000001)},
               {2, 3, UINT64_C(1) << 63},
               {3, 5, UINT64_C(1) << 62},
               {1, 4, UINT64_MAX - 15}};
    struct sheet s;
    square_runs_alone();
    for (size_t i = 0; i < N(bad); i++) {
        sheet_square(&s);
        s.t[0].ne[bad[i].dim] = bad[i].ne;
        s.t[0].nb[bad[i].dim] = bad[i].nb;
        sheet_fatal(&s, i == 0 ? "outside its buffer" : "overflow");
    }
}

static void op_numbers(void)
{
    static const char *const names[] = {"COUNT", "GGML_OP_SQR", "sqr", "FLASH_ATTN_BACK"};
    static const uint16_t numbers[] = {1, 105, 255, 0xfffe};
    struct sheet s;
    square_runs_alone();
    for (size_t i = 0; i < N(numbers); i++) {
        sheet_square(&s)->op = numbers[i];
        sheet_fatal(&s, "op is not a name of this graph");
        sheet_square(&s)->sub = numbers[i];
        sheet_fatal(&s, "sub-op is not a name of this graph");
    }
    for (size_t i = 0; i < N(names); i++) {
        sheet_square(&s);
        memcpy(s.names[0].name, names[i], strlen(names[i]) + 1);
        sheet_fatal(&s, "not one that may be computed");
    }
    sheet_square(&s)->op = APIR_NO_NAME;
    sheet_fatal(&s, "a node without an op");
}

/* A slot that has computed: what was allowed of its graph holds for no other graph. */
static void redefined_to_be_invalid(void)
{
    static const char *const whys[] = {"not the shape", "outside its buffer", "broken elements",
                                       "is missing",    "outside its buffer", "node count",
                                       "overflow"};
    struct guest g;
    struct sheet s;
    for (size_t i = 0; i < N(whys); i++) {
        guest_open_square(&g, &s);
        struct apir_tensor *leaf = &s.t[0], *node = &s.t[1];
        node->offset = 4096; /* an honest change */
        sheet_runs(&g, &s);
        switch (i) {
        case 0:
            leaf->ne[1] = 3;
            break;
        case 1:
            leaf->offset = MEMORY - 60;
            break;
        case 2:
            leaf->nb[1] = 15;
            break;
        case 3:
            node->src[0] = APIR_NO_TENSOR;
            break;
        case 4:
            node->bits = APIR_TENSOR_NODE | APIR_TENSOR_VIEW;
            node->view_src = 0;
            node->view_offs = UINT64_MAX - 3;
            break;
        case 5:
            node->bits &= (uint8_t)~APIR_TENSOR_NODE;
            break;
        default:
            leaf->ne[1] = INT64_MAX;
        }
        put_define(&g, 0, 0, sheet_write(&g, &s));
        end_refused(&g, whys[i]);
    }
    /* A parameter: where a window lies. */
    guest_open(&g);
    sheet_new(&s, "ACC");
    sheet_leaf(&s, F32, 4, 4, 1, 1);
    sheet_leaf(&s, F32, 4, 2, 1, 1);
    memcpy(sheet_op(&s, F32, 4, 4, 1, 1)->params, (const int32_t[4]){16, 64, 64, 32}, 16);
    sheet_runs(&g, &s);
    s.t[2].params[3] = 48;
    put_define(&g, 0, 0, sheet_write(&g, &s));
    end_refused(&g, "a window that is not wholly inside");
}

/* ---- the server and the VMM -------------------------------------------------------------- */

static void commands_that_are_no_doorbells(void)
{
    static uint8_t bytes[1u << 19];
    static const uint32_t sizes[] = {0, 4, 20, 28, 252, 256, 260, 4096, 1u << 16};
    struct guest g;
    guest_open(&g);
    square_runs(&g);
    struct apir_doorbell good = {
        .magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_PING, .value = 77};
    vtest_submit(&g, &good, sizeof(good), 0, 0, 0);
    WANT(SOON(apir_load_acquire32(&g.ring.header->pong) == 77));
    for (size_t i = 0; i < N(sizes); i++) {
        memcpy(bytes, &good, sizes[i] < sizeof(good) ? sizes[i] : sizeof(good));
        vtest_submit(&g, bytes, sizes[i], 0, 0, 0);
        expect_alive(&g);
    }
    guest_close(&g);
    /* More than the socket between VMM and server takes: the VMM hangs up on us, and lives. */
    guest_open(&g);
    vtest_submit(&g, bytes, sizeof(bytes), 0, 0, 0);
    uint32_t nothing;
    WANT(!vtest_answer(&g, 0, &nothing, 1));
    guest_close(&g);
    for (int i = 0; i < 4; i++) {
        struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_KICK};
        bell.magic ^= i == 0;
        bell.zero = i == 1;
        bell.op = i == 2 ? 0 : i == 3 ? UINT32_MAX : APIR_DOORBELL_KICK;
        guest_open(&g);
        vtest_submit(&g, &bell, sizeof(bell), 0, 0, 0);
        host_said(i < 2 ? "that is no doorbell" : "unknown doorbell");
        expect_alive(&g);
        guest_close(&g);
    }
}

static uint64_t sync_value(struct guest *g, uint32_t sync)
{
    uint32_t v[2];
    vtest_put(g, VTEST_SYNC_READ, &sync, 1);
    WANT(vtest_answer(g, VTEST_SYNC_READ, v, 2));
    return v[0] | (uint64_t)v[1] << 32;
}

static void sync_reaches(struct guest *g, uint32_t sync, uint64_t value)
{
    if (!SOON(sync_value(g, sync) >= value))
        not_stopped("a fence never completes: the VMM would wait for ever");
}

static void fence(struct guest *g, uint32_t sync, uint32_t ring, uint64_t value)
{
    const struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_KICK};
    vtest_submit(g, &bell, sizeof(bell), ring, sync, value);
}

/* Each completes at once, also of a context that is lost. */
static void fences_of_any_value(void)
{
    cleanup_guest struct guest g;
    const uint32_t zero[2] = {0, 0};
    uint32_t sync, other;
    guest_open(&g);
    vtest_put(&g, VTEST_SYNC_CREATE, zero, 2);
    WANT(vtest_answer(&g, VTEST_SYNC_CREATE, &sync, 1));
    vtest_put(&g, VTEST_SYNC_CREATE, zero, 2);
    WANT(vtest_answer(&g, VTEST_SYNC_CREATE, &other, 1));
    fence(&g, sync, 1, 1);
    fence(&g, other, 63, 1);
    sync_reaches(&g, sync, 1);
    sync_reaches(&g, other, 1);
    put_stream(&g, APIR_MSG_STREAM_SYNC, 2);
    expect_refused(&g, "stream does not exist");
    fence(&g, sync, 1, 2);
    sync_reaches(&g, sync, 2);
}

/* The same resource given back twice, and what never was one. */
static void resources_given_back_twice(void)
{
    cleanup_guest struct guest g;
    const uint32_t unknown = 0x7fffffff;
    guest_open(&g);
    for (uint32_t i = 0; i < 200; i++) {
        guest_blob(&g, 2, 65536);
        uint32_t id = g.blobs[2].handle;
        g.transport.blob_destroy(&g.transport, &g.blobs[2]);
        if (i % 10 == 0)
            vtest_put(&g, VTEST_RESOURCE_UNREF, &id, 1);
        if (i % 50 == 0)
            vtest_put(&g, VTEST_RESOURCE_UNREF, &unknown, 1);
        expect_alive(&g);
    }
    /* One that the worker is known to have, given back; it hears of blob 3 after that. */
    guest_blob(&g, 2, 65536);
    blob_register(&g, 2, 0);
    g.transport.blob_destroy(&g.transport, &g.blobs[2]);
    guest_blob(&g, 3, 65536);
    put_forget(&g, 3);
    WANT(guest_run(&g));
    put_forget(&g, 2);
    expect_refused(&g, "blob does not exist");
    uint32_t ring = g.ring_blob.handle;
    vtest_put(&g, VTEST_RESOURCE_UNREF, &ring, 1);
    vtest_put(&g, VTEST_RESOURCE_UNREF, &ring, 1);
}

static void fill(struct guest *g, uint8_t value)
{
    uint8_t bytes[4096];
    memset(bytes, value, sizeof(bytes));
    guest_set(g, 3, 0, bytes, sizeof(bytes));
}

static void is_filled(struct guest *g, uint8_t value)
{
    uint8_t bytes[4096];
    guest_get(g, 3, 0, bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        WANT(bytes[i] == value);
}

/* The same ids mean other things in each; one may end without the other; so many and no more. */
static void several_contexts(void)
{
    struct guest g[ATTACK_CONTEXTS_MAX];
    uint32_t n = ATTACK_CONTEXTS_MAX - 1; /* one is the bystander's */
    for (uint32_t i = 0; i < n; i++) {
        guest_open(&g[i]);
        fill(&g[i], (uint8_t)(0x10 + i));
    }
    for (uint32_t i = 0; i < n; i++)
        is_filled(&g[i], (uint8_t)(0x10 + i));
    guest_connect(&g[n]);
    if (guest_state(&g[n]) != APIR_STATE_LOST || !strstr(guest_reason(&g[n]), "all in use"))
        not_stopped("context %u of %u is served: %s", n + 2, ATTACK_CONTEXTS_MAX,
                    guest_reason(&g[n]));
    const char *why = guest_reason(&g[n]);
    put_stream(&g[0], APIR_MSG_STREAM_SYNC, 9);
    expect_refused(&g[0], "stream does not exist");
    refused("%s", why);
    for (uint32_t i = 1; i < n; i++)
        is_filled(&g[i], (uint8_t)(0x10 + i));
    for (uint32_t i = 0; i <= n; i++)
        guest_close(&g[i]);
}

/* More memory than one may have; somebody new still gets some (host_check). */
static void window_exhausted(void)
{
    cleanup_guest struct guest g;
    uint64_t had = APIR_RING_SIZE + ARENA;
    const uint64_t size = (uint64_t)4 << 20;
    uint32_t id = 2;
    guest_open(&g);
    for (; had + size <= ATTACK_SHM_MAX; had += size)
        guest_blob(&g, id++, size);
    blob_refused(&g, id, size, "shared memory is used up");
}

const struct attack_row attack_rows_reference[] = {
    {"ref-pointer-handles", "raw pointers as handles", pointers_as_handles, 0, 0},
    {"ref-shm-sizes", "sizes of shared memory", sizes_of_shared_memory, 0, 0},
    {"ref-null-arrays", "arrays of nothing", null_arrays, 0, 0},
    {"ref-vmm-asserts", "commands that a VMM could trip over", commands_that_are_no_doorbells, 0,
     0},
    {"ref-no-nodes", "a graph of no nodes", no_nodes, 0, 0},
    {"ref-stride-sums", "sums of strides that overflow", strides_whose_sum_overflows, 0, 0},
    {"ref-op-numbers", "ops that are none", op_numbers, 0, 0},
    {"ref-contexts", "a second context while one lives, and too many", several_contexts, 0, 0},
    {"ref-fences", "fences that never complete", fences_of_any_value, 0, 0},
    {"ref-given-back-twice", "resources and descriptors given back twice",
     resources_given_back_twice, 0, 0},
    {"ref-redefined", "a valid graph that comes again and is invalid", redefined_to_be_invalid, 0,
     0},
    {"ref-window", "one context takes all shared memory", window_exhausted, 0, 0},
    {0},
};
