/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel lets a worker have of the main memory. */
#include "backend/server/cgroup.h"

#include <stdlib.h>

#include "tests/lib/unit.h"

/* In MiB; 0: no limit. */
static unsigned long long most(struct apir_config config)
{
    struct server_cgroups groups;
    char text[512];
    config.context_graph_mib = 3;
    config.context_queue_mib = 4;
    server_cgroups_init(&groups, &config, text, sizeof(text));
    return strcmp(groups.memory_max, "max") == 0 ? 0 : strtoull(groups.memory_max, NULL, 10) >> 20;
}

TEST(without_a_limit_of_main_memory_there_is_none)
{
    assert_int_equal(most((struct apir_config){.context_device_memory_mib = 10}), 0);
}

/* Of many a GPU, memory is main memory: what a context may have there is not taken for too much. */
TEST(a_device_may_have_its_memory_in_the_main_memory)
{
    const unsigned long long other = 100 + 3 + 4 + SERVER_CGROUP_DRIVERS_MIB;
    const struct apir_config own = {.context_host_memory_mib = 100,
                                    .context_device_memory_mib = 5000};
    const struct apir_config all = {.context_host_memory_mib = 100, .device_memory_mib = 6000};
    const struct apir_config both = {.context_host_memory_mib = 100,
                                     .context_device_memory_mib = 7000,
                                     .device_memory_mib = 6000};
    assert_int_equal(most(own), other + 5000);
    assert_int_equal(most(all), other + 6000);
    assert_int_equal(most(both), other + 6000);
}

TEST(a_device_without_a_limit_may_have_all)
{
    assert_int_equal(most((struct apir_config){.context_host_memory_mib = 100}), 0);
}
