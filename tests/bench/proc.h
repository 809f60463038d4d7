/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process and of those below it. Where it says nothing, the program ends
 * (options.h). */
#ifndef APIR_BENCH_PROC_H
#define APIR_BENCH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/lib/processes.h"

enum { PROC_TREE_MAX = 64 };

struct proc_tree {
    struct process all[PROC_TREE_MAX];
    size_t n;
};

/* `root` and all below it. */
struct proc_tree proc_tree(pid_t root);
/* What a process holds, in MiB: every page in full, whoever else maps it. */
double proc_memory(pid_t pid);
/* Seconds that all threads of it have run so far. */
double proc_cpu(pid_t pid);
/* Seconds that its threads were ready to run and waited for a core so far; one that waits is
 * counted when it runs again. */
double proc_waited(pid_t pid);
/* The core that all its threads must use. */
int proc_core(pid_t pid);
/* Puts `root` and all below it, with their threads, on one core; false with errno set: not all. */
bool proc_put(pid_t root, int core);

#endif
