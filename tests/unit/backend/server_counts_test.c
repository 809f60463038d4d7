/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's page, honest and not: never less than before, never more than time allows. */
#include "backend/server/seen/counts.h"

#include "protocol/messages.h"
#include "tests/lib/unit.h"

#define SECOND UINT64_C(1000000000)

TEST(an_honest_page_is_told_as_it_is)
{
    struct apir_worker_counts page = {
        .work = APIR_AT_WORK | (100 * SECOND),
        .graphs_ns = SECOND,
        .longest_ns = SECOND / 2,
        .turns_ns = SECOND / 4,
        .set_bytes = 4096,
        .got_bytes = 8,
    };
    page.messages[APIR_MSG_GRAPH_EXEC].count = 3;
    page.messages[APIR_MSG_SET].count = 4;
    struct server_counts counts = {0};
    server_counts_read(&counts, &page, 102 * SECOND, 90 * SECOND);
    assert_int_equal(counts.busy_ns, 2 * SECOND);
    assert_int_equal(counts.graphs_ns, SECOND);
    assert_int_equal(counts.longest_ns, SECOND / 2);
    assert_int_equal(counts.turns_ns, SECOND / 4);
    assert_int_equal(counts.messages, 7);
    assert_int_equal(counts.graphs, 3);
    assert_int_equal(counts.set_bytes, 4096);
    assert_int_equal(counts.got_bytes, 8);
    page.work = 3 * SECOND; /* it pauses */
    server_counts_read(&counts, &page, 200 * SECOND, 90 * SECOND);
    assert_int_equal(counts.busy_ns, 3 * SECOND);
    assert_false(counts.odd);
}

TEST(work_that_begins_while_one_looks_is_nothing_odd)
{
    struct apir_worker_counts page = {.work = APIR_AT_WORK | (100 * SECOND)};
    struct server_counts counts = {.busy_ns = 1000};
    server_counts_read(&counts, &page, 100 * SECOND - 500, 90 * SECOND);
    assert_int_equal(counts.busy_ns, 1000);
    assert_false(counts.odd);
}

TEST(each_word_that_goes_back_is_noticed_for_good)
{
    static const size_t words[] = {offsetof(struct apir_worker_counts, work),
                                   offsetof(struct apir_worker_counts, graphs_ns),
                                   offsetof(struct apir_worker_counts, longest_ns),
                                   offsetof(struct apir_worker_counts, turns_ns),
                                   offsetof(struct apir_worker_counts, set_bytes),
                                   offsetof(struct apir_worker_counts, got_bytes),
                                   offsetof(struct apir_worker_counts, messages)};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct apir_worker_counts page = {0};
        struct server_counts counts = {0};
        uint64_t n = 5 * SECOND;
        memcpy((uint8_t *)&page + words[i], &n, sizeof(n));
        server_counts_read(&counts, &page, 100 * SECOND, 90 * SECOND);
        assert_false(counts.odd);
        n = 0;
        memcpy((uint8_t *)&page + words[i], &n, sizeof(n));
        server_counts_read(&counts, &page, 100 * SECOND, 90 * SECOND);
        assert_true(counts.odd);
        n = 6 * SECOND;
        memcpy((uint8_t *)&page + words[i], &n, sizeof(n));
        server_counts_read(&counts, &page, 101 * SECOND, 90 * SECOND);
        assert_true(counts.odd);
    }
}

TEST(nothing_is_more_than_the_time_allows)
{
    uint64_t random = 88172645463325252u;
    struct apir_worker_counts page;
    struct server_counts counts = {0};
    for (int round = 0; round < 2000; round++) {
        const uint64_t now = (100 + (uint64_t)round) * SECOND, wall = now - 90 * SECOND;
        const struct server_counts before = counts;
        for (size_t i = 0; i + 8 <= sizeof(page); i += 8) {
            const uint64_t r = round % 3 == 0 ? UINT64_MAX : unit_random(&random);
            memcpy((uint8_t *)&page + i, &r, sizeof(r));
        }
        server_counts_read(&counts, &page, now, 90 * SECOND);
        assert_true(counts.odd);
        assert_true(counts.busy_ns <= wall && counts.graphs_ns <= wall);
        assert_true(counts.longest_ns <= wall && counts.messages <= wall && counts.graphs <= wall);
        assert_true(counts.set_bytes <= INT64_MAX && counts.got_bytes <= INT64_MAX);
        assert_true(counts.busy_ns >= before.busy_ns && counts.messages >= before.messages);
        assert_true(counts.set_bytes >= before.set_bytes);
    }
    /* A clock that has not moved on since the context began. */
    counts = (struct server_counts){0};
    server_counts_read(&counts, &page, 1, 2);
    assert_int_equal(counts.messages, 0);
}
