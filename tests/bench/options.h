/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of apir-bench: one set of options, of which each command takes some. */
#ifndef APIR_BENCH_OPTIONS_H
#define APIR_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/bench/sample.h"

enum { OPTIONS_SIDES_MAX = 8, OPTIONS_LIST_MAX = 64 };

struct option_side {
    char name[SAMPLE_NAME_MAX + 1];
    const char *device; /* CPU, a ggml device, rpc:HOST:PORT, or peer:R,W (peer.h) */
};

struct option_numbers {
    int all[OPTIONS_SIDES_MAX];
    size_t n;
};

struct options {
    const struct command *command;
    const char *model, *name, *out, *stamp;
    FILE *file; /* where samples go: --out, to which they are appended, or stdout */
    struct option_side sides[OPTIONS_SIDES_MAX];
    size_t n_sides;
    int pairs, first, pp, prompts, tg, threads, processes, tokens, graphs, repeat;
    struct option_numbers cores; /* of this process in each side's turns; none: any core */
    struct option_numbers swap; /* processes that change cores with this one, by their PIDs; if any,
                                 * `cores` are two different ones */
    double seconds;
    const char *same; /* the side that must pick the first one's tokens, or NULL */
    bool settle, at_once, verbose, cold;
    pid_t server;
    const char *list[OPTIONS_LIST_MAX]; /* facts, KEY=VALUE */
    size_t n_list;
};

struct command {
    const char *name, *takes, *about; /* `takes`: the options, between spaces */
    void (*run)(const struct options *o);
};

/* What is wrong with them ends the program with 2. Strings stay those of argv. */
void options_parse(struct options *o, const struct command *command, int argc, char **argv);

/* Whose turn it is, as an index of sides: each pair begins with another one. */
size_t options_turn(const struct options *o, int pair, size_t turn);

/* Of two different cores in `cores` the one that is not `core`, or -1: there are not just two. */
int options_other_core(const struct options *o, int core);

/* Writes one sample of this case; its names are filled in here. */
void options_sample(const struct options *o, const char *side, const char *metric, struct sample s);

/* A value of the side `apir`, without tokens; kept only with --out. */
void options_value(const struct options *o, const char *metric, int64_t pair, double value,
                   const char *unit);

/* Zeros; no memory ends the program. */
void *allocate(size_t n, size_t size);

/* Prints why nothing can be measured, after the case's name, and ends the program with 1. */
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Called in between, if set: for whoever else must know, and what must not stay as it is. */
extern void (*fail_hook)(const char *why);

void command_llama(const struct options *o);
void command_serve(const struct options *o);
void command_load(const struct options *o);
void command_together(const struct options *o);
void command_soak(const struct options *o);
void command_idle(const struct options *o);
void command_link(const struct options *o);
void command_overhead(const struct options *o);
void command_machine(const struct options *o);

#endif
