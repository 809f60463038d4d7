/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps OUT [short|gpu]: each fault at each step of a real client over a stock virgl_test_server. A
 * rehearsal counts the steps: every call of the worker's into its ggml of each kind, the first and
 * the last of it, and every call of the plug-in's into its transport. At each the one process is
 * held, the fault happens, and then: the client ends as it must and in time; a client beside it
 * computes on; a new one works; and the census is what it was. `short` takes a case in eleven;
 * `gpu` takes lavapipe for the CPU, and the worker's steps alone.
 */
#define _GNU_SOURCE
#include "tests/hostile/faults/stage.h"
#include "tests/lib/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    SHORT_STRIDE = 11, /* no divisor of the number of faults: all of them have their turn */
    STEPS_MAX = 1024,
};

enum fault { WORKER_KILL, WORKER_STOP, CLIENT_KILL, CLIENT_STOP, SERVER_KILL, VMM_KILL, FAULTS };

static const char *const fault_names[FAULTS] = {
    [WORKER_KILL] = "worker SIGKILL",        [WORKER_STOP] = "worker SIGSTOP",
    [CLIENT_KILL] = "client SIGKILL",        [CLIENT_STOP] = "client SIGSTOP, then SIGCONT",
    [SERVER_KILL] = "render server SIGKILL", [VMM_KILL] = "VMM SIGKILL",
};

struct step {
    enum gate_point point;
    uint32_t skip;
};

static struct stage stage;

/* Of a client held in its transport: the worker that is not the other one's, or 0. */
static pid_t worker_of_client(pid_t other)
{
    static pid_t all[PROCESSES_MAX];
    const size_t n = host_workers(&stage.host, all);
    for (size_t i = 0; i < n; i++) {
        if (all[i] != other)
            return all[i];
    }
    return 0;
}

/* How the client may end. */
static bool status_fits(enum fault fault, int status)
{
    if (fault == CLIENT_KILL)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!WIFEXITED(status))
        return false;
    if (fault == CLIENT_STOP)
        return WEXITSTATUS(status) == WALK_RIGHT;
    /* A step may be the last that needs the host. Before there was a device there is none to lose.
     */
    return WEXITSTATUS(status) == WALK_RIGHT || WEXITSTATUS(status) == WALK_LOST ||
           WEXITSTATUS(status) == WALK_DECLINED;
}

static bool gone_within(pid_t pid, int64_t ms)
{
    const int64_t end = now_us() + ms * 1000;
    for (;;) {
        const char state = process_look(pid).state;
        if (!state || state == 'Z')
            return true;
        if (now_us() > end)
            return false;
        nap_us(2000);
    }
}

/* What the held process was to do it does while the client is stopped. Meanwhile others come and
 * go: it holds up nobody. */
static void stop_and_continue(struct trial *t)
{
    char log[80];
    snprintf(log, sizeof(log), "%s/other.log", stage.dir);
    kill(t->client, SIGSTOP);
    stage_release(&stage);
    const pid_t other = stage_client(&stage, "walk", log);
    const int status = process_end(other, REACH_MS);
    if (status < 0)
        process_kill(other);
    if (status != WALK_RIGHT)
        trial_blame(t, "another client fails beside a stopped one", "");
    kill(t->client, SIGCONT);
}

static void deed(struct trial *t, enum fault fault, bool at_client, pid_t worker)
{
    const pid_t server = host_server(&stage.host);
    const struct {
        pid_t victim;
        int signal;
    } deeds[FAULTS] = {
        [WORKER_KILL] = {worker, SIGKILL},      [WORKER_STOP] = {worker, SIGSTOP},
        [CLIENT_KILL] = {t->client, SIGKILL},   [SERVER_KILL] = {server, SIGKILL},
        [VMM_KILL] = {stage.host.vmm, SIGKILL},
    };
    if (fault == CLIENT_STOP)
        stop_and_continue(t);
    else
        kill(deeds[fault].victim, deeds[fault].signal);
    const int64_t since = now_us();
    if (at_client)
        stage_release(&stage);
    const bool ends = fault != CLIENT_STOP && fault != CLIENT_KILL;
    const int status = trial_client_end(&stage, t, ends ? since : 0);
    char text[64];
    snprintf(text, sizeof(text), "wait status %#x", (unsigned)status);
    if (!status_fits(fault, status))
        trial_blame(t, "the client ends otherwise", text);
    if (fault != CLIENT_STOP && worker && !gone_within(worker, patient_ms(LIMIT_MS)))
        trial_blame(t, "its worker lives on", "");
    if (fault == VMM_KILL && server && !gone_within(server, patient_ms(LIMIT_MS)))
        trial_blame(t, "the render server lives on without its VMM", "");
}

