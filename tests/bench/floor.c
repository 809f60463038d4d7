/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/floor.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "tests/bench/model.h"

#define ROUNDS 2000

struct hand_over {
    size_t size;
    size_t step; /* the writer shows so many bytes at once */
    size_t core; /* of the writer */
    uint8_t *shared, *src, *dst;
    /* each on a cache line of its own, each written by one side */
    _Alignas(64) uint64_t asked;   /* reader: rounds begun */
    _Alignas(64) uint64_t written; /* writer: bytes, of all rounds */
    _Alignas(64) uint64_t ns[ROUNDS];
};

static void core_take(size_t core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* The first and the last core that we may use, as far apart as may be; false: only one. */
static bool cores_choose(const cpu_set_t *allowed, size_t *ret_first, size_t *ret_last)
{
    size_t n = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, allowed))
            continue;
        if (n++ == 0)
            *ret_first = i;
        *ret_last = i;
    }
    return n > 1;
}

/* The end of the step that begins at `at`. */
static size_t step_end(const struct hand_over *h, size_t at)
{
    return h->size - at < h->step ? h->size : at + h->step;
}

static void *writer(void *arg)
{
    struct hand_over *h = arg;
    core_take(h->core);
    for (size_t i = 0; i < ROUNDS; i++) {
        while (apir_load_acquire64(&h->asked) != i + 1)
            apir_cpu_relax();
        for (size_t at = 0, end; at < h->size; at = end) {
            end = step_end(h, at);
            memcpy(h->shared + at, h->src + at, end - at);
            apir_store_release64(&h->written, i * h->size + end);
        }
    }
    return NULL;
}

static void reader(struct hand_over *h)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        uint64_t began = model_now_ns();
        apir_store_release64(&h->asked, i + 1);
        for (uint64_t at = 0, there; at < h->size; at = there) {
            while ((there = apir_load_acquire64(&h->written) - i * h->size) <= at)
                apir_cpu_relax();
            memcpy(h->dst + at, h->shared + at, there - at);
        }
        h->ns[i] = model_now_ns() - began;
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median in µs; below 0: out of memory or threads. */
static double measure(size_t core, size_t size, size_t step)
{
    static struct hand_over h;
    h = (struct hand_over){.size = size, .step = step, .core = core};
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    h.shared = shared;
    h.src = malloc(size);
    h.dst = malloc(size);
    pthread_t thread;
    bool ok = shared != MAP_FAILED && h.src && h.dst;
    if (ok) {
        memset(h.shared, 1, size);
        memset(h.src, 2, size);
        memset(h.dst, 3, size);
        ok = pthread_create(&thread, NULL, writer, &h) == 0;
    }
    if (ok) {
        reader(&h);
        pthread_join(thread, NULL);
        qsort(h.ns, ROUNDS, sizeof(h.ns[0]), compare);
    }
    if (shared != MAP_FAILED)
        munmap(shared, size);
    free(h.src);
    free(h.dst);
    return ok ? (double)h.ns[ROUNDS / 2] / 1e3 : -1;
}

void floor_print(size_t size)
{
    cpu_set_t allowed;
    size_t first = 0, last = 0;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 ||
        !cores_choose(&allowed, &first, &last)) {
        printf("floor: not measured on one core\n");
        return;
    }
    core_take(first);
    double plain = measure(last, size, size), least = measure(last, 64, 64);
    double steps = measure(last, size, apir_get_step(size));
    printf("floor: %zu bytes from core to core, no protocol: %.2f us at once;"
           " %.2f us as results travel, in steps; 64 bytes: %.2f us\n",
           size, plain, steps, least);
    fflush(stdout);
    sched_setaffinity(0, sizeof(allowed), &allowed);
}
