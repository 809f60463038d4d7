/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules against the packaged ggml: an op that ggml gains and the rules do not know
 * fails here, not in a user's graph; and what ggml's builders make is accepted.
 */
#include "tests/lib/unit.h"

#include <limits.h>

#include <ggml.h>

#include "backend/worker/rules/op.h"
#include "backend/worker/rules/rules.h"
#include "tests/hostile/fuzz/graph_ops.h"
#include "tests/lib/graph_write.h"

static const char not_known[] = "op: not one that may be computed here";
static const char too_many[] = "op: too many sources";
static const char missing[] = "op: a source is missing";
static const char sub_due[] = "op: a sub-op is due for UNARY and GLU, and for them only";
static const char sub_kind[] = "op: sub-op of another kind";

static struct host_type types[HOST_TYPES_MAX];

static int know_types(void **state)
{
    (void)state;
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        int64_t block = ggml_blck_size((enum ggml_type)i);
        if (block > 0)
            types[i] =
                (struct host_type){(uint32_t)block, (uint32_t)ggml_type_size((enum ggml_type)i)};
    }
    return 0;
}
BEFORE_ALL_TESTS(know_types)

/* ---- the columns of the table ----------------------------------------------------- */

/* Names 0 to 2 are the op and a sub-op of each kind; tensors are leaves but the last. */
struct scene {
    struct apir_name names[3];
    struct apir_tensor tensors[APIR_TENSOR_SRC + 1];
    struct apir_graph g;
};

static struct apir_tensor *scene_set(struct scene *s, const char *op, unsigned n_src)
{
    memset(s, 0, sizeof(*s));
    assert_true(strlen(op) < APIR_TENSOR_NAME);
    strcpy(s->names[0].name, op);
    s->names[1] = (struct apir_name){APIR_NAME_UNARY, "SILU"};
    s->names[2] = (struct apir_name){APIR_NAME_GLU, "SWIGLU"};
    s->g = (struct apir_graph){.n_names = 3,
                               .n_tensors = APIR_TENSOR_SRC + 1,
                               .n_nodes = 1,
                               .names = s->names,
                               .tensors = s->tensors};
    for (int i = 0; i <= APIR_TENSOR_SRC; i++)
        s->tensors[i] = sample_tensor(0, APIR_NO_NAME);
    struct apir_tensor *t = &s->tensors[APIR_TENSOR_SRC];
    t->bits = APIR_TENSOR_NODE;
    t->op = 0;
    t->sub = strcmp(op, "UNARY") == 0 ? 1 : strcmp(op, "GLU") == 0 ? 2 : APIR_NO_NAME;
    t->n_src = (uint8_t)n_src;
    for (uint32_t i = 0; i < n_src; i++)
        t->src[i] = i;
    return t;
}

static const char *check(const struct scene *s)
{
    struct worker_reach reach;
    return worker_rules_check(&s->g, APIR_TENSOR_SRC, types, true, &reach);
}

static void expect(const struct scene *s, const char *want)
{
    const char *why = check(s);
    if (want == why || (want && why && strcmp(want, why) == 0))
        return;
    fail_msg("%s with %u sources: %s instead of %s", s->names[0].name,
             s->tensors[APIR_TENSOR_SRC].n_src, why ? why : "accepted", want ? want : "accepted");
}

/* Whether the number of sources is what the op is refused for. */
static bool refused_for_sources(const struct scene *s)
{
    const char *why = check(s);
    return why && (strcmp(why, missing) == 0 || strcmp(why, too_many) == 0);
}

/* Function pointers in parameters; and what ggml's own builder refuses to make. */
static bool is_banned(const char *op)
{
    return strncmp(op, "CUSTOM", 6) == 0 || strncmp(op, "MAP_CUSTOM", 10) == 0 ||
           strcmp(op, "FLASH_ATTN_BACK") == 0;
}

