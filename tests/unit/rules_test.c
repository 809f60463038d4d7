/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules against the op names of the packaged ggml: an op that ggml gains and
 * the rules do not know fails here, not in a user's graph.
 */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>

#include "backend/worker_rules.h"

static const char *(*op_name)(enum ggml_op);

static int open_ggml(void **state)
{
    (void)state;
    void *lib = dlopen("libggml.so.0", RTLD_NOW | RTLD_LOCAL);
    void *p = lib ? dlsym(lib, "ggml_op_name") : NULL;
    if (!p)
        fprintf(stderr, "%s\n", dlerror());
    memcpy(&op_name, &p, sizeof(p));
    return p == NULL;
}

static const char not_known[] = "op: not one that may be computed here";
static const char too_many[] = "op: too many sources";
static const char missing[] = "op: a source is missing";
static const char sub_due[] = "op: a sub-op is due for UNARY and GLU, and for them only";
static const char sub_kind[] = "op: sub-op of another kind";

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
    s->names[1] = (struct apir_name){ APIR_NAME_UNARY, "SILU" };
    s->names[2] = (struct apir_name){ APIR_NAME_GLU, "SWIGLU" };
    s->g = (struct apir_graph){ .n_names = 3, .n_tensors = APIR_TENSOR_SRC + 1, .n_nodes = 1,
                                .names = s->names, .tensors = s->tensors };
    for (int i = 0; i <= APIR_TENSOR_SRC; i++) {
        s->tensors[i].op = s->tensors[i].sub = APIR_NO_NAME;
        s->tensors[i].view_src = APIR_NO_TENSOR;
        for (int k = 0; k < APIR_TENSOR_SRC; k++)
            s->tensors[i].src[k] = APIR_NO_TENSOR;
    }
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
    return worker_rules_check(&s->g, APIR_TENSOR_SRC);
}

static void expect(const struct scene *s, const char *want)
{
    const char *why = check(s);
    if (want == why || (want && why && strcmp(want, why) == 0))
        return;
    fail_msg("%s with %u sources: %s instead of %s", s->names[0].name,
             s->tensors[APIR_TENSOR_SRC].n_src, why ? why : "accepted", want ? want : "accepted");
}

static bool is_custom(const char *op)
{
    return strncmp(op, "CUSTOM", 6) == 0 || strncmp(op, "MAP_CUSTOM", 10) == 0;
}

static void every_op_of_ggml_has_a_rule_but_those_that_call_back(void **state)
{
    (void)state;
    unsigned custom = 0;
    char lacking[512] = "";
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        struct scene s;
        const char *op = op_name((enum ggml_op)i);
        scene_set(&s, op, 0);
        if (is_custom(op)) {
            custom++;
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
    assert_true(custom >= 4);
}

static void names_that_are_no_ops_have_no_rule(void **state)
{
    (void)state;
    static const char *const names[] = { "add", "ADD ", " ADD", "AD", "ADDX", "NONE?", "SILU",
                                         "COUNT", "CUSTOM", "MAP_CUSTOM1", "MAP_CUSTOM2",
                                         "MAP_CUSTOM3", "x", "MAP_UNARY", "MAP_BINARY" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct scene s;
        for (unsigned n = 0; n <= APIR_TENSOR_SRC; n++) {
            scene_set(&s, names[i], n);
            expect(&s, not_known);
        }
    }
}

/* For each op there is a least and a most; between them all pass, outside none. */
static void sources_are_due_in_number(void **state)
{
    (void)state;
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        const char *op = op_name((enum ggml_op)i);
        struct scene s;
        if (is_custom(op))
            continue;
        unsigned least = 0, most;
        for (;; least++) {
            scene_set(&s, op, least);
            if (least == APIR_TENSOR_SRC || !check(&s))
                break;
            expect(&s, missing);
        }
        expect(&s, NULL);
        for (most = least; most < APIR_TENSOR_SRC; most++) {
            scene_set(&s, op, most + 1);
            if (check(&s))
                break;
        }
        for (unsigned n = most + 1; n <= APIR_TENSOR_SRC; n++) {
            scene_set(&s, op, n);
            expect(&s, too_many);
        }
        /* An absent one among those that must be there, with enough in number. */
        for (unsigned n = least; n <= most; n++) {
            for (unsigned hole = 0; hole < n; hole++) {
                scene_set(&s, op, n)->src[hole] = APIR_NO_TENSOR;
                expect(&s, hole < least ? missing : NULL);
            }
        }
    }
}

static void well_known_ops_want_what_ggml_reads(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        unsigned least, most;
    } cases[] = {
        { "NONE", 0, 0 },     { "ADD", 2, 2 },       { "MUL_MAT", 2, 2 },
        { "MUL_MAT_ID", 3, 3 }, { "GET_ROWS", 2, 2 },  { "SET_ROWS", 2, 3 },
        { "ROPE", 2, 3 },     { "SOFT_MAX", 1, 3 },  { "RMS_NORM", 1, 1 },
        { "VIEW", 1, 1 },     { "CPY", 2, 2 },       { "UNARY", 1, 1 },
        { "GLU", 1, 2 },      { "SSM_SCAN", 6, 7 },  { "FLASH_ATTN_EXT", 3, 10 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (unsigned n = 0; n <= APIR_TENSOR_SRC; n++) {
            struct scene s;
            scene_set(&s, cases[i].op, n);
            expect(&s, n < cases[i].least ? missing : n > cases[i].most ? too_many : NULL);
        }
    }
}

static void sub_ops_are_for_unary_and_glu_only_and_of_their_kind(void **state)
{
    (void)state;
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        const char *op = op_name((enum ggml_op)i);
        if (is_custom(op))
            continue;
        struct scene s;
        unsigned n = 0;
        while (scene_set(&s, op, n) && check(&s))
            n++;
        bool unary = strcmp(op, "UNARY") == 0, glu = strcmp(op, "GLU") == 0;
        scene_set(&s, op, n)->sub = APIR_NO_NAME;
        expect(&s, unary || glu ? sub_due : NULL);
        scene_set(&s, op, n)->sub = 1;
        expect(&s, unary ? NULL : glu ? sub_kind : sub_due);
        scene_set(&s, op, n)->sub = 2;
        expect(&s, glu ? NULL : unary ? sub_kind : sub_due);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        UNIT(every_op_of_ggml_has_a_rule_but_those_that_call_back),
        UNIT(names_that_are_no_ops_have_no_rule),
        UNIT(sources_are_due_in_number),
        UNIT(well_known_ops_want_what_ggml_reads),
        UNIT(sub_ops_are_for_unary_and_glu_only_and_of_their_kind),
    };
    return cmocka_run_group_tests(tests, open_ggml, NULL);
}
