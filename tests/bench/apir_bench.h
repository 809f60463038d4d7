/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of apir-bench share: options, and the figures that they find. */
#ifndef APIR_BENCH_H
#define APIR_BENCH_H

#include <stdint.h>
#include <stdio.h>

struct options {
    const char *name, *stamp; /* the case; libggml-stamp.so */
    FILE *file;               /* where samples are appended, or NULL: nowhere */
    int tokens, graphs, repeat;
};

enum { NO_PAIR = -1 }; /* of a single figure */

/* A line of samples (docs/bench-method.md) of this case and the side `apir`. */
void sample_write(const struct options *o, const char *metric, int64_t pair, double value,
                  const char *unit);

/* Zeros; no memory ends the program. */
void *allocate(size_t n, size_t size);

/* Prints why nothing can be measured, and ends the program with 1. */
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void command_link(const struct options *o);
void command_overhead(const struct options *o);

#endif
