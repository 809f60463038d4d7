/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `llama` and `load`: all sides in one process, one after the other, in changing order. Or, of
 * `llama`, at once (--at-once): a side's time is then that on the clock, less what its computing
 * process, ready to run, waited for the core that all share; all turns of such a run are one
 * sample. Why: docs/bench-method.md, Cores.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/bench/engine.h"
#include "tests/bench/peer.h"
#include "tests/bench/proc.h"

struct run {
    const struct options *o;
    struct engine sides[OPTIONS_SIDES_MAX];
    struct peer peers[OPTIONS_SIDES_MAX]; /* in place of an engine, where open */
    int32_t *tokens[OPTIONS_SIDES_MAX];   /* what each side generated in this round */
    bool differs[OPTIONS_SIDES_MAX];      /* in this pair they were not those of side 0 */
    int other[OPTIONS_SIDES_MAX];         /* pairs in which they were not */
    double pp[OPTIONS_SIDES_MAX];         /* seconds, of this pair's rounds */
    double tg[OPTIONS_SIDES_MAX];
    double seconds[OPTIONS_SIDES_MAX]; /* at once: of all turns */
    int homes[OPTIONS_SIDES_MAX];      /* cores of the processes to swap, as they were */
    bool swapped;
};

static struct run run;

static void sample_seconds(size_t side, const char *what, int n, int pair, double seconds)
{
    char metric[SAMPLE_NAME_MAX + 1];
    snprintf(metric, sizeof(metric), n ? "%s%d" : "%s", what, n);
    options_sample(run.o, run.o->sides[side].name, metric,
                   (struct sample){.pair = run.o->first + pair, .n = n, .value = seconds});
}

/* Turns of each side before the first pair. An emulator has not translated all of a prompt's code
 * before the third. */
#define WARM_UP 3

/* Where a side's work is spread over both cores, no placement is fair to a side that has all of its
 * work on one; two are, the second with the cores swapped. */
static int core_now(int core)
{
    return run.swapped ? options_other_core(run.o, core) : core;
}

static void core_choose(size_t side)
{
    if (run.o->cores.n == 0)
        return;
    const int core = core_now(run.o->cores.all[side]);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        fail("--cores: core %d: %m", core);
}

/* True: all of them are there. Where one is not, the others are put on their cores all the same. */
static bool swap_try(bool swapped)
{
    bool ok = true;
    run.swapped = swapped;
    for (size_t i = 0; i < run.o->swap.n; i++)
        ok = proc_put(run.o->swap.all[i], core_now(run.homes[i])) && ok;
    return ok;
}

static void swap_set(bool swapped)
{
    if (!swap_try(swapped))
        fail("--swap: not every process can be put on its core: %m");
}

/* They are somebody else's, and stay where they were. */
static void on_failure(const char *why)
{
    (void)why;
    (void)swap_try(false);
}

static void swap_begin(void)
{
    const struct options *o = run.o;
    for (size_t i = 0; i < o->swap.n; i++) {
        run.homes[i] = proc_core(o->swap.all[i]);
        if (options_other_core(o, run.homes[i]) < 0)
            fail("--swap: process %d is on core %d, which is not in --cores", o->swap.all[i],
                 run.homes[i]);
    }
    fail_hook = on_failure;
}

static void turn(size_t side)
{
    struct turn t = {.tokens = run.tokens[side]};
    struct peer *peer = &run.peers[side];
    core_choose(side);
    if (peer->answers) {
        peer_ask(peer, run.o);
        peer_answer(peer, run.o, &t);
    } else {
        engine_turn(&run.sides[side], run.o, &t);
    }
    run.pp[side] += t.pp;
    run.tg[side] += t.tg;
}

