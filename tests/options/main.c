/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama-options: runs one case of cases.c on one device and keeps what it saw.
 *
 * Exit 0: the case ran and its record is kept; 1: it failed, and says why; 2: wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "tests/options/cases.h"
#include "tests/options/run.h"

static void usage(FILE *f)
{
    fputs("usage: llama-options --case NAME --model FILE [OPTION]...\n"
          "       llama-options --list\n"
          "  --device NAME[,NAME]  ggml devices, such as APIR0 (default CPU)\n"
          "  --extra FILE          the second file that some cases want\n"
          "  --scratch DIR         where the case may write files (default .)\n"
          "  --out FILE            keep the record, for options-compare\n"
          "  --verbose             show llama.cpp's log\n",
          f);
}

static void on_log(enum ggml_log_level level, const char *line, void *data)
{
    const struct run *r = data;
    if (r->verbose || level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR)
        fputs(line, stderr);
}

static void run(struct run *r, const char *devices, const char *out)
{
    llama_log_set(on_log, r);
    llama_backend_init();
    run_init(r, devices);
    setup_case(&r->setup, r);
    r->test->run(r);
    run_close(r);
    if (out && record_save(&r->record, out) < 0)
        run_fail("%s: %s", out, strerror(errno));
    printf("%s: %zu items\n", r->test->name, r->record.n);
    record_fini(&r->record);
    /* Devices go away at exit and may still log then. */
    llama_log_set(NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"case", required_argument, NULL, 'c'},
        {"model", required_argument, NULL, 'm'},
        {"extra", required_argument, NULL, 'e'},
        {"device", required_argument, NULL, 'd'},
        {"out", required_argument, NULL, 'o'},
        {"scratch", required_argument, NULL, 's'},
        {"verbose", no_argument, NULL, 'v'},
        {"list", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    struct run r = {.scratch = "."};
    const char *devices = "CPU", *out = NULL, *name = NULL;
    int opt;

    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (opt) {
        case 'c':
            name = optarg;
            break;
        case 'm':
            r.model_file = optarg;
            break;
        case 'e':
            r.extra_file = optarg;
            break;
        case 'd':
            devices = optarg;
            break;
        case 'o':
            out = optarg;
            break;
        case 's':
            r.scratch = optarg;
            break;
        case 'v':
            r.verbose = true;
            break;
        case 'l':
            cases_list();
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    r.test = name ? case_find(name) : NULL;
    if (!r.test || !r.model_file || optind < argc) {
        usage(stderr);
        return 2;
    }
    run(&r, devices, out);
    return 0;
}
