/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/folder.h"

enum { TESTS_MAX = 64 };

CMFixtureFunction unit_before_all;

static struct CMUnitTest tests[TESTS_MAX];
static int lines[TESTS_MAX];
static size_t n_tests;

/* By UNIT_WITHOUT, names with a space between. */
static bool left_out(const char *name)
{
    const char *list = getenv("UNIT_WITHOUT");
    const size_t n = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    }
    return false;
}

/* Constructors may run in any order: each goes behind those of earlier lines. */
void unit_register(int line, struct CMUnitTest test)
{
    if (left_out(test.name))
        return;
    if (n_tests == TESTS_MAX)
        abort();
    size_t at = n_tests++;
    for (; at > 0 && lines[at - 1] > line; at--) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    tests[at] = test;
    lines[at] = line;
}

int unit_run(const char *group)
{
    return _cmocka_run_group_tests(group, tests, n_tests, unit_before_all, NULL);
}

/* Of a program that has none of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    return unit_run(slash ? slash + 1 : "tests");
}

static int fds_before;

int unit_setup(void **state)
{
    (void)state;
    fds_before = fds_count(0);
    return fds_before < 0;
}

int unit_teardown(void **state)
{
    (void)state;
    int after = fds_count(0);
    if (after == fds_before)
        return 0;
    fprintf(stderr, "descriptors: %d before, %d after\n", fds_before, after);
    return -1;
}

char unit_folder[32];

int unit_folder_setup(void **state)
{
    strcpy(unit_folder, "/tmp/apir-test-XXXXXX");
    return unit_setup(state) || !mkdtemp(unit_folder);
}

int unit_folder_teardown(void **state)
{
    return folder_remove(unit_folder) || unit_teardown(state);
}
