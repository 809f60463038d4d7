/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/clock.h"

#define E(function, name, what) {name, function, what},
static const struct {
    const char *name;
    int (*run)(ggml_backend_dev_t dev);
    const char *what;
} exercises[] = {EXERCISES(E)};
#undef E
#define N_EXERCISES (sizeof(exercises) / sizeof(exercises[0]))

static int usage(void)
{
    fputs("usage: apir-exercise COMMAND [DEVICE]\n"
          "Drives a ggml device (default APIR0) through ggml's public interface and checks the "
          "results.\n"
          "\n"
          "  list           one line per device: name, type, total memory, description\n"
          "  loader-thread  the thread that loaded the backends has ended\n"
          "  load-twice     a second load_all lists nothing twice\n",
          stderr);
    for (size_t i = 0; i < N_EXERCISES; i++)
        fprintf(stderr, "  %-14s %s\n", exercises[i].name, exercises[i].what);
    return 2;
}

/* ---- small commands ------------------------------------------------------------------ */

static int list_run(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        struct ggml_backend_dev_props props;
        ggml_backend_dev_get_props(ggml_backend_dev_get(i), &props);
        printf("%s\t%d\t%zu\t%s\n", props.name, (int)props.type, props.memory_total,
               props.description);
    }
    return 0;
}

int compute_run(ggml_backend_dev_t dev)
{
    struct problem p;
    problem_init(&p, dev, 48, 7);
    for (unsigned i = 0; i < 100; i++)
        CHECK(problem_run(&p, 100 + i) == RIGHT);
    problem_free(&p);
    /* Again in the same process, with other shapes. */
    problem_init(&p, dev, 129, 1);
    for (unsigned i = 0; i < 10; i++)
        CHECK(problem_run(&p, 300 + i) == RIGHT);
    problem_free(&p);
    return 0;
}

/*
 * The host looks for work for a while, then falls asleep: from a microsecond to 16 ms, so that the
 * question comes while it looks, at the moment when it falls asleep, and when it sleeps.
 */
int naps_run(ggml_backend_dev_t dev)
{
    enum { LENGTHS = 15, EACH = 40 };
    struct problem p;
    problem_init(&p, dev, 48, 3);
    for (unsigned i = 0; i < LENGTHS * EACH; i++) {
        problem_question(&p, i);
        nap_us(1L << i % LENGTHS);
        CHECK(problem_ask(&p) == RIGHT);
    }
    problem_free(&p);
    return 0;
}

static int load_twice_run(void)
{
    ggml_backend_load_all();
    ggml_backend_load_all();
    size_t devices = 0, regs = 0;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        if (strncmp(ggml_backend_dev_name(ggml_backend_dev_get(i)), "APIR", 4) == 0)
            devices++;
    }
    for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
        if (strcmp(ggml_backend_reg_name(ggml_backend_reg_get(i)), "APIR") == 0)
            regs++;
    }
    printf("%zu registrations, %zu devices\n", regs, devices);
    CHECK(regs == 1 && devices == 1);
    return compute_run(device_named("APIR0"));
}

static void *load_thread(void *arg)
{
    ggml_backend_load_all();
    return arg;
}

static int loader_thread_run(const char *name)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, load_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return compute_run(device_named(name));
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    const char *device = argc > 2 ? argv[2] : "APIR0";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(command, "load-twice") == 0)
        return load_twice_run();
    if (strcmp(command, "loader-thread") == 0)
        return loader_thread_run(device);
    if (strcmp(command, "list") == 0) {
        ggml_backend_load_all();
        return list_run();
    }
    for (size_t i = 0; i < N_EXERCISES; i++) {
        if (strcmp(command, exercises[i].name) == 0) {
            ggml_backend_load_all();
            return exercises[i].run(device_named(device));
        }
    }
    return usage();
}
