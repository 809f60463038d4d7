/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hardships OUT [MINUTES]: what a host can run out of. Memory, streams, devices, descriptors; each
 * failing call of ggml's and of the driver's is one of a real client's. One that is refused says so
 * and its context goes on; one whose host has gone ends as after any loss. A client suspended for
 * MINUTES finds everything as it was. Without MINUTES it is seconds, and every third of such calls.
 */
#define _GNU_SOURCE
#include "tests/hostile/faults/stage.h"
#include "tests/lib/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Short, so that a test can wait for it, and longer than anything here takes when it is stopped. */
#define SECONDS_PER_GRAPH 5
#define SECONDS_TO_START  10
#define LIMITS            ", \"seconds_per_graph\": 5, \"seconds_to_start\": 10"

static struct stage stage;
static uint32_t stride; /* one call in that many is let fail */

struct hardship {
    const char *name;
    enum gate_point point;
    enum gate_action action;
    unsigned ends; /* how the client may */
};

enum {
    RIGHT = 1u << WALK_RIGHT,
    LOST = 1u << WALK_LOST,
    DECLINED = 1u << WALK_DECLINED,
    REFUSED = 1u << WALK_REFUSED,
};

static void status_is(struct trial *t, int status, unsigned ends)
{
    char text[64];
    snprintf(text, sizeof(text), "wait status %#x", (unsigned)status);
    if (!WIFEXITED(status) || !(ends >> WEXITSTATUS(status) & 1))
        trial_blame(t, "the client ends otherwise", text);
}

/* A client that is held at this call, or for which it fails; the pid of who came to it, or 0. */
static pid_t trial_begin(struct trial *t, enum gate_point point, uint32_t call,
                         enum gate_action action)
{
    stage_arm(&stage, point, call, action);
    t->client = stage_client(&stage, "walk", stage.walk_log);
    const pid_t who = stage_held(&stage, t->client);
    if (!who)
        trial_blame(t, "the step was not reached", "");
    return who;
}

/* It ends in one of these ways; in time, if since_us is not 0. */
static void trial_end(struct trial *t, int64_t since_us, unsigned ends)
{
    const int status = trial_client_end(&stage, t, since_us);
    if (status >= 0)
        status_is(t, status, ends);
    trial_finish(&stage, t);
}

static void pause_seconds(double seconds)
{
    const int64_t until = now_us() + (int64_t)(seconds * 1e6);
    while (now_us() < until)
        nap_us(2000);
}

/* ---- calls that fail -------------------------------------------------------------------- */

static void call_fails(const struct hardship *h, uint32_t call)
{
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "%s, call %u", h->name, call + 1);
    (void)trial_begin(&t, h->point, call, h->action);
    trial_end(&t, now_us(), h->ends);
}

