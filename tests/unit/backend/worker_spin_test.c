/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for work in turns, whatever another worker has written into the page. */
#include "backend/worker/spin.h"

#include <string.h>
#include <unistd.h>

#include "tests/lib/unit.h"

static struct apir_spin_page page;

static struct worker_spin worker(uint32_t slot)
{
    struct worker_spin spin;
    worker_spin_init(&spin, &page, slot);
    return spin;
}

static int set_up(void **state)
{
    memset(&page, 0, sizeof(page));
    page.limit = 1;
    page.n_slots = 4;
    return unit_setup(state);
}

TEST_WITHIN(one_looks_after_the_other, set_up, unit_teardown)
{
    const struct worker_spin a = worker(0), b = worker(3);
    assert_true(worker_spin_begin(&a));
    assert_false(worker_spin_begin(&b));
    worker_spin_end(&a);
    assert_true(worker_spin_begin(&b));
    assert_false(worker_spin_begin(&a));
    worker_spin_end(&b);
    assert_true(worker_spin_begin(&a));
}

TEST_WITHIN(nobody_looks_where_the_page_allows_none, set_up, unit_teardown)
{
    const struct worker_spin a = worker(0), none = worker(APIR_SPIN_SLOTS),
                             beyond = worker(1 << 19);
    page.limit = 0;
    assert_false(worker_spin_begin(&a));
    page.limit = 1;
    assert_false(worker_spin_begin(&none));
    assert_false(worker_spin_begin(&beyond));
}

TEST_WITHIN(a_higher_limit_in_the_page_is_not_taken, set_up, unit_teardown)
{
    const uint32_t most = apir_spin_most(sysconf(_SC_NPROCESSORS_ONLN));
    static const uint32_t limits[] = {UINT32_MAX, 1u << 31, APIR_SPIN_SLOTS};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        memset(&page, 0, sizeof(page));
        page.limit = limits[i];
        page.n_slots = APIR_SPIN_SLOTS;
        for (uint32_t slot = 0; slot < most; slot++) {
            const struct worker_spin spin = worker(slot);
            assert_true(worker_spin_begin(&spin));
        }
        const struct worker_spin last = worker(most);
        assert_false(worker_spin_begin(&last));
    }
}

TEST_WITHIN(slots_that_the_page_denies_are_looked_at, set_up, unit_teardown)
{
    const struct worker_spin a = worker(0), b = worker(1), last = worker(APIR_SPIN_SLOTS - 1);
    static const uint32_t numbers[] = {0, 1, APIR_SPIN_SLOTS + 1, UINT32_MAX};
    assert_true(worker_spin_begin(&a));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        page.n_slots = numbers[i];
        assert_false(worker_spin_begin(&b));
        assert_false(worker_spin_begin(&last));
    }
    assert_int_equal(page.looking[1], 0);
}

/* What makes sense of the limit: a quarter, and one at least. */
TEST(a_quarter_of_the_processors)
{
    static const struct {
        long processors;
        uint32_t most;
    } of[] = {{-1, 1}, {1, 1}, {7, 1}, {8, 2}, {16, 4}, {128, 32}};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        assert_int_equal(apir_spin_most(of[i].processors), of[i].most);
}
