/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/ggml_probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What several layouts have alike. */
#define BUFT       .buft = {8, 16, 24, 32, 40, 48, 56}
#define BUFFER     .buffer = {8, 16, 24, 32, 40, 0, 0, 48, 56, 64, 72, 80, 88, 96}
#define BUFFER_2D  .buffer = {8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112}
#define BACKEND    .backend = {16, 24, 32, 0, 0, 40, 48, 88, 96, 104, 112, 120, 128}
#define BACKEND_2D .backend = {16, 24, 32, 40, 48, 56, 64, 104, 112, 120, 128, 136, 144}
#define PROPS      .props_size = 40, .props_caps = 36
#define PROPS_ID   .props_size = 56, .props_caps = 48, .props_device_id = 40

/*
 * The layouts seen in ggml's history. A tuple of offsets that is not in here
 * belongs to a fork or to a newer ggml: both are declined.
 */
static const struct ggml_layout known[] = {
    {.label = "L0",
     .api_version = 1,
     .backend = {16, 24, 32, 0, 0, 40, 48, 88, 96, 104, 0, 112, 120},
     BUFT,
     BUFFER,
     PROPS},
    {.label = "L1", .api_version = 1, BUFT, BUFFER, BACKEND, PROPS},
    {.label = "L2", .api_version = 2, BUFT, BUFFER, BACKEND, PROPS_ID},
    {.label = "L3", .api_version = 2, BUFT, BUFFER_2D, BACKEND_2D, PROPS_ID},
    {.label = "L4",
     .api_version = 3,
     .optimize_params = true,
     .buft = {8, 24, 32, 40, 56, 64, 72},
     BUFFER_2D,
     BACKEND_2D,
     PROPS_ID},
};

/* ---- stubs: stub n notes that word n was called ------------------------------ */

#define N_STUBS 32
static int stub_hit;

/* The value is far above any tensor size, so that ggml's own sanity checks on an
 * allocation size hold; see the quantised tensor below. */
#define STUB(n)                                                                                    \
    static size_t stub_##n(void)                                                                   \
    {                                                                                              \
        stub_hit = (n);                                                                            \
        return 65536;                                                                              \
    }
#define STUB_NAME(n) stub_##n,
/* clang-format off */
#define STUBS(S) \
    S(0) S(1) S(2) S(3) S(4) S(5) S(6) S(7) S(8) S(9) S(10) S(11) S(12) S(13) S(14) S(15) \
    S(16) S(17) S(18) S(19) S(20) S(21) S(22) S(23) S(24) S(25) S(26) S(27) S(28) S(29) S(30) S(31)
STUBS(STUB)

typedef size_t (*stub_fn)(void);
static const stub_fn stubs[N_STUBS] = {STUBS(STUB_NAME)};
/* clang-format on */

/* An object for ggml's functions, in which every word is a function that notes its call. */
static void fake_fill(stub_fn fake[N_STUBS])
{
    memcpy(fake, stubs, sizeof(stubs));
}

/* Offset of the word that was called since the last reset, or of word `p`. */
static uint16_t hit_offset(void)
{
    int hit = stub_hit;
    stub_hit = -1;
    return hit < 0 ? UINT16_MAX : (uint16_t)(hit * 8);
}

static uint16_t word_offset(const void *p)
{
    for (int i = 0; i < N_STUBS; i++) {
        if (memcmp(&stubs[i], &p, sizeof(p)) == 0)
            return (uint16_t)(i * 8);
    }
    return UINT16_MAX;
}

/* ---- the symbols the probe asks --------------------------------------------- */

