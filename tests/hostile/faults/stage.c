/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/faults/stage.h"
#include "tests/lib/clock.h"
#include "tests/lib/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const gate_point_names[GATE_N] = {
#define P(NAME, what) [GATE_##NAME] = what,
    GATE_POINTS(P)
#undef P
};

/* ---- clients ---------------------------------------------------------------------------- */

void stage_silence(bool ends)
{
    if (ends)
        unsetenv("APIR_SILENCE_SECONDS");
    else
        setenv("APIR_SILENCE_SECONDS", "3600", 1);
}

pid_t stage_client(struct stage *s, const char *what, const char *log)
{
    const char *const argv[] = {s->walk_program, what, NULL};
    const char *env[HOST_ENV_MAX + 3] = {s->gate_setting, s->preload_setting};
    for (size_t i = 0; i < HOST_ENV_MAX && s->host.client_env[i]; i++)
        env[2 + i] = s->host.client_env[i];
    unlink(log);
    return process_start(argv, env, log);
}

static uint32_t beats(const struct stage *s)
{
    return __atomic_load_n(&s->gate->beats, __ATOMIC_ACQUIRE);
}

bool stage_beat_goes_on(struct stage *s)
{
    const uint32_t seen = beats(s);
    const int64_t end = now_us() + REACH_MS * 1000;
    while (beats(s) - seen < 2) {
        if (now_us() > end || process_look(s->beat).state == 'Z')
            return false;
        nap_us(2000);
    }
    return true;
}

void stage_beat_start(struct stage *s)
{
    stage_arm(s, GATE_N, 0, 0);
    s->beat = stage_client(s, "beat", s->beat_log);
    if (!stage_beat_goes_on(s))
        die("the client beside does not compute; see %s", s->beat_log);
}

/* ---- the gate --------------------------------------------------------------------------- */

void stage_arm(struct stage *s, enum gate_point point, uint32_t skip, enum gate_action action)
{
    struct gate *gate = s->gate;
    gate->armed = gate->go = gate->held = 0;
    __atomic_add_fetch(&gate->epoch, 1, __ATOMIC_ACQ_REL);
    memset(gate->passes, 0, sizeof(gate->passes));
    gate->action = action;
    gate->skip = skip;
    __atomic_store_n(&gate->armed, point == GATE_N ? 0 : (uint32_t)point + 1, __ATOMIC_RELEASE);
}

void stage_release(struct stage *s)
{
    __atomic_store_n(&s->gate->go, 1, __ATOMIC_RELEASE);
}

pid_t stage_held(struct stage *s, pid_t client)
{
    const int64_t end = now_us() + REACH_MS * 1000;
    for (;;) {
        const bool ended = process_look(client).state == 'Z';
        const uint32_t pid = __atomic_load_n(&s->gate->held, __ATOMIC_ACQUIRE);
        if (pid)
            return (pid_t)pid;
        if (now_us() > end || ended)
            return 0;
        nap_us(2000);
    }
}

void stage_rehearse(struct stage *s)
{
    stage_arm(s, GATE_N, 0, 0);
    const pid_t pid = stage_client(s, "walk", s->walk_log);
    if (process_end(pid, REACH_MS) != WALK_RIGHT)
        die("the rehearsal fails; see %s", s->walk_log);
}

