/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks, exits and losses: what happens to a library that lives in somebody else's
 * process.
 */
#include "tests/lib/clock.h"
#include "tests/system/apir_exercise.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- fork -------------------------------------------------------------------------- */

/* In the child: everything answers, nothing computes. */
static _Noreturn void child_main(struct problem *p, ggml_backend_dev_t dev, bool free_all)
{
    /* A hang is a failure that the parent can name. */
    alarm_patiently(10);
    if (problem_run(p, 77) != REFUSED)
        fail("a forked child computes");
    memset(p->got, 0, ggml_nbytes(p->y));
    ggml_backend_tensor_get(p->y, p->got, 0, ggml_nbytes(p->y));
    CHECK(isnan(p->got[0]));
    ggml_backend_tensor_set(p->x, p->xf, 0, ggml_nbytes(p->x));
    ggml_backend_synchronize(p->backend);
    CHECK(!ggml_backend_dev_init(dev, NULL));
    CHECK(!ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), 4096));
    size_t memory_free, memory_total;
    ggml_backend_dev_memory(dev, &memory_free, &memory_total);
    if (free_all) {
        ggml_backend_buffer_free(p->buffer);
        ggml_backend_free(p->backend);
    }
    _exit(0);
}

int fork_run(ggml_backend_dev_t dev)
{
    cleanup_problem struct problem p;
    problem_init(&p, dev, 64, 4);
    CHECK(problem_run(&p, 1) == RIGHT);
    for (unsigned i = 0; i < 6; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            /* As a program without care would end: with its exit handlers. */
            if (i == 5)
                exit(0);
            child_main(&p, dev, i % 2);
        }
        /* Beside the child, and after it. */
        CHECK(problem_run(&p, 10 + i) == RIGHT);
        child_wait(pid);
        CHECK(problem_run(&p, 20 + i) == RIGHT);
    }
    return 0;
}

static atomic_bool busy_stop;
static atomic_uint busy_count;

static void *busy_main(void *arg)
{
    ggml_backend_dev_t dev = arg;
    cleanup_problem struct problem p;
    problem_init(&p, dev, 96, 4);
    while (!atomic_load(&busy_stop)) {
        CHECK(problem_run(&p, atomic_load(&busy_count)) == RIGHT);
        atomic_fetch_add(&busy_count, 1);
    }
    return NULL;
}

/* The lock may be held, and a message half written, at the moment of the fork. */
int fork_busy_run(ggml_backend_dev_t dev)
{
    cleanup_problem struct problem p;
    problem_init(&p, dev, 64, 4);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, busy_main, dev) == 0);
    for (unsigned i = 0; i < 30 || atomic_load(&busy_count) == 0; i++) {
        CHECK(problem_run(&p, i) == RIGHT);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child_main(&p, dev, true);
        child_wait(pid);
    }
    atomic_store(&busy_stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

/* ---- exit --------------------------------------------------------------------------- */

static atomic_uint exit_count;

static void *exit_main(void *arg)
{
    static struct load load;
    load_init(&load, arg);
    for (;;) {
        if (load_run(&load) != GGML_STATUS_SUCCESS)
            fail("a computation failed");
        atomic_fetch_add(&exit_count, 1);
    }
    return NULL;
}

int exit_run(ggml_backend_dev_t dev)
{
    /* Read by the thread until the very end. */
    static pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exit_main, dev) == 0);
    while (atomic_load(&exit_count) < 3)
        sched_yield();
    /* Main returns: ggml's own destructors run while the thread waits for the host. */
    return 0;
}

/* ---- loss ---------------------------------------------------------------------------- */

static void lost_check(struct load *l, ggml_backend_dev_t dev)
{
    enum { N = 1000 };
    float floats[N];
    int32_t ids[N];
    for (int i = 0; i < 3; i++)
        CHECK(load_run(l) == GGML_STATUS_FAILED);
    memset(floats, 0, sizeof(floats));
    memset(ids, 0xff, sizeof(ids));
    ggml_backend_tensor_get(l->y, floats, 0, sizeof(floats));
    ggml_backend_tensor_get(l->ids, ids, 0, sizeof(ids));
    for (int i = 0; i < N; i++)
        CHECK(isnan(floats[i]) && ids[i] == 0);
    memset(floats, 0, sizeof(floats));
    ggml_backend_tensor_get_async(l->backend, l->y, floats, 0, sizeof(floats));
    ggml_backend_synchronize(l->backend);
    CHECK(isnan(floats[0]) && isnan(floats[N - 1]));
    ggml_backend_tensor_set(l->ids, ids, 0, sizeof(ids));
    ggml_backend_tensor_memset(l->ids, 1, 0, sizeof(ids));
    ggml_backend_buffer_clear(l->buffer, 1);
    CHECK(!ggml_backend_dev_init(dev, NULL));
    /* ggml's scheduler crashes where it is refused one twice. */
    ggml_backend_buffer_t late =
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), 4096);
    CHECK(late);
    ggml_backend_buffer_free(late);
    /* Must not change: ggml aborts where memory of ours holds what we no longer support. */
    CHECK(ggml_backend_dev_supports_op(dev, l->y));
    CHECK(ggml_backend_dev_supports_op(dev, l->ids));
}

/* Says "ready", computes until the loss shows, says after how many seconds a call came back. */
int lost_run(ggml_backend_dev_t dev)
{
    struct load l;
    load_init(&l, dev);
    CHECK(load_run(&l) == GGML_STATUS_SUCCESS);
    printf("ready\n");
    double slowest = 0;
    for (;;) {
        double began = now_seconds();
        enum ggml_status status = load_run(&l);
        double took = now_seconds() - began;
        if (took > slowest)
            slowest = took;
        if (status != GGML_STATUS_SUCCESS)
            break;
    }
    printf("lost, slowest call %.2f s\n", slowest);
    /* What is promised, for a machine of one's own. Who starts this sees to it that a silence is
     * longer. */
    CHECK(slowest < patient_ms(2000) / 1e3);
    lost_check(&l, dev);
    load_free(&l);
    printf("as promised\n");
    return 0;
}

int hold_run(ggml_backend_dev_t dev)
{
    cleanup_problem struct problem p;
    problem_init(&p, dev, 64, 4);
    char line[64];
    unsigned n = 0;
    printf("ready\n");
    while (fgets(line, sizeof(line), stdin)) {
        CHECK(problem_run(&p, ++n) == RIGHT);
        printf("right %u\n", n);
    }
    return 0;
}