TEST(every_op_of_ggml_has_a_rule_but_those_that_call_back)
{
    unsigned banned = 0;
    char lacking[512] = "";
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        struct scene s;
        const char *op = ggml_op_name((enum ggml_op)i);
        scene_set(&s, op, 0);
        if (is_banned(op)) {
            banned++;
            for (unsigned n = 0; n <= APIR_TENSOR_SRC; n++) {
                scene_set(&s, op, n);
                expect(&s, not_known);
            }
            continue;
        }
        const char *why = check(&s);
        if (why && strcmp(why, not_known) == 0)
            snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking), " %s", op);
    }
    if (lacking[0])
        fail_msg("no rule for:%s", lacking);
    assert_true(banned >= 5);
}

/* For each op there is a least and a most; between them all may pass, outside none. */
TEST(sources_are_due_in_number)
{
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        const char *op = ggml_op_name((enum ggml_op)i);
        struct scene s;
        if (is_banned(op) || strcmp(op, "SSM_SCAN") == 0)
            continue;
        unsigned least = 0, most;
        for (; least < APIR_TENSOR_SRC; least++) {
            scene_set(&s, op, least);
            if (!refused_for_sources(&s))
                break;
            expect(&s, missing);
        }
        for (most = least; most < APIR_TENSOR_SRC; most++) {
            scene_set(&s, op, most + 1);
            if (check(&s) && strcmp(check(&s), too_many) == 0)
                break;
        }
        for (unsigned n = most + 1; n <= APIR_TENSOR_SRC; n++) {
            scene_set(&s, op, n);
            expect(&s, too_many);
        }
        /* An absent one among those that must be there, with enough in number. */
        for (unsigned n = least; n <= most; n++) {
            for (unsigned hole = 0; hole < least; hole++) {
                scene_set(&s, op, n)->src[hole] = APIR_NO_TENSOR;
                expect(&s, missing);
            }
        }
    }
}

TEST(well_known_ops_want_what_ggml_reads)
{
    static const struct {
        const char *op;
        unsigned least, most;
    } cases[] = {
        {"NONE", 0, 0},       {"ADD", 2, 2},      {"MUL_MAT", 2, 2},
        {"MUL_MAT_ID", 3, 3}, {"GET_ROWS", 2, 2}, {"SET_ROWS", 2, 3},
        {"ROPE", 2, 3},       {"SOFT_MAX", 1, 3}, {"RMS_NORM", 1, 1},
        {"VIEW", 1, 1},       {"CPY", 2, 2},      {"UNARY", 1, 1},
        {"GLU", 1, 2},        {"SSM_SCAN", 6, 7}, {"FLASH_ATTN_EXT", 3, 5},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (unsigned n = 0; n <= APIR_TENSOR_SRC; n++) {
            struct scene s;
            scene_set(&s, cases[i].op, n);
            if (n < cases[i].least)
                expect(&s, missing);
            else if (n > cases[i].most)
                expect(&s, too_many);
            else if (strcmp(cases[i].op, "SSM_SCAN") != 0)
                assert_false(refused_for_sources(&s));
        }
    }
}

TEST(sub_ops_are_for_unary_and_glu_only_and_of_their_kind)
{
    static const struct {
        const char *op;
        unsigned n;
        uint16_t sub;
        const char *why;
    } cases[] = {
        {"UNARY", 1, 1, NULL},   {"UNARY", 1, 2, sub_kind}, {"UNARY", 1, APIR_NO_NAME, sub_due},
        {"GLU", 2, 2, NULL},     {"GLU", 2, 1, sub_kind},   {"GLU", 2, APIR_NO_NAME, sub_due},
        {"ADD", 2, 1, sub_due},  {"ADD", 2, 2, sub_due},    {"ADD", 2, APIR_NO_NAME, NULL},
        {"NONE", 0, 1, sub_due},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scene s;
        scene_set(&s, cases[i].op, cases[i].n)->sub = cases[i].sub;
        expect(&s, cases[i].why);
    }
}

