/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps OUT [short]: each fault at each step of a real client over a stock virgl_test_server. A
 * rehearsal counts the steps: every call of the worker's into its ggml of each kind, the first and
 * the last of it, and every call of the plug-in's into its transport. At each the one process is
 * held, the fault happens, and then: the client ends as it must and in time; a client beside it
 * computes on; a new one works; and the census is what it was. `short` takes a case in eleven.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/gate.h"
#include "tests/faults/host.h"
#include "tests/faults/walk.h"

enum {
    LIMIT_MS = 2000,   /* what is promised */
    REACH_MS = 20000,  /* to a step, on a busy machine */
    SETTLE_MS = 5000,  /* until everything is as before */
    STOPPED_MS = 300,  /* a client's stop */
    SHORT_STRIDE = 11, /* no divisor of the number of faults: all of them have their turn */
    CASES_MAX = 4096,
};

enum fault { WORKER_KILL, WORKER_STOP, CLIENT_KILL, CLIENT_STOP, SERVER_KILL, VMM_KILL, FAULTS };

static const char *const fault_names[FAULTS] = {
    [WORKER_KILL] = "worker SIGKILL",        [WORKER_STOP] = "worker SIGSTOP",
    [CLIENT_KILL] = "client SIGKILL",        [CLIENT_STOP] = "client SIGSTOP, then SIGCONT",
    [SERVER_KILL] = "render server SIGKILL", [VMM_KILL] = "VMM SIGKILL",
};

static const char *const point_names[GATE_N] = {
#define P(NAME, what) [GATE_##NAME] = what,
    GATE_POINTS(P)
#undef P
};

struct step {
    enum gate_point point;
    uint32_t skip;
};

static struct host host;
static struct gate *gate;
static char walk_program[256], walk_log[128], beat_log[128], gate_setting[128],
    preload_setting[320];
static pid_t beat;
static struct census before;
static int64_t ends[CASES_MAX],
    fresh[CASES_MAX]; /* in us: until the client's end; a new one's run */
static size_t n_ends, n_fresh;
static long passed, failed;

/* ---- clients ---------------------------------------------------------------------------- */

static pid_t client_start(const char *what, const char *log)
{
    const char *const argv[] = {walk_program, what, NULL};
    const char *env[HOST_ENV_MAX + 3] = {gate_setting, preload_setting};
    for (size_t i = 0; i < HOST_ENV_MAX && host.client_env[i]; i++)
        env[2 + i] = host.client_env[i];
    unlink(log);
    return process_start(argv, env, log);
}

static uint32_t beats(void)
{
    return __atomic_load_n(&gate->beats, __ATOMIC_ACQUIRE);
}

/* Until two more results have come. */
static bool beat_goes_on(void)
{
    const uint32_t seen = beats();
    const int64_t end = now_us() + REACH_MS * 1000;
    while (beats() - seen < 2) {
        if (now_us() > end || process_look(beat).state == 'Z')
            return false;
        host_nap();
    }
    return true;
}

static void beat_start(void)
{
    beat = client_start("beat", beat_log);
    if (!beat_goes_on())
        die("the client beside does not compute; see %s", beat_log);
}

static void arm(const struct step *step)
{
    gate->armed = gate->go = gate->held = 0;
    __atomic_add_fetch(&gate->epoch, 1, __ATOMIC_ACQ_REL);
    memset(gate->passes, 0, sizeof(gate->passes));
    gate->action = GATE_HOLD;
    gate->skip = step ? step->skip : 0;
    __atomic_store_n(&gate->armed, step ? (uint32_t)step->point + 1 : 0, __ATOMIC_RELEASE);
}

static void release(void)
{
    __atomic_store_n(&gate->go, 1, __ATOMIC_RELEASE);
}

/* The pid of who is held, or 0: nobody ever was. */
static pid_t held(pid_t client)
{
    const int64_t end = now_us() + REACH_MS * 1000;
    for (;;) {
        const uint32_t pid = __atomic_load_n(&gate->held, __ATOMIC_ACQUIRE);
        if (pid)
            return (pid_t)pid;
        if (now_us() > end || process_look(client).state == 'Z')
            return 0;
        host_nap();
    }
}

/* ---- one case --------------------------------------------------------------------------- */

struct trial {
    char name[128];
    struct step step;
    enum fault fault;
    pid_t client, worker;
    const char *why; /* it failed; NULL: not yet */
    char detail[128];
};

static void blame(struct trial *t, const char *why, const char *detail)
{
    if (t->why)
        return;
    t->why = why;
    snprintf(t->detail, sizeof(t->detail), "%s", detail);
}

