/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults-walk walk: every kind of call once, each result checked; it says at what it is, and ends
 * as walk.h says. faults-walk beat: one checked computation after the other, counted in the gate's
 * page, until it is killed. faults-walk gorge: buffers, all written, until one is refused.
 */
#include "tests/hostile/faults/walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/hostile/faults/gate.h"
#include "tests/system/apir_exercise.h"

static ggml_backend_dev_t dev;

static void say(const char *what)
{
    puts(what);
}

/* Something was refused. The hardship ends here; does the context go on? */
static _Noreturn void refused(const char *what)
{
    struct problem p;
    struct gate *gate = gate_open();
    if (gate)
        __atomic_store_n(&gate->armed, 0, __ATOMIC_RELEASE);
    printf("refused: %s\n", what);
    ggml_backend_t again = ggml_backend_dev_init(dev, NULL);
    if (!again) {
        say("lost");
        exit(WALK_LOST);
    }
    ggml_backend_free(again);
    problem_init(&p, dev, 40, 2);
    CHECK(problem_run(&p, 1) == RIGHT);
    problem_free(&p);
    exit(WALK_REFUSED);
}

/* Bytes are not what they must be: so they are after a loss, and at no other time. */
static _Noreturn void differs(const char *what)
{
    if (ggml_backend_dev_init(dev, NULL))
        fail("%s: other bytes than were written", what);
    say("lost");
    exit(WALK_LOST);
}

static void ask(struct problem *p, unsigned seed)
{
    const enum outcome outcome = problem_run(p, seed);
    if (outcome == REFUSED)
        refused("a computation");
    if (outcome == WRONG) {
        /* What fails on the host shows with the next one, as all that is asynchronous. */
        if (problem_run(p, seed) != REFUSED)
            fail("a wrong result, and nobody says so");
        refused("a computation");
    }
}

static void compare(struct bytes *b, const char *what)
{
    memset(b->got, 0x5a, b->size);
    ggml_backend_tensor_get(b->t, b->got, 0, b->size);
    if (memcmp(b->got, b->want, b->size) != 0)
        differs(what);
}

static void transfers(void)
{
    cleanup_bytes struct bytes b, to;
    say("transfers");
    if (!bytes_try(&b, dev, 3 * MIB + 5) || !bytes_try(&to, dev, 3 * MIB + 5))
        refused("a buffer");
    ggml_backend_buffer_clear(b.buffer, 0);
    random_bytes(b.want, b.size, 7);
    ggml_backend_tensor_set(b.t, b.want, 0, b.size);
    memset(b.want + 100, 3, 200000);
    ggml_backend_tensor_memset(b.t, 3, 100, 200000);
    compare(&b, "transfers");
    ggml_backend_tensor_copy(b.t, to.t);
    memcpy(to.want, b.want, b.size);
    compare(&to, "a copy");
}

/* Through shared memory that becomes the buffer's own. */
static void weights(struct problem *p)
{
    cleanup_bytes struct bytes b;
    say("weights");
    if (!bytes_try(&b, dev, 5 * MIB))
        refused("a buffer of weights");
    ggml_backend_buffer_set_usage(b.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    random_bytes(b.want, b.size, 8);
    for (size_t at = 0; at < b.size; at += MIB)
        ggml_backend_tensor_set(b.t, b.want + at, at, MIB);
    ask(p, 30);
    compare(&b, "weights");
}

static void host_buffer(struct problem *p)
{
    struct bytes b;
    say("host buffer");
    ggml_backend_buffer_t host =
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_host_buffer_type(dev), MIB);
    if (!host || !bytes_try(&b, dev, MIB))
        refused("a host buffer");
    uint8_t *memory = ggml_backend_buffer_get_base(host);
    random_bytes(b.want, b.size, 9);
    memcpy(memory, b.want, b.size);
    ggml_backend_tensor_set_async(p->backend, b.t, memory, 0, b.size);
    ggml_backend_synchronize(p->backend);
    compare(&b, "a host buffer");
    bytes_fini(&b);
    ggml_backend_buffer_free(host);
}

static void events(struct problem *p)
{
    struct bytes b;
    say("events");
    ggml_backend_t other = ggml_backend_dev_init(dev, NULL);
    ggml_backend_event_t event = ggml_backend_event_new(dev);
    if (!other || !event || !bytes_try(&b, dev, 300000))
        refused("a second backend, an event or a buffer");
    random_bytes(b.want, b.size, 10);
    ggml_backend_tensor_set_async(p->backend, b.t, b.want, 0, b.size);
    ggml_backend_event_record(event, p->backend);
    ggml_backend_event_wait(other, event);
    ggml_backend_tensor_get_async(other, b.t, b.got, 0, b.size);
    ggml_backend_event_record(event, other);
    ggml_backend_event_synchronize(event);
    ggml_backend_synchronize(other);
    if (memcmp(b.got, b.want, b.size) != 0)
        differs("events");
    ggml_backend_event_free(event);
    ggml_backend_free(other);
    bytes_fini(&b);
}

static int walk(void)
{
    struct problem p;
    say("first graph");
    if (!problem_try(&p, dev, 64, 4))
        refused("a backend, an op or a buffer");
    size_t memory_free, memory_total;
    ggml_backend_dev_memory(dev, &memory_free, &memory_total);
    ask(&p, 1);
    ask(&p, 2);
    transfers();
    weights(&p);
    host_buffer(&p);
    events(&p);
    say("last graph");
    ask(&p, 3);
    problem_free(&p);
    say("done");
    return WALK_RIGHT;
}

/* All the memory that the host has. */
static int gorge(void)
{
    for (;;) {
        ggml_backend_buffer_t buffer =
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), 64 * MIB);
        if (!buffer)
            refused("a buffer");
        ggml_backend_buffer_clear(buffer, 1);
    }
}

static int beat(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    struct gate *gate = gate_open();
    struct problem p;
    CHECK(gate);
    problem_init(&p, dev, 48, 3);
    for (unsigned i = 0;; i++) {
        CHECK(problem_run(&p, i) == RIGHT);
        __atomic_add_fetch(&gate->beats, 1, __ATOMIC_ACQ_REL);
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    const char *plugin = getenv("GGML_BACKEND_PATH");
    if (argc != 2 || !plugin) {
        fputs("usage: GGML_BACKEND_PATH=... faults-walk walk|beat|gorge\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    say("loading");
    dev = ggml_backend_load(plugin) ? ggml_backend_dev_by_name("APIR0") : NULL;
    if (!dev) {
        say("declined");
        return WALK_DECLINED;
    }
    if (strcmp(argv[1], "gorge") == 0)
        return gorge();
    return strcmp(argv[1], "beat") == 0 ? beat() : walk();
}
