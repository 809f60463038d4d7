/* SPDX-License-Identifier: Apache-2.0 */
/* Places for looking: given out once, and whatever a worker writes into the page. */
#include "backend/server/spin.h"

#include <sys/mman.h>

#include "tests/lib/unit.h"

static struct server_spin spin;
static struct apir_spin_page *page; /* as a worker sees it */

static int set_up(void **state)
{
    if (unit_setup(state) || server_spin_init(&spin))
        return -1;
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, spin.fd, 0);
    return page == MAP_FAILED;
}

static int tear_down(void **state)
{
    munmap(page, sizeof(*page));
    server_spin_fini(&spin);
    return unit_teardown(state);
}

TEST_WITHIN(slots_are_given_out_once_lowest_first, set_up, tear_down)
{
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(server_spin_take(&spin), i);
    server_spin_give(&spin, 1);
    server_spin_give(&spin, 3);
    assert_int_equal(server_spin_take(&spin), 1);
    assert_int_equal(server_spin_take(&spin), 3);
    assert_int_equal(server_spin_take(&spin), 5);
}

TEST_WITHIN(slots_run_out_and_come_back, set_up, tear_down)
{
    for (uint32_t i = 0; i < APIR_SPIN_SLOTS; i++)
        assert_int_equal(server_spin_take(&spin), i);
    assert_int_equal(server_spin_take(&spin), APIR_SPIN_SLOTS);
    assert_int_equal(spin.page->n_slots, APIR_SPIN_SLOTS);
    /* What "none" is given back as changes nothing. */
    server_spin_give(&spin, APIR_SPIN_SLOTS);
    server_spin_give(&spin, UINT32_MAX);
    assert_int_equal(server_spin_take(&spin), APIR_SPIN_SLOTS);
    server_spin_give(&spin, APIR_SPIN_SLOTS - 1);
    assert_int_equal(server_spin_take(&spin), APIR_SPIN_SLOTS - 1);
}

TEST_WITHIN(a_quarter_of_the_cores_may_look, set_up, tear_down)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    assert_int_equal(spin.page->limit, cores >= 8 ? cores / 4 : 1);
    assert_int_equal(spin.page->n_slots, 0);
}

TEST_WITHIN(a_slot_is_clean_for_its_next_owner, set_up, tear_down)
{
    uint32_t slot = server_spin_take(&spin);
    /* Killed while it looked. */
    page->looking[slot] = 1;
    server_spin_give(&spin, slot);
    assert_int_equal(page->looking[slot], 0);
    /* Killed, but not dead when its slot was given back. */
    page->looking[slot] = 1;
    assert_int_equal(server_spin_take(&spin), slot);
    assert_int_equal(page->looking[slot], 0);
}

TEST_WITHIN(a_worker_that_scribbles_changes_no_slot, set_up, tear_down)
{
    uint64_t random = 88172645463325252u;
    bool used[64] = {false};
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof(*page); i += 8) {
            uint64_t r = round % 3 == 0 ? 0 : round % 3 == 1 ? UINT64_MAX : unit_random(&random);
            memcpy((uint8_t *)page + i, &r, sizeof(r));
        }
        if (unit_random(&random) % 2) {
            uint32_t slot = server_spin_take(&spin);
            assert_true(slot < 64);
            assert_false(used[slot]);
            used[slot] = true;
            assert_int_equal(page->looking[slot], 0);
            for (uint32_t i = 0; i < slot; i++)
                assert_true(used[i]);
            if (slot == 63) {
                for (uint32_t i = 0; i < 64; i++) {
                    server_spin_give(&spin, i);
                    used[i] = false;
                }
            }
        } else {
            uint32_t slot = (uint32_t)(unit_random(&random) % 64);
            server_spin_give(&spin, slot);
            used[slot] = false;
        }
    }
}

TEST_WITHIN(the_page_cannot_be_resized_by_a_worker, set_up, tear_down)
{
    assert_int_equal(ftruncate(spin.fd, 0), -1);
    assert_int_equal(ftruncate(spin.fd, 8192), -1);
    assert_int_equal(server_spin_take(&spin), 0);
}
