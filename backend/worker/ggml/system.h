/* SPDX-License-Identifier: Apache-2.0 */
/* What each system has in a way of its own of libraries and of memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the loader finds ggml by, where the configuration names none. */
extern const char host_library_name[];

/* The addresses of a library in memory. */
struct host_range {
    uintptr_t lo, hi;
};

/* That of the library which an address is in. False: there is none. */
bool host_range_find(const void *inside, struct host_range *ret_range);

/* Bytes of main memory and swap space; 0: it cannot be told. */
uint64_t host_machine_memory(void);

/* Whole pages of this process's own are zeros from now on. False: they are as they were. */
bool host_pages_renew(void *data, size_t size);
