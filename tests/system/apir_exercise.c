/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: apir-exercise COMMAND [DEVICE]\n"
    "Drives a ggml device (default APIR0) through ggml's public interface and checks the results.\n"
    "\n"
    "  list           one line per device: name, type, total memory, description\n"
    "  compute        a hundred checked computations\n"
    "  transfers      set, get, 2d, memset, clear; every size that takes another road\n"
    "  async          asynchronous set, get and events\n"
    "  copies         between buffers, streams and the CPU\n"
    "  buffers        many, too large, reset\n"
    "  host-buffers   the device's host buffer type: transfers, many, computing in it\n"
    "  reads          several threads that read at the same time\n"
    "  host-sets      sets out of a host buffer between graphs, and whatever follows them\n"
    "  weights        buffers of weights: filled, used, changed, freed, by several threads\n"
    "  weights-late   a graph writes into a buffer of weights before anybody else\n"
    "  events         events between backends of the device\n"
    "  events-free    the same, with either end freed first\n"
    "  events-fork    in a child of a busy process\n"
    "  devices        copies between the device and another one beside it\n"
    "  threads        four threads, each with a backend of its own\n"
    "  fork           a child's attempts fail, the parent's go on\n"
    "  fork-busy      the same, forked while another thread computes\n"
    "  exit           main returns while a thread computes\n"
    "  loader-thread  the thread that loaded the backends has ended\n"
    "  load-twice     a second load_all lists nothing twice\n"
    "  lost           computes until the host is lost, then checks what is promised\n"
    "  host-lost      the same with transfers from and to host buffers\n"
    "  host-lost-late reads that are given up after the loss; waits for a line of stdin\n"
    "  hold           one computation per line of stdin, until its end\n"
    "  limits         by line of stdin: MiB to allocate, free, memory, open, compute, graph N\n"
    "  slow           one graph that takes long, in one operation; exit status 3: it failed\n"
    "  long           the same, in many\n";

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

static int compute_run(ggml_backend_dev_t dev)
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
    static const struct {
        const char *name;
        int (*run)(ggml_backend_dev_t dev);
    } commands[] = {
        {"compute", compute_run},
        {"transfers", transfers_run},
        {"async", async_run},
        {"copies", copies_run},
        {"buffers", buffers_run},
        {"threads", threads_run},
        {"fork", fork_run},
        {"fork-busy", fork_busy_run},
        {"exit", exit_run},
        {"lost", lost_run},
        {"hold", hold_run},
        {"host-buffers", host_buffers_run},
        {"reads", reads_run},
        {"host-sets", host_sets_run},
        {"weights", weights_run},
        {"weights-late", weights_late_run},
        {"events", events_run},
        {"events-free", events_free_run},
        {"events-fork", events_fork_run},
        {"devices", devices_run},
        {"host-lost", host_lost_run},
        {"host-lost-late", host_lost_late_run},
        {"limits", limits_run},
        {"slow", slow_run},
        {"long", long_run},
    };
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
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(command, commands[i].name) == 0) {
            ggml_backend_load_all();
            return commands[i].run(device_named(device));
        }
    }
    fputs(usage, stderr);
    return 2;
}