/* In every round; warm-ups (a pair below 0) and stamped sides have none to compare. */
static void compare_tokens(int pair)
{
    const struct options *o = run.o;
    for (size_t i = 1; i < o->n_sides && pair >= 0 && !o->stamp; i++) {
        char text[256];
        int k = 0;
        while (k < o->tg && run.tokens[i][k] == run.tokens[0][k])
            k++;
        if (k == o->tg)
            continue;
        snprintf(text, sizeof(text), "pair %d: %s picks other tokens than %s from token %d on",
                 pair, o->sides[i].name, o->sides[0].name, k);
        if (o->same && strcmp(o->same, o->sides[i].name) == 0)
            fail("%s, and --same forbids it; leave --same out where the devices differ", text);
        if (run.other[i] == 0 && !run.differs[i])
            fprintf(stderr, "apir-bench: note: %s: %s\n", o->name, text);
        run.differs[i] = true;
    }
}

/* ---- at once -------------------------------------------------------------------------- */

/* The clock, less what this process has been ready to run and waited for a core: only the
 * difference of two of these means something. */
static double clock_alone(pid_t pid)
{
    const double waited = proc_waited(pid);
    return engine_now() - waited;
}

/*
 * Takes the sides' answers, and the clock of each, which `alone` has from its question. That is
 * read without delay: a worker looks for more messages for a while, and waits for the core in that
 * time, too. What it waits for now is counted when it runs again, milliseconds from here.
 */
static void answers_take(struct turn *turns, double *alone)
{
    const size_t n = run.o->n_sides;
    struct pollfd fds[OPTIONS_SIDES_MAX];
    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = fileno(run.peers[i].answers), .events = POLLIN};
    for (size_t missing = n; missing > 0;) {
        if (poll(fds, n, -1) < 0 && errno != EINTR)
            fail("waiting for the peers: %m");
        for (size_t i = 0; i < n; i++) {
            if (!fds[i].revents)
                continue;
            alone[i] = clock_alone(run.peers[i].computing) - alone[i];
            peer_answer(&run.peers[i], run.o, &turns[i]);
            fds[i] = (struct pollfd){.fd = -1};
            missing--;
        }
    }
}

static void turns_at_once(int pair)
{
    const struct options *o = run.o;
    const size_t n = o->n_sides;
    struct turn turns[OPTIONS_SIDES_MAX];
    double alone[OPTIONS_SIDES_MAX];
    for (size_t k = 0; k < n; k++) {
        const size_t i = ((size_t)(pair + WARM_UP) + k) % n;
        turns[i] = (struct turn){.tokens = run.tokens[i]};
        alone[i] = clock_alone(run.peers[i].computing);
        peer_ask(&run.peers[i], o);
    }
    answers_take(turns, alone);
    for (size_t i = 0; i < n && pair >= 0; i++) {
        if (alone[i] <= 0)
            fail("pair %d: %s waited longer for its core than its turn took; did process %d "
                 "compute for somebody else?",
                 pair, o->sides[i].name, run.peers[i].computing);
        run.seconds[i] += alone[i];
    }
    compare_tokens(pair);
}

static void sample_at_once(void)
{
    const struct options *o = run.o;
    const int n = o->pp ? o->pp : o->tg;
    char metric[SAMPLE_NAME_MAX + 1];
    snprintf(metric, sizeof(metric), "%s%d-at-once", o->pp ? "pp" : "tg", n);
    for (size_t i = 0; i < o->n_sides; i++)
        options_sample(
            o, o->sides[i].name, metric,
            (struct sample){.pair = o->first, .n = (double)n * o->pairs, .value = run.seconds[i]});
}

/* After the first turns: a worker is there only then. */
static void core_check(void)
{
    const struct options *o = run.o;
    const int first = proc_core(run.peers[0].computing);
    for (size_t i = 1; i < o->n_sides; i++) {
        const int core = proc_core(run.peers[i].computing);
        if (core != first)
            fail("--at-once: %s is computed on core %d and %s on core %d; put them on one",
                 o->sides[0].name, first, o->sides[i].name, core);
    }
}

/* ---- in order ------------------------------------------------------------------------- */

