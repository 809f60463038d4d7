/* SPDX-License-Identifier: Apache-2.0 */
/* The sub-commands of apir: argv[0] is the command with its group ("apir cdi list"); the result is
 * the exit code. */
#ifndef APIR_CDI_COMMANDS_H
#define APIR_CDI_COMMANDS_H

#include <stddef.h>

#define CDI_DEVICE_LIST 4096 /* bytes of such a list */

enum {
    CDI_EXIT_OK = 0,
    CDI_EXIT_FAILED = 1,
    CDI_EXIT_USAGE = 2,
    CDI_EXIT_NOTHING = 3, /* what was asked about is not there */
};

/*
 * Wrong usage of `command`, which is argv[0]: says what, with the word that is wrong, and where
 * help is. what NULL: getopt has said it. Returns CDI_EXIT_USAGE.
 */
int cdi_usage_error(const char *command, const char *what, const char *word);

/*
 * --device, which may be given more than once: adds a name to those in `list`, with a comma
 * between. Returns 0 or -E2BIG.
 */
int cdi_device_add(char *list, size_t size, const char *name);

typedef int cdi_command(int argc, char **argv);
cdi_command cdi_config_check_main, cdi_generate_main, cdi_list_main, cdi_validate_main,
    cdi_doctor_main, cdi_engine_configure_main, cdi_engine_reset_main, cdi_host_run_main,
    cdi_host_serve_main, cdi_run_main, cdi_spec_main, cdi_top_main, cdi_events_main,
    cdi_metrics_main;

#endif
