/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir host serve: the host side of a machine without a VM, by hand. It makes the folder, says
 * what to do next, and becomes apir-render-server, so that Ctrl-C is that one's.
 */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/folder.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "common/error.h"

#define SERVE_GROUP "apir" /* what sysusers.d makes, and the socket unit names */

static const char usage[] =
    "Usage: apir host serve [OPTION]...\n"
    "\n"
    "Lets containers of this very machine use its GPU, without a VM, for as long as it runs.\n"
    "(As a service: systemctl enable --now apir-host.socket.)\n"
    "\n"
    "  --socket-dir DIR  the folder of the socket " CDI_SOCKET_NAME " (default " CDI_SOCKET_DIR
    ");\n"
    "                    it is made where it is missing\n"
    "  --group NAME      who is in it may connect (default: " SERVE_GROUP ", where that group\n"
    "                    exists and root runs this)\n"
    "  -h, --help        this text\n"
    "\n"
    "Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage.\n";

struct serve {
    const char *dir, *group;
    bool dir_given;
    char socket[PATH_MAX];
    char server[PATH_MAX];
};

static int make_folder(const struct serve *s, struct apir_error *err)
{
    const char *name = NULL;
    cleanup_fd int dir = cdi_folder_open(s->socket, 0755, &name, err);

    if (dir < 0 && !s->dir_given)
        apir_error_wrap(err, "run this as root, or give --socket-dir a folder of yours, and `apir "
                             "cdi generate` the same as --host-socket");
    return dir < 0 ? dir : 0;
}

static int check_folder(const struct serve *s, struct apir_error *err)
{
    struct stat st;

    if (stat(s->dir, &st) < 0)
        return apir_error_sys(err, errno, "%s", s->dir);
    if (!S_ISDIR(st.st_mode))
        return apir_error_set(err, ENOTDIR, "%s is no folder", s->dir);
    if ((st.st_mode & 0022) != 0)
        return apir_error_set(err, EPERM,
                              "others may write to %s, and so put a socket of theirs in our place",
                              s->dir);
    /* A socket in our place would be another's; engines mount the folder as it is written. */
    int rc = cdi_folder_check(s->dir, 0022, err);
    if (rc < 0) {
        (void)apir_error_wrap(err, "take another folder");
        return rc;
    }
    if ((st.st_mode & 0005) != 0005)
        apir_text_print(stderr,
                        "apir host serve: users of containers cannot look into %s (mode %04o)\n",
                        s->dir, st.st_mode & 07777u);
    return 0;
}

static void say_what_next(const struct serve *s)
{
    apir_text_print(stdout,
                    "Containers of this machine can use its GPU while this runs; Ctrl-C ends it.\n"
                    "  who:   root and %s%s\n"
                    "  once:  apir cdi generate",
                    s->group ? "group " : "this user",
                    s->group ? s->group : " (--group lets others in)");
    if (s->dir_given)
        apir_text_print(stdout, " --host-socket %s", s->dir);
    printf("\n"
           "  then:  podman run --device " CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS
           "=host0 IMAGE llama-bench --list-devices\n");
    fflush(stdout);
}

static int serve(struct serve *s, struct apir_error *err)
{
    if (s->dir[0] != '/')
        return apir_error_set(err, EINVAL, "the folder must be an absolute path: %s", s->dir);
    if (snprintf(s->socket, sizeof(s->socket), "%s/" CDI_SOCKET_NAME, s->dir) >=
        (int)sizeof(s->socket))
        return apir_error_set(err, ENAMETOOLONG, "%s", s->dir);
    if (!s->group && geteuid() == 0 && getgrnam(SERVE_GROUP))
        s->group = SERVE_GROUP;
    int rc = cdi_install_find_render_server(s->server, sizeof(s->server));
    if (rc < 0)
        return apir_error_sys(err, -rc, "apir-render-server not found");
    rc = make_folder(s, err);
    if (rc == 0)
        rc = check_folder(s, err);
    if (rc < 0)
        return rc;
    say_what_next(s);
    /* It, and what it starts, keep caches there, and drivers of GPUs load what is named there. */
    cdi_program_clean_environment();
    const char *argv[] = {s->server, "--listen", s->socket, s->group ? "--group" : NULL,
                          s->group,  NULL};
    /* execv does not write through argv; the interface lacks the const. */
    execv(s->server, (char *const *)(uintptr_t)argv);
    return apir_error_sys(err, errno, "cannot start %s", s->server);
}

int cdi_host_serve_main(int argc, char **argv)
{
    enum { SOCKET_DIR = 256, GROUP };
    static const struct option long_options[] = {
        {"socket-dir", required_argument, NULL, SOCKET_DIR},
        {"group", required_argument, NULL, GROUP},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct serve s = {.dir = CDI_SOCKET_DIR};
    struct apir_error err = {0};

    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (c) {
        case SOCKET_DIR:
            s.dir = optarg;
            s.dir_given = true;
            break;
        case GROUP:
            s.group = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            return cdi_usage_error(argv[0], NULL, NULL);
        }
    }
    if (optind < argc)
        return cdi_usage_error(argv[0], "unexpected: ", argv[optind]);
    (void)serve(&s, &err);
    apir_text_print(stderr, "apir host serve: %s\n", err.msg);
    return CDI_EXIT_FAILED;
}
