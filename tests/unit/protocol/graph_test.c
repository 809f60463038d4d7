/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs on the wire. Any bytes, and that what decodes is canonical: graph_fuzz.c. */
#include "tests/lib/unit.h"

#include "protocol/graph.h"
#include "tests/lib/graph_write.h"

/* ---- memory: the linker sends malloc and calloc of this program here ---------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static size_t memory_asked;  /* bytes since the last reset */
static int memory_fail = -1; /* this many allocations succeed, then one fails; -1: none */

static bool memory_takes(size_t n, size_t size)
{
    memory_asked += n * size;
    if (memory_fail < 0)
        return true;
    return memory_fail-- != 0;
}

void *__wrap_malloc(size_t size)
{
    return memory_takes(1, size) ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return memory_takes(n, size) ? __real_calloc(n, size) : NULL;
}

/* ---- helpers ------------------------------------------------------------------ */

/* A sample to spoil: its own names, buffers and tensors. */
struct sample {
    struct apir_name names[8];
    struct apir_graph_buffer buffers[2];
    struct apir_tensor tensors[SAMPLE_TENSORS];
    struct apir_graph g;
};

static struct sample *sample_copy(struct sample *s)
{
    const struct apir_graph *g = sample_graph();
    *s = (struct sample){.g = *g};
    memcpy(s->names, g->names, g->n_names * sizeof(*g->names));
    memcpy(s->buffers, g->buffers, g->n_buffers * sizeof(*g->buffers));
    memcpy(s->tensors, g->tensors, g->n_tensors * sizeof(*g->tensors));
    s->g.names = s->names;
    s->g.buffers = s->buffers;
    s->g.tensors = s->tensors;
    return s;
}

/* A heap copy of exactly `size` bytes, so that ASan sees a read behind them. */
static uint8_t *exact_copy(const void *data, size_t size)
{
    uint8_t *copy = __real_malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static int decode(const void *data, size_t size, struct apir_graph *g, const char **why)
{
    uint8_t *copy = exact_copy(data, size);
    *why = NULL;
    int rc = apir_graph_decode(copy, size, g, why);
    free(copy);
    return rc;
}

static void expect_good(const void *data, size_t size, struct apir_graph *g)
{
    const char *why;
    if (decode(data, size, g, &why))
        fail_msg("refused: %s", why);
}

/* The bytes must be refused, with this text, and nothing handed over. */
static void expect_bad_bytes(const void *data, size_t size, const char *text)
{
    struct apir_graph g = {.n_nodes = 77};
    const char *why;
    int rc = decode(data, size, &g, &why);
    if (rc != -EBADMSG)
        fail_msg("decode gave %d instead of: %s", rc, text ? text : "a refusal");
    assert_non_null(why);
    if (text)
        assert_string_equal(why, text);
    assert_int_equal(g.n_nodes, 77);
    assert_null(g.tensors);
}

static void expect_bad(const struct sample *s, const char *text)
{
    uint8_t buf[SAMPLE_BYTES];
    size_t size = graph_write(&s->g, buf, sizeof(buf));
    assert_true(size > 0);
    expect_bad_bytes(buf, size, text);
}

/* A copy of the sample with one member changed. */
#define EXPECT_BAD(change, text)                                                                   \
    do {                                                                                           \
        struct sample changed;                                                                     \
        sample_copy(&changed)->change;                                                             \
        expect_bad(&changed, text);                                                                \
    } while (0)
/* The same for each of these values of the member. */
#define EXPECT_BAD_EACH(values, member, text)                                                      \
    for (size_t v = 0; v < sizeof(values) / sizeof((values)[0]); v++)                              \
    EXPECT_BAD(member = (values)[v], text)

static void decode_sample(struct apir_graph *g)
{
    uint8_t buf[SAMPLE_BYTES];
    expect_good(buf, graph_write(sample_graph(), buf, sizeof(buf)), g);
}

static void assert_same_tensor(const struct apir_tensor *a, const struct apir_tensor *b)
{
    assert_int_equal(a->bits, b->bits);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->n_src, b->n_src);
    assert_int_equal(a->op, b->op);
    assert_int_equal(a->sub, b->sub);
    assert_memory_equal(a->ne, b->ne, sizeof(a->ne));
    assert_memory_equal(a->nb, b->nb, sizeof(a->nb));
    assert_int_equal(a->use_count, b->use_count);
    assert_int_equal(a->buffer, b->buffer);
    assert_true(a->offset == b->offset);
    assert_int_equal(a->view_src, b->view_src);
    assert_true(a->view_offs == b->view_offs);
    assert_memory_equal(a->src, b->src, sizeof(a->src));
    assert_memory_equal(a->params, b->params, sizeof(a->params));
    assert_string_equal(a->name, b->name);
}

