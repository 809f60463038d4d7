/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak-classes OUT SECONDS CLASSES: so many servers that listen, each with limits of its own
 * (class.c), and 64 programs that are spread over them and come and go. Every second each server is
 * looked at from outside: none has more than its limits. Every program has the right results, or is
 * refused for a limit that its class has; that this happens belongs to it. The last line is `soak:
 * N classes, ...`. How long a program waits for its first result is told, and not judged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/clock.h"
#include "tests/lib/folder.h"
#include "tests/lib/processes.h"
#include "tests/hostile/soak/board.h"
#include "tests/hostile/soak/class.h"

enum {
    CLIENTS = BOARD_PLACES,
    CLASSES_MAX = 16,
    START_EVERY_MS = 40,
    SAMPLE_EVERY_MS = 1000,
    AGAIN_MS = 1000, /* after a refusal, as a container's restart would be */
    LOOK_MS = 5,
    LOOK_LONG_MS = 500,
};
#define TOO_LONG_MS patient_ms(20000) /* beyond its time */

struct client {
    pid_t pid; /* 0: this place is free */
    const char *kind;
    uint32_t seed;
    int64_t started_ms, life_ms;
    int64_t free_ms;   /* not before */
    int64_t looked_ms; /* for how long it has been looked at; where nobody runs, nobody hangs */
    bool ended_by_us;
    char log[96];
};

struct soak {
    const char *dir;
    char plugin[512], program[512], board_setting[128];
    struct board *board;
    struct class classes[CLASSES_MAX];
    uint32_t n_classes;
    struct client clients[CLIENTS];
    uint32_t open, most, next_seed;
    int64_t next_start;
    long contexts, refused, wrong;
};

static struct class *class_of(struct soak *s, size_t place)
{
    return &s->classes[place % s->n_classes];
}

/* ---- one client ----------------------------------------------------------------------- */

static void client_start(struct soak *s, size_t place)
{
    struct client *c = &s->clients[place];
    struct class *of = class_of(s, place);
    char seed[16], life[24], place_setting[32], began[48];
    uint32_t n = 0;
    while (of->kinds[n])
        n++;
    *c = (struct client){.seed = ++s->next_seed, .started_ms = now_ms()};
    c->kind = of->kinds[(size_t)of->contexts % n];
    c->life_ms = 3000 + c->seed * 2654435761u % 7000;
    snprintf(seed, sizeof(seed), "%u", c->seed);
    snprintf(life, sizeof(life), "%lld", (long long)c->life_ms);
    snprintf(place_setting, sizeof(place_setting), BOARD_PLACE_ENV "=%zu", place);
    snprintf(began, sizeof(began), BOARD_BEGAN_ENV "=%lld", (long long)now_us());
    snprintf(c->log, sizeof(c->log), "%s/client-%zu", s->dir, place);
    unlink(c->log);
    const char *const argv[] = {s->program, c->kind, seed, life, NULL};
    const char *const env[] = {
        s->board_setting,           of->transport, s->plugin, place_setting, began,
        "GGML_VK_VISIBLE_DEVICES=", NULL};
    c->pid = process_start(argv, env, c->log);
    of->contexts++;
    s->contexts++;
    s->open++;
    if (s->open > s->most)
        s->most = s->open;
}

/* Whether its log names a limit that its class has. */
static bool client_was_refused(const struct client *c, const struct class *of)
{
    char line[512];
    FILE *f = fopen(c->log, "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof(line), f)) {
        for (int i = 0; i < CLASS_LIMITS; i++)
            found = found || (of->limits[i].most && strstr(line, of->limits[i].key));
    }
    if (f)
        fclose(f);
    return found;
}

static void client_wrong(struct soak *s, const struct client *c, const struct class *of,
                         const char *what, int detail)
{
    s->wrong++;
    fprintf(stderr, "soak: client %u (%s of class %s) after %lld ms: %s %d; it said:\n", c->seed,
            c->kind, of->name, (long long)(now_ms() - c->started_ms), what, detail);
    board_print_log(c->log);
}

/* Some kinds end by their own SIGKILL. */
static bool client_may_be_killed(const struct client *c)
{
    return strcmp(c->kind, "killed") == 0 || (strcmp(c->kind, "hoard") == 0 && c->seed % 4 == 0);
}

static void client_ended(struct soak *s, size_t place, int status)
{
    struct client *c = &s->clients[place];
    struct class *of = class_of(s, place);
    const bool refused = client_was_refused(c, of);
    const bool exited = WIFEXITED(status);
    if (c->ended_by_us) {
        /* It has been told. */
    } else if (exited && WEXITSTATUS(status) == SOAK_REFUSED && refused) {
        c->free_ms = now_ms() + AGAIN_MS;
    } else if (client_may_be_killed(c) ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL
                                       : !exited || WEXITSTATUS(status) != 0) {
        client_wrong(s, c, of, "wait status", status);
    }
    of->refused += refused;
    s->refused += refused;
    c->pid = 0;
    s->open--;
}

static void look_at_all(struct soak *s)
{
    static int64_t last;
    int status;
    const int64_t since = last ? now_ms() - last : 0;
    last = now_ms();
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &s->clients[i];
        c->looked_ms += since < LOOK_LONG_MS ? since : LOOK_LONG_MS;
        if (c->pid && waitpid(c->pid, &status, WNOHANG) == c->pid) {
            client_ended(s, i, status);
        } else if (c->pid && !c->ended_by_us && c->looked_ms > c->life_ms + TOO_LONG_MS) {
            client_wrong(s, c, class_of(s, i), "hangs, as process", c->pid);
            c->ended_by_us = true;
            atomic_store(&s->board->held[i], 0); /* before another can have it */
            kill(c->pid, SIGKILL);
        }
    }
}

