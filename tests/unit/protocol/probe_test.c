/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe on the packaged ggml, on that same ggml behind a resolver that
 * misleads, and on fakes: a ggml of any layout, and such as nobody ever built.
 */
#include "tests/lib/unit.h"

#include <dlfcn.h>

#include <ggml-backend.h>
#include <ggml.h>

#include "protocol/ggml_probe.h"

#define OPTIONAL_SYMBOL "ggml_build_forward_select"

static void *lib; /* the packaged libggml; stays open: ggml is not made to be unloaded */

static int open_ggml(void **state)
{
    (void)state;
    lib = dlopen("libggml.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fprintf(stderr, "%s\n", dlerror());
    return !lib;
}
BEFORE_ALL_TESTS(open_ggml)

static void *ggml_symbol(const char *name)
{
    void *p = dlsym(lib, name);
    if (!p)
        fail_msg("the packaged ggml lacks %s", name);
    return p;
}
#define GGML(name) ((__typeof__(name) *)ggml_symbol(#name))

/* ---- the packaged ggml ---------------------------------------------------------- */

static void probe_real(struct ggml_layout *layout)
{
    char why[256] = "";
    int rc = ggml_probe_layout(dlsym, lib, layout, why, sizeof(why));
    if (rc)
        fail_msg("%d: %s", rc, why);
}

TEST(the_packaged_ggml_has_a_layout_that_we_know)
{
    struct ggml_layout l;
    probe_real(&l);
    assert_non_null(l.label);
    assert_int_equal(l.label[0], 'L');
    assert_true(l.api_version >= 1 && l.api_version <= 3);
    print_message("libggml.so.0 has layout %s\n", l.label);
}

TEST(its_public_structs_are_as_we_describe_them)
{
    struct ggml_layout l;
    probe_real(&l);
    assert_int_equal(l.props_size, sizeof(struct ggml_backend_dev_props));
    assert_int_equal(l.props_caps, offsetof(struct ggml_backend_dev_props, caps));
    assert_int_equal(l.props_device_id, offsetof(struct ggml_backend_dev_props, device_id));
#define SAME(member)                                                                               \
    assert_int_equal(offsetof(struct gg_tensor, member), offsetof(struct ggml_tensor, member))
    SAME(type);
    SAME(buffer);
    SAME(ne);
    SAME(nb);
    SAME(op);
    SAME(op_params);
    SAME(flags);
    SAME(src);
    SAME(view_src);
    SAME(view_offs);
    SAME(data);
    SAME(name);
    SAME(extra);
#undef SAME
    assert_int_equal(sizeof(struct gg_tensor), sizeof(struct ggml_tensor));
    assert_int_equal(sizeof(struct gg_init_params), sizeof(struct ggml_init_params));
}

static void ascending(const uint16_t *offsets, size_t n, size_t words)
{
    uint16_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (offsets[i] == 0)
            continue; /* not in this layout */
        assert_int_equal(offsets[i] % 8, 0);
        assert_true(offsets[i] > last);
        assert_true(offsets[i] < words * 8);
        last = offsets[i];
    }
    assert_true(last > 0);
}

TEST(its_offsets_ascend_within_our_objects)
{
    struct ggml_layout l;
    probe_real(&l);
    ascending(&l.buft.alloc, sizeof(l.buft) / 2, GG_BUFT_WORDS);
    ascending(&l.buffer.base, sizeof(l.buffer) / 2, GG_BUFFER_WORDS);
    ascending(&l.backend.free, sizeof(l.backend) / 2, GG_BACKEND_WORDS);
}