#define SYMBOLS(S)                                                                                 \
    S(size_t, ggml_backend_buft_get_alignment, (void *))                                           \
    S(size_t, ggml_backend_buft_get_alloc_size, (void *, const struct gg_tensor *))                \
    S(bool, ggml_backend_buft_is_host, (void *))                                                   \
    S(void *, ggml_backend_buft_get_device, (void *))                                              \
    S(void *, ggml_backend_buffer_get_type, (void *))                                              \
    S(void, ggml_backend_buffer_clear, (void *, uint8_t))                                          \
    S(void, ggml_backend_buffer_reset, (void *))                                                   \
    S(void, ggml_backend_synchronize, (void *))                                                    \
    S(int, ggml_backend_graph_compute_async, (void *, void *))                                     \
    S(void *, ggml_backend_get_device, (void *))                                                   \
    S(void *, ggml_backend_dev_backend_reg, (void *))                                              \
    S(void, ggml_backend_dev_get_props, (void *, void *))                                          \
    S(void *, ggml_init, (struct gg_init_params))                                                  \
    S(void, ggml_free, (void *))                                                                   \
    S(struct gg_tensor *, ggml_new_tensor_2d, (void *, int, int64_t, int64_t))                     \
    S(struct gg_tensor *, ggml_view_1d, (void *, struct gg_tensor *, int64_t, size_t))             \
    S(void *, ggml_new_graph_custom, (void *, size_t, bool))                                       \
    S(void, ggml_build_forward_expand, (void *, struct gg_tensor *))

struct symbols {
#define S(ret, name, args) ret(*name) args;
    SYMBOLS(S)
#undef S
};

