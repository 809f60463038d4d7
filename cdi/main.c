/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir: what an administrator runs on the machine that runs the containers (the
 * VM). It changes nothing but the one file that `cdi generate` writes, needs no
 * daemon, and asks for no more rights than opening a render node.
 */
#include <stdio.h>
#include <string.h>

#include "cdi/commands.h"

static const char usage[] =
    "Usage: apir COMMAND [OPTION]...\n"
    "\n"
    "GPU acceleration for any llama.cpp container, through virtio-gpu.\n"
    "\n"
    "  apir cdi generate      write the CDI spec for this machine's devices\n"
    "  apir cdi list          list the devices of the installed CDI specs\n"
    "  apir cdi validate      check CDI specs\n"
    "  apir doctor            walk the chain from device node to a computed result\n"
    "\n"
    "  -h, --help             this text; `apir COMMAND --help` for a command's own\n"
    "      --version          the version\n"
    "\n"
    "Exit codes: 0 all is well, 1 something failed, 2 wrong usage.\n";

static const struct {
    const char *group; /* NULL: none */
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"cdi", "generate", cdi_generate_main},
    {"cdi", "list", cdi_list_main},
    {"cdi", "validate", cdi_validate_main},
    {NULL, "doctor", cdi_doctor_main},
};

static int wrong_usage(const char *what, const char *word)
{
    fprintf(stderr, "apir: %s%s%s\nTry 'apir --help'.\n", what, word == NULL ? "" : ": ",
            word == NULL ? "" : word);
    return CDI_EXIT_USAGE;
}

static int is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "help") == 0;
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
        return wrong_usage("no command", NULL);
    if (is_help(argv[1])) {
        fputs(usage, stdout);
        return finish(CDI_EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("apir " APIR_VERSION);
        return finish(CDI_EXIT_OK);
    }
    if (strcmp(argv[1], "cdi") == 0) {
        group = argv[1];
        skip = 2;
        if (argc < 3)
            return wrong_usage("no command behind cdi", NULL);
        if (is_help(argv[2])) {
            fputs(usage, stdout);
            return finish(CDI_EXIT_OK);
        }
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if ((group == NULL) == (commands[i].group == NULL) &&
            strcmp(commands[i].name, argv[skip]) == 0)
            return finish(commands[i].run(argc - skip, argv + skip));
    }
    return wrong_usage("no such command", argv[skip]);
}
