/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/peer_copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <emmintrin.h>
#endif

#define LINE    64u
#define STREAMS 8u
/* Below this it is latency that counts, not how much is under way. */
#define SMALL 4096u

void apir_copy_to_peer(void *dst, const void *src, size_t size)
{
#ifdef __x86_64__
    uint8_t *d = dst;
    const uint8_t *s = src;
    size_t at = size < SMALL ? size : -(uintptr_t)d % LINE;
    memcpy(d, s, at);
    if (at == size)
        return;
    for (; size - at >= LINE; at += LINE)
        for (size_t k = 0; k < LINE; k += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(d + at + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(s + at + k)));
    /* A release store alone does not wait for these. */
    _mm_sfence();
    memcpy(d + at, s + at, size - at);
#else
    memcpy(dst, src, size);
#endif
}

/* Streams do not start at the same place of a page: their lines would share a set of the cache. */
static inline __attribute__((always_inline)) void copy_streams(uint8_t *d, const uint8_t *s,
                                                               size_t size)
{
    size_t each = size < SMALL ? 0 : (size / STREAMS & ~(size_t)(LINE - 1)) - LINE;
    for (size_t at = 0; at < each; at += LINE)
        for (size_t k = 0; k < STREAMS; k++)
            __builtin_memcpy(d + k * each + at, s + k * each + at, LINE);
    memcpy(d + STREAMS * each, s + STREAMS * each, size - STREAMS * each);
}

#ifdef __x86_64__
__attribute__((target("avx"))) static void copy_streams_avx(uint8_t *d, const uint8_t *s,
                                                            size_t size)
{
    copy_streams(d, s, size);
}
#endif

#ifdef __x86_64__
/*
 * Whether processor and kernel have the wide registers. Asked once, since a VM's
 * hypervisor answers; by hand, since the plug-in links against no libgcc.
 */
static bool has_avx(void)
{
    static int known; /* 1: no, 2: yes; threads that ask at once get the same answer */
    int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (k == 0) {
        unsigned a, b, c = 0, d, low = 0, high;
        const unsigned want = bit_OSXSAVE | bit_AVX;
        if (__get_cpuid(1, &a, &b, &c, &d) && (c & want) == want)
            __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        k = (low & 6) == 6 ? 2 : 1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k == 2;
}
#endif

void apir_copy_from_peer(void *dst, const void *src, size_t size)
{
#ifdef __x86_64__
    if (has_avx()) {
        copy_streams_avx(dst, src, size);
        return;
    }
#endif
    copy_streams(dst, src, size);
}
