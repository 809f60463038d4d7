/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama-options: runs one case of cases.c on one device and keeps what it saw.
 *
 * Exit 0: the case ran and its record is kept; 1: it failed, and says why; 2: wrong usage.
 */
#include <stdio.h>

#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

static const char usage[] = "usage: llama-options --case NAME --model FILE [OPTION]...\n"
                            "       llama-options --list\n"
                            "  --device NAME[,NAME]  ggml devices, such as APIR0 (default CPU)\n"
                            "  --extra FILE          the second file that some cases want\n"
                            "  --scratch DIR         where the case may write files (default .)\n"
                            "  --out FILE            keep the record, for options-compare\n"
                            "  --verbose             show llama.cpp's log\n";

int main(int argc, char **argv)
{
    struct run r = {.scratch = "."};
    const char *devices = "CPU", *out = NULL, *name = NULL;
    bool list = false;
    const struct run_option options[] = {
        {"case", .text = &name},
        {"model", .text = &r.model_file},
        {"extra", .text = &r.extra_file},
        {"device", .text = &devices},
        {"out", .text = &out},
        {"scratch", .text = &r.scratch},
        {"verbose", .flag = &r.verbose},
        {"list", .flag = &list},
        {.name = NULL},
    };

    const bool understood = run_options(options, argc, argv);
    if (understood && list) {
        cases_list();
        return 0;
    }
    r.test = name ? case_find(name) : NULL;
    if (!understood || !r.test || !r.model_file) {
        fputs(usage, stderr);
        return 2;
    }
    run_init(&r, devices);
    setup_case(&r.setup, &r);
    r.test->run(&r);
    printf("%s: %zu items\n", name, r.record.n);
    run_end(&r, out);
    return 0;
}
