/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * From here on this process is killed when parent, which has started it, ends. False where that
 * cannot be had, or parent has ended already. A change of the process's user or capabilities may
 * take it back: it is asked for again after one.
 */
bool apir_ends_with_parent(pid_t parent);
