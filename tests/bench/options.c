/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peer.h"

enum {
    OPT_MODEL = 256,
    OPT_SIDE,
    OPT_CASE,
    OPT_OUT,
    OPT_PAIRS,
    OPT_FIRST,
    OPT_PP,
    OPT_PROMPTS,
    OPT_TG,
    OPT_THREADS,
    OPT_CORES,
    OPT_SWAP,
    OPT_PROCESSES,
    OPT_SECONDS,
    OPT_TOKENS,
    OPT_SERVER,
    OPT_PIDS,
    OPT_SAME,
    OPT_SETTLE,
    OPT_AT_ONCE,
    OPT_STAMP,
    OPT_VERBOSE,
    OPT_SAMPLES,
    OPT_SET,
    OPT_TARGETS,
};

static const struct option long_options[] = {
    {"model", required_argument, NULL, OPT_MODEL},
    {"side", required_argument, NULL, OPT_SIDE},
    {"case", required_argument, NULL, OPT_CASE},
    {"out", required_argument, NULL, OPT_OUT},
    {"pairs", required_argument, NULL, OPT_PAIRS},
    {"first", required_argument, NULL, OPT_FIRST},
    {"pp", required_argument, NULL, OPT_PP},
    {"prompts", required_argument, NULL, OPT_PROMPTS},
    {"tg", required_argument, NULL, OPT_TG},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"cores", required_argument, NULL, OPT_CORES},
    {"swap", required_argument, NULL, OPT_SWAP},
    {"processes", required_argument, NULL, OPT_PROCESSES},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"worker-pid-of", required_argument, NULL, OPT_SERVER},
    {"pids", required_argument, NULL, OPT_PIDS},
    {"same", no_argument, NULL, OPT_SAME},
    {"settle", no_argument, NULL, OPT_SETTLE},
    {"at-once", no_argument, NULL, OPT_AT_ONCE},
    {"stamp", required_argument, NULL, OPT_STAMP},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"samples", required_argument, NULL, OPT_SAMPLES},
    {"set", required_argument, NULL, OPT_SET},
    {"targets", required_argument, NULL, OPT_TARGETS},
    {NULL, 0, NULL, 0},
};

#define PID_MAX (1 << 22) /* PID_MAX_LIMIT of Linux, 64-bit */

static bool takes(const struct command *c, const char *option)
{
    char word[64];
    snprintf(word, sizeof(word), " %s ", option);
    return strstr(c->takes, word) != NULL;
}

static int parse_int(const char *option, const char *text, int min, int max, int *ret_value,
                     struct apir_error *err)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < min || v > max)
        return apir_error_set(err, EINVAL, "--%s %s: give a whole number from %d to %d", option,
                              text, min, max);
    *ret_value = (int)v;
    return 0;
}

static int parse_seconds(const char *text, double *ret_value, struct apir_error *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0.1 && v <= 86400))
        return apir_error_set(err, EINVAL, "--seconds %s: give a number from 0.1 to 86400", text);
    *ret_value = v;
    return 0;
}

static int parse_side(struct options *o, const char *text, struct apir_error *err)
{
    const char *equal = strchr(text, '=');
    size_t size = equal ? (size_t)(equal - text) : 0;
    if (!equal || !equal[1] || size > SAMPLE_NAME_MAX)
        return apir_error_set(err, EINVAL, "--side %s: give NAME=DEVICE, such as native=CPU", text);
    if (o->n_sides == OPTIONS_SIDES_MAX)
        return apir_error_set(err, EINVAL, "--side %s: no more than %d sides", text,
                              OPTIONS_SIDES_MAX);
    struct option_side *s = &o->sides[o->n_sides];
    memcpy(s->name, text, size);
    s->name[size] = '\0';
    s->device = equal + 1;
    if (!sample_name_ok(s->name))
        return apir_error_set(err, EINVAL, "--side %s: a name is letters, digits and -._:", text);
    for (size_t i = 0; i < o->n_sides; i++) {
        if (strcmp(o->sides[i].name, s->name) == 0)
            return apir_error_set(err, EINVAL, "--side %s: two sides of that name", text);
    }
    o->n_sides++;
    return 0;
}

