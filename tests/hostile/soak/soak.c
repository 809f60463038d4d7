/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak OUT MINUTES [BUSY]: contexts without end over one stock virgl_test_server, up to 64 at once,
 * in phases that take turns: only clients that behave, then with half as many again that do not.
 * Each client checks what it gets; the driver checks how each ends, and in the end what is left of
 * them. BUSY processes that only burn time, as many as are given, compete with them for the cores:
 * nobody may take that for the end of the host. How long the requests of those that behave took is
 * told, and not judged. The last line is `soak: N contexts, M wrong results, K leaked`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/faults/census.h"
#include "tests/hostile/soak/board.h"
#include "tests/lib/clock.h"

enum {
    AT_ONCE = 64,
    GOOD_AT_ONCE = AT_ONCE - AT_ONCE / 3,
    CONTEXTS_PER_MINUTE = 340, /* at least: 10,000 in half an hour */
    BUSY_MAX = 64,
    PHASE_SECONDS = 15, /* at least */
    PAIRS_MAX = 15,     /* of phases */
    SETTLE_MS = 2000,   /* of each phase, not counted */
    START_EVERY_MS = 40,
    STOPPED_MS = 2500,   /* then it is continued or killed */
    TOO_LONG_MS = 90000, /* beyond its time */
    LLAMA_EVERY = 150,
    RSS_SLACK_KIB = 8192, /* of allocators; a leak of 1 KiB per context is more in 30 minutes */
};

enum soak_kind {
    SOAK_COMPUTE,
    SOAK_CHURN,
    SOAK_EVENTS,
    SOAK_BULK,
    SOAK_LLAMA,
    SOAK_GOOD, /* how many kinds behave */
    SOAK_MALFORMED = SOAK_GOOD,
    SOAK_KILLED,
    SOAK_STOPPED,
    SOAK_FLOOD,
    SOAK_DEAF,
    SOAK_GREEDY,
    SOAK_ALLOCATE,
    SOAK_HUGE,
    SOAK_KINDS,
};

static const char *const kind_names[SOAK_KINDS] = {
    [SOAK_COMPUTE] = "compute", [SOAK_CHURN] = "churn",     [SOAK_EVENTS] = "events",
    [SOAK_BULK] = "bulk",       [SOAK_LLAMA] = "llama",     [SOAK_MALFORMED] = "malformed",
    [SOAK_KILLED] = "killed",   [SOAK_STOPPED] = "stopped", [SOAK_FLOOD] = "flood",
    [SOAK_DEAF] = "deaf",       [SOAK_GREEDY] = "greedy",   [SOAK_ALLOCATE] = "allocate",
    [SOAK_HUGE] = "huge",
};

struct client {
    pid_t pid; /* 0: this place is free */
    enum soak_kind kind;
    uint32_t seed;
    int64_t started;
    int64_t stopped; /* 0: it runs */
    int64_t life_ms;
    bool ended_by_us;
    char log[96];
};

struct soak {
    struct host host;
    struct board *board;
    char board_setting[128];
    char program[256], model[256];
    struct client clients[AT_ONCE];
    struct client keeper; /* of the render server, and of nothing else */
    uint32_t open, bad_open, most;
    uint32_t next_seed;
    int64_t began, next_start;
    bool llama_open;
    long contexts, wrong, leaked;
};

/* ---- one client ----------------------------------------------------------------------- */

static bool is_bad(enum soak_kind kind)
{
    return kind >= SOAK_GOOD;
}

static int64_t since_ms(int64_t us)
{
    return (now_us() - us) / 1000;
}

/* As long as leaves the number of contexts on its course. */
static int64_t life_ms(const struct soak *s)
{
    const double minutes = (double)since_ms(s->began) / 60000;
    const long due = GOOD_AT_ONCE + (long)(minutes * 1.1 * (double)CONTEXTS_PER_MINUTE);
    return s->contexts < due ? 3000 : 10000;
}

static void client_exec(struct soak *s, struct client *c, const char *name, size_t place)
{
    char seed[16], life[16];
    snprintf(seed, sizeof(seed), "%u", c->seed);
    snprintf(life, sizeof(life), "%lld", (long long)c->life_ms);
    snprintf(c->log, sizeof(c->log), "%s/client-%zu", s->host.dir, place);
    unlink(c->log);
    const char *const own[] = {s->program, name, seed, life, NULL};
    const char *const llama[] = {"llama-bench", "-m", s->model, "-dev", "APIR0", "-t", "1",
                                 "-p",          "16", "-n",     "16",   "-r",    "1",  NULL};
    const char *env[HOST_ENV_MAX + 2] = {s->board_setting};
    for (size_t i = 0; i < HOST_ENV_MAX && s->host.client_env[i]; i++)
        env[1 + i] = s->host.client_env[i];
    c->pid = process_start(c->kind == SOAK_LLAMA ? llama : own, env, c->log);
}

