/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `llama` and `load`: all sides in one process, one after the other, in changing order.
 *
 * Or, of `llama`, at once (--at-once). Turns of seconds are too long where the machine's speed
 * changes within a second: two sides are then compared with its speed at two times. Sides that
 * share a core have turns of milliseconds, which the kernel gives them, and meet the same. A side's
 * time is then that on the clock, less what its computing process, ready to run, waited for the
 * core: what is left is what the turn would have taken alone, with all waits for messages in it.
 * All turns of such a run are one sample. They scatter less than whole runs do: how the pages of a
 * process happen to lie makes half a percent, and is the same in all of its turns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/bench/engine.h"
#include "tests/bench/peer.h"
#include "tests/bench/proc.h"

struct run {
    const struct options *o;
    FILE *out;
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

static int sample_seconds(struct run *r, size_t side, const char *what, int n, int pair,
                          double seconds, struct apir_error *err)
{
    char metric[SAMPLE_NAME_MAX + 1];
    snprintf(metric, sizeof(metric), n ? "%s%d" : "%s", what, n);
    return options_sample(r->o, r->out, r->o->sides[side].name, metric,
                          &(struct sample){.pair = r->o->first + pair, .n = n, .value = seconds},
                          err);
}

/* Turns of each side before the first pair. An emulator has not translated all of a prompt's code
 * before the third. */
#define WARM_UP 3

/*
 * Which core is faster at a time is its neighbours' doing, and changes in seconds: sides that
 * compute on two of them would be compared with that in between. Where a side's work is spread over
 * both, no placement is fair to a side that has all of its work on one; two are, the second with
 * the cores swapped.
 */
static int core_now(const struct run *r, int core)
{
    return r->swapped ? options_other_core(r->o, core) : core;
}

static int core_choose(const struct run *r, size_t side, struct apir_error *err)
{
    if (r->o->n_cores == 0)
        return 0;
    const int core = core_now(r, r->o->cores[side]);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        return apir_error_sys(err, errno, "--cores: core %d", core);
    return 0;
}

static int swap_begin(struct run *r, struct apir_error *err)
{
    const struct options *o = r->o;
    int ret = 0;
    for (size_t i = 0; i < o->n_swap && ret == 0; i++) {
        ret = proc_core(o->swap[i], &r->homes[i], err);
        if (ret == 0 && options_other_core(o, r->homes[i]) < 0)
            return apir_error_set(err, EINVAL,
                                  "--swap: process %d is on core %d, which is not in --cores",
                                  o->swap[i], r->homes[i]);
    }
    return ret;
}

/* All of them, also after one has failed: the others shall not stay where they are. */
static int swap_set(struct run *r, bool swapped, struct apir_error *err)
{
    int ret = 0;
    r->swapped = swapped;
    for (size_t i = 0; i < r->o->n_swap; i++) {
        const int rc = proc_put(r->o->swap[i], core_now(r, r->homes[i]), err);
        if (ret == 0)
            ret = rc;
    }
    return ret;
}

static int turn(struct run *r, size_t side, struct apir_error *err)
{
    const struct options *o = r->o;
    struct turn t = {.tokens = r->tokens[side]};
    struct peer *peer = &r->peers[side];
    int ret = core_choose(r, side, err);
    if (ret == 0 && peer->answers) {
        ret = peer_ask(peer, o, err);
        if (ret == 0)
            ret = peer_answer(peer, o, &t, err);
    } else if (ret == 0) {
        ret = engine_turn(&r->sides[side], o, &t, err);
    }
    r->pp[side] += t.pp;
    r->tg[side] += t.tg;
    return ret;
}

/* In every round; warm-ups (a pair below 0) and stamped sides have none to compare. */
static int compare_tokens(struct run *r, int pair, struct apir_error *err)
{
    if (pair < 0 || r->o->stamp)
        return 0;
    for (size_t i = 1; i < r->o->n_sides; i++) {
        int k = 0;
        while (k < r->o->tg && r->tokens[i][k] == r->tokens[0][k])
            k++;
        if (k == r->o->tg)
            continue;
        if (r->other[i] == 0 && !r->differs[i])
            fprintf(
                stderr,
                "apir-bench: note: %s: pair %d: %s picks other tokens than %s from token %d on\n",
                r->o->name, pair, r->o->sides[i].name, r->o->sides[0].name, k);
        r->differs[i] = true;
        if (r->o->same)
            return apir_error_set(err, EILSEQ,
                                  "pair %d: %s picks other tokens than %s from token %d on, and "
                                  "--same forbids it; leave --same out where the devices differ",
                                  pair, r->o->sides[i].name, r->o->sides[0].name, k);
    }
    return 0;
}

/*
 * Takes a side's answer, and what was waited for it meanwhile. Read without delay: a worker looks
 * for more messages for a while, and waits for the core in that time, too. What it waits for now is
 * counted when it runs again, milliseconds from here.
 */
static int answer_take(struct run *r, size_t side, struct turn *turn, double *waited,
                       struct apir_error *err)
{
    double before = *waited;
    int ret = proc_waited(r->peers[side].computing, waited, err);
    *waited -= before;
    return ret == 0 ? peer_answer(&r->peers[side], r->o, turn, err) : ret;
}

static int answers_take(struct run *r, struct turn *turns, double *waited, struct apir_error *err)
{
    const size_t n = r->o->n_sides;
    struct pollfd fds[OPTIONS_SIDES_MAX];
    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = fileno(r->peers[i].answers), .events = POLLIN};
    for (size_t missing = n; missing > 0;) {
        if (poll(fds, n, -1) < 0 && errno != EINTR)
            return apir_error_sys(err, errno, "waiting for the peers");
        for (size_t i = 0; i < n; i++) {
            if (!fds[i].revents)
                continue;
            int ret = answer_take(r, i, &turns[i], &waited[i], err);
            if (ret < 0)
                return ret;
            fds[i] = (struct pollfd){.fd = -1};
            missing--;
        }
    }
    return 0;
}