/* ---- definitions -------------------------------------------------------------- */

TEST(a_definition_survives_the_trip)
{
    const struct apir_graph *in = sample_graph();
    struct apir_graph out;
    decode_sample(&out);
    assert_int_equal(out.flags, in->flags);
    assert_int_equal(out.n_names, in->n_names);
    for (uint32_t i = 0; i < in->n_names; i++) {
        assert_int_equal(out.names[i].kind, in->names[i].kind);
        assert_string_equal(out.names[i].name, in->names[i].name);
    }
    assert_int_equal(out.n_buffers, in->n_buffers);
    for (uint32_t i = 0; i < in->n_buffers; i++) {
        assert_int_equal(out.buffers[i].id, in->buffers[i].id);
        assert_int_equal(out.buffers[i].usage, in->buffers[i].usage);
    }
    assert_int_equal(out.n_nodes, in->n_nodes);
    assert_int_equal(out.n_tensors, in->n_tensors);
    for (uint32_t i = 0; i < in->n_tensors; i++)
        assert_same_tensor(&out.tensors[i], &in->tensors[i]);
    uint8_t a[SAMPLE_BYTES], b[SAMPLE_BYTES];
    size_t n = graph_write(in, a, sizeof(a));
    assert_int_equal(graph_write(&out, b, sizeof(b)), n);
    assert_memory_equal(a, b, n);
    apir_graph_fini(&out);
    assert_null(out.tensors);
    apir_graph_fini(&out); /* of nothing: nothing */
}

TEST(truncation_at_every_length_is_refused)
{
    uint8_t buf[SAMPLE_BYTES];
    size_t size = graph_write(sample_graph(), buf, sizeof(buf));
    for (size_t n = 0; n < size; n++)
        expect_bad_bytes(buf, n, NULL);
}

TEST(bytes_behind_the_definition_are_refused)
{
    uint8_t buf[SAMPLE_BYTES] = {0};
    size_t size = graph_write(sample_graph(), buf, sizeof(buf));
    for (size_t n = 1; n <= 128; n++)
        expect_bad_bytes(buf, size + n, "graph: trailing bytes");
}

TEST(references_go_to_earlier_tensors_only)
{
    struct sample s;
    for (uint32_t i = SAMPLE_PRODUCT; i < SAMPLE_TENSORS; i++) {
        const uint32_t targets[] = {i, i + 1, SAMPLE_TENSORS, UINT32_MAX - 1, 1u << 31};
        for (size_t k = 0; k < sizeof(targets) / sizeof(targets[0]); k++) {
            for (unsigned src = 0; src < sample_graph()->tensors[i].n_src; src++) {
                sample_copy(&s)->tensors[i].src[src] = targets[k];
                expect_bad(&s, "tensor: source is a later tensor");
            }
        }
    }
    static const uint32_t views[] = {SAMPLE_VIEW, SAMPLE_VIEW + 1, SAMPLE_TENSORS, UINT32_MAX};
    EXPECT_BAD_EACH(views, tensors[SAMPLE_VIEW].view_src, "tensor: view of a later tensor");
    /* Nothing is before the first. */
    sample_copy(&s)->tensors[SAMPLE_WEIGHT].bits = APIR_TENSOR_VIEW;
    s.tensors[SAMPLE_WEIGHT].view_src = 0;
    expect_bad(&s, "tensor: view of a later tensor");
}