static void calls_fail(const struct hardship *all, size_t n)
{
    uint32_t passes[GATE_N];
    stage_rehearse(&stage);
    memcpy(passes, stage.gate->passes, sizeof(passes));
    census_leaks(&stage.host, &stage.before, SETTLE_MS, "the rehearsal");
    for (size_t i = 0; i < n; i++) {
        const uint32_t calls = passes[all[i].point];
        if (calls == 0)
            die("%s: the rehearsal had no such call", all[i].name);
        for (uint32_t call = 0; call < calls; call += stride) {
            /* The first few, and the last: between them are more of the same. */
            if (call < 8 || call + 1 == calls)
                call_fails(&all[i], call);
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------- */

/* The kernel itself says no: the worker's address space ends here. */
static void address_space(uint32_t call)
{
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "no address space for buffer %u", call + 1);
    const pid_t worker = trial_begin(&t, GATE_ALLOC, call, GATE_HOLD);
    const long kib = worker ? census_kib(worker, "VmSize:") : 0;
    const struct rlimit limit = {.rlim_cur = (rlim_t)(kib + 512) << 10, .rlim_max = RLIM_INFINITY};
    if (!worker || kib == 0 || prlimit(worker, RLIMIT_AS, &limit, NULL) < 0)
        trial_blame(&t, "the step was not reached", "");
    stage_release(&stage);
    /* Small ones come from what the worker has already. */
    trial_end(&t, 0, call >= 1 && call <= 3 ? REFUSED : REFUSED | RIGHT);
}

static long oom_score_adj(pid_t pid)
{
    char path[64], line[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(line, sizeof(line), f))
        die("%s cannot be read", path);
    fclose(f);
    return strtol(line, NULL, 10);
}

/* Where the whole machine runs out of it. */
static void who_goes_first(void)
{
    static pid_t workers[PROCESSES_MAX];
    struct trial t = {.name = "no memory at all: a worker goes before its server and the VMM"};
    if (host_workers(&stage.host, workers) != 1 ||
        oom_score_adj(workers[0]) <= oom_score_adj(host_server(&stage.host)) ||
        oom_score_adj(workers[0]) <= oom_score_adj(stage.host.vmm))
        trial_blame(&t, "it does not", "");
    trial_finish(&stage, &t);
}

/* ---- descriptors ------------------------------------------------------------------------ */

/* What a client may need of the server: more than is left in the first of these, and in the last
 * all. */
#define SPARE_MAX 20

/* A server that can open nothing more refuses, and that is all. */
static void descriptors(uint32_t spare)
{
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "a server with %u descriptors left", spare);
    const pid_t server = host_server(&stage.host);
    struct rlimit was, low;
    if (prlimit(server, RLIMIT_NOFILE, NULL, &was) < 0)
        die("%s: prlimit", t.name);
    low = was;
    low.rlim_cur = (rlim_t)stage.before.value[CENSUS_SERVER_FDS] + spare;
    if (prlimit(server, RLIMIT_NOFILE, &low, NULL) < 0)
        die("%s: prlimit", t.name);
    stage_arm(&stage, GATE_N, 0, 0);
    t.client = stage_client(&stage, "walk", stage.walk_log);
    const int status = trial_client_end(&stage, &t, 0);
    if (prlimit(server, RLIMIT_NOFILE, &was, NULL) < 0)
        die("%s: prlimit", t.name);
    if (status >= 0)
        status_is(&t, status,
                  spare == 0               ? DECLINED
                  : spare == SPARE_MAX - 1 ? RIGHT
                                           : DECLINED | RIGHT);
    trial_finish(&stage, &t);
}

/* ---- time ------------------------------------------------------------------------------- */

/* Stopped while its worker or its transport was about to do something, which is then done. */
static void suspended(enum gate_point point, uint32_t call, double seconds)
{
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "a client suspended for %.0f s at %s, call %u", seconds,
             gate_point_names[point], call + 1);
    (void)trial_begin(&t, point, call, GATE_HOLD);
    kill(t.client, SIGSTOP);
    stage_release(&stage);
    const int64_t until = now_us() + (int64_t)(seconds * 1e6);
    while (now_us() < until && stage_beat_goes_on(&stage))
        nap_us(2000);
    kill(t.client, SIGCONT);
    trial_end(&t, 0, RIGHT);
}

/* A VM is stopped and continued, the guest's processes a moment before the host's: nothing is lost.
 * What was asked before is answered late, and that must not count. */
static void vm_stopped(void)
{
    struct trial t = {.name = "client and server stopped in the middle of a question"};
    const pid_t server = host_server(&stage.host);
    (void)trial_begin(&t, GATE_COMPUTE, 1, GATE_HOLD);
    kill(server, SIGSTOP);
    pause_seconds(0.7); /* enough for the client to have asked whether the server lives */
    kill(t.client, SIGSTOP);
    pause_seconds(3);
    kill(t.client, SIGCONT);
    pause_seconds(0.2);
    kill(server, SIGCONT);
    stage_release(&stage);
    trial_end(&t, 0, RIGHT);
}

