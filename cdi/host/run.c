/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir host run: a hypervisor with our server in place of virglrenderer's own. It finds the
 * server, names it in the environment, and becomes the hypervisor.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/install.h"
#include "common/text.h"

#define SERVER_VARIABLE "RENDER_SERVER_EXEC_PATH"

enum { EXIT_HOST = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char usage[] =
    "Usage: apir host run [OPTION]... [--] VMM [ARG]...\n"
    "\n"
    "Runs a hypervisor whose guests find APIR0: sets " SERVER_VARIABLE "\n"
    "to the installed apir-render-server, and becomes it. What it needs besides, QEMU's flags\n"
    "among it, is in docs/hypervisors.md.\n"
    "\n"
    "  --server FILE  the server, instead of the installed one\n"
    "  -h, --help     this text\n"
    "\n"
    "Exit codes: the VMM's own; 2 wrong usage, 125 there is no server that could be run, 126 the\n"
    "VMM cannot be run, 127 it is not found.\n";

/* Into server (PATH_MAX). Returns 0 or -errno. */
static int find_server(const char *given, char *server)
{
    struct stat st;
    int rc = given ? realpath(given, server) ? 0 : -errno
                   : cdi_install_find_render_server(server, PATH_MAX);

    if (rc == 0 && stat(server, &st) < 0)
        rc = -errno;
    return rc == 0 && (!S_ISREG(st.st_mode) || access(server, X_OK) < 0) ? -EACCES : rc;
}

/* A QEMU that draws by SDL asks for a screen, unless SDL is told to do without. */
static int set_environment(const char *server)
{
    const bool screen = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");

    return setenv(SERVER_VARIABLE, server, 1) < 0 ||
                   (!screen && setenv("SDL_VIDEODRIVER", "offscreen", 0) < 0)
               ? -errno
               : 0;
}

int cdi_host_run_main(int argc, char **argv)
{
    enum { SERVER = 256 };
    static const struct option options[] = {
        {"server", required_argument, NULL, SERVER},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *given = NULL;
    char server[PATH_MAX];

    for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
        switch (c) {
        case SERVER:
            given = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            return cdi_usage_error(argv[0], NULL, NULL);
        }
    }
    if (optind == argc)
        return cdi_usage_error(argv[0], "no hypervisor to run", "");
    int rc = find_server(given, server);
    if (rc == 0)
        rc = set_environment(server);
    if (rc < 0) {
        apir_text_print(stderr, "%s: %s: %s\n", argv[0], given ? given : "apir-render-server",
                        rc == -EACCES ? "no program that may be run" : strerror(-rc));
        return EXIT_HOST;
    }
    execvp(argv[optind], argv + optind);
    rc = errno;
    apir_text_print(stderr, "%s: %s: %s\n", argv[0], argv[optind], strerror(rc));
    return rc == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
