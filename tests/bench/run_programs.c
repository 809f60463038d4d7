/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `default` and `start`: llama.cpp's own programs with their defaults, as processes of their own.
 * Native is what a user has without us: weights as its CPU likes them, files mapped, all threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/bench/program.h"
#include "tests/lib/clock.h"

/* All that it prints until it closes its output, with a NUL; to be freed. */
static char *read_all(const struct program *p)
{
    const size_t most = 1 << 20;
    char *text = allocate(most + 1, 1);
    size_t n = 0;
    while (n < most) {
        const ssize_t got = read(p->output, text + n, most - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            program_fail(p, strerror(errno));
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return text;
}

/* Each side once in every pair. */
static void in_turns(const struct options *o,
                     void (*one)(const struct options *, const struct option_side *, int pair))
{
    for (int pair = o->first; pair < o->first + o->pairs; pair++) {
        for (size_t turn = 0; turn < o->n_sides; turn++)
            one(o, &o->sides[options_turn(o, pair, turn)], pair);
    }
}

/* ---- llama-bench -------------------------------------------------------------------- */

static double number_of(struct json_object *row, const char *name)
{
    return json_object_get_double(json_object_object_get(row, name));
}

static void bench_one(const struct options *o, const struct option_side *side, int pair)
{
    char pp[16], tg[16], metric[32];
    snprintf(pp, sizeof(pp), "%d", o->pp);
    snprintf(tg, sizeof(tg), "%d", o->tg);
    const char *argv[PROGRAM_ARGUMENTS_MAX + 1] = {
        "llama-bench", "-m", o->model, "-p", pp, "-n", tg, "-r", "3", "-o", "json"};
    struct program p;
    program_arguments(argv, o->list);
    program_start(&p, side, argv, true);
    cleanup_free char *text = read_all(&p);
    struct json_object *rows = json_tokener_parse(text);
    if (!json_object_is_type(rows, json_type_array))
        program_fail(&p, "its output is no list");
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        const double n_pp = number_of(row, "n_prompt"), n_tg = number_of(row, "n_gen");
        const double rate = number_of(row, "avg_ts");
        if (!(rate > 0) || (n_pp > 0) == (n_tg > 0))
            program_fail(&p, "its output has something else than a prompt or a generation");
        snprintf(metric, sizeof(metric), "%s%d", n_pp > 0 ? "pp" : "tg", (int)(n_pp + n_tg));
        options_sample(o, side->name, metric,
                       (struct sample){.pair = pair, .value = rate, .unit = "t/s"});
    }
    json_object_put(rows);
    program_end(&p);
}

void command_default(const struct options *o)
{
    in_turns(o, bench_one);
}

/* ---- llama-batched-bench ------------------------------------------------------------- */

enum { BATCHED_LINES = 2, BATCHED_TRIES = 10 };

struct batched_line {
    int sequences;
    double pp, tg; /* tokens per second */
};

/* Returns how many lines there were; more than there is room for are not looked at. */
static size_t batched_read(const struct program *p, char *text,
                           struct batched_line lines[BATCHED_LINES])
{
    size_t n = 0;
    for (char *line; n < BATCHED_LINES && (line = strsep(&text, "\n"));) {
        struct json_object *row = *line == '{' ? json_tokener_parse(line) : NULL;
        if (!row)
            continue;
        lines[n] = (struct batched_line){.sequences = (int)number_of(row, "pl"),
                                         .pp = number_of(row, "speed_pp"),
                                         .tg = number_of(row, "speed_tg")};
        json_object_put(row);
        if (!(lines[n].pp > 0) || !(lines[n].tg > 0))
            program_fail(p, "its output has no speed");
        n++;
    }
    return n;
}

/* A line for one sequence, and one for as many at once as --slots says. The program prints from a
 * thread of its own and may end before that has: then it is run again. */
static void batched_one(const struct options *o, const struct option_side *side, int pair)
{
    char pp[16], tg[16], sequences[16], context[16], metric[32];
    snprintf(pp, sizeof(pp), "%d", o->pp);
    snprintf(tg, sizeof(tg), "%d", o->tg);
    snprintf(sequences, sizeof(sequences), "1,%d", o->slots);
    snprintf(context, sizeof(context), "%d", (o->pp + o->tg) * o->slots);
    const char *argv[PROGRAM_ARGUMENTS_MAX + 1] = {"llama-batched-bench",
                                                   "-m",
                                                   o->model,
                                                   "-c",
                                                   context,
                                                   "-npp",
                                                   pp,
                                                   "-ntg",
                                                   tg,
                                                   "-npl",
                                                   sequences,
                                                   "--output-format",
                                                   "jsonl"};
    struct batched_line lines[BATCHED_LINES];
    size_t n = 0;
    for (int tries = 0; n < BATCHED_LINES; tries++) {
        struct program p;
        if (tries == BATCHED_TRIES)
            fail("llama-batched-bench on %s: its output ends too early every time", side->name);
        program_start(&p, side, argv, true);
        cleanup_free char *text = read_all(&p);
        n = batched_read(&p, text, lines);
        program_end(&p);
    }
    for (size_t i = 0; i < BATCHED_LINES; i++) {
        snprintf(metric, sizeof(metric), "pp-%d", lines[i].sequences);
        options_sample(o, side->name, metric,
                       (struct sample){.pair = pair, .value = lines[i].pp, .unit = "t/s"});
        snprintf(metric, sizeof(metric), "tg-%d", lines[i].sequences);
        options_sample(o, side->name, metric,
                       (struct sample){.pair = pair, .value = lines[i].tg, .unit = "t/s"});
    }
}

void command_batched(const struct options *o)
{
    in_turns(o, batched_one);
}

/* ---- the first token ------------------------------------------------------------------ */

/* The program prints from a thread of its own, and may end before that has: so many tokens that the
 * first one is out by then. The others are not waited for. */
static double start_one(const struct options *o, const struct option_side *side)
{
    const char *argv[] = {"llama-completion",
                          "-m",
                          o->model,
                          "-p",
                          "Hello world",
                          "-n",
                          "256",
                          "--ignore-eos",
                          "--no-display-prompt",
                          "-no-cnv",
                          "--temp",
                          "0",
                          NULL};
    struct program p;
    char first = 0;
    program_start(&p, side, argv, true);
    if (read(p.output, &first, 1) != 1)
        program_fail(&p, "it has ended without a token");
    const double seconds = (double)(now_ns() - p.began_ns) / 1e9;
    program_stop(&p);
    return seconds;
}

/* Between two of them is the time that a host needs to have a spare worker, and a user to type. */
void command_start(const struct options *o)
{
    for (size_t i = 0; i < o->n_sides; i++)
        start_one(o, &o->sides[i]); /* files are read, and shaders compiled */
    for (int pair = o->first; pair < o->first + o->pairs; pair++) {
        for (size_t turn = 0; turn < o->n_sides; turn++) {
            const struct option_side *side = &o->sides[options_turn(o, pair, turn)];
            usleep((useconds_t)(o->seconds * 1e6));
            options_sample(o, side->name, "start",
                           (struct sample){.pair = pair, .value = start_one(o, side)});
        }
    }
}
