/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has the plug-in in it and does what llama.cpp does: it looks at the device,
 * allocates, moves bytes, has ggml's scheduler cut graphs between the device and the CPU, computes,
 * frees. What it gets from the device it believes.
 */
#ifndef APIR_TEST_PLUGIN_PROGRAM_H
#define APIR_TEST_PLUGIN_PROGRAM_H

#include <ggml.h>

enum program_end {
    TO_THE_END = 0,
    WITHOUT_US = 3, /* the plug-in has declined */
    LEFT_OPEN = 4,  /* it has, and has left descriptors open */
};

/* Once in a process. ggml's own backends are loaded. */
enum program_end program_run(void);

/* An op of its own in the graph. */
void program_function(struct ggml_tensor *dst, const struct ggml_tensor *a, int ith, int nth,
                      void *user);

#endif
