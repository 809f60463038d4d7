/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-bench: what the way to APIR0 costs by itself, which no program of llama.cpp's tells. All
 * else is measured with those: programs.sh.
 */
#define _GNU_SOURCE
#include "tests/bench/apir_bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: apir-bench link|overhead [OPTION]...\n"
    "\n"
    "  link        the way to APIR0: a graph of one node, set and get\n"
    "  overhead    what APIR0 adds to a token that computes nothing\n"
    "\n"
    "  --case NAME     in the samples (default: the command)\n"
    "  --out FILE      samples are appended to it, one JSON object a line\n"
    "  --graphs N      link: timed computations, in blocks of 100 (default 2000); 0: none\n"
    "  --repeat N      link: how often 64 MiB are set and got (default 20); 0: never\n"
    "  --tokens N      overhead: timed ones per variant and side (default 200000)\n"
    "  --stamp FILE    overhead: libggml-stamp.so, the side that APIR0 is compared with\n"
    "\n"
    "Where APIR0 is comes from the environment: GGML_BACKEND_PATH and APIR_TRANSPORT.\n";

/* Without exit handlers: contexts are open, whose libraries are not made to be ended under them. */
void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("apir-bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    fflush(NULL);
    _exit(1);
}

void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        fail("%zu times %zu bytes: %m", n, size);
    return p;
}

void sample_write(const struct options *o, const char *metric, int64_t pair, double value,
                  const char *unit)
{
    const char *commit = getenv("APIR_BENCH_COMMIT");
    const time_t now = time(NULL);
    char when[32];
    struct tm utc;
    if (!o->file)
        return;
    gmtime_r(&now, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    fprintf(o->file, "{\"case\":\"%s\",\"side\":\"apir\",\"metric\":\"%s\"", o->name, metric);
    if (pair != NO_PAIR)
        fprintf(o->file, ",\"pair\":%" PRId64, pair);
    fprintf(o->file, ",\"value\":%.9g,\"unit\":\"%s\",\"time\":\"%s\"", value, unit, when);
    if (commit && *commit)
        fprintf(o->file, ",\"commit\":\"%s\"", commit);
    fputs("}\n", o->file);
    /* At once: what was measured before a crash is kept. */
    if (fflush(o->file) != 0)
        fail("writing samples: %m");
}

static int number(const char *option, const char *text, int min)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < min || v > 100000000)
        fail("--%s %s: give a whole number from %d to 100000000", option, text, min);
    return (int)v;
}

static void options_parse(struct options *o, int argc, char **argv)
{
    static const struct option all[] = {
        {"case", 1, NULL, 'c'},   {"out", 1, NULL, 'o'},    {"graphs", 1, NULL, 'g'},
        {"repeat", 1, NULL, 'r'}, {"tokens", 1, NULL, 't'}, {"stamp", 1, NULL, 's'},
        {"help", 0, NULL, 'h'},   {NULL, 0, NULL, 0},
    };
    int opt;
    *o = (struct options){.name = argv[0], .tokens = 200000, .graphs = 2000, .repeat = 20};
    while ((opt = getopt_long(argc, argv, "", all, NULL)) != -1) {
        if (opt == 'c')
            o->name = optarg;
        else if (opt == 's')
            o->stamp = optarg;
        else if (opt == 'g')
            o->graphs = number("graphs", optarg, 0);
        else if (opt == 'r')
            o->repeat = number("repeat", optarg, 0);
        else if (opt == 't')
            o->tokens = number("tokens", optarg, 1);
        else if (opt == 'o') {
            o->file = fopen(optarg, "ae");
            if (!o->file)
                fail("--out %s: %m", optarg);
        } else {
            fputs(usage_text, opt == 'h' ? stdout : stderr);
            exit(opt == 'h' ? 0 : 2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options o;
    if (argc > 1)
        options_parse(&o, argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "link") == 0) {
        command_link(&o);
    } else if (argc > 1 && strcmp(argv[1], "overhead") == 0) {
        command_overhead(&o);
    } else {
        fputs(usage_text, stderr);
        return 2;
    }
    return 0;
}
