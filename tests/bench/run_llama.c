/* SPDX-License-Identifier: Apache-2.0 */
/* `llama` and `load`: all sides in one process, one after the other, in changing order. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cleanup.h"
#include "tests/bench/engine.h"
#include "tests/bench/peer.h"

struct run {
    const struct options *o;
    FILE *out;
    struct engine sides[OPTIONS_SIDES_MAX];
    struct peer peers[OPTIONS_SIDES_MAX]; /* in place of an engine, where open */
    int32_t *tokens[OPTIONS_SIDES_MAX]; /* what each side generated in this pair */
    int other[OPTIONS_SIDES_MAX];       /* pairs in which they were not those of side 0 */
};

static int sample_seconds(struct run *r, size_t side, const char *what, int n, int pair,
                          double seconds, struct apir_error *err)
{
    char metric[SAMPLE_NAME_MAX + 1];
    snprintf(metric, sizeof(metric), n ? "%s%d" : "%s", what, n);
    return options_sample(r->o, r->out, r->o->sides[side].name, metric,
                          &(struct sample){.pair = pair, .n = n, .value = seconds}, err);
}

/* Turns of each side before the first pair. An emulator has not translated all of a prompt's code
 * before the third. */
#define WARM_UP 3

/*
 * Which core is faster at a time is its neighbours' doing, and changes in seconds: sides that compute
 * on two of them would be compared with that in between.
 */
static int core_choose(const struct run *r, size_t side, struct apir_error *err)
{
    const bool here = !r->peers[side].answers && !r->sides[side].devices[0];
    const int core = r->o->cores[here ? 0 : 1];
    if (core < 0)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        return apir_error_sys(err, errno, "--cores: core %d", core);
    return 0;
}

/* One turn of one side; pair -1: a warm-up, which leaves no samples. */
static int turn(struct run *r, size_t side, int pair, struct apir_error *err)
{
    const struct options *o = r->o;
    struct turn t = {.tokens = r->tokens[side]};
    int ret = core_choose(r, side, err);
    if (ret == 0)
        ret = r->peers[side].answers ? peer_turn(&r->peers[side], o, &t, err)
                                     : engine_turn(&r->sides[side], o, &t, err);
    if (ret == 0 && pair >= 0 && o->pp)
        ret = sample_seconds(r, side, "pp", o->pp, pair, t.pp, err);
    if (ret == 0 && pair >= 0 && o->tg)
        ret = sample_seconds(r, side, "tg", o->tg, pair, t.tg, err);
    return ret;
}

static int compare_tokens(struct run *r, int pair, struct apir_error *err)
{
    for (size_t i = 1; i < r->o->n_sides; i++) {
        int k = 0;
        while (k < r->o->tg && r->tokens[i][k] == r->tokens[0][k])
            k++;
        if (k == r->o->tg)
            continue;
        if (r->other[i]++ == 0)
            fprintf(
                stderr,
                "apir-bench: note: %s: pair %d: %s picks other tokens than %s from token %d on\n",
                r->o->name, pair, r->o->sides[i].name, r->o->sides[0].name, k);
        if (r->o->same)
            return apir_error_set(err, EILSEQ,
                                  "pair %d: %s picks other tokens than %s from token %d on, and "
                                  "--same forbids it; leave --same out where the devices differ",
                                  pair, r->o->sides[i].name, r->o->sides[0].name, k);
    }
    return 0;
}

static int pairs_run(struct run *r, struct apir_error *err)
{
    size_t n = r->o->n_sides;
    int ret = 0;
    for (size_t i = 0; i < n * WARM_UP && ret == 0; i++)
        ret = turn(r, i % n, -1, err);
    for (int pair = 0; pair < r->o->pairs && ret == 0; pair++) {
        /* Nobody is always first: what warms up or slows down hits all sides alike. */
        for (size_t i = 0; i < n && ret == 0; i++)
            ret = turn(r, ((size_t)pair + i) % n, pair, err);
        if (ret == 0 && !r->o->stamp)
            ret = compare_tokens(r, pair, err);
    }
    return ret;
}

/* For n tokens. */
static int side_open(struct run *r, size_t side, int n, struct apir_error *err)
{
    const struct options *o = r->o;
    struct engine *e = &r->sides[side];
    if (peer_is(&o->sides[side]))
        return peer_open(&r->peers[side], &o->sides[side], err);
    int ret = engine_init(e, &o->sides[side], err);
    if (ret == 0)
        ret = engine_load(e, o, o->model, err);
    return ret == 0 ? engine_open(e, o, n, err) : ret;
}

static int llama_run(struct run *r, struct apir_error *err)
{
    const struct options *o = r->o;
    int n = o->pp > o->tg ? o->pp : o->tg;
    for (size_t i = 0; i < o->n_sides; i++) {
        int ret = side_open(r, i, n, err);
        if (ret < 0)
            return ret;
        r->tokens[i] = calloc((size_t)n, sizeof(*r->tokens[i]));
        if (!r->tokens[i])
            return apir_error_sys(err, ENOMEM, "tokens");
    }
    int ret = pairs_run(r, err);
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
