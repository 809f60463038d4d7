/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that a guest has taken over: this very program, started by the row's server in the
 * worker's place. It turns into the real worker unless a row has told that the next one is another.
 */
#ifndef APIR_TESTS_ATTACK_HIJACKED_H
#define APIR_TESTS_ATTACK_HIJACKED_H

#include <stdbool.h>

/* Whether this process was started as a worker. */
bool hijacked_is_worker(int argc, char **argv);
int hijacked_main(char **argv);

/* Servers that are started from now on have these workers (own.h). They want "spare_workers": 0, so
 * that a worker is its context's from the start. */
void hijacked_begin(void);
/* The next worker claims all that one account may have of the device, and then more. It says in the
 * ring's reason what became of each, and is READY. */
void hijacked_next(const char *device_id);
void hijacked_end(void);

#endif
