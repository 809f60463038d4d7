/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target is: one entry point, and the name of its corpus: a folder
 * and an archive in tests/hostile/fuzz/corpus/. A finding is a FUZZ_CHECK that fails or a report of
 * a sanitizer; either ends the process.
 */
#ifndef APIR_FUZZ_H
#define APIR_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Callbacks, and what stands in for functions of others, have parameters that others have chosen.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"

extern const char fuzz_corpus[];

/* The input lies in memory of exactly its size, so that ASan sees a read behind it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() that every MODE keeps */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/*
 * Begins a function that the linker or a library finds by its name, with the declaration that the
 * compiler wants to have seen: FUZZ_DEFINE(int __wrap_connect(int fd)) { ... }
 */
#define FUZZ_DEFINE(...)                                                                           \
    __VA_ARGS__;                                                                                   \
    __VA_ARGS__

/* Makes a folder for what is on disk. */
static inline void fuzz_folder(char ret_path[64])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(ret_path, 64, "%.40s/apir-fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    FUZZ_CHECK(mkdtemp(ret_path));
}

/* The rest of an input. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* The next `bytes` (8 at most) as a number; zeros behind the end. */
static inline uint64_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint64_t v = 0;
    size_t n = bytes < input->left ? bytes : input->left;
    memcpy(&v, input->at, n);
    input->at += n;
    input->left -= n;
    return v;
}

#endif
