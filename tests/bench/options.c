/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/peer.h"

#define PID_MAX (1 << 22) /* PID_MAX_LIMIT of Linux, 64-bit */

enum kind { FLAG, TEXT, NUMBER, NUMBERS, SECONDS, SIDE, CASE, LIST };

static const struct rule {
    const char *name;
    enum kind kind;
    size_t at;        /* in struct options */
    int min, max;     /* of numbers */
    const char *what; /* of NUMBERS: what they are, for the message */
} rules[] = {
#define VALUE(option, kind_, member)                                                               \
    {.name = option, .kind = kind_, .at = offsetof(struct options, member)}
#define COUNT(option, member, lowest, highest)                                                     \
    {.name = option,                                                                               \
     .kind = NUMBER,                                                                               \
     .at = offsetof(struct options, member),                                                       \
     .min = lowest,                                                                                \
     .max = highest}
    VALUE("model", TEXT, model),
    VALUE("out", TEXT, out),
    VALUE("stamp", TEXT, stamp),
    VALUE("same", TEXT, same),
    VALUE("settle", FLAG, settle),
    VALUE("at-once", FLAG, at_once),
    VALUE("verbose", FLAG, verbose),
    VALUE("cold", FLAG, cold),
    COUNT("pairs", pairs, 1, 100000),
    COUNT("first", first, 0, 100000),
    COUNT("pp", pp, 0, 65536),
    COUNT("prompts", prompts, 1, 1000),
    COUNT("tg", tg, 0, 65536),
    COUNT("threads", threads, 1, 1024),
    COUNT("processes", processes, 1, 64),
    COUNT("tokens", tokens, 10, 1000000000),
    COUNT("graphs", graphs, 0, 100000000),
    COUNT("repeat", repeat, 0, 100000),
    COUNT("server", server, 1, PID_MAX),
    {"cores", NUMBERS, offsetof(struct options, cores), 0, CPU_SETSIZE - 1,
     "numbers of cores, one for each side, such as 1,0"},
    {"swap", NUMBERS, offsetof(struct options, swap), 1, PID_MAX,
     "numbers of processes, such as 4711,4712"},
    {.name = "side", .kind = SIDE},
    {.name = "case", .kind = CASE},
    {.name = "seconds", .kind = SECONDS},
    {.name = "set", .kind = LIST},
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* ---- what ends the program ------------------------------------------------------------ */

static const char *case_name;
void (*fail_hook)(const char *why);

/* Without exit handlers: contexts are open, whose libraries are not made to be ended under them. */
void fail(const char *fmt, ...)
{
    char why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    fprintf(stderr, "apir-bench: %s: %s\n", case_name, why);
    if (fail_hook)
        fail_hook(why);
    fflush(NULL);
    _exit(1);
}

_Noreturn static void misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void misuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("apir-bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

/* ---- values --------------------------------------------------------------------------- */

static int parse_number(const struct rule *r, const char *text)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < r->min || v > r->max)
        misuse("--%s %s: give a whole number from %d to %d", r->name, text, r->min, r->max);
    return (int)v;
}

/* Between commas. */
static struct option_numbers parse_numbers(const struct rule *r, const char *text)
{
    struct option_numbers found = {.n = 0};
    const char *at = text;
    char *end = NULL;
    do {
        long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (value < r->min || value > r->max || (*end && *end != ',') ||
            found.n == OPTIONS_SIDES_MAX)
            misuse("--%s %s: give %s", r->name, text, r->what);
        found.all[found.n++] = (int)value;
        at = end + 1;
    } while (*end);
    return found;
}

static double parse_seconds(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0.1 && v <= 86400))
        misuse("--seconds %s: give a number from 0.1 to 86400", text);
    return v;
}

static void parse_side(struct options *o, const char *text)
{
    const char *equal = strchr(text, '=');
    size_t size = equal ? (size_t)(equal - text) : 0;
    if (!equal || !equal[1] || size > SAMPLE_NAME_MAX)
        misuse("--side %s: give NAME=DEVICE, such as native=CPU", text);
    if (o->n_sides == OPTIONS_SIDES_MAX)
        misuse("--side %s: no more than %d sides", text, OPTIONS_SIDES_MAX);
    struct option_side *s = &o->sides[o->n_sides];
    snprintf(s->name, sizeof(s->name), "%.*s", (int)size, text);
    s->device = equal + 1;
    if (!sample_name_ok(s->name))
        misuse("--side %s: a name is letters, digits and -._:", text);
    for (size_t i = 0; i < o->n_sides; i++) {
        if (strcmp(o->sides[i].name, s->name) == 0)
            misuse("--side %s: two sides of that name", text);
    }
    o->n_sides++;
}

static void parse_list(struct options *o, const char *text)
{
    if (o->n_list == OPTIONS_LIST_MAX)
        misuse("%s: no more than %d of these", text, OPTIONS_LIST_MAX);
    o->list[o->n_list++] = text;
}

static void parse_one(struct options *o, const struct rule *r, const char *text)
{
    void *at = (char *)o + r->at;
    switch (r->kind) {
    case FLAG:
        *(bool *)at = true;
        break;
    case TEXT:
        *(const char **)at = text;
        break;
    case NUMBER:
        *(int *)at = parse_number(r, text);
        break;
    case NUMBERS:
        *(struct option_numbers *)at = parse_numbers(r, text);
        break;
    case SECONDS:
        o->seconds = parse_seconds(text);
        break;
    case SIDE:
        parse_side(o, text);
        break;
    case CASE:
        if (!sample_name_ok(text))
            misuse("--case %s: up to %d letters, digits and -._:", text, SAMPLE_NAME_MAX);
        o->name = text;
        break;
    case LIST:
        parse_list(o, text);
        break;
    }
}

