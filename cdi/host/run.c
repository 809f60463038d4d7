/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir host run: a hypervisor with our server in place of virglrenderer's own. It finds the
 * server, names it in the environment, and becomes the hypervisor.
 */
#include <errno.h>
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

int cdi_host_run_main(const struct cdi_args *args)
{
    char server[PATH_MAX];
    int rc = find_server(args->server, server);

    if (rc == 0)
        rc = set_environment(server);
    if (rc < 0) {
        apir_text_print(stderr, "%s: %s: %s\n", args->command,
                        args->server ? args->server : "apir-render-server",
                        rc == -EACCES ? "no program that may be run" : strerror(-rc));
        return CDI_EXIT_OURS;
    }
    return cdi_become(args->command, args->words);
}