/* Reads a graph that ggml built through the offsets that the probe found. */
TEST(its_graphs_read_back_through_the_layout)
{
    struct ggml_layout l;
    probe_real(&l);
    struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
    struct ggml_context *ctx = GGML(ggml_init)(params);
    assert_non_null(ctx);
    struct ggml_tensor *a = GGML(ggml_new_tensor_1d)(ctx, GGML_TYPE_F32, 8);
    struct ggml_tensor *b = GGML(ggml_add)(ctx, a, a);
    struct ggml_tensor *c = GGML(ggml_mul)(ctx, b, a);
    struct ggml_cgraph *graph = GGML(ggml_new_graph_custom)(ctx, 64, false);
    GGML(ggml_build_forward_expand)(graph, c);

    const struct gg_cgraph_head *head = (const void *)graph;
    assert_int_equal(head->size, 64);
    assert_int_equal(head->n_nodes, 2);
    assert_int_equal(head->n_leafs, 1);
    assert_ptr_equal(head->nodes[0], b);
    assert_ptr_equal(head->nodes[1], c);
    const struct gg_hash_set *set = &GG_AT(graph, l.cgraph_hash_set, struct gg_hash_set);
    unsigned found = 0;
    for (size_t k = 0; k < set->size; k++) {
        if (!(set->used[k / 32] & (1u << (k % 32))))
            continue;
        found++;
        const void *t = set->keys[k];
        assert_true(t == (void *)a || t == (void *)b || t == (void *)c);
        if (l.cgraph_use_counts) {
            int32_t uses = GG_AT(graph, l.cgraph_use_counts, int32_t *)[k];
            assert_int_equal(uses, t == (void *)a ? 3 : t == (void *)b ? 1 : 0);
        }
    }
    assert_int_equal(found, 3);
    GGML(ggml_free)(ctx);
}

/* ---- the packaged ggml behind a resolver that misleads ---------------------------- */

static struct {
    const char *names[64]; /* asked for, in order */
    size_t count;
    const char *missing; /* this one is not there */
    const char *swap[2]; /* these answer for each other */
} resolver;

static void *misleading_symbol(void *handle, const char *name)
{
    if (resolver.count < sizeof(resolver.names) / sizeof(resolver.names[0]))
        resolver.names[resolver.count++] = name;
    if (resolver.missing && strcmp(name, resolver.missing) == 0)
        return NULL;
    for (int i = 0; i < 2; i++) {
        if (resolver.swap[i] && strcmp(name, resolver.swap[i]) == 0)
            return dlsym(handle, resolver.swap[!i]);
    }
    return dlsym(handle, name);
}

static int resolver_reset(void **state)
{
    memset(&resolver, 0, sizeof(resolver));
    return unit_setup(state);
}

static void expect_declined(apir_symbol_fn symbol, int want, const char *part)
{
    struct ggml_layout l;
    memset(&l, 0x5a, sizeof(l));
    struct ggml_layout untouched = l;
    char why[256] = "";
    assert_int_equal(ggml_probe_layout(symbol, lib, &l, why, sizeof(why)), want);
    assert_memory_equal(&l, &untouched, sizeof(l));
    assert_true(why[0] != '\0');
    if (part && !strstr(why, part))
        fail_msg("the reason does not name %s: %s", part, why);
}

TEST_WITHIN(each_needed_symbol_that_is_missing_is_named, resolver_reset, unit_teardown)
{
    struct ggml_layout l;
    char why[256];
    assert_int_equal(ggml_probe_layout(misleading_symbol, lib, &l, why, sizeof(why)), 0);
    const char *names[64];
    size_t count = resolver.count;
    memcpy(names, resolver.names, sizeof(names));
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        memset(&resolver, 0, sizeof(resolver));
        resolver.missing = names[i];
        if (strcmp(names[i], OPTIONAL_SYMBOL) != 0)
            expect_declined(misleading_symbol, -ENOENT, names[i]);
    }
}

TEST_WITHIN(the_compute_flag_goes_by_the_function_that_came_with_it, resolver_reset, unit_teardown)
{
    struct ggml_layout l;
    char why[256];
    resolver.missing = OPTIONAL_SYMBOL;
    assert_int_equal(ggml_probe_layout(misleading_symbol, lib, &l, why, sizeof(why)), 0);
    assert_false(l.has_compute_flag);
    resolver.missing = NULL;
    assert_int_equal(ggml_probe_layout(misleading_symbol, lib, &l, why, sizeof(why)), 0);
    assert_int_equal(l.has_compute_flag, !!dlsym(lib, OPTIONAL_SYMBOL));
}

