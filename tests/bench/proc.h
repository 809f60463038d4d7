/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process and of those below it. */
#ifndef APIR_BENCH_PROC_H
#define APIR_BENCH_PROC_H

#include <stddef.h>
#include <sys/types.h>

#include "common/error.h"
#include "tests/lib/processes.h"

enum { PROC_TREE_MAX = 64 };

struct proc_tree {
    struct process all[PROC_TREE_MAX];
    size_t n;
};

/* `root` and all below it. Returns 0 or -errno with *err set, as all below. */
int proc_tree(pid_t root, struct proc_tree *ret_tree, struct apir_error *err);
/* What a process holds, in MiB: every page in full, whoever else maps it. */
int proc_memory(pid_t pid, double *ret_mib, struct apir_error *err);
/* Seconds that all threads of it have run so far. */
int proc_cpu(pid_t pid, double *ret_seconds, struct apir_error *err);
/* Seconds that its threads were ready to run and waited for a core so far; one that waits is
 * counted when it runs again. */
int proc_waited(pid_t pid, double *ret_seconds, struct apir_error *err);
/* The core that all its threads must use; more than one is an error. */
int proc_core(pid_t pid, int *ret_core, struct apir_error *err);
/* Puts `root` and all below it, with their threads, on one core. */
int proc_put(pid_t root, int core, struct apir_error *err);

#endif