static int turns_at_once(struct run *r, int pair, struct apir_error *err)
{
    const struct options *o = r->o;
    const size_t n = o->n_sides;
    struct turn turns[OPTIONS_SIDES_MAX];
    double waited[OPTIONS_SIDES_MAX];
    int ret = 0;
    for (size_t i = 0; i < n && ret == 0; i++) {
        turns[i] = (struct turn){.tokens = r->tokens[i]};
        ret = proc_waited(r->peers[i].computing, &waited[i], err);
    }
    for (size_t i = 0; i < n && ret == 0; i++)
        ret = peer_ask(&r->peers[((size_t)(pair + WARM_UP) + i) % n], o, err);
    if (ret == 0)
        ret = answers_take(r, turns, waited, err);
    for (size_t i = 0; i < n && ret == 0 && pair >= 0; i++) {
        double seconds = turns[i].pp + turns[i].tg - waited[i];
        if (seconds <= 0)
            return apir_error_set(err, ERANGE,
                                  "pair %d: %s waited longer for its core than its turn took; did "
                                  "process %d compute for somebody else?",
                                  pair, o->sides[i].name, r->peers[i].computing);
        r->seconds[i] += seconds;
    }
    return ret == 0 ? compare_tokens(r, pair, err) : ret;
}

static int sample_at_once(struct run *r, struct apir_error *err)
{
    const struct options *o = r->o;
    const int n = o->pp ? o->pp : o->tg;
    char metric[SAMPLE_NAME_MAX + 1];
    snprintf(metric, sizeof(metric), "%s%d-at-once", o->pp ? "pp" : "tg", n);
    int ret = 0;
    for (size_t i = 0; i < o->n_sides && ret == 0; i++)
        ret = options_sample(
            o, r->out, o->sides[i].name, metric,
            &(struct sample){.pair = o->first, .n = (double)n * o->pairs, .value = r->seconds[i]},
            err);
    return ret;
}

/* After the first turns: a worker is there only then. */
static int core_check(const struct run *r, struct apir_error *err)
{
    int first = -1;
    for (size_t i = 0; i < r->o->n_sides; i++) {
        int core, ret = proc_core(r->peers[i].computing, &core, err);
        if (ret < 0)
            return ret;
        if (i > 0 && core != first)
            return apir_error_set(err, EINVAL,
                                  "--at-once: %s is computed on core %d and %s on core %d; put "
                                  "them on one",
                                  r->o->sides[0].name, first, r->o->sides[i].name, core);
        first = core;
    }
    return 0;
}

static int round_in_order(struct run *r, size_t first, int pair, struct apir_error *err)
{
    const size_t n = r->o->n_sides;
    int ret = 0;
    for (size_t i = 0; i < n && ret == 0; i++)
        ret = turn(r, (first + i) % n, err);
    return ret == 0 ? compare_tokens(r, pair, err) : ret;
}

static int sample_pair(struct run *r, int pair, int rounds, struct apir_error *err)
{
    const struct options *o = r->o;
    int ret = 0;
    for (size_t i = 0; i < o->n_sides && ret == 0; i++) {
        if (o->pp)
            ret = sample_seconds(r, i, "pp", o->pp, pair, r->pp[i] / rounds, err);
        if (ret == 0 && o->tg)
            ret = sample_seconds(r, i, "tg", o->tg, pair, r->tg[i] / rounds, err);
    }
    return ret;
}

