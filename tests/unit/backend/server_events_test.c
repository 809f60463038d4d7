/* SPDX-License-Identifier: Apache-2.0 */
/* The last events, in order; what repeats itself takes one place. */
#include "backend/server/seen/events.h"

#include "tests/lib/unit.h"

static struct server_events events;

static int set_up(void **state)
{
    memset(&events, 0, sizeof(events));
    return unit_setup(state);
}

static void add(unsigned i)
{
    char reason[32];
    snprintf(reason, sizeof(reason), "reason %u", i);
    server_events_add(&events, SERVER_EVENT_LOST, i, 1000, 7, reason);
}

TEST_WITHIN(the_last_ones_are_kept, set_up, unit_teardown)
{
    assert_true(server_events_first(&events) > events.n);
    for (unsigned i = 1; i <= SERVER_EVENTS_KEPT + 10; i++) {
        add(i);
        assert_int_equal(server_events_get(&events, i)->context, i);
    }
    assert_int_equal(server_events_first(&events), 11);
    for (uint64_t n = 11; n <= events.n; n++) {
        const struct server_event *event = server_events_get(&events, n);
        assert_int_equal(event->number, n);
        assert_int_equal(event->context, n);
    }
    assert_int_equal(events.of_kind[SERVER_EVENT_LOST], SERVER_EVENTS_KEPT + 10);
}

TEST_WITHIN(who_tries_without_end_pushes_out_nobody, set_up, unit_teardown)
{
    add(1);
    for (unsigned i = 0; i < 1000; i++) {
        server_events_add(&events, SERVER_EVENT_REFUSED, i, 1000, (int)i, "all in use");
        server_events_add(&events, SERVER_EVENT_REFUSED, i, 1001, (int)i, "all in use");
    }
    assert_int_equal(events.n, 3);
    assert_int_equal(server_events_get(&events, 2)->times, 1000);
    assert_int_equal(server_events_get(&events, 3)->uid, 1001);
    assert_int_equal(events.of_kind[SERVER_EVENT_REFUSED], 2000);
    add(2);
    assert_int_equal(events.n, 4);
}

TEST_WITHIN(a_long_reason_is_cut, set_up, unit_teardown)
{
    char reason[2 * APIR_REASON_MAX];
    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    server_events_add(&events, SERVER_EVENT_LIMIT, 1, 0, 0, reason);
    assert_int_equal(strlen(server_events_get(&events, 1)->reason), APIR_REASON_MAX - 1);
    for (unsigned kind = 0; kind < SERVER_EVENT_KINDS; kind++)
        assert_true(strlen(server_event_name((enum server_event_kind)kind)) > 0);
}
