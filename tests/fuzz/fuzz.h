/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target is: one entry point, and the name of its corpus folder
 * under tests/fuzz/corpus/. A finding is a FUZZ_CHECK that fails or a report of a
 * sanitizer; either ends the process.
 */
#ifndef APIR_FUZZ_H
#define APIR_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern const char fuzz_corpus[];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() that every MODE keeps */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
