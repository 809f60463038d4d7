/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/machine.h"
#include "tests/lib/unit.h"

TEST(memory_is_scarce_below_a_quarter)
{
    assert_true(
        server_meminfo_is_scarce("MemTotal:  400 kB\nMemFree:  300 kB\nMemAvailable:  99 kB\n"));
    assert_false(
        server_meminfo_is_scarce("MemTotal:  400 kB\nMemFree:  10 kB\nMemAvailable:  100 kB\n"));
}

TEST(memory_that_is_not_told_is_not_scarce)
{
    assert_false(server_meminfo_is_scarce(""));
    assert_false(server_meminfo_is_scarce("MemTotal:  400 kB\n"));
    assert_false(server_meminfo_is_scarce("MemAvailable:  99 kB\n"));
    assert_false(server_meminfo_is_scarce("MemTotal:  400 kB\nMemAvailable:"));
}