static void client_start(struct soak *s, struct client *c, size_t place, enum soak_kind kind)
{
    *c = (struct client){.kind = kind,
                         .seed = ++s->next_seed,
                         .started = now_us(),
                         .life_ms = is_bad(kind) ? 3000 : life_ms(s)};
    client_exec(s, c, kind_names[kind], place);
    s->open++;
    s->bad_open += is_bad(kind);
    s->llama_open = s->llama_open || kind == SOAK_LLAMA;
    s->contexts++;
    if (s->open > s->most)
        s->most = s->open;
}

static void client_wrong(struct soak *s, const struct client *c, const char *what, int detail)
{
    s->wrong++;
    fprintf(stderr, "soak: client %u (%s) after %lld ms: %s %d; it said:\n", c->seed,
            kind_names[c->kind], (long long)since_ms(c->started), what, detail);
    board_print_log(c->log);
}

static void client_ended(struct soak *s, struct client *c, int status)
{
    if (c->ended_by_us) {
        /* Whatever became of it. */
    } else if (c->kind == SOAK_KILLED) {
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            client_wrong(s, c, "wait status", status);
    } else if (WIFSIGNALED(status)) {
        client_wrong(s, c, "ended by signal", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        client_wrong(s, c, "exit status", WEXITSTATUS(status));
    }
    c->pid = 0;
    s->open--;
    s->bad_open -= is_bad(c->kind);
    s->llama_open = s->llama_open && c->kind != SOAK_LLAMA;
}

static void client_kill(struct client *c)
{
    c->ended_by_us = true;
    kill(c->pid, SIGKILL);
}

static void client_look(struct soak *s, struct client *c)
{
    int status;
    const pid_t got = waitpid(c->pid, &status, WNOHANG | WUNTRACED);
    if (got < 0)
        die("waitpid: %s", strerror(errno));
    if (got == c->pid && WIFSTOPPED(status)) {
        c->stopped = now_us();
    } else if (got == c->pid) {
        client_ended(s, c, status);
    } else if (c->stopped && since_ms(c->stopped) > STOPPED_MS) {
        c->stopped = 0;
        if (c->seed % 2)
            client_kill(c);
        else
            kill(c->pid, SIGCONT);
    } else if (since_ms(c->started) > c->life_ms + TOO_LONG_MS && !c->ended_by_us) {
        client_wrong(s, c, "hangs, as process", c->pid);
        client_kill(c);
    }
}

/* ---- phases --------------------------------------------------------------------------- */

static enum soak_kind kind_good(struct soak *s)
{
    if (!s->llama_open && s->next_seed % LLAMA_EVERY == LLAMA_EVERY / 2)
        return SOAK_LLAMA;
    return (enum soak_kind)(s->next_seed % SOAK_LLAMA);
}

static enum soak_kind kind_bad(const struct soak *s)
{
    return (enum soak_kind)(SOAK_GOOD + s->next_seed % (SOAK_KINDS - SOAK_GOOD));
}

/* At most one at a time, so that the starts spread. */
static void fill(struct soak *s, bool with_bad)
{
    const uint32_t good_open = s->open - s->bad_open;
    const bool wants_bad = with_bad && s->bad_open < AT_ONCE - GOOD_AT_ONCE;
    const bool wants_good = good_open < GOOD_AT_ONCE;
    if ((!wants_bad && !wants_good) || now_us() < s->next_start)
        return;
    s->next_start = now_us() + START_EVERY_MS * 1000;
    for (size_t i = 0; i < AT_ONCE; i++) {
        if (s->clients[i].pid == 0) {
            const bool bad = wants_bad && (!wants_good || s->next_seed % 2);
            client_start(s, &s->clients[i], i, bad ? kind_bad(s) : kind_good(s));
            return;
        }
    }
}

static void look_at_all(struct soak *s)
{
    for (size_t i = 0; i < AT_ONCE; i++) {
        if (s->clients[i].pid)
            client_look(s, &s->clients[i]);
    }
    int status;
    if (waitpid(s->host.vmm, &status, WNOHANG) == s->host.vmm)
        die("soak: the VMM has ended with wait status %d; its log is %s", status, s->host.log);
    if (process_look(s->keeper.pid).state == 'Z')
        die("soak: the client that only keeps its context has ended; its log is %s", s->keeper.log);
}

/* They take turns: without clients that misbehave, then with them. */
static void phase_run(struct soak *s, uint32_t number, int64_t ms)
{
    const int64_t began = now_us();
    const bool bad = number % 2;
    const enum board_phase phase = bad ? BOARD_BESIDE_BAD : BOARD_GOOD_ALONE;
    struct census held;
    for (size_t i = 0; i < AT_ONCE; i++) {
        if (s->clients[i].pid && is_bad(s->clients[i].kind))
            client_kill(&s->clients[i]);
    }
    while (since_ms(began) < ms) {
        atomic_store(&s->board->phase, since_ms(began) < SETTLE_MS ? BOARD_NO_PHASE : phase);
        fill(s, bad);
        look_at_all(s);
        nap_us(2000);
    }
    atomic_store(&s->board->phase, BOARD_NO_PHASE);
    census_take(&s->host, &held);
    fprintf(stderr, "soak: phase %u (%s): %ld contexts so far, %u open, %ld wrong;", number,
            bad ? "with bad ones" : "good ones alone", s->contexts, s->open, s->wrong);
    for (int i = 0; i < CENSUS_ITEMS; i++)
        fprintf(stderr, " %s %ld", census_name((enum census_item)i), held.value[i]);
    fputs("\n", stderr);
}

static void drain(struct soak *s)
{
    while (s->open) {
        look_at_all(s);
        nap_us(2000);
    }
}

/* ---- before and after ------------------------------------------------------------------- */

/* Everything once, and as many as there will be: what is allocated at first is no leak. */
static void warm_up(struct soak *s)
{
    client_exec(s, &s->keeper, "keep", AT_ONCE);
    for (size_t i = 0; i < AT_ONCE; i++) {
        client_start(s, &s->clients[i], i, (enum soak_kind)(i % SOAK_KINDS));
        for (const int64_t began = now_us(); since_ms(began) < START_EVERY_MS; nap_us(2000))
            look_at_all(s);
    }
    drain(s);
}

static void count_leaks(struct soak *s, const struct census *before)
{
    struct census after;
    s->leaked += census_leaks(&s->host, before, 15000, "soak: leaked");
    census_take(&s->host, &after);
    for (int i = CENSUS_COUNTED; i < CENSUS_ITEMS; i++) {
        fprintf(stderr, "soak: %s: %ld before, %ld after\n", census_name((enum census_item)i),
                before->value[i], after.value[i]);
        s->leaked += after.value[i] - before->value[i] > RSS_SLACK_KIB;
    }
}

/* With our own priority, and so with that of all that is under test. */
static void busy_start(uint32_t n)
{
    static const char *const loop[] = {"sh", "-c", "while :; do :; done", NULL};
    for (uint32_t i = 0; i < n; i++)
        process_start(loop, NULL, NULL);
}

static void latency_report(const struct board *board)
{
    static const double shares[] = {0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        fprintf(
            stderr,
            "soak: %.1f%% of the requests of the good clients: alone within %.2f ms, beside the "
            "bad ones within %.2f ms\n",
            shares[i] * 100, board_share(board, BOARD_GOOD_ALONE, shares[i]),
            board_share(board, BOARD_BESIDE_BAD, shares[i]));
}

int main(int argc, char **argv)
{
    static struct soak s;
    char *end = NULL;
    const double minutes = argc == 3 || argc == 4 ? strtod(argv[2], &end) : 0;
    const bool minutes_ok = end && !*end && minutes > 0 && minutes <= 24 * 60;
    const unsigned long busy = argc == 4 ? strtoul(argv[3], &end, 10) : 0;
    if (!minutes_ok || *end || busy > BUSY_MAX) {
        fputs("usage: soak OUT MINUTES [BUSY]\n", stderr);
        return 2;
    }
    /* A client more than are open may not be gone yet when the next one comes. */
    s.host = (struct host){.config = "{\"threads\": 1, \"max_contexts\": 128, "
                                     "\"spare_seconds\": 1}", /* none is left when we count */
                           .env = {HOST_ASAN_OPTIONS}};
    snprintf(s.program, sizeof(s.program), "%s/tests/hostile/soak/soak-client", argv[1]);
    snprintf(s.model, sizeof(s.model), "build/models/soak-3m.gguf");
    (void)setpriority(PRIO_PROCESS, 0, -10); /* what is measured is our own load */
    host_make(&s.host);
    host_start(&s.host);
    busy_start((uint32_t)busy); /* they end with us */
    s.board = board_make(s.host.dir, s.board_setting);
    s.began = now_us();
    warm_up(&s);
    /* What is left is the keeper's. */
    struct census before;
    census_settle(&s.host, 1, &before);

    const double seconds = minutes * 60;
    const uint32_t pairs = (uint32_t)seconds / (2 * PHASE_SECONDS);
    const uint32_t phases = 2 * (pairs < 1 ? 1 : pairs > PAIRS_MAX ? PAIRS_MAX : pairs);
    s.began = now_us();
    for (uint32_t i = 0; i < phases; i++)
        phase_run(&s, i, (int64_t)(seconds * 1000 / phases));
    drain(&s);
    count_leaks(&s, &before);
    latency_report(s.board);
    fprintf(stderr, "soak: at most %u at once\n", s.most);
    process_kill(s.keeper.pid);
    host_fini(&s.host);
    printf("soak: %ld contexts, %ld wrong results, %ld leaked\n", s.contexts, s.wrong, s.leaked);
    return s.wrong || s.leaked || s.contexts == 0;
}