/* ---- all of them ---------------------------------------------------------------------- */

/* One at a time, so that the starts spread. */
static void fill(struct soak *s)
{
    const int64_t now = now_ms();
    if (now < s->next_start)
        return;
    for (size_t n = 0; n < CLIENTS; n++) {
        const size_t i = (s->next_seed + n) % CLIENTS;
        if (s->clients[i].pid == 0 && now >= s->clients[i].free_ms) {
            s->next_start = now + START_EVERY_MS;
            client_start(s, i);
            return;
        }
    }
}

static void sample(struct soak *s)
{
    for (uint32_t k = 0; k < s->n_classes; k++) {
        uint64_t held = 0;
        for (size_t i = k; i < CLIENTS; i += s->n_classes)
            held += atomic_load(&s->board->held[i]);
        class_sample(&s->classes[k], held);
    }
}

static void run(struct soak *s, int64_t ms)
{
    const int64_t end = now_ms() + ms;
    int64_t next_sample = 0, next_line = now_ms() + 60000;
    while (now_ms() < end || s->open) {
        if (now_ms() < end)
            fill(s);
        look_at_all(s);
        if (now_ms() >= next_sample) {
            next_sample = now_ms() + SAMPLE_EVERY_MS;
            sample(s);
        }
        if (now_ms() >= next_line) {
            next_line = now_ms() + 60000;
            fprintf(stderr, "soak: %ld programs so far, %ld refused, %u open, %ld wrong\n",
                    s->contexts, s->refused, s->open, s->wrong);
        }
        nap_us(LOOK_MS * 1000);
    }
}

/* ---- before and after ------------------------------------------------------------------- */

static void class_report(const struct class *c)
{
    static const char *const names[] = {"contexts", "shared", "device", "books"};
    fprintf(stderr, "soak: class %s on %s: %ld programs, %ld refused, %ld samples;", c->name,
            c->lavapipe ? "lavapipe" : "the CPU", c->contexts, c->refused, c->samples);
    for (int i = 0; i < CLASS_LIMITS; i++) {
        const struct class_limit *l = &c->limits[i];
        fprintf(stderr, " %s %.1f", names[i],
                i == CLASS_CONTEXTS ? (double)l->peak : (double)l->peak / (1 << 20));
        if (l->most)
            fprintf(stderr, " of %llu", (unsigned long long)l->most);
    }
    fputs("\n", stderr);
}

/* A limit that nobody met was not tried. */
static long untried(const struct class *c)
{
    bool limited = false;
    for (int i = 0; i < CLASS_LIMITS; i++)
        limited = limited || c->limits[i].most;
    if (!limited || c->refused > 0)
        return 0;
    fprintf(stderr, "soak: class %s: nobody met its limits\n", c->name);
    return 1;
}

int main(int argc, char **argv)
{
    static struct soak s;
    char *end = NULL;
    const double seconds = argc == 4 ? strtod(argv[2], &end) : 0;
    const bool seconds_ok = end && !*end && seconds >= 1 && seconds <= 86400;
    const unsigned long n = argc == 4 ? strtoul(argv[3], &end, 10) : 0;
    if (!seconds_ok || *end || n < 1 || n > CLASSES_MAX) {
        fprintf(stderr, "usage: soak-classes OUT SECONDS CLASSES (1 to %d)\n", CLASSES_MAX);
        return 2;
    }
    s.n_classes = (uint32_t)n;
    snprintf(s.program, sizeof(s.program), "%s/tests/hostile/soak/soak-client", argv[1]);
    snprintf(s.plugin, sizeof(s.plugin), "GGML_BACKEND_PATH=%s",
             process_built("frontend/libggml-apir.so"));
    static char dir[64];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/soak.XXXXXX", tmp ? tmp : "/tmp");
    s.dir = mkdtemp(dir);
    if (!s.dir)
        die("%s: %s", dir, strerror(errno));
    s.board = board_make(s.dir, s.board_setting);
    for (uint32_t i = 0; i < s.n_classes; i++) {
        class_init(&s.classes[i], i);
        class_start(&s.classes[i]);
    }
    run(&s, (int64_t)(seconds * 1000));
    long over = 0, leaked = 0, samples = 0;
    for (uint32_t i = 0; i < s.n_classes; i++) {
        leaked += class_leaks(&s.classes[i]) + untried(&s.classes[i]);
        samples += s.classes[i].samples;
        class_report(&s.classes[i]);
        for (int k = 0; k < CLASS_LIMITS; k++)
            over += s.classes[i].limits[k].over;
    }
    fprintf(stderr, "soak: a first result after p50 %.0f ms, p99 %.0f ms, at most %.0f ms\n",
            board_share(s.board, BOARD_FIRST, 0.5), board_share(s.board, BOARD_FIRST, 0.99),
            board_share(s.board, BOARD_FIRST, 1));
    for (uint32_t i = 0; i < s.n_classes; i++)
        class_stop(&s.classes[i]);
    folder_remove(s.dir);
    printf("soak: %u classes, %ld programs, %ld refused, %ld wrong, %ld of %ld samples over a "
           "limit, %ld leaked or not tried\n",
           s.n_classes, s.contexts, s.refused, s.wrong, over, samples, leaked);
    return s.wrong || over || leaked;
}