/* What ggml 0.27's CPU kernels abort over, though its backend says that it supports them. */
TEST(clamped_glus_are_of_f32_and_f16_on_a_cpu)
{
    static const struct {
        const char *sub;
        uint8_t type;
        bool cpu;
        const char *why;
    } cases[] = {
        {"SWIGLU_CLAMP", GGML_TYPE_F32, true, NULL},
        {"SWIGLU_CLAMP", GGML_TYPE_F16, true, NULL},
        {"SWIGLU_CLAMP", GGML_TYPE_BF16, true, "op: type of a source"},
        {"SWIGLU_CLAMP", GGML_TYPE_BF16, false, NULL},
        {"SWIGLU_OAI", GGML_TYPE_F16, true, NULL},
        {"SWIGLU_OAI", GGML_TYPE_BF16, true, "op: type of a source"},
        {"SWIGLU", GGML_TYPE_BF16, true, NULL},
        {"GEGLU_QUICK", GGML_TYPE_BF16, true, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct worker_reach reach;
        struct scene s;
        scene_set(&s, "GLU", 2);
        snprintf(s.names[2].name, sizeof(s.names[2].name), "%s", cases[i].sub);
        for (unsigned k = 0; k <= APIR_TENSOR_SRC; k++) {
            const unsigned size = cases[i].type == GGML_TYPE_F32 ? 4 : 2;
            s.tensors[k].type = cases[i].type;
            for (int n = 0; n < APIR_TENSOR_DIMS; n++)
                s.tensors[k].nb[n] = s.tensors[k].nb[n] / 4 * size;
        }
        const char *why = worker_rules_check(&s.g, APIR_TENSOR_SRC, types, cases[i].cpu, &reach);
        if ((!why) != (!cases[i].why) || (why && strcmp(why, cases[i].why) != 0))
            fail_msg("%s, type %d: %s", cases[i].sub, cases[i].type, why ? why : "accepted");
    }
}

/* ggml_flash_attn_ext_set_n_kv_max() asserts that it is not negative; more than there are keys it
 * may be. */
TEST(a_bound_of_keys_is_not_negative)
{
    static const int32_t bounds[] = {0, 1, 4, 512, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        struct scene s;
        struct apir_tensor *t = scene_set(&s, "FLASH_ATTN_EXT", 3);
        for (int k = 1; k < 3; k++) {
            s.tensors[k].type = GGML_TYPE_F16;
            for (int n = 0; n < APIR_TENSOR_DIMS; n++)
                s.tensors[k].nb[n] /= 2;
        }
        /* A result has heads before queries. */
        t->ne[1] = 1, t->ne[2] = 4;
        t->nb[2] = 256;
        t->params[4] = bounds[i];
        expect(&s, bounds[i] < 0 ? "op: a parameter out of range" : NULL);
    }
}

/* ---- extents ------------------------------------------------------------------------ */

static const char *extent_of(int64_t n0, int64_t n1, int64_t n2, int64_t n3, uint64_t b0,
                             uint64_t b1, uint64_t b2, uint64_t b3, uint8_t type, uint64_t *ret)
{
    struct apir_tensor t = {.type = type, .ne = {n0, n1, n2, n3}, .nb = {b0, b1, b2, b3}};
    return worker_rules_extent(&types[type], &t, ret);
}

TEST(extents_reach_behind_the_last_element)
{
    uint64_t n = 0;
    assert_null(extent_of(4, 3, 2, 1, 4, 16, 48, 96, 0, &n));
    assert_int_equal(n, 96);
    assert_null(extent_of(4, 3, 1, 1, 4, 100, 0, 0, 0, &n)); /* rows apart */
    assert_int_equal(n, 216);
    assert_null(extent_of(4, 3, 1, 1, 12, 4, 48, 48, 0, &n)); /* transposed */
    assert_int_equal(n, 48);
    assert_null(extent_of(4, 1000, 1, 1, 4, 0, 0, 0, 0, &n)); /* a row again and again */
    assert_int_equal(n, 16);
    assert_null(extent_of(64, 2, 1, 1, 18, 36, 72, 72, 2, &n)); /* Q4_0 */
    assert_int_equal(n, 72);
    /* Elements packed in a row count even where nb[0] says less. */
    assert_null(extent_of(100, 1, 1, 1, 0, 0, 0, 0, 0, &n));
    assert_int_equal(n, 400);
    assert_null(extent_of(4, 0, 3, 1, 4, 16, 16, 16, 0, &n));
    assert_int_equal(n, 0);
}

/* ---- what ggml builds --------------------------------------------------------------- */

static jmp_buf refused;

static void on_abort(const char *message)
{
    (void)message;
    longjmp(refused, 1);
}

/*
 * What builders let through and kernels cannot have: types they do not know, results without
 * elements, SET with the strides of another layout, circular padding wider than the row, a hint on
 * a matrix that is no Hadamard matrix.
 */
static bool is_builders_slip(const struct graph_scene *s, const char *why)
{
    const struct apir_tensor *t = &s->tensors[s->g.n_tensors - 1];
    const char *op = s->names[0].name;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (t->ne[i] <= 0)
            return true;
    }
    return strncmp(why, "op: type of", 11) == 0 || strcmp(op, "SET") == 0 ||
           (strcmp(op, "PAD") == 0 && t->params[8]) || (strcmp(op, "MUL_MAT") == 0 && t->params[1]);
}

