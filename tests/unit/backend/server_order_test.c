/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes next: classes of programs at one device, in a time of their own. */
#include "backend/server/turns/order.h"
#include "tests/lib/unit.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)
/* A server's, SERVER_TURNS_IDLE_MS. */
#define IDLE_NS (3 * MS)

/* A program: graphs of so long, and pauses between them. */
struct program {
    struct server_order_class class;
    uint64_t graph_ns, pause_ns;
    bool obeys;           /* else it keeps a turn for ever, once it has it */
    uint64_t asks_at_ns;  /* when its next graph comes; UINT64_MAX: it waits or computes */
    uint64_t ends_at_ns;  /* its graph; 0: it computes none */
    uint64_t computed_ns; /* in all */
    uint64_t ended_ns;    /* the latest graph has */
    uint64_t asked_ns;    /* when it began to wait */
    uint64_t longest_ns;  /* that it has waited */
    unsigned graphs;
};

#define PROGRAMS_MAX 8
static struct server_order order;
static struct program programs[PROGRAMS_MAX];
static unsigned n_programs;
static uint64_t now_ns;

static int setup(void **state)
{
    order = (struct server_order){0};
    memset(programs, 0, sizeof(programs));
    n_programs = 0;
    now_ns = 1000 * S;
    order.at_ns = now_ns;
    return unit_setup(state);
}

#define ORDER_TEST(name) TEST_WITHIN(name, setup, unit_teardown)

static struct program *add(uint32_t weight, uint64_t graph_ns, uint64_t pause_ns)
{
    struct program *p = &programs[n_programs++];
    *p = (struct program){.class = {.weight = weight, .need = SERVER_ORDER_ALL},
                          .graph_ns = graph_ns,
                          .pause_ns = pause_ns,
                          .obeys = true,
                          .asks_at_ns = now_ns};
    server_order_add(&order, &p->class, now_ns);
    return p;
}

static struct program *program_of(const struct server_order_class *class)
{
    for (unsigned i = 0; i < n_programs; i++) {
        if (&programs[i].class == class)
            return &programs[i];
    }
    return NULL;
}

static void begin(struct program *p)
{
    const uint64_t waited = now_ns - p->asked_ns;
    if (waited > p->longest_ns)
        p->longest_ns = waited;
    p->ends_at_ns = now_ns + p->graph_ns;
    p->asks_at_ns = UINT64_MAX;
}

static void settle(void)
{
    struct server_order_class *class = NULL;
    uint64_t after_ns = 0;
    enum server_order_act act;
    while ((act = server_order_next(&order, now_ns, &class, &after_ns))) {
        struct program *p = program_of(class);
        assert_non_null(p);
        if (act == SERVER_ORDER_GRANT && p->ends_at_ns == 0)
            begin(p);
    }
}

/* When it gives its turn back that it does not compute in: as a server does, when it is due or
 * after a pause. UINT64_MAX: it has none, or need not. */
static uint64_t idle_until(const struct program *p)
{
    if (!p->class.holds || !p->class.asked || !p->obeys || p->ends_at_ns)
        return UINT64_MAX;
    const uint64_t pause_ns = p->ended_ns + IDLE_NS;
    return pause_ns < p->class.until_ns ? pause_ns : p->class.until_ns;
}

/* Up to the next thing that happens. */
static void step(uint64_t end_ns)
{
    uint64_t at = server_order_deadline(&order);
    for (unsigned i = 0; i < n_programs; i++) {
        const struct program *p = &programs[i];
        if (p->ends_at_ns && p->ends_at_ns < at)
            at = p->ends_at_ns;
        if (p->asks_at_ns < at)
            at = p->asks_at_ns;
        if (idle_until(p) < at)
            at = idle_until(p);
    }
    now_ns = at > end_ns ? end_ns : at > now_ns ? at : now_ns;
    for (unsigned i = 0; i < n_programs; i++) {
        struct program *p = &programs[i];
        if (p->ends_at_ns && p->ends_at_ns <= now_ns) {
            p->computed_ns += p->graph_ns;
            p->graphs++;
            p->ends_at_ns = 0;
            p->ended_ns = now_ns;
            p->asks_at_ns = now_ns + p->pause_ns;
        }
        if (idle_until(p) <= now_ns)
            server_order_left(&order, &p->class, now_ns);
        if (p->asks_at_ns <= now_ns) {
            p->asked_ns = now_ns;
            if (p->class.holds)
                begin(p);
            else
                server_order_want(&order, &p->class, p->class.need, now_ns);
            p->asks_at_ns = UINT64_MAX;
        }
    }
    settle();
}

static void compute_for(uint64_t ns)
{
    const uint64_t end_ns = now_ns + ns;
    while (now_ns < end_ns)
        step(end_ns);
}

static void expect_ratio(const struct program *a, const struct program *b, double want)
{
    const double is = (double)b->computed_ns / (double)a->computed_ns;
    if (is < want * 0.95 || is > want * 1.05)
        fail_msg("%f is not within 5%% of %f", is, want);
}

ORDER_TEST(alone_a_class_has_all)
{
    struct program *p = add(1, 3 * MS, 0);
    compute_for(10 * S);
    assert_true(p->computed_ns >= 10 * S - 3 * MS);
    assert_int_equal(p->longest_ns, 0);
}