/* Of a client held in its transport: the worker that is not the other one's, or 0. */
static pid_t worker_of_client(pid_t other)
{
    static pid_t all[PROCESSES_MAX];
    const size_t n = host_workers(&host, all);
    for (size_t i = 0; i < n; i++) {
        if (all[i] != other)
            return all[i];
    }
    return 0;
}

/* After the deed: how the client may end. */
static bool status_fits(const struct trial *t, int status)
{
    if (t->fault == CLIENT_KILL)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!WIFEXITED(status))
        return false;
    if (t->fault == CLIENT_STOP)
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
        host_nap();
    }
}

static void client_must_end(struct trial *t, int64_t since)
{
    char text[64];
    const int status = process_end(t->client, LIMIT_MS + REACH_MS);
    const int64_t took = now_us() - since;
    if (status < 0) {
        process_kill(t->client);
        blame(t, "the client hangs", "");
        return;
    }
    snprintf(text, sizeof(text), "wait status %#x", (unsigned)status);
    if (!status_fits(t, status))
        blame(t, "the client ends otherwise", text);
    if (t->fault == CLIENT_STOP)
        return;
    if (n_ends < CASES_MAX && t->fault != CLIENT_KILL)
        ends[n_ends++] = took;
    snprintf(text, sizeof(text), "%lld ms", (long long)took / 1000);
    if (took > LIMIT_MS * 1000)
        blame(t, "the client ends too late", text);
}

static void deed(struct trial *t)
{
    const bool at_client = t->step.point == GATE_CLIENT;
    const pid_t server = host_server(&host);
    switch (t->fault) {
    case WORKER_KILL:
        kill(t->worker, SIGKILL);
        break;
    case WORKER_STOP:
        kill(t->worker, SIGSTOP);
        break;
    case CLIENT_KILL:
        kill(t->client, SIGKILL);
        break;
    case CLIENT_STOP: {
        kill(t->client, SIGSTOP);
        release();
        const int64_t until = now_us() + STOPPED_MS * 1000;
        while (now_us() < until)
            host_nap();
        kill(t->client, SIGCONT);
        break;
    }
    case SERVER_KILL:
        kill(server, SIGKILL);
        break;
    case VMM_KILL:
        kill(host.vmm, SIGKILL);
        break;
    case FAULTS:
        break;
    }
    const int64_t since = now_us();
    if (at_client)
        release();
    client_must_end(t, since);
    if (t->fault == CLIENT_STOP)
        return;
    if (t->worker && !gone_within(t->worker, LIMIT_MS))
        blame(t, "its worker lives on", "");
    if (t->fault == VMM_KILL && server && !gone_within(server, LIMIT_MS))
        blame(t, "the render server lives on without its VMM", "");
}

/* Whoever else was served by what is gone starts again. */
static void repair(struct trial *t)
{
    if (t->fault != SERVER_KILL && t->fault != VMM_KILL) {
        if (!beat_goes_on())
            die("%s: the client beside has stopped computing; see %s", t->name, beat_log);
        return;
    }
    if (process_end(beat, LIMIT_MS) < 0) {
        blame(t, "the client beside does not notice", "");
        process_kill(beat);
    }
    if (t->fault == VMM_KILL) {
        host_stop(&host);
        host_start(&host);
    }
    arm(NULL);
    beat_start();
}

static void fresh_client(struct trial *t)
{
    const int64_t began = now_us();
    arm(NULL);
    const pid_t pid = client_start("walk", walk_log);
    const int status = process_end(pid, REACH_MS);
    if (status < 0)
        process_kill(pid);
    if (status != WALK_RIGHT)
        blame(t, "a new client fails", "");
    else if (n_fresh < CASES_MAX)
        fresh[n_fresh++] = now_us() - began;
}

static void print_log(const char *path)
{
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        printf("#   %s", line);
    if (f)
        fclose(f);
}

