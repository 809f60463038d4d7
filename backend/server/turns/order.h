/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which class computes on a device next: numbers alone, without a clock or a socket.
 *
 * A class that holds the turn is charged the device's time by its weight, but only while another
 * one waits, or pauses: who computes alone owes nobody. Whoever has been charged least is next; so
 * two that both always want more get their weights' shares over any time that is long beside one
 * graph, however long their graphs are, and each gets its turn. A class that comes back after more
 * than SERVER_ORDER_PAUSE_NS begins where the others are: it has saved nothing up, and owes
 * SERVER_ORDER_DEBT_NS at most. A shorter one lies between two tokens of a program.
 *
 * A turn ends at the end of a graph. Who does not give it back for SERVER_ORDER_LATE_NS after it
 * was due keeps nobody waiting any longer: the others compute beside it, and its share of that time
 * is charged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of a device: all of it. Classes that need less together have turns at the same time. */
#define SERVER_ORDER_ALL 1000u

#define SERVER_ORDER_WEIGHT_MAX 100u
/* The shortest turn while another class waits: a change costs about a hundredth of it. */
#define SERVER_ORDER_TURN_NS  UINT64_C(4000000)
#define SERVER_ORDER_LATE_NS  UINT64_C(250000000)
#define SERVER_ORDER_DEBT_NS  UINT64_C(1000000000)
#define SERVER_ORDER_PAUSE_NS UINT64_C(20000000)

/* Its owner sets weight and latency before server_order_add; the rest is the order's. */
struct server_order_class {
    struct server_order_class *next;
    uint32_t weight; /* 1 to SERVER_ORDER_WEIGHT_MAX */
    bool latency;    /* it comes first, as long as it has had no more than its share */
    uint32_t need;   /* 1 to SERVER_ORDER_ALL */
    bool wants;      /* a turn; never while it holds one */
    bool holds;
    bool asked;        /* to give its turn back … */
    uint64_t until_ns; /* … at the end of the graph that it is at then */
    bool late;         /* it has not */
    uint64_t left_ns;  /* when it last gave a turn back */
    uint64_t charged; /* nanoseconds of the whole device, for a weight of SERVER_ORDER_WEIGHT_MAX */
};

/* Of one device. {0} is one without classes. */
struct server_order {
    struct server_order_class *classes;
    uint64_t at_ns; /* up to when all is charged */
};

/* now_ns of all calls never goes back. */
void server_order_add(struct server_order *order, struct server_order_class *class,
                      uint64_t now_ns);
void server_order_remove(struct server_order *order, struct server_order_class *class,
                         uint64_t now_ns);

/* It wants a turn, or, where it waits or has one, its need has changed. */
void server_order_want(struct server_order *order, struct server_order_class *class, uint32_t need,
                       uint64_t now_ns);
/* It has given its turn back. Does nothing where it has none. */
void server_order_left(struct server_order *order, struct server_order_class *class,
                       uint64_t now_ns);

enum server_order_act {
    SERVER_ORDER_NOTHING,
    SERVER_ORDER_GRANT,  /* the turn is *ret_class's */
    SERVER_ORDER_RETURN, /* *ret_class is to give it back, at the first end of a graph after
                          *ret_after_ns */
};

/* What is to be done now; to be called until that is nothing. */
enum server_order_act server_order_next(struct server_order *order, uint64_t now_ns,
                                        struct server_order_class **ret_class,
                                        uint64_t *ret_after_ns);

/* When (as now_ns) to call server_order_next() again, if nothing comes before; UINT64_MAX: no need.
 */
uint64_t server_order_deadline(const struct server_order *order);