TEST_WITHIN(real_accessors_under_wrong_names_are_declined, resolver_reset, unit_teardown)
{
    /* Pairs that take each other's arguments. */
    static const char *const pairs[][2] = {
        {"ggml_backend_buffer_clear", "ggml_backend_buffer_reset"},
        {"ggml_backend_buffer_reset", "ggml_backend_synchronize"},
        {"ggml_backend_buffer_get_type", "ggml_backend_get_device"},
        {"ggml_backend_buft_get_device", "ggml_backend_get_device"},
        {"ggml_backend_buft_get_device", "ggml_backend_buffer_get_type"},
        {"ggml_backend_buft_get_alignment", "ggml_backend_buffer_reset"},
        {"ggml_backend_synchronize", "ggml_backend_buffer_clear"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        memset(&resolver, 0, sizeof(resolver));
        resolver.swap[0] = pairs[i][0];
        resolver.swap[1] = pairs[i][1];
        expect_declined(misleading_symbol, -ENOTSUP, "unknown ggml layout");
    }
}

TEST_WITHIN(a_small_buffer_for_the_reason_is_not_overrun, resolver_reset, unit_teardown)
{
    struct ggml_layout l;
    char why[16];
    resolver.missing = "ggml_backend_buft_get_alignment";
    memset(why, 0x55, sizeof(why));
    assert_int_equal(ggml_probe_layout(misleading_symbol, lib, &l, why, 8), -ENOENT);
    assert_int_equal(strlen(why), 7);
    assert_int_equal(why[8], 0x55);
}

/* ---- fakes ------------------------------------------------------------------------ */

#define NOWHERE 0xffffu /* the accessor touches no word at all */

/* What the probe can see of a layout, in an order of our own. */
enum {
    ALIGN,
    ALLOC_SIZE,
    IS_HOST,
    BUFT_DEVICE,
    CLEAR,
    RESET,
    BUFFER_BUFT,
    SYNC,
    GRAPH_COMPUTE,
    BACKEND_DEVICE,
    DEVICE_REG,
    PROPS_SIZE,
    SEEN
};

static const struct {
    const char *label;
    unsigned seen[SEEN];
} layouts[] = {
    {"L0", {16, 32, 40, 48, 56, 64, 72, 48, 88, 112, 120, 40}},
    {"L1", {16, 32, 40, 48, 56, 64, 72, 48, 88, 120, 120, 40}},
    {"L2", {16, 32, 40, 48, 56, 64, 72, 48, 88, 120, 120, 56}},
    {"L3", {16, 32, 40, 48, 72, 80, 88, 64, 104, 136, 120, 56}},
    {"L4", {24, 40, 56, 64, 72, 80, 88, 64, 104, 136, 120, 56}},
};
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

enum fault {
    NO_FAULT,
    INIT_NULL,
    TENSOR_NULL,
    VIEW_NULL,
    TENSOR_NE,
    TENSOR_NB,
    TENSOR_TYPE,
    VIEW_SRC,
    VIEW_OFFS,
    VIEW_SRC0,
    VIEW_OP,
    GRAPH_NULL,
    GRAPH_NO_NODES,
    GRAPH_OTHER_NODE,
    HASH_EMPTY,
    HASH_HUGE,
    HASH_NO_KEYS,
    FAULTS
};

static struct {
    unsigned seen[SEEN];
    size_t cgraph_size;
    enum fault fault;
    bool wild; /* words come back as pointers to nothing of the object */
    struct gg_tensor tensors[2];
    _Alignas(16) unsigned char graph[512];
    void *keys[8];
} fake;

static void fake_reset(size_t layout)
{
    memset(&fake, 0, sizeof(fake));
    memcpy(fake.seen, layouts[layout].seen, sizeof(fake.seen));
    fake.cgraph_size = 96;
}

static size_t fake_call(void *obj, int what)
{
    size_t (*fn)(void);
    if (fake.seen[what] == NOWHERE)
        return 0;
    memcpy(&fn, (char *)obj + fake.seen[what], sizeof(fn));
    return fn();
}

static void *fake_word(void *obj, int what)
{
    void *p;
    if (fake.wild)
        return &fake;
    if (fake.seen[what] == NOWHERE)
        return NULL;
    memcpy(&p, (char *)obj + fake.seen[what], sizeof(p));
    return p;
}

static size_t f_buft_get_alignment(void *buft)
{
    return fake_call(buft, ALIGN);
}

static size_t f_buft_get_alloc_size(void *buft, const struct gg_tensor *t)
{
    (void)t;
    return fake_call(buft, ALLOC_SIZE);
}

static bool f_buft_is_host(void *buft)
{
    return fake_call(buft, IS_HOST) != 0;
}

static void *f_buft_get_device(void *buft)
{
    return fake_word(buft, BUFT_DEVICE);
}

static void *f_buffer_get_type(void *buffer)
{
    return fake_word(buffer, BUFFER_BUFT);
}

static void f_buffer_clear(void *buffer, uint8_t value)
{
    (void)value;
    fake_call(buffer, CLEAR);
}

static void f_buffer_reset(void *buffer)
{
    fake_call(buffer, RESET);
}

static void f_synchronize(void *backend)
{
    fake_call(backend, SYNC);
}

static int f_graph_compute_async(void *backend, void *graph)
{
    (void)graph;
    fake_call(backend, GRAPH_COMPUTE);
    return 0;
}

static void *f_get_device(void *backend)
{
    return fake_word(backend, BACKEND_DEVICE);
}

static void *f_dev_backend_reg(void *dev)
{
    return fake_word(dev, DEVICE_REG);
}

static void f_dev_get_props(void *dev, void *props)
{
    memset(props, 0, fake.seen[PROPS_SIZE]);
    ((struct gg_device_i *)dev)->get_props(dev, props);
}

static void *f_init(struct gg_init_params params)
{
    (void)params;
    return fake.fault == INIT_NULL ? NULL : &fake;
}

static void f_free(void *ctx)
{
    (void)ctx;
}

static struct gg_tensor *f_new_tensor_2d(void *ctx, int type, int64_t ne0, int64_t ne1)
{
    (void)ctx;
    struct gg_tensor *t = &fake.tensors[0];
    *t = (struct gg_tensor){.type = type, .ne = {ne0, ne1, 1, 1}, .nb = {18, 36, 108, 108}};
    t->type += fake.fault == TENSOR_TYPE;
    t->ne[1] += fake.fault == TENSOR_NE;
    t->nb[1] += fake.fault == TENSOR_NB;
    return fake.fault == TENSOR_NULL ? NULL : t;
}

static struct gg_tensor *f_view_1d(void *ctx, struct gg_tensor *a, int64_t ne0, size_t offset)
{
    (void)ctx;
    struct gg_tensor *t = &fake.tensors[1];
    *t = (struct gg_tensor){
        .type = a->type, .ne = {ne0, 1, 1, 1}, .op = 35, .view_src = a, .view_offs = offset};
    t->src[0] = fake.fault == VIEW_SRC0 ? NULL : a;
    t->view_src = fake.fault == VIEW_SRC ? NULL : a;
    t->view_offs += fake.fault == VIEW_OFFS;
    t->op = fake.fault == VIEW_OP ? 0 : 35;
    return fake.fault == VIEW_NULL ? NULL : t;
}

static void *f_new_graph_custom(void *ctx, size_t size, bool grads)
{
    (void)ctx;
    (void)size;
    (void)grads;
    struct gg_cgraph_head *g = (void *)fake.graph;
    g->nodes = (void *)(fake.graph + fake.cgraph_size);
    struct gg_hash_set *set = (void *)(fake.graph + (fake.cgraph_size >= 88 ? 56 : 48));
    set->size = fake.fault == HASH_EMPTY ? 0 : fake.fault == HASH_HUGE ? 5000 : 8;
    set->keys = fake.fault == HASH_NO_KEYS ? NULL : (void *)fake.keys;
    return fake.fault == GRAPH_NULL ? NULL : g;
}

static void f_build_forward_expand(void *graph, struct gg_tensor *t)
{
    struct gg_cgraph_head *g = graph;
    if (fake.fault == GRAPH_NO_NODES)
        return;
    g->nodes[g->n_nodes++] = fake.fault == GRAPH_OTHER_NODE ? &fake.tensors[0] : t;
}

static void *fake_symbol(void *handle, const char *name)
{
    (void)handle;
#define FAKE(symbol, function)                                                                     \
    if (strcmp(name, symbol) == 0) {                                                               \
        __typeof__(&function) fn = function;                                                       \
        void *p;                                                                                   \
        memcpy(&p, &fn, sizeof(p));                                                                \
        return p;                                                                                  \
    }
    FAKE("ggml_backend_buft_get_alignment", f_buft_get_alignment)
    FAKE("ggml_backend_buft_get_alloc_size", f_buft_get_alloc_size)
    FAKE("ggml_backend_buft_is_host", f_buft_is_host)
    FAKE("ggml_backend_buft_get_device", f_buft_get_device)
    FAKE("ggml_backend_buffer_get_type", f_buffer_get_type)
    FAKE("ggml_backend_buffer_clear", f_buffer_clear)
    FAKE("ggml_backend_buffer_reset", f_buffer_reset)
    FAKE("ggml_backend_synchronize", f_synchronize)
    FAKE("ggml_backend_graph_compute_async", f_graph_compute_async)
    FAKE("ggml_backend_get_device", f_get_device)
    FAKE("ggml_backend_dev_backend_reg", f_dev_backend_reg)
    FAKE("ggml_backend_dev_get_props", f_dev_get_props)
    FAKE("ggml_init", f_init)
    FAKE("ggml_free", f_free)
    FAKE("ggml_new_tensor_2d", f_new_tensor_2d)
    FAKE("ggml_view_1d", f_view_1d)
    FAKE("ggml_new_graph_custom", f_new_graph_custom)
    FAKE("ggml_build_forward_expand", f_build_forward_expand)
#undef FAKE
    return NULL;
}

/* The label of the layout that the fake shows, or NULL. */
static const char *fake_label(void)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        if (memcmp(layouts[i].seen, fake.seen, sizeof(fake.seen)) == 0)
            return layouts[i].label;
    }
    return NULL;
}