static int symbols_load(struct symbols *s, apir_symbol_fn symbol, void *handle, char *why,
                        size_t why_size)
{
#define S(ret, name, args)                                                                         \
    {                                                                                              \
        void *p = symbol(handle, #name);                                                           \
        if (!p) {                                                                                  \
            snprintf(why, why_size, "ggml lacks the symbol %s", #name);                            \
            return -ENOENT;                                                                        \
        }                                                                                          \
        memcpy(&s->name, &p, sizeof(p));                                                           \
    }
    SYMBOLS(S)
#undef S
    return 0;
}

/* ---- objects ---------------------------------------------------------------- */

static void no_props(void *dev, void *props)
{
    (void)dev;
    (void)props;
}

static uint16_t probe_props_size(const struct symbols *s)
{
    stub_fn fake[N_STUBS];
    fake_fill(fake);
    void (*fn)(void *, void *) = no_props;
    memcpy(&fake[offsetof(struct gg_device_i, get_props) / 8], &fn, sizeof(fn));
    /* ggml clears the struct before it asks the device: the cleared length is its size. */
    unsigned char props[256];
    memset(props, 0xAA, sizeof(props));
    s->ggml_backend_dev_get_props(fake, props);
    size_t n = 0;
    while (n < sizeof(props) && props[n] == 0)
        n++;
    return (uint16_t)n;
}

/* What is found besides a layout is the same in all of them. *ret_reg: where a device has its
 * registry. */
static void probe_objects(const struct symbols *s, struct ggml_layout *got, uint16_t *ret_reg)
{
    stub_fn fake[N_STUBS];
    fake_fill(fake);
    /* Quantised, with a true size far below what the stub answers: newer ggml
     * refuses an allocation size that is not at least the tensor's. */
    struct gg_tensor tensor = {.type = 2 /* q4_0 */, .ne = {32, 1, 1, 1}, .nb = {18, 18, 18, 18}};
    stub_hit = -1;
    s->ggml_backend_buft_get_alignment(fake);
    got->buft.align = hit_offset();
    s->ggml_backend_buft_get_alloc_size(fake, &tensor);
    got->buft.alloc_size = hit_offset();
    s->ggml_backend_buft_is_host(fake);
    got->buft.is_host = hit_offset();
    got->buft.device = word_offset(s->ggml_backend_buft_get_device(fake));

    got->buffer.buft = word_offset(s->ggml_backend_buffer_get_type(fake));
    s->ggml_backend_buffer_clear(fake, 0);
    got->buffer.clear = hit_offset();
    s->ggml_backend_buffer_reset(fake);
    got->buffer.reset = hit_offset();

    s->ggml_backend_synchronize(fake);
    got->backend.sync = hit_offset();
    unsigned char graph[512] = {0};
    s->ggml_backend_graph_compute_async(fake, graph);
    got->backend.graph_compute = hit_offset();
    got->backend.device = word_offset(s->ggml_backend_get_device(fake));
    /* Behind all of a device's functions: one more, and it is not where we put it. */
    *ret_reg = word_offset(s->ggml_backend_dev_backend_reg(fake));
    got->props_size = probe_props_size(s);
}

/* ggml_tensor and ggml_cgraph, from what the public builders write. */
static int probe_graph(const struct symbols *s, struct ggml_layout *got, char *why, size_t why_size)
{
    struct gg_init_params params = {.mem_size = 64 << 10, .no_alloc = true};
    void *ctx = s->ggml_init(params);
    if (!ctx) {
        snprintf(why, why_size, "ggml_init failed");
        return -ENOMEM;
    }
    struct gg_tensor *a = s->ggml_new_tensor_2d(ctx, 2 /* q4_0 */, 64, 3);
    struct gg_tensor *v = a ? s->ggml_view_1d(ctx, a, 32, 18) : NULL;
    const char *bad = NULL;
    if (!a || !v || a->type != 2 || a->ne[0] != 64 || a->ne[1] != 3 || a->ne[3] != 1 ||
        a->nb[0] != 18 || a->nb[1] != 36 || v->view_src != a || v->view_offs != 18 ||
        v->src[0] != a || v->op == 0)
        bad = "ggml_tensor has another layout";
    struct gg_cgraph_head *g = bad ? NULL : s->ggml_new_graph_custom(ctx, 16, false);
    if (g) {
        s->ggml_build_forward_expand(g, v);
        /* The node array follows the struct in the same allocation. */
        ptrdiff_t size = (char *)g->nodes - (char *)g;
        if (g->n_nodes != 1 || (size != 80 && size != 88 && size != 96) || g->nodes[0] != v) {
            bad = "ggml_cgraph has another layout";
        } else {
            got->cgraph_use_counts = size >= 88 ? 48 : 0;
            got->cgraph_hash_set = size >= 88 ? 56 : 48;
            got->cgraph_uid = size >= 96 ? 88 : 0;
            const struct gg_hash_set *set = &GG_AT(g, got->cgraph_hash_set, struct gg_hash_set);
            if (set->size < 2 || set->size > 4096 || !set->keys)
                bad = "ggml_cgraph has another hash set";
        }
    } else if (!bad) {
        bad = "ggml_new_graph_custom failed";
    }
    s->ggml_free(ctx);
    if (bad)
        snprintf(why, why_size, "%s", bad);
    return bad ? -ENOTSUP : 0;
}

int ggml_probe_layout(apir_symbol_fn symbol, void *handle, struct ggml_layout *ret_layout,
                      char *why, size_t why_size)
{
    struct symbols s;
    int rc = symbols_load(&s, symbol, handle, why, why_size);
    if (rc)
        return rc;
    struct ggml_layout got = {0};
    uint16_t reg;
    probe_objects(&s, &got, &reg);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct ggml_layout *k = &known[i];
        if (got.buft.align != k->buft.align || got.buft.alloc_size != k->buft.alloc_size ||
            got.buft.is_host != k->buft.is_host || got.buft.device != k->buft.device ||
            got.buffer.clear != k->buffer.clear || got.buffer.reset != k->buffer.reset ||
            got.buffer.buft != k->buffer.buft || got.backend.sync != k->backend.sync ||
            got.backend.graph_compute != k->backend.graph_compute ||
            got.backend.device != k->backend.device || got.props_size != k->props_size ||
            reg != offsetof(struct gg_device, reg))
            continue;
        struct ggml_layout out = *k;
        rc = probe_graph(&s, &out, why, why_size);
        if (rc)
            return rc;
        out.has_compute_flag = symbol(handle, "ggml_build_forward_select");
        *ret_layout = out;
        return 0;
    }
    snprintf(why, why_size,
             "unknown ggml layout (buft %u/%u/%u/%u buffer %u/%u/%u backend %u/%u/%u "
             "device %u props %u)",
             got.buft.align, got.buft.alloc_size, got.buft.is_host, got.buft.device,
             got.buffer.clear, got.buffer.reset, got.buffer.buft, got.backend.sync,
             got.backend.graph_compute, got.backend.device, reg, got.props_size);
    return -ENOTSUP;
}
