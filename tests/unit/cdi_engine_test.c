/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cdi/engine.h"

static void versions_are_found_in_what_engines_say(void **state)
{
    static const struct {
        const char *text;
        int major, minor; /* -1: none */
    } cases[] = {
        {"podman version 5.8.2\n", 5, 8},
        {"Docker version 28.2.2, build e6534b4\n", 28, 2},
        {"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7\n", 2, 1},
        {"containerd containerd.io 1.7.27 05044ec0a9a7", 1, 7},
        {"crio version 1.34.0\n", 1, 34},
        {"", -1, -1},
        {"no numbers", -1, -1},
        {"99999999999999999999.1", -1, -1},
        {"7", -1, -1},
        {"7.", -1, -1},
        {"build4.5", -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int major = -1, minor = -1;
        bool found = cdi_engine_parse_version(cases[i].text, &major, &minor);

        if (found != (cases[i].major >= 0) || major != cases[i].major || minor != cases[i].minor)
            fail_msg("%s: %d.%d", cases[i].text, major, minor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(versions_are_found_in_what_engines_say)};

    return cmocka_run_group_tests_name("cdi_engine", tests, NULL, NULL);
}