/* The probe says what the fake is: that known layout, or none. */
static void probe_fake(void)
{
    const char *label = fake_label();
    if (!label) {
        expect_declined(fake_symbol, -ENOTSUP, "unknown ggml layout");
        return;
    }
    struct ggml_layout l;
    char why[256] = "";
    int rc = ggml_probe_layout(fake_symbol, NULL, &l, why, sizeof(why));
    if (rc)
        fail_msg("%s: %d: %s", label, rc, why);
    assert_string_equal(l.label, label);
}

TEST(every_layout_of_ggmls_history_is_known_by_its_accessors)
{
    static const struct {
        uint16_t size, use_counts, hash_set, uid;
    } graphs[] = {{80, 0, 48, 0}, {88, 48, 56, 0}, {96, 48, 56, 88}};
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        for (size_t k = 0; k < sizeof(graphs) / sizeof(graphs[0]); k++) {
            fake_reset(i);
            fake.cgraph_size = graphs[k].size;
            struct ggml_layout l;
            char why[256];
            assert_int_equal(ggml_probe_layout(fake_symbol, NULL, &l, why, sizeof(why)), 0);
            assert_string_equal(l.label, layouts[i].label);
            assert_int_equal(l.cgraph_use_counts, graphs[k].use_counts);
            assert_int_equal(l.cgraph_hash_set, graphs[k].hash_set);
            assert_int_equal(l.cgraph_uid, graphs[k].uid);
            assert_false(l.has_compute_flag);
        }
    }
}