/* A pair below 0 is a warm-up, which leaves no samples. */
static int turns_in_order(struct run *r, int pair, struct apir_error *err)
{
    const int rounds = r->o->n_swap && pair >= 0 ? 2 : 1;
    int ret = 0;
    for (size_t i = 0; i < r->o->n_sides; i++)
        r->pp[i] = r->tg[i] = 0;
    for (int i = 0; i < rounds && ret == 0; i++) {
        ret = swap_set(r, i, err);
        /* Nobody is always first: what warms up or slows down hits all sides alike. */
        if (ret == 0)
            ret = round_in_order(r, (size_t)(pair + WARM_UP + i), pair, err);
    }
    return ret == 0 && pair >= 0 ? sample_pair(r, pair, rounds, err) : ret;
}

static int pairs_run(struct run *r, struct apir_error *err)
{
    int (*const turns)(struct run *, int, struct apir_error *) =
        r->o->at_once ? turns_at_once : turns_in_order;
    int ret = 0;
    for (int pair = -WARM_UP; pair < 0 && ret == 0; pair++)
        ret = turns(r, pair, err);
    if (ret == 0 && r->o->at_once)
        ret = core_check(r, err);
    for (int pair = 0; pair < r->o->pairs && ret == 0; pair++) {
        ret = turns(r, pair, err);
        for (size_t i = 0; i < r->o->n_sides; i++) {
            r->other[i] += r->differs[i];
            r->differs[i] = false;
        }
    }
    return ret == 0 && r->o->at_once ? sample_at_once(r, err) : ret;
}

/* For n tokens. */
static int side_open(struct run *r, size_t side, int n, struct apir_error *err)
{
    const struct options *o = r->o;
    struct engine *e = &r->sides[side];
    if (peer_is(&o->sides[side])) {
        int ret = peer_open(&r->peers[side], &o->sides[side], err);
        if (ret < 0 || !o->at_once || r->peers[side].computing)
            return ret;
    }
    if (o->at_once)
        return apir_error_set(err, EINVAL,
                              "--at-once: of every side the computing process must be known; give "
                              "--side %s=peer:R,W,PID",
                              o->sides[side].name);
    int ret = engine_init(e, &o->sides[side], err);
    if (ret == 0)
        ret = engine_load(e, o, o->model, err);
    return ret == 0 ? engine_open(e, o, n, err) : ret;
}

static int llama_run(struct run *r, struct apir_error *err)
{
    const struct options *o = r->o;
    int n = o->pp > o->tg ? o->pp : o->tg;
    int ret = swap_begin(r, err);
    for (size_t i = 0; i < o->n_sides && ret == 0; i++) {
        ret = side_open(r, i, n, err);
        r->tokens[i] = calloc((size_t)n, sizeof(*r->tokens[i]));
        if (ret == 0 && !r->tokens[i])
            ret = apir_error_sys(err, ENOMEM, "tokens");
    }
    if (ret == 0) {
        struct apir_error late; /* what went wrong before is what the user must know */
        ret = pairs_run(r, err);
        (void)swap_set(r, false, &late);
    }
    for (size_t i = 1; i < o->n_sides && ret == 0 && o->tg && !o->stamp; i++)
        fprintf(stderr, "apir-bench: %s: %s: greedy tokens as %s in %d of %d pairs\n", o->name,
                o->sides[i].name, o->sides[0].name, o->pairs - r->other[i], o->pairs);
    return ret;
}

static int run(const struct options *o, int (*body)(struct run *, struct apir_error *),
               struct apir_error *err)
{
    struct run r = {.o = o, .out = options_open_out(o, err)};
    if (!r.out)
        return -err->code;
    engine_setup(o->verbose);
    int ret = engine_setup_stamp(o->stamp, err);
    if (ret == 0)
        ret = body(&r, err);
    for (size_t i = 0; i < o->n_sides; i++) {
        engine_fini(&r.sides[i]);
        peer_close(&r.peers[i]);
        free(r.tokens[i]);
    }
    engine_teardown();
    if (r.out != stdout)
        fclose(r.out);
    return ret;
}

int command_llama(const struct options *o, struct apir_error *err)
{
    return run(o, llama_run, err);
}

static int load_once(struct run *r, size_t side, int pair, struct apir_error *err)
{
    double began = engine_now();
    int ret = engine_load(&r->sides[side], r->o, r->o->model, err);
    double seconds = engine_now() - began;
    engine_unload(&r->sides[side]);
    return ret < 0 || pair < 0 ? ret : sample_seconds(r, side, "load", 0, pair, seconds, err);
}

static int load_run(struct run *r, struct apir_error *err)
{
    size_t n = r->o->n_sides;
    int ret = 0;
    for (size_t i = 0; i < n && ret == 0; i++)
        ret = engine_init(&r->sides[i], &r->o->sides[i], err);
    /* The first round is the warm-up: the file comes from the disk, drivers and worker start. */
    for (int pair = -1; pair < r->o->pairs && ret == 0; pair++) {
        for (size_t i = 0; i < n && ret == 0; i++)
            ret = load_once(r, ((size_t)pair + n + i) % n, pair, err);
    }
    return ret;
}

int command_load(const struct options *o, struct apir_error *err)
{
    return run(o, load_run, err);
}