/* Whoever else was served by what is gone starts again. */
static void repair(struct trial *t, enum fault fault)
{
    if (fault != SERVER_KILL && fault != VMM_KILL)
        return;
    if (process_end(stage.beat, patient_ms(LIMIT_MS)) < 0) {
        trial_blame(t, "the client beside does not notice", "");
        process_kill(stage.beat);
    }
    if (fault == VMM_KILL)
        stage_restart(&stage);
    else
        stage_beat_start(&stage);
}

#define REHEARSALS 4
#define TRIES      8

static void trial_run(const struct step *step, enum fault fault)
{
    static pid_t workers[PROCESSES_MAX];
    struct trial t = {0};
    snprintf(t.name, sizeof(t.name), "%s at %s, call %u", fault_names[fault],
             gate_point_names[step->point], step->skip + 1);
    const bool at_client = step->point == GATE_CLIENT;
    pid_t who = 0;
    /* A run may still have a call less than the rehearsals had. */
    for (int tries = 0; !who && tries < (at_client ? TRIES : 1); tries++) {
        if (tries > 0) {
            process_kill(t.client);
            census_leaks(&stage.host, &stage.before, SETTLE_MS, t.name);
        }
        if (host_workers(&stage.host, workers) != 1)
            die("%s: before it there is more than the other client's worker", t.name);
        stage_arm(&stage, step->point, step->skip, GATE_HOLD);
        t.client = stage_client(&stage, "walk", stage.walk_log);
        who = stage_held(&stage, t.client);
    }
    const pid_t worker = at_client ? worker_of_client(workers[0]) : who;
    if (!who) {
        trial_blame(&t, "the step was not reached", "");
        process_kill(t.client);
    } else if (!worker && (fault == WORKER_KILL || fault == WORKER_STOP)) {
        /* So early there is nothing to do it to. */
        process_kill(t.client);
        census_leaks(&stage.host, &stage.before, SETTLE_MS, t.name);
        return;
    } else {
        deed(&t, fault, at_client, worker);
        repair(&t, fault);
    }
    trial_finish(&stage, &t);
}

/* What a rehearsal must have come by: all, but without a GPU nobody asks its driver, and the CPU's
 * results are read where they lie. */
static bool has_calls(enum gate_point point, bool on_gpu)
{
    return on_gpu || (point != GATE_GET && point != GATE_SUBMIT && point != GATE_MEMORY_NEW);
}

static size_t steps_list(struct step *steps, bool with_client)
{
    size_t n = 0;
    uint32_t fewest[GATE_N];
    /* The fewest of some runs: a client rings more often where its worker has fallen asleep. */
    for (int run = 0; run < REHEARSALS; run++) {
        stage_rehearse(&stage);
        for (int point = 0; point < GATE_N; point++) {
            const uint32_t passes = stage.gate->passes[point];
            fewest[point] = run == 0 || passes < fewest[point] ? passes : fewest[point];
        }
    }
    for (int point = 0; point < GATE_N; point++) {
        const uint32_t passes = fewest[point];
        printf("# %s: %u calls\n", gate_point_names[point], passes);
        if (passes == 0 && has_calls((enum gate_point)point, !with_client))
            die("%s: the rehearsal had no such call", gate_point_names[point]);
        for (uint32_t i = 0; i < passes && n < STEPS_MAX; i++) {
            if (point == GATE_CLIENT ? with_client : i == 0 || i + 1 == passes)
                steps[n++] = (struct step){.point = (enum gate_point)point, .skip = i};
        }
    }
    census_leaks(&stage.host, &stage.before, SETTLE_MS, "the rehearsal");
    return n;
}

int main(int argc, char **argv)
{
    static struct step steps[STEPS_MAX];
    const bool is_short = argc == 3 && strcmp(argv[2], "short") == 0;
    const bool is_gpu = argc == 3 && strcmp(argv[2], "gpu") == 0;
    if (argc != 2 && !is_short && !is_gpu) {
        fputs("usage: steps OUT [short|gpu]\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    stage_silence(false);
    if (is_gpu)
        stage_open_gpu(&stage, argv[1], "");
    else
        stage_open(&stage, argv[1], "", NULL);
    const size_t n = steps_list(steps, !is_gpu);
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        for (int fault = 0; fault < FAULTS; fault++, number++) {
            if (!is_short || number % SHORT_STRIDE == 0)
                trial_run(&steps[i], (enum fault)fault);
        }
    }
    return stage_close(&stage, is_gpu ? "steps on a GPU" : "steps");
}
