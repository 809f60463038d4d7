/* SPDX-License-Identifier: Apache-2.0 */
/* How many graphs one after the other wake nobody, while nobody else wants the cores. */
#define _GNU_SOURCE
#include "tests/system/apir_exercise.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "tests/lib/clock.h"

#define IN_A_ROW 32

static atomic_uint calls; /* to wake the host */

/* In front of the C library's, by which the plug-in waits and wakes. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static long (*next)(long number, ...);
    long args[6];
    va_list ap;
    if (!next) {
        void *fn = dlsym(RTLD_NEXT, "syscall");
        memcpy(&next, &fn, sizeof(next));
    }
    va_start(ap, number);
    for (size_t i = 0; i < 6; i++) /* what was not given is not read by the kernel either */
        args[i] = va_arg(ap, long);
    va_end(ap);
    /* What other processes can hear: locks within this one are private. */
    if (number == SYS_futex && args[1] == FUTEX_WAKE)
        atomic_fetch_add(&calls, 1);
    return next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/*
 * While other programs want a core both sides sleep (protocol/crowd.h), so not each time is one of
 * these. A call per graph would leave none of them, on a machine that has time for us too.
 */
int awake_run(ggml_backend_dev_t dev)
{
    struct problem p;
    unsigned n = 0, graphs = 0, longest = 0;
    problem_init(&p, dev, 48, 3);
    problem_question(&p, 1);
    /* A host that has fallen asleep is woken, which must be seen here. */
    do {
        nap_us(20000);
        CHECK(problem_ask(&p) == RIGHT);
    } while (!atomic_load(&calls));
    for (const int64_t end = now_ms() + patient_ms(10000); longest < IN_A_ROW && now_ms() < end;
         graphs++) {
        const unsigned before = atomic_load(&calls);
        CHECK(problem_ask(&p) == RIGHT);
        n = atomic_load(&calls) == before ? n + 1 : 0;
        longest = n > longest ? n : longest;
    }
    printf("%u graphs, %u calls, %u in a row without\n", graphs, atomic_load(&calls), longest);
    CHECK(longest == IN_A_ROW);
    problem_free(&p);
    return 0;
}