static void gate_make(struct stage *s)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/gate", s->dir);
    snprintf(s->gate_setting, sizeof(s->gate_setting), "%s=%s", GATE_ENV, path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*s->gate)) < 0)
        die("%s: %s", path, strerror(errno));
    s->gate = mmap(NULL, sizeof(*s->gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s->gate == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
}

/* ---- from the beginning to the end ------------------------------------------------------ */

void stage_open(struct stage *s, const char *out_folder, const char *members,
                const char *const env[])
{
    char *out = realpath(out_folder, NULL), *config;
    /* What is measured is our own load: we go before our neighbours, where we may. */
    (void)setpriority(PRIO_PROCESS, 0, -10);
    *s = (struct stage){.dir = "/tmp/gate.XXXXXX"};
    if (!out || !mkdtemp(s->dir))
        die("%s: %s", out_folder, strerror(errno));
    snprintf(s->walk_program, sizeof(s->walk_program), "%s/tests/hostile/faults/faults-walk", out);
    snprintf(s->walk_log, sizeof(s->walk_log), "%s/walk.log", s->dir);
    snprintf(s->beat_log, sizeof(s->beat_log), "%s/beat.log", s->dir);
    snprintf(s->preload_setting, sizeof(s->preload_setting),
             "LD_PRELOAD=%s/tests/hostile/faults/gate-client.so", out);
    snprintf(s->limits_dir, sizeof(s->limits_dir), "%s/limits", s->dir);
    if (mkdir(s->limits_dir, 0755) < 0)
        die("%s: %s", s->limits_dir, strerror(errno));
    /* As much as three clients need: what one of them left in the books, the next would lack. */
    if (asprintf(&config,
                 "{\"threads\": 1, \"spare_workers\": 0, \"shader_seconds\": 0, \"ggml\": "
                 "\"%s/tests/hostile/faults/gate-ggml.so\", "
                 "\"sandbox_read\": [\"%s/tests/hostile/faults\"], \"sandbox_write\": [\"%s\"], "
                 "\"limits_dir\": \"%s\", \"device_memory_mib\": 64, "
                 "\"max_contexts_per_device\": 3%s}",
                 out, out, s->dir, s->limits_dir, members) < 0)
        die("out of memory");
    gate_make(s);
    /* Where a layer that counts counts. */
    snprintf(s->count_setting, sizeof(s->count_setting), "APIR_COUNT_FILE=%s/counts", s->dir);
    s->host = (struct host){.config = config,
                            .env = {s->gate_setting, s->count_setting, HOST_ASAN_OPTIONS}};
    for (size_t i = 0; i + 3 < HOST_ENV_MAX && env && env[i]; i++)
        s->host.env[3 + i] = env[i];
    host_make(&s->host);
    host_start(&s->host);
    stage_beat_start(s);
    stage_rehearse(s);
    /* What is left is the other client's. */
    census_settle(&s->host, 1, &s->before);
}

void stage_open_gpu(struct stage *s, const char *out, const char *members)
{
    static char layers[320];
    char *folder = realpath(out, NULL);
    if (!folder)
        die("%s: %s", out, strerror(errno));
    snprintf(layers, sizeof(layers), "VK_ADD_LAYER_PATH=%s/tests/hostile/faults", folder);
    free(folder);
    static const char *const env[] = {
        "VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json",
        "GGML_VK_VISIBLE_DEVICES=0",
        layers,
        "VK_INSTANCE_LAYERS=VK_LAYER_APIR_count",
        NULL,
    };
    char more[256];
    snprintf(more, sizeof(more), ", \"devices\": [\"Vulkan0\"]%s", members);
    stage_open(s, out, more, env);
}

void stage_restart(struct stage *s)
{
    host_stop(&s->host);
    host_start(&s->host);
    stage_beat_start(s);
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

int stage_close(struct stage *s, const char *name)
{
    process_kill(s->beat);
    host_fini(&s->host);
    folder_remove(s->limits_dir);
    folder_remove(s->dir);
    munmap(s->gate, sizeof(*s->gate));
    print_times("from the fault to the client's end", s->ends, s->n_ends);
    if (s->n_ends && s->ends[s->n_ends / 2] > LIMIT_MS * 1000) {
        printf("not ok - %s: most clients end later than after %d ms\n", name, LIMIT_MS);
        s->failed++;
    }
    print_times("a new client's whole run", s->fresh, s->n_fresh);
    printf("%s: %ld passed, %ld failed\n", name, s->passed, s->failed);
    return s->failed > 0;
}

/* ---- a trial ---------------------------------------------------------------------------- */

void trial_blame(struct trial *t, const char *why, const char *detail)
{
    if (t->why)
        return;
    t->why = why;
    snprintf(t->detail, sizeof(t->detail), "%s", detail);
}

int trial_client_end(struct stage *s, struct trial *t, int64_t since_us)
{
    char text[64];
    const int status = process_end(t->client, REACH_MS);
    const int64_t took = now_us() - since_us;
    if (status < 0) {
        process_kill(t->client);
        trial_blame(t, "the client hangs", "");
        return -1;
    }
    if (!since_us)
        return status;
    if (s->n_ends < STAGE_TIMES)
        s->ends[s->n_ends++] = took;
    snprintf(text, sizeof(text), "%lld ms", (long long)took / 1000);
    /* One may have had to wait for a core. */
    if (took > patient_ms(LIMIT_MS) * INT64_C(1000))
        trial_blame(t, "the client ends too late", text);
    return status;
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

static void fresh_client(struct stage *s, struct trial *t)
{
    const int64_t began = now_us();
    stage_arm(s, GATE_N, 0, 0);
    const pid_t pid = stage_client(s, "walk", s->walk_log);
    const int status = process_end(pid, REACH_MS);
    if (status < 0)
        process_kill(pid);
    if (status != WALK_RIGHT)
        trial_blame(t, "a new client fails", "");
    else if (s->n_fresh < STAGE_TIMES)
        s->fresh[s->n_fresh++] = now_us() - began;
}

void trial_finish(struct stage *s, struct trial *t)
{
    if (t->why)
        print_log(s->walk_log);
    stage_release(s);
    if (!stage_beat_goes_on(s))
        die("%s: the client beside has stopped computing; see %s", t->name, s->beat_log);
    if (census_leaks(&s->host, &s->before, SETTLE_MS, t->name) > 0)
        trial_blame(t, "something is left", "");
    fresh_client(s, t);
    if (census_leaks(&s->host, &s->before, SETTLE_MS, t->name) > 0)
        trial_blame(t, "something is left of a new client", "");
    if (t->why)
        printf("not ok - %s: %s %s\n", t->name, t->why, t->detail);
    else
        printf("ok - %s\n", t->name);
    s->failed += !!t->why;
    s->passed += !t->why;
}