/* Numbers between commas, OPTIONS_SIDES_MAX at most. `what` says what they are, for the message. */
static int parse_numbers(const char *option, const char *what, const char *text, int min, int max,
                         int *values, size_t *ret_n, struct apir_error *err)
{
    const char *at = text;
    char *end = NULL;
    size_t n = 0;
    do {
        long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (value < min || value > max || (*end && *end != ',') || n == OPTIONS_SIDES_MAX)
            return apir_error_set(err, EINVAL, "--%s %s: give %s", option, text, what);
        values[n++] = (int)value;
        at = end + 1;
    } while (*end);
    *ret_n = n;
    return 0;
}

static int parse_list(struct options *o, const char *text, struct apir_error *err)
{
    if (o->n_list == OPTIONS_LIST_MAX)
        return apir_error_set(err, EINVAL, "%s: no more than %d of these", text, OPTIONS_LIST_MAX);
    o->list[o->n_list++] = text;
    return 0;
}

static int parse_one(struct options *o, int opt, const char *name, struct apir_error *err)
{
    switch (opt) {
    case OPT_MODEL:
        o->model = optarg;
        return 0;
    case OPT_SIDE:
        return parse_side(o, optarg, err);
    case OPT_CASE:
        o->name = optarg;
        return sample_name_ok(optarg)
                   ? 0
                   : apir_error_set(err, EINVAL,
                                    "--case %s: up to %d letters, digits and -._:", optarg,
                                    SAMPLE_NAME_MAX);
    case OPT_OUT:
        o->out = optarg;
        return 0;
    case OPT_PAIRS:
        return parse_int(name, optarg, 1, 100000, &o->pairs, err);
    case OPT_FIRST:
        return parse_int(name, optarg, 0, 100000, &o->first, err);
    case OPT_PP:
        return parse_int(name, optarg, 0, 65536, &o->pp, err);
    case OPT_PROMPTS:
        return parse_int(name, optarg, 1, 1000, &o->prompts, err);
    case OPT_TG:
        return parse_int(name, optarg, 0, 65536, &o->tg, err);
    case OPT_THREADS:
        return parse_int(name, optarg, 1, 1024, &o->threads, err);
    case OPT_CORES:
        return parse_numbers(name, "numbers of cores, one for each side, such as 1,0", optarg, 0,
                             CPU_SETSIZE - 1, o->cores, &o->n_cores, err);
    case OPT_SWAP:
        return parse_numbers(name, "numbers of processes, such as 4711,4712", optarg, 1, PID_MAX,
                             o->swap, &o->n_swap, err);
    case OPT_PROCESSES:
        return parse_int(name, optarg, 1, 64, &o->processes, err);
    case OPT_TOKENS:
        return parse_int(name, optarg, 10, 1000000000, &o->tokens, err);
    case OPT_SERVER:
    case OPT_PIDS:
        return parse_int(name, optarg, 1, PID_MAX, &o->server, err);
    case OPT_SECONDS:
        return parse_seconds(optarg, &o->seconds, err);
    case OPT_SAME:
        o->same = true;
        return 0;
    case OPT_SETTLE:
        o->settle = true;
        return 0;
    case OPT_AT_ONCE:
        o->at_once = true;
        return 0;
    case OPT_STAMP:
        o->stamp = optarg;
        return 0;
    case OPT_VERBOSE:
        o->verbose = true;
        return 0;
    case OPT_TARGETS:
        o->targets = optarg;
        return 0;
    default:
        return parse_list(o, optarg, err);
    }
}

/* Peers have loaded theirs. */
static bool all_peers(const struct options *o)
{
    size_t n = 0;
    while (n < o->n_sides && peer_is(&o->sides[n]))
        n++;
    return n > 0 && n == o->n_sides;
}

int options_other_core(const struct options *o, int core)
{
    int other = -1;
    bool found = false;
    for (size_t i = 0; i < o->n_cores; i++) {
        if (o->cores[i] == core)
            found = true;
        else if (other < 0)
            other = o->cores[i];
        else if (o->cores[i] != other)
            return -1;
    }
    return found ? other : -1;
}

