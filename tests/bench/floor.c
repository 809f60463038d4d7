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
#include "protocol/peer_copy.h"
#include "tests/bench/model.h"

#define ROUNDS 2000
#define PLACES 2

struct hand_over {
    size_t size, places;
    size_t step; /* both copy so many bytes at once; */
    bool plain;  /* with memcpy on both ends */
    size_t core; /* of the writer */
    bool past;   /* the way it ended with */
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
    struct apir_peer peer = {0};
    core_take(h->core);
    for (size_t i = 0; i < ROUNDS; i++) {
        uint8_t *to = h->shared + i % h->places * h->size;
        while (apir_load_acquire64(&h->asked) != i + 1)
            apir_cpu_relax();
        for (size_t at = 0, end; at < h->size; at = end) {
            end = step_end(h, at);
            if (h->plain)
                memcpy(to + at, h->src + at, end - at);
            else
                apir_copy_to_peer(&peer, to + at, h->src + at, end - at);
            apir_store_release64(&h->written, i * h->size + end);
        }
    }
    h->past = peer.past;
    return NULL;
}

static void reader(struct hand_over *h)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        const uint8_t *from = h->shared + i % h->places * h->size;
        uint64_t began = model_now_ns();
        apir_store_release64(&h->asked, i + 1);
        struct apir_copy r = {.dst = h->dst, .src = from};
        while (r.at < h->size) {
            uint64_t there;
            while ((there = apir_load_acquire64(&h->written) - i * h->size) <= r.at)
                apir_cpu_relax();
            if (h->plain) {
                memcpy(h->dst, from, h->size);
                break;
            }
            apir_copy_ahead(&r, there);
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
static double measure(size_t core, size_t size, bool plain, bool *ret_past)
{
    static struct hand_over h;
    size_t places = plain ? 1 : PLACES, step = plain ? size : apir_get_step(size);
    h = (struct hand_over){
        .size = size, .places = places, .step = step, .plain = plain, .core = core};
    void *shared =
        mmap(NULL, size * places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    h.shared = shared;
    h.src = malloc(size);
    h.dst = malloc(size);
    pthread_t thread;
    bool ok = shared != MAP_FAILED && h.src && h.dst;
    if (ok) {
        memset(h.shared, 1, size * places);
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
        munmap(shared, size * places);
    free(h.src);
    free(h.dst);
    *ret_past = h.past;
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
    bool past;
    double plain = measure(last, size, true, &past), least = measure(last, 64, true, &past);
    double steps = measure(last, size, false, &past);
    printf("floor: %zu bytes from core to core, no protocol: %.2f us with memcpy at one place;"
           " %.2f us as results travel, %s caches; 64 bytes: %.2f us\n",
           size, plain, steps, past ? "past" : "through", least);
    fflush(stdout);
    sched_setaffinity(0, sizeof(allowed), &allowed);
}