/* A pair below 0 is a warm-up, which leaves no samples. */
static void turns_in_order(int pair)
{
    const struct options *o = run.o;
    const int rounds = o->swap.n && pair >= 0 ? 2 : 1;
    for (size_t i = 0; i < o->n_sides; i++)
        run.pp[i] = run.tg[i] = 0;
    for (int round = 0; round < rounds; round++) {
        swap_set(round);
        /* Nobody is always first: what warms up or slows down hits all sides alike. */
        for (size_t i = 0; i < o->n_sides; i++)
            turn(options_turn(o, pair + WARM_UP + round, i));
        compare_tokens(pair);
    }
    for (size_t i = 0; i < o->n_sides && pair >= 0; i++) {
        if (o->pp)
            sample_seconds(i, "pp", o->pp, pair, run.pp[i] / rounds);
        if (o->tg)
            sample_seconds(i, "tg", o->tg, pair, run.tg[i] / rounds);
    }
}

/* ---- all of it ------------------------------------------------------------------------ */

static void pairs_run(void)
{
    const struct options *o = run.o;
    void (*const turns)(int pair) = o->at_once ? turns_at_once : turns_in_order;
    for (int pair = -WARM_UP; pair < 0; pair++)
        turns(pair);
    if (o->at_once)
        core_check();
    for (int pair = 0; pair < o->pairs; pair++) {
        turns(pair);
        for (size_t i = 0; i < o->n_sides; i++) {
            run.other[i] += run.differs[i];
            run.differs[i] = false;
        }
    }
    if (o->at_once)
        sample_at_once();
}

static void side_open(size_t i, int n_tokens)
{
    const struct options *o = run.o;
    const struct option_side *side = &o->sides[i];
    run.tokens[i] = allocate((size_t)n_tokens, sizeof(*run.tokens[i]));
    if (peer_is(side))
        peer_open(&run.peers[i], side);
    if (o->at_once && !run.peers[i].computing)
        fail("--at-once: of every side the computing process must be known; give "
             "--side %s=peer:R,W,PID",
             side->name);
    if (!peer_is(side))
        engine_start(&run.sides[i], o, side, o->model, n_tokens);
}

void command_llama(const struct options *o)
{
    run.o = o;
    engine_setup(o);
    swap_begin();
    for (size_t i = 0; i < o->n_sides; i++)
        side_open(i, o->pp > o->tg ? o->pp : o->tg);
    pairs_run();
    swap_set(false);
    for (size_t i = 1; i < o->n_sides && o->tg && !o->stamp; i++)
        fprintf(stderr, "apir-bench: %s: %s: greedy tokens as %s in %d of %d pairs\n", o->name,
                o->sides[i].name, o->sides[0].name, o->pairs - run.other[i], o->pairs);
    for (size_t i = 0; i < o->n_sides; i++) {
        engine_fini(&run.sides[i]);
        peer_close(&run.peers[i]);
        free(run.tokens[i]);
    }
}

/* Drops the file's pages from the kernel's cache; those that a process has mapped would stay. */
static void file_evict(const char *path)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
        fail("%s: %m", path);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)st.st_size;
    const size_t pages = (size + page - 1) / page;
    cleanup_free unsigned char *here = allocate(pages, 1);
    size_t left = 0;
    if (fdatasync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        fail("%s: it cannot be dropped from the page cache", path);
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || mincore(map, size, here) < 0)
        fail("%s: %m", path);
    munmap(map, size);
    for (size_t i = 0; i < pages; i++)
        left += here[i] & 1;
    if (left * 100 > pages)
        fail("%s: %zu of its %zu pages stay in the page cache; who else has it mapped?", path, left,
             pages);
}

void command_load(const struct options *o)
{
    run.o = o;
    engine_setup(o);
    for (size_t i = 0; i < o->n_sides; i++)
        engine_init(&run.sides[i], &o->sides[i]);
    /* The first round is the warm-up: the file comes from the disk, drivers and worker start. */
    for (int pair = -1; pair < o->pairs; pair++) {
        for (size_t i = 0; i < o->n_sides; i++) {
            const size_t side = options_turn(o, pair + (int)o->n_sides, i);
            if (o->cold)
                file_evict(o->model);
            double began = engine_now();
            engine_load(&run.sides[side], o, o->model);
            double seconds = engine_now() - began;
            engine_unload(&run.sides[side]);
            if (pair >= 0)
                sample_seconds(side, o->cold ? "load-cold" : "load", 0, pair, seconds);
        }
    }
}
