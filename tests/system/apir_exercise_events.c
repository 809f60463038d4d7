/* SPDX-License-Identifier: Apache-2.0 */
/* Events of one device, and copies between two. In what order events put work: tests/native/differ.
 */
#include "tests/lib/clock.h"
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_events(ggml_backend_dev_t dev)
{
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    if (!props.caps.events)
        printf("no events here\n");
    return props.caps.events;
}

/* ---- more than there are ------------------------------------------------------------- */

static void many(ggml_backend_dev_t dev)
{
    enum { N = 300 };
    static ggml_backend_event_t events[N];
    cleanup_problem struct problem p;
    problem_init(&p, dev, 32, 2);
    for (int round = 0; round < 3; round++) {
        size_t n = 0;
        for (size_t i = 0; i < N; i++) {
            events[i] = ggml_backend_event_new(dev);
            n += !!events[i];
        }
        /* NULL is an answer that ggml's scheduler can live with. */
        CHECK(n >= 200);
        for (size_t i = 0; i < N; i++) {
            if (events[i] && i % 3 != 2)
                ggml_backend_event_record(events[i], p.backend);
        }
        CHECK(problem_run(&p, (unsigned)round) == RIGHT);
        for (size_t i = N; i-- > 0;) {
            if (events[i])
                ggml_backend_event_synchronize(events[i]);
        }
        ggml_backend_synchronize(p.backend);
        for (size_t i = 0; i < N; i++) {
            if (events[i])
                ggml_backend_event_free(events[i]);
        }
        CHECK(problem_run(&p, 50 + (unsigned)round) == RIGHT);
    }
}

static void unused(ggml_backend_dev_t dev)
{
    cleanup_backend ggml_backend_t one = backend_new(dev), two = backend_new(dev);
    ggml_backend_event_t event = event_new(dev);
    /* No mark: nobody is held up. */
    ggml_backend_event_wait(one, event);
    ggml_backend_event_synchronize(event);
    ggml_backend_event_wait(two, event);
    ggml_backend_synchronize(one);
    ggml_backend_synchronize(two);
    /* A mark in nothing, waited for by itself and the other one. */
    ggml_backend_event_record(event, one);
    ggml_backend_event_wait(one, event);
    ggml_backend_event_wait(two, event);
    ggml_backend_synchronize(two);
    ggml_backend_synchronize(one);
    ggml_backend_event_synchronize(event);
    ggml_backend_event_free(event);
    /* Freed at once, never used. */
    ggml_backend_event_free(ggml_backend_event_new(dev));
}

int events_run(ggml_backend_dev_t dev)
{
    if (!has_events(dev))
        return 0;
    many(dev);
    unused(dev);
    return 0;
}

/* ---- freed while used ---------------------------------------------------------------------- */

/*
 * Backends and events freed in any order, with work under way, and used after the other end is
 * gone. ggml's own backends do not promise that; a guest must not be able to hurt its host.
 */
int events_free_run(ggml_backend_dev_t dev)
{
    if (!has_events(dev))
        return 0;
    cleanup_load struct load heavy;
    load_init(&heavy, dev);
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, MIB);
    for (uint32_t i = 0; i < 40; i++) {
        ggml_backend_t one = backend_new(dev), two = backend_new(dev);
        ggml_backend_event_t event = event_new(dev);
        if (i % 2)
            graph_compute_async(one, heavy.graph);
        ggml_backend_event_record(event, one);
        if (i % 3 == 0)
            ggml_backend_event_wait(two, event);
        if (i % 5 == 0)
            ggml_backend_event_record(event, two);
        bytes_set_async(&b, two, i);
        bytes_get_async(&b, two, b.size);
        if (i % 4 < 2)
            ggml_backend_event_free(event);
        if (i % 4 != 0)
            ggml_backend_free(one);
        ggml_backend_synchronize(two);
        CHECK(memcmp(b.got, b.want, b.size) == 0);
        if (i % 4 >= 2) {
            ggml_backend_event_synchronize(event);
            ggml_backend_event_wait(two, event);
            ggml_backend_event_free(event);
        }
        if (i % 4 == 0)
            ggml_backend_free(one);
        ggml_backend_free(two);
    }
    CHECK(load_run(&heavy) == GGML_STATUS_SUCCESS);
    return 0;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static atomic_bool fork_stop;

/* Holds the client's lock for most of its time. */
static void *fork_busy(void *arg)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, arg, 4 * MIB);
    while (!atomic_load(&fork_stop))
        ggml_backend_tensor_set(b.t, b.want, 0, b.size);
    return NULL;
}