static rules_int power(int n)
{
    return (rules_int)1 << n;
}

TEST(products_stay_too_large)
{
    assert_true(rules_mul(0, power(110)) == 0 && rules_mul(power(110), 0) == 0);
    assert_true(rules_mul(power(54) - 1, power(54) - 1) == (power(54) - 1) * (power(54) - 1));
    assert_true(rules_mul(power(54), power(54)) == power(108));
    assert_true(rules_mul(power(62), 3) == 3 * power(62));
    assert_true(rules_mul(power(55), power(55)) == power(110));
    assert_true(rules_mul(power(55) + 1, power(55)) == power(110));
    assert_true(rules_mul(power(110), power(110)) == power(110));
}

TEST(what_ggml_builds_is_accepted)
{
    static uint8_t arena[64 << 10] __attribute__((aligned(64)));
    static volatile unsigned built;
    static bool seen[GGML_OP_COUNT];
    ggml_set_abort_callback(on_abort);
    for (volatile unsigned seed = 0; seed < 40000; seed++) {
        struct ggml_init_params params = {
            .mem_size = sizeof(arena), .mem_buffer = arena, .no_alloc = true};
        struct ggml_context *volatile ctx = ggml_init(params);
        struct dice d = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)};
        if (setjmp(refused) == 0) {
            const struct ggml_tensor *t = graph_op_make(ctx, &d, seed);
            static struct graph_scene s;
            struct worker_reach reach;
            graph_scene_make(&s, t);
            const char *why = worker_rules_check(&s.g, s.g.n_tensors - 1, types, false, &reach);
            if (why && !is_builders_slip(&s, why))
                fail_msg("seed %u, %s: %s", seed, ggml_op_name(t->op), why);
            built++;
            seen[t->op] = true;
        }
        ggml_free(ctx);
    }
    ggml_set_abort_callback(NULL);
    assert_true(built > 20000);
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        const char *op = ggml_op_name((enum ggml_op)i);
        /* The builder of ADD1 is deprecated. */
        if (!seen[i] && !is_banned(op) && i != GGML_OP_NONE && i != GGML_OP_ADD1)
            fail_msg("no builder in tests/hostile/fuzz/graph_ops.c: %s", op);
    }
}