/* A computation that does not end, as in a driver that hangs, ends its context when its time is up.
 */
static void hangs(enum gate_point point, uint32_t call, int seconds, unsigned ends)
{
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "a host that hangs at %s, call %u", gate_point_names[point],
             call + 1);
    (void)trial_begin(&t, point, call, GATE_HOLD);
    trial_end(&t, now_us() + seconds * INT64_C(1000000), ends);
}

/* ---- all -------------------------------------------------------------------------------- */

static int on_cpu(const char *out, double seconds)
{
    static const struct hardship all[] = {
        /* The very first calls are the worker's look at its ggml: there is no device yet. */
        {"no memory for a buffer", GATE_ALLOC, GATE_FAIL, REFUSED},
        {"no stream", GATE_OPEN, GATE_FAIL, REFUSED},
        {"a tensor that cannot be made", GATE_INIT, GATE_FAIL, REFUSED},
        {"a computation that fails", GATE_COMPUTE, GATE_FAIL, REFUSED | DECLINED},
        {"an abort when drivers are loaded", GATE_LOAD, GATE_ABORT, DECLINED},
        {"an abort in an allocation", GATE_ALLOC, GATE_ABORT, LOST},
        {"an abort in a write", GATE_SET, GATE_ABORT, LOST},
        {"an abort in a computation", GATE_COMPUTE, GATE_ABORT, LOST | DECLINED},
        /* The last of these calls come when the client has all that it wants. */
        {"an abort in a wait", GATE_SYNC, GATE_ABORT, LOST | DECLINED | RIGHT},
        {"an abort when a buffer is freed", GATE_FREE, GATE_ABORT, LOST | RIGHT},
    };
    stage_open(&stage, out, LIMITS, NULL);
    calls_fail(all, sizeof(all) / sizeof(all[0]));
    for (uint32_t call = 0; call < 6; call += stride)
        address_space(call);
    who_goes_first();
    stage_silence(true);
    for (uint32_t spare = 0; spare < SPARE_MAX; spare += stride)
        descriptors(spare);
    suspended(GATE_COMPUTE, 1, seconds);
    suspended(GATE_CLIENT, 20, seconds);
    vm_stopped();
    stage_silence(false);
    hangs(GATE_LOAD, 0, SECONDS_TO_START, DECLINED);
    hangs(GATE_SET, 5, SECONDS_PER_GRAPH, LOST);
    hangs(GATE_COMPUTE, 1, SECONDS_PER_GRAPH, LOST);
    hangs(GATE_FREE, 0, SECONDS_PER_GRAPH, LOST);
    return stage_close(&stage, "hardships of a CPU");
}

/* A driver that fails, below ggml's Vulkan backend. */
static int on_vulkan(const char *out)
{
    static const struct hardship all[] = {
        {"a device lost", GATE_SUBMIT, GATE_FAIL, LOST},
        /* ggml takes another kind of memory where there is one. */
        {"no device memory once", GATE_MEMORY_NEW, GATE_FAIL, RIGHT | REFUSED},
        {"no device memory any more", GATE_MEMORY_NEW, GATE_FAIL_ON, REFUSED | LOST},
    };
    stage_open_gpu(&stage, out, LIMITS);
    calls_fail(all, sizeof(all) / sizeof(all[0]));
    hangs(GATE_SUBMIT, 20, SECONDS_PER_GRAPH, LOST);
    return stage_close(&stage, "hardships of a GPU");
}

int main(int argc, char **argv)
{
    const double minutes = argc == 3 ? strtod(argv[2], NULL) : 0;
    if (argc < 2 || argc > 3) {
        fputs("usage: hardships OUT [MINUTES]\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    stage_silence(false);
    stride = minutes > 0 ? 1 : 3;
    const int cpu = on_cpu(argv[1], minutes > 0 ? minutes * 60 : 3);
    return on_vulkan(argv[1]) || cpu;
}
