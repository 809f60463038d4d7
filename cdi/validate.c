/* SPDX-License-Identifier: Apache-2.0 */
/* apir cdi validate */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cdi/commands.h"
#include "cdi/json.h"
#include "cdi/rules.h"
#include "cdi/spec.h"
#include "protocol/error.h"

static const char usage[] =
    "Usage: apir cdi validate [OPTION]... FILE...\n"
    "\n"
    "Checks CDI specs (JSON) as strictly as the engines' own parsers do, and then warns of\n"
    "what those take but some engine or runtime trips over.\n"
    "\n"
    "  --strict       a warning fails too\n"
    "  --no-host      do not ask whether nodes, mount sources and hooks exist here\n"
    "  -h, --help     this text\n"
    "\n"
    "Exit codes: 0 all files are valid, 1 one is not, 2 wrong usage.\n";

static bool validate(const char *path, bool strict, bool host)
{
    cleanup_json struct json_object *spec = NULL;
    struct apir_error err = {0};
    struct cdi_report report;

    if (cdi_spec_load(path, &spec, &err) < 0) {
        printf("%s: error: %s\n", path, err.msg);
        return false;
    }
    cdi_report_init(&report);
    cdi_rules_check(spec, &report);
    if (host && report.n_errors == 0)
        cdi_rules_check_host(spec, "/", &report);
    for (size_t i = 0; i < report.n_kept; i++)
        printf("%s: %s: %s\n", path, report.items[i].grade == CDI_GRADE_ERROR ? "error" : "warning",
               report.items[i].text);
    if (report.n > report.n_kept)
        printf("%s: and %zu more\n", path, report.n - report.n_kept);
    bool ok = strict ? report.n == 0 : report.n_errors == 0;
    if (ok)
        printf("%s: valid\n", path);
    cdi_report_fini(&report);
    return ok;
}

int cdi_validate_main(int argc, char **argv)
{
    enum { STRICT = 256, NO_HOST };
    static const struct option long_options[] = {
        {"strict", no_argument, NULL, STRICT},
        {"no-host", no_argument, NULL, NO_HOST},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool strict = false, host = true, ok = true;

    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (c) {
        case STRICT:
            strict = true;
            break;
        case NO_HOST:
            host = false;
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            fputs("Try 'apir cdi validate --help'.\n", stderr);
            return CDI_EXIT_USAGE;
        }
    }
    if (optind == argc) {
        fputs("apir cdi validate: no file\nTry 'apir cdi validate --help'.\n", stderr);
        return CDI_EXIT_USAGE;
    }
    for (int i = optind; i < argc; i++)
        ok = validate(argv[i], strict, host) && ok;
    return ok ? CDI_EXIT_OK : CDI_EXIT_FAILED;
}