/* Whatever a graph takes: a token of a small model, a prompt of a large one. */
ORDER_TEST(two_get_what_their_weights_say)
{
    static const uint64_t graphs[][2] = {{2, 2}, {50, 50}, {1, 60}, {60, 1}, {13, 7}};
    static const uint32_t weights[][2] = {{1, 3}, {10, 10}, {1, 100}, {50, 75}};
    for (size_t i = 0; i < sizeof(graphs) / sizeof(graphs[0]); i++) {
        for (size_t k = 0; k < sizeof(weights) / sizeof(weights[0]); k++) {
            order = (struct server_order){.at_ns = now_ns};
            n_programs = 0;
            struct program *a = add(weights[k][0], graphs[i][0] * MS, 0);
            struct program *b = add(weights[k][1], graphs[i][1] * MS, 0);
            compute_for(100 * S);
            expect_ratio(a, b, (double)weights[k][1] / weights[k][0]);
            assert_true(a->computed_ns + b->computed_ns >= 99 * S);
        }
    }
}

ORDER_TEST(nobody_starves)
{
    struct program *small = add(1, 20 * MS, 0), *first = add(20, 1 * MS, 0);
    first->class.latency = true;
    for (int i = 0; i < 5; i++)
        add(100, 30 * MS, 0);
    compute_for(60 * S);
    for (unsigned i = 0; i < n_programs; i++)
        assert_true(programs[i].graphs > 5);
    expect_ratio(small, first, 20);
}

/* A token now and then, beside prompts. */
ORDER_TEST(latency_comes_first_at_the_next_boundary)
{
    struct program *chat = add(1, 1 * MS, 400 * MS);
    struct program *prompts = add(4, 50 * MS, 0), *more = add(4, 50 * MS, 0);
    chat->class.latency = true;
    compute_for(20 * S);
    assert_true(chat->graphs >= 40);
    if (chat->longest_ns > 50 * MS)
        fail_msg("it has waited %llu us", (unsigned long long)chat->longest_ns / 1000);
    assert_true(prompts->computed_ns + more->computed_ns >= 19 * S);
}

/* And all the time: it has its share, no more. */
ORDER_TEST(latency_is_within_the_share)
{
    struct program *chat = add(1, 1 * MS, 0), *prompts = add(4, 50 * MS, 0);
    chat->class.latency = true;
    compute_for(50 * S);
    expect_ratio(chat, prompts, 4);
}

ORDER_TEST(pauses_between_tokens_cost_no_share)
{
    struct program *a = add(1, 2 * MS, 0), *b = add(3, 30 * MS, 3 * MS);
    compute_for(20 * S);
    /* b is away for a tenth of the time that it could compute in. */
    assert_true(b->computed_ns >= 2 * a->computed_ns);
}

ORDER_TEST(what_was_not_wanted_is_not_owed)
{
    struct program *a = add(1, 2 * MS, 0), *b = add(1, 2 * MS, 0);
    b->asks_at_ns = now_ns + 100 * S;
    compute_for(100 * S);
    assert_true(a->computed_ns >= 99 * S);
    a->computed_ns = b->computed_ns = 0;
    compute_for(10 * S);
    expect_ratio(a, b, 1);
}

ORDER_TEST(who_keeps_a_turn_keeps_nobody_waiting)
{
    struct program *rogue = add(1, 2 * MS, 0), *b = add(1, 2 * MS, 0);
    rogue->obeys = false;
    compute_for(10 * S);
    assert_true(b->graphs > 2000);
    assert_true(b->longest_ns <= SERVER_ORDER_TURN_NS + SERVER_ORDER_LATE_NS + 5 * MS);
}

/* A graph that takes long is charged as what it has: the device, or half of it. */
ORDER_TEST(long_graphs_are_charged)
{
    struct program *a = add(1, 2 * S, 0), *b = add(1, 2 * MS, 0);
    compute_for(100 * S);
    /* a computes its graphs beside b, each in twice the time: b gets what a has had. */
    const double share = (double)b->graphs * 2 / 1000 / 100;
    assert_true(share > 0.6);
    assert_true(a->graphs >= 10);
}

ORDER_TEST(who_needs_little_waits_for_nobody)
{
    struct program *a = add(1, 2 * MS, 0), *b = add(1, 2 * MS, 0), *c = add(1, 2 * MS, 0);
    a->class.need = b->class.need = c->class.need = 300;
    compute_for(10 * S);
    assert_int_equal(a->longest_ns, 0);
    assert_int_equal(b->longest_ns, 0);
    assert_int_equal(c->longest_ns, 0);
    /* One of them has taken on more. */
    server_order_want(&order, &c->class, 900, now_ns);
    settle();
    a->computed_ns = b->computed_ns = c->computed_ns = 0;
    compute_for(10 * S);
    /* Of the device each has the same: three tenths for three times as long as nine. */
    expect_ratio(a, b, 1);
    expect_ratio(c, a, 3);
    assert_true(a->computed_ns + c->computed_ns <= 10 * S + 4 * MS);
}

ORDER_TEST(a_class_that_ends_frees_its_turn)
{
    struct program *a = add(1, 2 * MS, 0), *b = add(1, 2 * MS, 0);
    compute_for(1 * S);
    struct program *holder = a->class.holds ? a : b, *other = a->class.holds ? b : a;
    server_order_remove(&order, &holder->class, now_ns);
    holder->ends_at_ns = 0;
    holder->asks_at_ns = UINT64_MAX;
    settle();
    assert_true(other->class.holds);
    other->computed_ns = 0;
    compute_for(1 * S);
    assert_true(other->computed_ns >= 990 * MS);
}
