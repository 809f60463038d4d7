/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir: what an administrator runs on the machine that runs the containers (the
 * VM). It needs no daemon, and asks for no more rights than opening a render node;
 * what a command writes is the file that its name and its --help say.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cdi/commands.h"

static const struct command {
    const char *group; /* NULL: none */
    const char *name;
    cdi_command *run;
    const char *help;
} commands[] = {
    {"cdi", "generate", cdi_generate_main, "write the CDI spec for this machine's devices"},
    {"cdi", "list", cdi_list_main, "list the devices of the installed CDI specs"},
    {"cdi", "validate", cdi_validate_main, "check CDI specs"},
    {NULL, "doctor", cdi_doctor_main, "walk the chain from device node to a computed result"},
    {"engine", "configure", cdi_engine_configure_main, "set what a container engine needs for CDI"},
    {"engine", "reset", cdi_engine_reset_main, "take that back"},
    {"config", "check", cdi_config_check_main, "check the host's configuration, show what holds"},
    {"host", "run", cdi_host_run_main, "run a hypervisor whose guests find APIR0"},
    {"host", "serve", cdi_host_serve_main, "let containers of this very machine use its GPU"},
    {NULL, "run", cdi_run_main, "run a program on APIR0 without a container"},
    {NULL, "spec", cdi_spec_main, "print what a sandbox or an engine is told for a device"},
    {NULL, "top", cdi_top_main, "show who computes on this machine's GPUs"},
    {NULL, "events", cdi_events_main, "show what was refused and lost, and why"},
    {NULL, "metrics", cdi_metrics_main, "print the same for Prometheus"},
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(void)
{
    puts("Usage: apir COMMAND [OPTION]...\n"
         "\n"
         "GPU acceleration for any llama.cpp container, through virtio-gpu.\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct command *c = &commands[i];

        printf("  apir %s%s%-*s %s\n", c->group ? c->group : "", c->group ? " " : "",
               20 - (c->group ? (int)strlen(c->group) + 1 : 0), c->name, c->help);
    }
    puts("\n"
         "  -h, --help                this text; `apir COMMAND --help` for a command's own\n"
         "      --version             the version\n"
         "\n"
         "Exit codes: 0 all is well, 1 something failed, 2 wrong usage.");
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "help") == 0;
}

static bool is_group(const char *arg)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].group && strcmp(commands[i].group, arg) == 0)
            return true;
    return false;
}

static bool is_command(const struct command *c, const char *group, const char *name)
{
    return !group == !c->group && (!group || strcmp(group, c->group) == 0) &&
           strcmp(c->name, name) == 0;
}

static int finish(int code)
{
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("apir: standard output");
        return code == CDI_EXIT_OK ? CDI_EXIT_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    int skip = 1;
    const char *group = NULL;

    if (argc < 2)
        return cdi_usage_error("apir", "no command", "");
    if (strcmp(argv[1], "--version") == 0) {
        puts("apir " APIR_VERSION);
        return finish(CDI_EXIT_OK);
    }
    if (is_group(argv[1])) {
        group = argv[1];
        skip = 2;
        if (argc < 3)
            return cdi_usage_error("apir", "no command behind it: ", group);
    }
    if (is_help(argv[skip])) {
        print_usage();
        return finish(CDI_EXIT_OK);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (!is_command(&commands[i], group, argv[skip]))
            continue;
        /* What getopt complains under. */
        char full[64];
        snprintf(full, sizeof(full), "apir %s%s%s", group ? group : "", group ? " " : "",
                 commands[i].name);
        argv[skip] = full;
        return finish(commands[i].run(argc - skip, argv + skip));
    }
    return cdi_usage_error("apir", "no such command: ", argv[skip]);
}
