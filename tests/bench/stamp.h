/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libggml-stamp writes instead of computing, and how a client checks it.
 * The hash covers both edges of every input, each seeded with the input's name,
 * so it is the same in whatever order the inputs are met, and differs where one
 * is stale, cut short, or in another one's place.
 */
#ifndef APIR_BENCH_STAMP_H
#define APIR_BENCH_STAMP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STAMP_MAGIC UINT64_C(0x3150415453524950)
#define STAMP_EDGE  32u /* bytes at either end of an input that the hash covers */

/* At the start of the last node's data. `count` is also in its last 8 bytes. */
struct stamp {
    uint64_t magic;
    uint64_t count; /* graphs computed by this backend instance, this one included */
    uint64_t hash;
    uint32_t n_inputs;
    uint32_t n_nodes;
};

/*
 * The name as the client gave it, or NULL: not an input. ggml's scheduler calls
 * its copy of the input "inp_pos" "APIR0#inp_pos#0" and does not keep the flag.
 */
static inline const char *stamp_input_name(const char *name)
{
    return strstr(name, "inp_");
}

static inline uint64_t stamp_step(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static inline uint64_t stamp_seed(const char *input_name)
{
    uint64_t h = 1;
    for (const char *p = input_name; *p && *p != '#'; p++)
        h = stamp_step(h, (unsigned char)*p);
    return h;
}

static inline uint64_t stamp_edge(uint64_t h, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = 0;
        memcpy(&v, p + i, n - i < 8 ? n - i : 8);
        h = stamp_step(h, v);
    }
    return h;
}

/* The hash of one input; the stamp holds the sum over all of them. */
static inline uint64_t stamp_input(uint64_t seed, const void *data, size_t size)
{
    size_t n = size < STAMP_EDGE ? size : STAMP_EDGE;
    uint64_t h = stamp_edge(seed, data, n);
    return stamp_edge(h, (const uint8_t *)data + size - n, n);
}

#endif
