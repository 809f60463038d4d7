/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of apir-bench: one set of options, of which each command takes some. */
#ifndef APIR_BENCH_OPTIONS_H
#define APIR_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/error.h"
#include "tests/bench/sample.h"

enum { OPTIONS_SIDES_MAX = 8, OPTIONS_LIST_MAX = 64 };

struct option_side {
    char name[SAMPLE_NAME_MAX + 1];
    const char *device; /* CPU, a ggml device, rpc:HOST:PORT, or peer:R,W (peer.h) */
};

struct options {
    const struct command *command;
    const char *model, *name, *out, *targets, *stamp;
    struct option_side sides[OPTIONS_SIDES_MAX];
    size_t n_sides;
    int pairs, first, pp, prompts, tg, threads, processes, tokens;
    int cores[OPTIONS_SIDES_MAX]; /* of this process in each side's turns */
    size_t n_cores;               /* as many as sides, or none: any core */
    int swap[OPTIONS_SIDES_MAX];  /* processes that change cores with this one, by their PIDs */
    size_t n_swap;                /* if any, `cores` are two different ones */
    double seconds;
    bool same, settle, at_once, verbose;
    pid_t server;
    const char *list[OPTIONS_LIST_MAX]; /* samples files, or facts KEY=VALUE */
    size_t n_list;
};

struct command {
    const char *name, *takes, *about; /* `takes`: the options, between spaces */
    int (*run)(const struct options *o, struct apir_error *err);
};

/* Returns 0, or -errno with *err set. Strings stay those of argv. */
int options_parse(struct options *o, const struct command *command, int argc, char **argv,
                  struct apir_error *err);

/* Where samples go: --out, to which they are appended, or stdout. NULL with *err set on failure. */
FILE *options_open_out(const struct options *o, struct apir_error *err);

/* Of two different cores in `cores` the one that is not `core`, or -1: there are not just two. */
int options_other_core(const struct options *o, int core);

/* Writes one sample of this case; `unit` "": seconds. Returns 0 or -errno with *err set. */
int options_sample(const struct options *o, FILE *f, const char *side, const char *metric,
                   const struct sample *values, struct apir_error *err);

int command_llama(const struct options *o, struct apir_error *err);
int command_serve(const struct options *o, struct apir_error *err);
int command_load(const struct options *o, struct apir_error *err);
int command_together(const struct options *o, struct apir_error *err);
int command_soak(const struct options *o, struct apir_error *err);
int command_idle(const struct options *o, struct apir_error *err);
int command_machine(const struct options *o, struct apir_error *err);
int command_report(const struct options *o, struct apir_error *err);

#endif
