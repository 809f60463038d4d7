/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of apir. A row of the table in cdi/main.c says what a command takes: by that its
 * options are read, its --help is printed, and from that the shell completes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    CDI_EXIT_OK = 0,
    CDI_EXIT_FAILED = 1,
    CDI_EXIT_USAGE = 2,
    CDI_EXIT_NOTHING = 3, /* what was asked about is not there */
    /* As env(1), timeout(1) and podman run have it: what is below 125 is the program's own. */
    CDI_EXIT_OURS = 125,
    CDI_EXIT_NOT_EXECUTABLE = 126,
    CDI_EXIT_NOT_FOUND = 127,
};

#define CDI_DEVICE_LIST 4096 /* bytes of names with commas between */

#define CDI_OPTIONS_MAX 12
#define CDI_REPEATS_MAX 32

/* What a command was given: NULL or false for what was not, or is none of its options. */
struct cdi_args {
    const char *command; /* "apir cdi list" */
    bool dry_run, follow, json, no_handshake, no_hook, no_host, once, print, strict;
    const char *class_name, *config, *container, *dev_root, *device, *engine_version, *format,
        *group, *hook, *host_socket, *image, *interval, *name, *output, *plugin, *server,
        *socket_dir, *spec, *state_dir, *vendor;
    struct cdi_repeats {
        size_t n;
        const char *items[CDI_REPEATS_MAX];
    } spec_dir;
    char devices[CDI_DEVICE_LIST]; /* where `device` is, if several were given */
    int n;                         /* operands */
    char **words;                  /* words[n] is NULL */
};

struct cdi_option {
    const char *name;  /* "output" */
    const char *value; /* "FILE", by which the shell completes it; NULL: it takes none */
    const char *help;
    size_t member; /* of struct cdi_args: a bool, const char *, or where it repeats cdi_repeats */
    bool repeats;
    bool lists; /* given again, it is one more of the devices */
};

/* The result is the exit code. */
typedef int cdi_command_main(const struct cdi_args *args);

struct cdi_command {
    const char *group, *name; /* group NULL: none */
    const char *brief;        /* for apir --help */
    cdi_command_main *run;
    void (*print_kinds)(void);         /* a line for each value of an option; may be NULL */
    const char *operands;              /* "FILE..."; NULL: none */
    bool one_operand, may_lack;        /* no more than one; none will do */
    bool runs;                         /* what follows the first operand is that one's */
    const char *about, *notes, *codes; /* paragraphs; notes behind the options, or NULL */
    struct cdi_option options[CDI_OPTIONS_MAX]; /* up to one without a name, in order of apir(1) */
};

/* argv[0] is the command with its group ("apir cdi list"). Returns the exit code. */
int cdi_command_run(const struct cdi_command *c, int argc, char **argv);

/*
 * Wrong usage of `command`: says what, with the word that is wrong, and where help is. what NULL:
 * getopt has said it. Returns CDI_EXIT_USAGE.
 */
int cdi_usage_error(const char *command, const char *what, const char *word);

/* Becomes the program words[0]. Returns the exit code where that fails, with what is said of it. */
int cdi_become(const char *command, char *const *words);

cdi_command_main cdi_config_check_main, cdi_generate_main, cdi_list_main, cdi_validate_main,
    cdi_doctor_main, cdi_engine_configure_main, cdi_engine_reset_main, cdi_host_run_main,
    cdi_host_serve_main, cdi_run_main, cdi_spec_main, cdi_top_main, cdi_events_main,
    cdi_metrics_main;
