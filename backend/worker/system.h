/* SPDX-License-Identifier: Apache-2.0 */
/* What of threads and timers each system has in a way of its own. */
#pragma once

#include <stdint.h>

/*
 * The client sees in this word of the ring's header that the calling thread has ended, whoever is
 * left to say so: the kernel writes it, where there is one that does. Once in a process.
 */
void worker_system_tell_end(uint32_t *word);

/* What tools that list processes call this one, 15 characters at most. */
void worker_system_name(const char *name);

/*
 * From here on this thread, and those that it starts, run only while nobody else wants their core,
 * as far as the system can do that.
 */
void worker_system_step_back(void);

/* Sleeps of this thread last no longer than asked for. */
void worker_system_exact_timers(void);
