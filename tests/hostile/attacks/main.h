/* SPDX-License-Identifier: Apache-2.0 */
/* What only the program around the rows uses. */
#ifndef APIR_TESTS_ATTACK_MAIN_H
#define APIR_TESTS_ATTACK_MAIN_H

/* NULL, or what not_stopped() was called with in f; valid until the next call. */
const char *attack_try(void (*f)(void *arg), void *arg);

/* Where guests connect from here on. */
void attack_target(const char *socket);

#endif
