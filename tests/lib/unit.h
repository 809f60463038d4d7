/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit wants: cmocka with the headers that it takes for granted, those of the C library
 * that nearly all of them use, and tests that register themselves. This is all of one:
 *
 *     TEST(what_it_shows)
 *     {
 *         assert_true(...);
 *     }
 *
 * It fails when it leaves a descriptor open. main (in unit.c) runs a program's tests in the order
 * of their lines; `state` is cmocka's.
 */
#ifndef APIR_TEST_UNIT_H
#define APIR_TEST_UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/fds.h"

#define TEST(name) TEST_WITHIN(name, unit_setup, unit_teardown)
/* One with a set-up and a tear-down of its own; these may be unit_setup and unit_teardown, or call
 * them. */
#define TEST_WITHIN(name, setup, teardown)                                                         \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_register(void)                                 \
    {                                                                                              \
        unit_register(__LINE__, (struct CMUnitTest){#name, name, setup, teardown, NULL});          \
    }                                                                                              \
    static void name(void **state __attribute__((unused)))
/* A function that sets up what all tests of the program share; cmocka's. */
#define BEFORE_ALL_TESTS(setup)                                                                    \
    __attribute__((constructor)) static void setup##_register(void)                                \
    {                                                                                              \
        unit_before_all = setup;                                                                   \
    }

extern CMFixtureFunction unit_before_all;
void unit_register(int line, struct CMUnitTest test);
/* Runs all tests, with this name in what cmocka prints; returns how many failed. */
int unit_run(const char *group);

/* Remembers how many descriptors are open, and compares. */
int unit_setup(void **state);
int unit_teardown(void **state);

/* A test with a folder of its own: the path is unit_folder; what is in it goes with it. */
#define FOLDER_TEST(name) TEST_WITHIN(name, unit_folder_setup, unit_folder_teardown)
extern char unit_folder[32];
int unit_folder_setup(void **state);
int unit_folder_teardown(void **state);

/* run.sh names it, with the reason; in CI it is a failure. */
#define unit_skip(reason)                                                                          \
    do {                                                                                           \
        printf("skipped: %s: %s\n", __func__, reason);                                             \
        skip();                                                                                    \
    } while (0)

/* Reproducible numbers (xorshift64*); *state must not be 0. */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
