/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/turns/order.h"

#include <stddef.h>

#include "backend/server/list.h"

/* Of two instants for a turn's end, what is not worth telling. */
#define SAME_NS UINT64_C(1000000)

static bool is_active(const struct server_order_class *class)
{
    return class->wants || class->holds;
}

/* It is between two tokens, perhaps. */
static bool pauses(const struct server_order_class *class, uint64_t now_ns)
{
    return class->left_ns && now_ns - class->left_ns <= SERVER_ORDER_PAUSE_NS;
}

/* ---- what has been used ---------------------------------------------------------- */

static void order_charge(struct server_order *order, uint64_t now_ns)
{
    const uint64_t took = now_ns - order->at_ns;
    uint64_t total = 0;
    bool contended = false;
    order->at_ns = now_ns;
    for (const struct server_order_class *c = order->classes; c; c = c->next) {
        contended = contended || c->wants || (!c->holds && pauses(c, now_ns));
        total += c->holds ? c->need : 0;
    }
    /* Those who compute at the same time slow each other down. */
    if (total < SERVER_ORDER_ALL)
        total = SERVER_ORDER_ALL;
    for (struct server_order_class *c = order->classes; c && contended; c = c->next) {
        if (c->holds)
            c->charged += took * c->need / total * SERVER_ORDER_WEIGHT_MAX / c->weight;
    }
}

/* The least that another active class has been charged; UINT64_MAX: there is none. */
static uint64_t order_floor(const struct server_order *order,
                            const struct server_order_class *except)
{
    uint64_t floor = UINT64_MAX;
    for (const struct server_order_class *c = order->classes; c; c = c->next) {
        if (c != except && is_active(c) && c->charged < floor)
            floor = c->charged;
    }
    return floor;
}

/* ---- classes ----------------------------------------------------------------------- */

void server_order_add(struct server_order *order, struct server_order_class *class, uint64_t now_ns)
{
    order_charge(order, now_ns);
    class->next = order->classes;
    order->classes = class;
}

void server_order_remove(struct server_order *order, struct server_order_class *class,
                         uint64_t now_ns)
{
    order_charge(order, now_ns);
    SERVER_LIST_REMOVE(&order->classes, class);
}

void server_order_want(struct server_order *order, struct server_order_class *class, uint32_t need,
                       uint64_t now_ns)
{
    order_charge(order, now_ns);
    class->need = need;
    if (is_active(class))
        return;
    const uint64_t floor = order_floor(order, class);
    if (floor != UINT64_MAX && !pauses(class, now_ns)) {
        if (class->charged < floor)
            class->charged = floor;
        if (class->charged > floor + SERVER_ORDER_DEBT_NS)
            class->charged = floor + SERVER_ORDER_DEBT_NS;
    }
    class->wants = true;
}

void server_order_left(struct server_order *order, struct server_order_class *class,
                       uint64_t now_ns)
{
    order_charge(order, now_ns);
    if (class->holds)
        class->left_ns = now_ns;
    class->holds = class->asked = class->late = false;
}

/* ---- turns ------------------------------------------------------------------------- */

static bool comes_first(const struct server_order *order, const struct server_order_class *class)
{
    const uint64_t floor = order_floor(order, class);
    const uint64_t turn = SERVER_ORDER_TURN_NS * SERVER_ORDER_WEIGHT_MAX / class->weight;
    return class->latency && (floor == UINT64_MAX || class->charged <= floor + turn);
}

/* Who is next of those who wait; NULL: nobody waits. */
static struct server_order_class *order_best(const struct server_order *order)
{
    struct server_order_class *best = NULL;
    bool best_first = false;
    for (struct server_order_class *c = order->classes; c; c = c->next) {
        if (!c->wants)
            continue;
        const bool first = comes_first(order, c);
        if (!best || (first && !best_first) ||
            (first == best_first && c->charged < best->charged)) {
            best = c;
            best_first = first;
        }
    }
    return best;
}

/* How much longer the holder may keep its turn: until it has been charged a little more than who
 * waits for it. */
static uint64_t time_left(const struct server_order *order, const struct server_order_class *holder,
                          const struct server_order_class *best)
{
    if (comes_first(order, best) && !holder->latency)
        return 0;
    const uint64_t behind = best->charged > holder->charged ? best->charged - holder->charged : 0;
    return SERVER_ORDER_TURN_NS + behind * holder->weight / SERVER_ORDER_WEIGHT_MAX;
}

/* What all those need who have turns and are not late. */
static uint32_t order_need(const struct server_order *order)
{
    uint32_t need = 0;
    for (const struct server_order_class *c = order->classes; c; c = c->next)
        need += c->holds && !c->late ? c->need : 0;
    return need;
}

/* Who has turns at the same time may come to need more than there is: one of them, the one that has
 * had most, is to give its turn back. NULL: there is enough. */
static struct server_order_class *order_excess(const struct server_order *order)
{
    struct server_order_class *most = NULL;
    unsigned n = 0;
    for (struct server_order_class *c = order->classes; c; c = c->next) {
        if (!c->holds || c->late)
            continue;
        n++;
        if (c->asked)
            return NULL;
        if (!most || c->charged > most->charged)
            most = c;
    }
    return n > 1 && order_need(order) > SERVER_ORDER_ALL ? most : NULL;
}

static enum server_order_act order_return(struct server_order_class *class, uint64_t now_ns,
                                          uint64_t left_ns, struct server_order_class **ret_class,
                                          uint64_t *ret_after_ns)
{
    class->asked = true;
    class->until_ns = now_ns + left_ns;
    *ret_class = class;
    *ret_after_ns = left_ns;
    return SERVER_ORDER_RETURN;
}

enum server_order_act server_order_next(struct server_order *order, uint64_t now_ns,
                                        struct server_order_class **ret_class,
                                        uint64_t *ret_after_ns)
{
    order_charge(order, now_ns);
    struct server_order_class *best = order_best(order), *excess = order_excess(order);
    if (excess)
        return order_return(excess, now_ns, 0, ret_class, ret_after_ns);
    if (!best)
        return SERVER_ORDER_NOTHING;
    for (struct server_order_class *c = order->classes; c; c = c->next) {
        if (c->holds && c->asked && now_ns >= c->until_ns + SERVER_ORDER_LATE_NS)
            c->late = true;
    }
    const uint32_t need = order_need(order);
    if (need == 0 || need + best->need <= SERVER_ORDER_ALL) {
        best->holds = true;
        best->wants = best->asked = best->late = false;
        *ret_class = best;
        return SERVER_ORDER_GRANT;
    }
    for (struct server_order_class *c = order->classes; c; c = c->next) {
        if (!c->holds || c->late)
            continue;
        const uint64_t left = time_left(order, c, best);
        if (c->asked && c->until_ns <= now_ns + left + (left ? SAME_NS : 0))
            continue;
        return order_return(c, now_ns, left, ret_class, ret_after_ns);
    }
    return SERVER_ORDER_NOTHING;
}

uint64_t server_order_deadline(const struct server_order *order)
{
    uint64_t at = UINT64_MAX;
    for (const struct server_order_class *c = order->classes; c; c = c->next) {
        if (c->holds && c->asked && !c->late && c->until_ns + SERVER_ORDER_LATE_NS < at)
            at = c->until_ns + SERVER_ORDER_LATE_NS;
    }
    return at;
}