/* A child's events and copies do nothing, and come back. */
int events_fork_run(ggml_backend_dev_t dev)
{
    if (!has_events(dev))
        return 0;
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, MIB);
    ggml_backend_t backend = backend_new(dev);
    cleanup_backend ggml_backend_t cpu =
        ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_event_t event = event_new(dev);
    CHECK(cpu);
    cleanup_bytes struct bytes c;
    bytes_init(&c, ggml_backend_get_device(cpu), MIB);
    ggml_backend_buffer_type_t buft = ggml_backend_dev_host_buffer_type(dev);
    ggml_backend_buffer_t host = buft ? ggml_backend_buft_alloc_buffer(buft, MIB) : NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_busy, dev) == 0);
    for (int i = 0; i < 40; i++) {
        ggml_backend_tensor_get_async(backend, b.t, b.got, 0, b.size);
        ggml_backend_event_record(event, backend);
        /* Until the other thread is at work again. */
        for (double end = now_seconds() + i * 20e-6; now_seconds() < end;)
            ;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm_patiently(5);
            ggml_backend_event_synchronize(event);
            ggml_backend_event_record(event, backend);
            ggml_backend_event_wait(backend, event);
            ggml_backend_event_synchronize(event);
            CHECK(!ggml_backend_event_new(dev));
            ggml_backend_tensor_copy_async(cpu, backend, c.t, b.t);
            ggml_backend_synchronize(backend);
            ggml_backend_event_free(event);
            if (host)
                ggml_backend_buffer_free(host);
            ggml_backend_buffer_t other = buft ? ggml_backend_buft_alloc_buffer(buft, MIB) : NULL;
            if (other) {
                memset(ggml_backend_buffer_get_base(other), 1, MIB);
                ggml_backend_buffer_free(other);
            }
            ggml_backend_free(backend);
            _exit(0);
        }
        child_wait(pid);
        ggml_backend_event_synchronize(event);
        ggml_backend_synchronize(backend);
    }
    atomic_store(&fork_stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    if (host)
        ggml_backend_buffer_free(host);
    ggml_backend_event_free(event);
    ggml_backend_free(backend);
    return 0;
}

/* ---- two devices -------------------------------------------------------------------------- */

/* Another device of the same registration, or NULL. */
static ggml_backend_dev_t sibling(ggml_backend_dev_t dev)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    for (size_t i = 0; i < ggml_backend_reg_dev_count(reg); i++) {
        if (ggml_backend_reg_dev_get(reg, i) != dev)
            return ggml_backend_reg_dev_get(reg, i);
    }
    return NULL;
}

static void copies(ggml_backend_dev_t from_dev, ggml_backend_dev_t to_dev)
{
    cleanup_bytes struct bytes from, to;
    cleanup_load struct load heavy;
    load_init(&heavy, from_dev);
    bytes_init(&from, from_dev, 3 * MIB + 1);
    bytes_init(&to, to_dev, 3 * MIB + 1);
    cleanup_backend ggml_backend_t one = backend_new(from_dev), two = backend_new(to_dev);
    struct ggml_backend_dev_props props, to_props;
    ggml_backend_dev_get_props(from_dev, &props);
    ggml_backend_dev_get_props(to_dev, &to_props);
    cleanup_event ggml_backend_event_t event =
        props.caps.events && to_props.caps.events ? ggml_backend_event_new(from_dev) : NULL;
    for (uint32_t i = 0; i < 20; i++) {
        if (i % 3 == 0)
            graph_compute_async(one, heavy.graph);
        bytes_set_async(&from, one, i + 1);
        if (event && i % 2) {
            ggml_backend_event_record(event, one);
            ggml_backend_event_wait(two, event);
        }
        ggml_backend_tensor_copy_async(one, two, from.t, to.t);
        bytes_get_async(&to, two, to.size);
        ggml_backend_synchronize(two);
        if (memcmp(to.got, from.want, from.size) != 0)
            fail("copy %u from %s to %s reads back otherwise", i, ggml_backend_dev_name(from_dev),
                 ggml_backend_dev_name(to_dev));
        ggml_backend_synchronize(one);
    }
    bytes_set(&from, 99);
    ggml_backend_tensor_copy(from.t, to.t);
    memcpy(to.want, from.want, to.size);
    bytes_check(&to, "a copy between devices");
}

int devices_run(ggml_backend_dev_t dev)
{
    ggml_backend_dev_t other = sibling(dev);
    if (!other) {
        printf("one device\n");
        return 0;
    }
    printf("two devices\n");
    copies(dev, other);
    copies(other, dev);
    return 0;
}
