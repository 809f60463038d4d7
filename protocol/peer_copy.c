/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/peer_copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define LINE 64u

/* Below this it is latency that counts, not how much is under way. */
#define SMALL 4096u
/* Bytes asked for before they are copied: as many lines as may be under way. And as many are copied
 * before somebody looks whether more is there. */
#define AHEAD 8192u

/* Steps between two trials, and steps of each way in one. A trial is one token in 256 with eight
 * steps of logits: not to be seen in a percentile that counts. */
#define PERIOD 2048u
#define TRIAL  4u
/* What the first steps take is the kernel's finding pages. */
#define FIRST_TRIAL 16u

#ifdef __x86_64__
/* What processor and kernel have: a set of these bits, the last one always. */
enum { HAS_AVX = 1, HAS_ASKED = 2 };

/*
 * Asked once, since a VM's hypervisor answers; by hand, since the plug-in links against no
 * libgcc.
 */
static int cpu_has(void)
{
    static int known; /* 0: not asked; threads that ask at once get the same answer */
    int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (k == 0) {
        unsigned a, b, c = 0, d, low = 0, high;
        const unsigned want = bit_OSXSAVE | bit_AVX;
        k = HAS_ASKED;
        if (__get_cpuid(1, &a, &b, &c, &d) && (c & want) == want)
            __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & 6) == 6)
            k |= HAS_AVX;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k;
}

/* d is at a line's beginning; whole lines. */
static void lines_past(uint8_t *d, const uint8_t *s, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(__m128i))
        _mm_stream_si128((__m128i *)(void *)(d + at),
                         _mm_loadu_si128((const __m128i *)(const void *)(s + at)));
}

/* As wide as can be: 16 bytes at a time have been seen to take 1.7 times as long. */
__attribute__((target("avx"))) static void lines_past_avx(uint8_t *d, const uint8_t *s, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(__m256i))
        _mm256_stream_si256((__m256i *)(void *)(d + at),
                            _mm256_loadu_si256((const __m256i *)(const void *)(s + at)));
}

static void copy_past(uint8_t *d, const uint8_t *s, size_t size)
{
    const size_t at = -(uintptr_t)d % LINE, lines = (size - at) & ~(size_t)(LINE - 1);
    memcpy(d, s, at);
    if (cpu_has() & HAS_AVX)
        lines_past_avx(d + at, s + at, lines);
    else
        lines_past(d + at, s + at, lines);
    /* A release store alone does not wait for these. */
    _mm_sfence();
    memcpy(d + at + lines, s + at + lines, size - at - lines);
}

void apir_copy_to_peer(struct apir_peer *peer, void *dst, const void *src, size_t size)
{
    if (size < SMALL) {
        memcpy(dst, src, size);
        return;
    }
    uint32_t at = (peer->steps++ + PERIOD - FIRST_TRIAL) % PERIOD;
    bool other = at >= TRIAL && at < 2 * TRIAL;
    uint64_t began = at < 2 * TRIAL ? __rdtsc() : 0;
    if (peer->past != other)
        copy_past(dst, src, size);
    else
        memcpy(dst, src, size);
    if (at >= 2 * TRIAL)
        return;
    uint64_t *least = &peer->least[other], took = (__rdtsc() - began) * 1024 / size;
    if (at % TRIAL == 0 || took < *least)
        *least = took;
    if (at == 2 * TRIAL - 1 && peer->least[true] < peer->least[false])
        peer->past = !peer->past;
}
#else
void apir_copy_to_peer(struct apir_peer *peer, void *dst, const void *src, size_t size)
{
    (void)peer;
    memcpy(dst, src, size);
}
#endif

/* 16 bytes at a time: with 32 it took 13 us and not 9, on Zen 4, where lines come from another
 * core. */
void apir_copy_ahead(struct apir_copy *c, size_t there)
{
    uint8_t *d = c->dst;
    const uint8_t *s = c->src;
    const size_t end = there - c->at < AHEAD ? there : c->at + AHEAD;
    size_t at = c->at, asked = c->asked < at ? at : c->asked;
    for (; asked < there && asked < at + AHEAD; asked += LINE)
        __builtin_prefetch(s + asked, 0, 2);
    for (; end - at >= LINE; at += LINE) {
        if (asked < there) {
            __builtin_prefetch(s + asked, 0, 2);
            asked += LINE;
        }
        __builtin_memcpy(d + at, s + at, LINE);
    }
    memcpy(d + at, s + at, end - at);
    c->at = end;
    c->asked = asked;
}

/*
 * Where we are emulated (QEMU's TCG), the form of the loops decides: with two pointers they are 1.4
 * times as fast as memcpy, with an index as fast, unrolled slower.
 */
static inline __attribute__((always_inline)) void copy_lines(uint8_t *to, const uint8_t *from,
                                                             size_t size)
{
    const size_t lines = size & ~(size_t)(LINE - 1), both = lines < AHEAD ? 0 : lines - AHEAD;
    for (const uint8_t *stop = from + both; from != stop; from += LINE, to += LINE) {
        __builtin_prefetch(from + AHEAD, 0, 2);
        __builtin_memcpy(to, from, LINE);
    }
    for (const uint8_t *stop = from + (lines - both); from != stop; from += LINE, to += LINE)
        __builtin_memcpy(to, from, LINE);
    memcpy(to, from, size - lines);
}

#ifdef __x86_64__
__attribute__((target("avx"))) static void copy_lines_avx(uint8_t *to, const uint8_t *from,
                                                          size_t size)
{
    copy_lines(to, from, size);
}
#endif

void apir_copy_bulk(void *dst, const void *src, size_t size)
{
#ifdef __x86_64__
    if (cpu_has() & HAS_AVX) {
        copy_lines_avx(dst, src, size);
        return;
    }
#endif
    copy_lines(dst, src, size);
}
