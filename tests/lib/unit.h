/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit of this folder wants: cmocka with the headers that it takes
 * for granted, and tests that fail when they leave a descriptor open.
 */
#ifndef APIR_TEST_UNIT_H
#define APIR_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "tests/lib/fds.h"

static int unit_fds_before;

static inline int unit_setup(void **state)
{
    (void)state;
    unit_fds_before = fds_count(0);
    return unit_fds_before < 0;
}

static inline int unit_teardown(void **state)
{
    (void)state;
    int after = fds_count(0);
    if (after == unit_fds_before)
        return 0;
    fprintf(stderr, "descriptors: %d before, %d after\n", unit_fds_before, after);
    return -1;
}

/* run.sh names it, with the reason; in CI it is a failure. */
#define unit_skip(reason)                                                                          \
    do {                                                                                           \
        printf("skipped: %s: %s\n", __func__, reason);                                             \
        skip();                                                                                    \
    } while (0)

#define UNIT(test) cmocka_unit_test_setup_teardown(test, unit_setup, unit_teardown)

/* Reproducible numbers (xorshift64*); *state must not be 0. */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
