/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "protocol/crowd.h"

TEST(core_that_comes_back_at_once_is_looked_on)
{
    struct apir_crowd crowd = {0};
    assert_false(apir_crowd_there(&crowd, 0));
    assert_false(apir_crowd_note(&crowd, 1000, 1000));
    assert_false(apir_crowd_note(&crowd, 1000, 1000 + APIR_CROWD_LATE_NS));
    assert_false(apir_crowd_there(&crowd, 1000 + APIR_CROWD_LATE_NS));
}

TEST(core_that_comes_back_late_is_not_looked_on_for_a_while)
{
    struct apir_crowd crowd = {0};
    const uint64_t after = 1000 + APIR_CROWD_LATE_NS + 1;
    assert_true(apir_crowd_note(&crowd, 1000, after));
    assert_true(apir_crowd_there(&crowd, after));
    assert_true(apir_crowd_there(&crowd, after + APIR_CROWD_REST_NS - 1));
    assert_false(apir_crowd_there(&crowd, after + APIR_CROWD_REST_NS));
    /* One that was not late, from another thread say, does not end that sooner. */
    assert_false(apir_crowd_note(&crowd, after, after + 1));
    assert_true(apir_crowd_there(&crowd, after + 1));
}