/* ---- all of them ---------------------------------------------------------------------- */

static bool takes(const struct command *c, const char *option)
{
    char word[64];
    snprintf(word, sizeof(word), " %s ", option);
    return strstr(c->takes, word);
}

/* Peers have loaded theirs. */
static bool all_peers(const struct options *o)
{
    size_t n = 0;
    while (n < o->n_sides && peer_is(&o->sides[n]))
        n++;
    return n > 0 && n == o->n_sides;
}

size_t options_turn(const struct options *o, int pair, size_t turn)
{
    return ((size_t)pair + turn) % o->n_sides;
}

int options_other_core(const struct options *o, int core)
{
    int other = -1;
    bool found = false;
    for (size_t i = 0; i < o->cores.n; i++) {
        const int this = o->cores.all[i];
        if (this == core)
            found = true;
        else if (other < 0)
            other = this;
        else if (this != other)
            return -1;
    }
    return found ? other : -1;
}

static bool side_after_first(const struct options *o, const char *name)
{
    for (size_t i = 1; i < o->n_sides; i++)
        if (strcmp(o->sides[i].name, name) == 0)
            return true;
    return false;
}

/* What a command cannot do without. */
static void check_whole(const struct options *o)
{
    if (takes(o->command, "model") && !o->model && !all_peers(o))
        misuse("--model FILE is missing");
    if (takes(o->command, "side") && o->n_sides == 0)
        misuse("--side NAME=DEVICE is missing");
    /* Pairs are of several. */
    if (o->n_sides > 1 && !takes(o->command, "pairs"))
        misuse("%s measures one side; give one --side", o->command->name);
    if (takes(o->command, "pp") && o->pp + o->tg == 0)
        misuse("--pp 0 --tg 0 leaves nothing to measure");
    if (o->prompts > 1 && o->pp == 0)
        misuse("--prompts %d --pp 0: prompts of no tokens", o->prompts);
    if (o->cores.n && o->cores.n != o->n_sides)
        misuse("--cores names %zu cores for %zu sides; give one for each", o->cores.n, o->n_sides);
    if (o->swap.n && (!o->cores.n || options_other_core(o, o->cores.all[0]) < 0))
        misuse("--swap: give --cores with two different ones, such as 1,0");
    /* What was waited for the core is known of a turn as a whole. */
    if (o->at_once && ((o->pp && o->tg) || o->settle || o->cores.n))
        misuse("--at-once measures prompts or tokens alone, of peers that are on their core: "
               "add --pp 0 or --tg 0, and neither --settle nor --cores");
    if (o->same && !side_after_first(o, o->same))
        misuse("--same %s: none of the sides after the first has that name", o->same);
}

void options_parse(struct options *o, const struct command *command, int argc, char **argv)
{
    struct option all[RULES + 1] = {{0}};
    int opt, index;
    *o = (struct options){
        .command = command,
        .name = command->name,
        .pairs = 20,
        .pp = 512,
        .prompts = 1,
        .tg = 64,
        .threads = 1,
        .processes = 4,
        .tokens = strcmp(command->name, "overhead") == 0 ? 200000 : 100000,
        .graphs = 2000,
        .repeat = 20,
        .seconds = strcmp(command->name, "idle") == 0 ? 60 : 10,
    };
    for (size_t i = 0; i < RULES; i++)
        all[i] = (struct option){rules[i].name, rules[i].kind != FLAG, NULL, 0};
    opterr = 0; /* it would speak under the command's name */
    while ((opt = getopt_long(argc, argv, "", all, &index)) != -1) {
        if (opt == '?')
            misuse("%s: unknown, or without its value; see apir-bench --help", argv[optind - 1]);
        if (!takes(command, rules[index].name))
            misuse("%s does not take --%s; see apir-bench --help", command->name,
                   rules[index].name);
        parse_one(o, &rules[index], optarg);
    }
    if (optind < argc)
        misuse("%s: not an option; see apir-bench --help", argv[optind]);
    check_whole(o);
    case_name = o->name;
    o->file = o->out ? fopen(o->out, "ae") : stdout;
    if (!o->file)
        fail("--out %s: %m", o->out);
}

void options_sample(const struct options *o, const char *side, const char *metric, struct sample s)
{
    snprintf(s.name, sizeof(s.name), "%s", o->name);
    snprintf(s.side, sizeof(s.side), "%s", side);
    snprintf(s.metric, sizeof(s.metric), "%s", metric);
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(s.time, sizeof(s.time), "%Y-%m-%dT%H:%M:%SZ", &utc))
        s.time[0] = '\0';
    const char *commit = getenv("APIR_BENCH_COMMIT");
    if (commit && sample_name_ok(commit))
        snprintf(s.commit, sizeof(s.commit), "%s", commit);
    if (sample_write(o->file, &s) < 0)
        fail("writing samples: %m");
}

void options_value(const struct options *o, const char *metric, int64_t pair, double value,
                   const char *unit)
{
    struct sample s = {.pair = pair, .value = value};
    snprintf(s.unit, sizeof(s.unit), "%s", unit);
    if (o->out)
        options_sample(o, "apir", metric, s);
}

void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        fail("%zu times %zu bytes: %m", n, size);
    return p;
}