TEST(swapped_accessors_are_declined)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        for (int a = 0; a < PROPS_SIZE; a++) {
            for (int b = a + 1; b < PROPS_SIZE; b++) {
                fake_reset(i);
                fake.seen[a] = layouts[i].seen[b];
                fake.seen[b] = layouts[i].seen[a];
                probe_fake();
            }
        }
    }
}

/* A device with one more function before the last one, as that of Ollama's forks, is one of them.
 */
TEST(an_accessor_that_moved_is_declined_unless_that_is_known)
{
    unsigned known = 0;
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        for (int a = 0; a < SEEN; a++) {
            for (unsigned at = 0; at < 256; at += 8) {
                fake_reset(i);
                fake.seen[a] = at;
                known += !!fake_label();
                probe_fake();
            }
        }
    }
    assert_true(known > N_LAYOUTS); /* each with itself, and L0 by one word is L1 */
}

TEST(accessors_that_touch_nothing_are_declined)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        for (int a = 0; a < PROPS_SIZE; a++) {
            fake_reset(i);
            fake.seen[a] = NOWHERE;
            probe_fake();
        }
        fake_reset(i);
        for (int a = 0; a < PROPS_SIZE; a++)
            fake.seen[a] = NOWHERE;
        probe_fake();
        fake_reset(i);
        fake.wild = true;
        expect_declined(fake_symbol, -ENOTSUP, "unknown ggml layout");
    }
}

TEST(a_tensor_or_graph_of_another_shape_is_declined)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        for (int fault = INIT_NULL; fault < FAULTS; fault++) {
            fake_reset(i);
            fake.fault = (enum fault)fault;
            expect_declined(fake_symbol, fault == INIT_NULL ? -ENOMEM : -ENOTSUP, "ggml_");
        }
        static const size_t sizes[] = {64, 72, 104, 112, 256};
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            fake_reset(i);
            fake.cgraph_size = sizes[k];
            expect_declined(fake_symbol, -ENOTSUP, "ggml_cgraph");
        }
    }
}