/* What a command cannot do without. */
static int check_whole(const struct options *o, struct apir_error *err)
{
    if (takes(o->command, "model") && !o->model && !all_peers(o))
        return apir_error_set(err, EINVAL, "--model FILE is missing");
    if (takes(o->command, "side") && o->n_sides == 0)
        return apir_error_set(err, EINVAL, "--side NAME=DEVICE is missing");
    /* Pairs are of several. */
    if (o->n_sides > 1 && !takes(o->command, "pairs"))
        return apir_error_set(err, EINVAL, "%s measures one side; give one --side",
                              o->command->name);
    if (takes(o->command, "pp") && o->pp + o->tg == 0)
        return apir_error_set(err, EINVAL, "--pp 0 --tg 0 leaves nothing to measure");
    if (o->prompts > 1 && o->pp == 0)
        return apir_error_set(err, EINVAL, "--prompts %d --pp 0: prompts of no tokens", o->prompts);
    if (o->n_cores && o->n_cores != o->n_sides)
        return apir_error_set(err, EINVAL,
                              "--cores names %zu cores for %zu sides; give one for each",
                              o->n_cores, o->n_sides);
    if (o->n_swap && (!o->n_cores || options_other_core(o, o->cores[0]) < 0))
        return apir_error_set(err, EINVAL,
                              "--swap: give --cores with two different ones, such as 1,0");
    /* What was waited for the core is known of a turn as a whole. */
    if (o->at_once && ((o->pp && o->tg) || o->settle || o->n_cores))
        return apir_error_set(err, EINVAL,
                              "--at-once measures prompts or tokens alone, of peers that are on "
                              "their core: add --pp 0 or --tg 0, and neither --settle nor --cores");
    if (takes(o->command, "samples") && (o->n_list == 0 || !o->out))
        return apir_error_set(err, EINVAL, "--samples FILE and --out DIR must be given");
    return 0;
}

int options_parse(struct options *o, const struct command *command, int argc, char **argv,
                  struct apir_error *err)
{
    *o = (struct options){
        .command = command,
        .name = command->name,
        .pairs = 20,
        .pp = 512,
        .prompts = 1,
        .tg = 64,
        .threads = 1,
        .processes = 4,
        .tokens = 100000,
        .seconds = strcmp(command->name, "idle") == 0 ? 60 : 10,
    };
    int opt, index;
    opterr = 0; /* it would speak under the command's name */
    while ((opt = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (opt == '?')
            return apir_error_set(err, EINVAL,
                                  "%s: unknown, or without its value; see apir-bench --help",
                                  argv[optind - 1]);
        const char *name = long_options[index].name;
        if (!takes(command, name))
            return apir_error_set(err, EINVAL, "%s does not take --%s; see apir-bench --help",
                                  command->name, name);
        int ret = parse_one(o, opt, name, err);
        if (ret < 0)
            return ret;
    }
    for (; optind < argc; optind++) {
        /* A shell's `--samples *.jsonl` gives them one after the other. */
        if (!takes(command, "samples"))
            return apir_error_set(err, EINVAL, "%s: not an option; see apir-bench --help",
                                  argv[optind]);
        int ret = parse_list(o, argv[optind], err);
        if (ret < 0)
            return ret;
    }
    return check_whole(o, err);
}

FILE *options_open_out(const struct options *o, struct apir_error *err)
{
    if (!o->out)
        return stdout;
    FILE *f = fopen(o->out, "ae");
    if (!f)
        (void)apir_error_sys(err, errno, "--out %s", o->out);
    return f;
}

int options_sample(const struct options *o, FILE *f, const char *side, const char *metric,
                   const struct sample *values, struct apir_error *err)
{
    struct sample s = *values;
    snprintf(s.name, sizeof(s.name), "%s", o->name);
    snprintf(s.side, sizeof(s.side), "%s", side);
    snprintf(s.metric, sizeof(s.metric), "%s", metric);
    int ret = sample_write(f, &s);
    return ret < 0 ? apir_error_sys(err, -ret, "writing samples") : 0;
}