TEST(ops_and_sources_go_together)
{
    EXPECT_BAD(tensors[SAMPLE_PRODUCT].op = APIR_NO_NAME, "tensor: a node without an op");
    EXPECT_BAD(tensors[SAMPLE_INPUT].n_src = 1, "tensor: sources without an op");
    EXPECT_BAD(tensors[SAMPLE_VIEW].bits |= APIR_TENSOR_BUFFER,
               "tensor: a view with a buffer of its own");
    for (unsigned n = APIR_TENSOR_SRC + 1; n <= UINT8_MAX; n++)
        EXPECT_BAD(tensors[SAMPLE_ALL_SRC].n_src = (uint8_t)n, "tensor: too many sources");
}

TEST(unknown_bits_and_flags_are_refused)
{
    for (unsigned bit = 1; bit < 32; bit++)
        EXPECT_BAD(g.flags |= 1u << bit, "graph: unknown flags");
    for (unsigned bit = 5; bit < 8; bit++) {
        EXPECT_BAD(tensors[SAMPLE_INPUT].bits |= (uint8_t)(1u << bit), "tensor: unknown bits");
        EXPECT_BAD(tensors[SAMPLE_INPUT].flags |= (uint8_t)(1u << bit), "tensor: unknown flags");
    }
    EXPECT_BAD(buffers[0].usage = 3, "graph: unknown buffer usage");
    EXPECT_BAD(buffers[1].usage = UINT32_MAX, "graph: unknown buffer usage");
}

TEST(negative_dimensions_are_refused)
{
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        EXPECT_BAD(tensors[SAMPLE_INPUT].ne[i] = -1, "tensor: negative dimension");
        EXPECT_BAD(tensors[SAMPLE_ALL_SRC].ne[i] = INT64_MIN, "tensor: negative dimension");
    }
}

/* Structure is all that is checked here: what they mean is the worker's. */
TEST(absurd_numbers_without_structure_pass)
{
    struct sample s;
    struct apir_tensor *t = &sample_copy(&s)->tensors[SAMPLE_INPUT];
    t->type = 255;
    t->offset = UINT64_MAX;
    t->use_count = UINT32_MAX;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        t->ne[i] = i % 2 ? INT64_MAX : 0;
        t->nb[i] = UINT64_MAX;
    }
    uint8_t buf[SAMPLE_BYTES];
    struct apir_graph g;
    expect_good(buf, graph_write(&s.g, buf, sizeof(buf)), &g);
    assert_same_tensor(&g.tensors[SAMPLE_INPUT], t);
    apir_graph_fini(&g);
}

TEST(counts_beyond_the_bytes_allocate_nothing_for_them)
{
    static const uint32_t counts[] = {16,       256,       4096, 4097, 1u << 18, (1u << 18) + 1,
                                      1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct sample s;
        uint8_t buf[SAMPLE_BYTES];
        /* tensors: the last two words of the front */
        sample_copy(&s)->g.n_tensors = 0;
        s.g.n_nodes = counts[i];
        size_t size = graph_write(&s.g, buf, sizeof(buf));
        memcpy(buf + size - 8, &counts[i], 4);
        memset(buf + size, 0, 64); /* less than one tensor */
        memory_asked = 0;
        expect_bad_bytes(buf, size + 64, "graph: more tensors than bytes");
        assert_true(memory_asked < 4096);
        /* buffers: the count is behind the names */
        sample_copy(&s)->g.n_buffers = 0;
        s.g.n_tensors = s.g.n_nodes = 0;
        size = graph_write(&s.g, buf, sizeof(buf));
        memcpy(buf + size - 12, &counts[i], 4);
        memory_asked = 0;
        expect_bad_bytes(buf, size, "graph: more buffers than bytes");
        assert_true(memory_asked < 4096);
        /* names: the first thing of all */
        uint8_t front[] = {0, 0, 0, 0, (uint8_t)counts[i], (uint8_t)(counts[i] >> 8), 0, 0};
        if (counts[i] >> 16)
            front[4] = front[5] = 0xff;
        memory_asked = 0;
        expect_bad_bytes(front, sizeof(front), NULL);
        assert_true(memory_asked < 64 << 10);
    }
}