/* False: there was nothing to do it to. */
static bool trial_run(const struct step *step, enum fault fault)
{
    static pid_t workers[PROCESSES_MAX];
    struct trial t = {.step = *step, .fault = fault};
    snprintf(t.name, sizeof(t.name), "%s at %s, call %u", fault_names[fault],
             point_names[step->point], step->skip + 1);
    const pid_t other = host_workers(&host, workers) == 1 ? workers[0] : 0;
    if (!other)
        die("%s: before it, %zu workers are not one", t.name, host_workers(&host, workers));
    arm(step);
    t.client = client_start("walk", walk_log);
    const pid_t who = held(t.client);
    if (!who) {
        blame(&t, "the step was not reached", "");
        process_kill(t.client);
    } else {
        t.worker = step->point == GATE_CLIENT ? worker_of_client(other) : who;
        if (!t.worker && (fault == WORKER_KILL || fault == WORKER_STOP)) {
            process_kill(t.client);
            census_leaks(&host, &before, SETTLE_MS, t.name);
            return false;
        }
        deed(&t);
    }
    if (t.why)
        print_log(walk_log);
    release();
    repair(&t);
    if (census_leaks(&host, &before, SETTLE_MS, t.name) > 0)
        blame(&t, "something is left", "");
    fresh_client(&t);
    if (census_leaks(&host, &before, SETTLE_MS, t.name) > 0)
        blame(&t, "something is left of a new client", "");
    if (t.why)
        printf("not ok - %s: %s %s\n", t.name, t.why, t.detail);
    else
        printf("ok - %s\n", t.name);
    failed += t.why != NULL;
    passed += t.why == NULL;
    return true;
}

/* ---- all ---------------------------------------------------------------------------------- */

static void gate_make(void)
{
    char path[96];
    snprintf(path, sizeof(path), "%s", strchr(gate_setting, '=') + 1);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*gate)) < 0)
        die("%s: %s", path, strerror(errno));
    gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (gate == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
}

static size_t rehearse(struct step *steps)
{
    size_t n = 0;
    arm(NULL);
    const pid_t pid = client_start("walk", walk_log);
    if (process_end(pid, REACH_MS) != WALK_RIGHT)
        die("the rehearsal fails; see %s", walk_log);
    for (int point = 0; point < GATE_N; point++) {
        const uint32_t passes = gate->passes[point];
        printf("# %s: %u calls\n", point_names[point], passes);
        for (uint32_t i = 0; i < passes; i++) {
            if (point == GATE_CLIENT || i == 0 || i + 1 == passes)
                steps[n++] = (struct step){.point = (enum gate_point)point, .skip = i};
        }
    }
    return n;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, int64_t *times, size_t n)
{
    qsort(times, n, sizeof(times[0]), compare);
    if (n)
        printf("# %s: %zu times, p50 %lld ms, p99 %lld ms, most %lld ms\n", what, n,
               (long long)times[n / 2] / 1000, (long long)times[n * 99 / 100] / 1000,
               (long long)times[n - 1] / 1000);
}

int main(int argc, char **argv)
{
    static struct step steps[1024];
    static char config[512], dir[] = "/tmp/gate.XXXXXX";
    const bool is_short = argc == 3 && strcmp(argv[2], "short") == 0;
    if (argc < 2 || (argc == 3 && !is_short) || argc > 3) {
        fputs("usage: steps OUT [short]\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *out = realpath(argv[1], NULL);
    if (!out || !mkdtemp(dir))
        die("%s: %s", argv[1], strerror(errno));
    snprintf(walk_program, sizeof(walk_program), "%s/tests/faults/faults-walk", out);
    snprintf(walk_log, sizeof(walk_log), "%s/walk.log", dir);
    snprintf(beat_log, sizeof(beat_log), "%s/beat.log", dir);
    snprintf(gate_setting, sizeof(gate_setting), "%s=%s/gate", GATE_ENV, dir);
    snprintf(preload_setting, sizeof(preload_setting), "LD_PRELOAD=%s/tests/faults/gate-client.so",
             out);
    snprintf(config, sizeof(config),
             "{\"threads\": 1, \"ggml\": \"%s/tests/faults/gate-ggml.so\", "
             "\"sandbox_read\": [\"%s/tests/faults\"], \"sandbox_write\": [\"%s\"]}",
             out, out, dir);
    host = (struct host){.out = out, .config = config, .env = {gate_setting}};
    gate_make();
    host_start(&host);
    arm(NULL);
    beat_start();
    const size_t n = rehearse(steps);
    /* What is left is the other client's. */
    census_settle(&host, 1, &before);
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        for (int fault = 0; fault < FAULTS; fault++, number++) {
            if (!is_short || number % SHORT_STRIDE == 0)
                trial_run(&steps[i], (enum fault)fault);
        }
    }
    process_kill(beat);
    host_fini(&host);
    for (const char *const *name = (const char *const[]){"walk.log", "beat.log", "gate", NULL};
         *name; name++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", dir, *name);
        unlink(path);
    }
    rmdir(dir);
    print_times("from the fault to the client's end", ends, n_ends);
    print_times("a new client's whole run", fresh, n_fresh);
    printf("steps: %ld passed, %ld failed\n", passed, failed);
    return failed > 0;
}
