/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of llama.cpp's as a user starts it, a process of its own, on one side: natively it does
 * not hear of APIR0; on the side of a device APIR0 it has what the CDI spec gives a container.
 */
#ifndef APIR_BENCH_PROGRAM_H
#define APIR_BENCH_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/options.h"

struct program {
    const struct option_side *side;
    const char *name; /* argv[0] */
    pid_t pid;        /* 0: none */
    int output;       /* its stdout; -1: that is in the log */
    char log[96];     /* a file of what it says on stderr */
    uint64_t began_ns;
};

/* Where a file of ours lies whose name ends so: in TMPDIR. A path too long for a socket ends this
 * program. */
void program_path(char path[static 96], const char *end);

/* Whether it computes on APIR0. */
bool program_is_remoted(const struct option_side *side);

enum { PROGRAM_ARGUMENTS_MAX = 96 };

/* Adds those of `more` (up to a NULL) at the end of `argv`, which has room for
 * PROGRAM_ARGUMENTS_MAX and a NULL. */
void program_arguments(const char *argv[], const char *const more[]);

/* Of PATH. argv ends with NULL, after PROGRAM_ARGUMENTS_MAX at most. Whoever has it `talk` reads
 * its output. What goes wrong here ends this program (options.h). */
void program_start(struct program *p, const struct option_side *side, const char *const argv[],
                   bool talk);
/* Whether it has ended; nobody has waited for it yet. */
bool program_ended(const struct program *p);
/* Its end is waited for, and is to be a good one; `p` is nothing then. */
void program_end(struct program *p);
/* Kills it. */
void program_stop(struct program *p);

/* Prints the last lines of its log, and fails. */
_Noreturn void program_fail(const struct program *p, const char *why);

#endif