TEST(a_graph_takes_a_small_multiple_of_its_bytes)
{
    /* Leaves of nothing: the fewest bytes of wire per tensor. */
    enum { COUNT = 4096 };
    struct apir_tensor *all = test_calloc(COUNT, sizeof(*all));
    uint8_t *buf = test_malloc(COUNT * 128);
    struct apir_name name = {APIR_NAME_OP, "NONE"};
    for (uint32_t i = 0; i < COUNT; i++)
        all[i] = sample_tensor(i ? 0 : APIR_TENSOR_NODE, i ? APIR_NO_NAME : 0);
    struct apir_graph in = {
        .n_names = 1, .names = &name, .n_tensors = COUNT, .n_nodes = 1, .tensors = all};
    size_t size = graph_write(&in, buf, COUNT * 128);
    assert_true(size > 0);
    struct apir_graph g;
    memory_asked = 0;
    expect_good(buf, size, &g);
    assert_true(memory_asked < 6 * size);
    apir_graph_fini(&g);
    test_free(buf);
    test_free(all);
}

/* With the byte `at` of the sample's bytes as each character in turn; put back at the end. */
static void each_character(uint8_t *buf, size_t size, uint8_t *at, const char *refusal)
{
    const uint8_t was = *at;
    for (unsigned c = 0; c < 256; c++) {
        *at = (uint8_t)c;
        if (c < 0x20 || c == 0x7f) {
            expect_bad_bytes(buf, size, refusal);
        } else {
            struct apir_graph g;
            expect_good(buf, size, &g);
            apir_graph_fini(&g);
        }
    }
    *at = was;
}

TEST(names_are_clean_and_of_sensible_length)
{
    uint8_t buf[SAMPLE_BYTES];
    size_t size = graph_write(sample_graph(), buf, sizeof(buf));
    uint8_t *blk = memmem(buf, size, "blk.", 4);
    assert_non_null(blk);
    each_character(buf, size, blk + 3, "tensor: control character in a name");
    each_character(buf, size, buf + 4 + 2 + 2 + 3, "graph: bad name"); /* within MUL_MAT */
    EXPECT_BAD(names[0].kind = APIR_NAME_GLU + 1, "graph: bad name");
    EXPECT_BAD(names[0] = (struct apir_name){.kind = APIR_NAME_OP}, "graph: bad name"); /* empty */
    /* One byte too long, with the bytes there. */
    uint8_t front[6 + 2 + APIR_TENSOR_NAME] = {0, 0, 0, 0, 1, 0, APIR_NAME_OP, APIR_TENSOR_NAME};
    memset(front + 8, 'A', APIR_TENSOR_NAME);
    expect_bad_bytes(front, sizeof(front), "graph: bad name");
}

TEST(a_tensor_name_too_long_is_refused)
{
    struct sample s;
    uint8_t buf[SAMPLE_BYTES];
    sample_copy(&s)->g.n_tensors = 1;
    s.g.n_nodes = 1;
    s.tensors[0] = sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_NAMED, NAME_VIEW);
    size_t size = graph_write(&s.g, buf, sizeof(buf));
    memset(buf + size, 'a', 256);
    for (unsigned n = 0; n < 256; n++) {
        buf[size - 1] = (uint8_t)n;
        if (n >= APIR_TENSOR_NAME) {
            expect_bad_bytes(buf, size + n, "tensor: name too long");
            continue;
        }
        struct apir_graph g;
        expect_good(buf, size + n, &g);
        assert_int_equal(strlen(g.tensors[0].name), n);
        apir_graph_fini(&g);
    }
}

TEST(every_failing_allocation_is_enomem_and_leaks_nothing)
{
    uint8_t buf[SAMPLE_BYTES];
    size_t size = graph_write(sample_graph(), buf, sizeof(buf));
    struct apir_graph g = {.n_nodes = 77};
    const char *why;
    int fail_at = 0;
    for (;; fail_at++) {
        memory_fail = fail_at;
        int rc = decode(buf, size, &g, &why);
        memory_fail = -1;
        if (rc == 0)
            break;
        assert_int_equal(rc, -ENOMEM);
        assert_string_equal(why, "graph: out of memory");
        assert_int_equal(g.n_nodes, 77);
    }
    assert_true(fail_at >= 3);
    apir_graph_fini(&g);
}
