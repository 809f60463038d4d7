/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir host serve: the host side of a machine without a VM, by hand. It makes the folder, says
 * what to do next, and becomes apir-render-server, so that Ctrl-C is that one's.
 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/folder.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "cdi/spec/spec.h"
#include "cdi/top/ask.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "common/error.h"

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
        apir_error_wrap(err, dir,
                        "run this as root, or give --socket-dir a folder of yours, and `apir "
                        "cdi generate` the same as --host-socket");
    /* For `apir top`: the package's tmpfiles.d makes it at boot. Without it nobody is shown. */
    if (dir >= 0 && !s->dir_given && geteuid() == 0)
        (void)mkdir(CDI_TOP_FOLDER, 0700);
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
    if (rc < 0)
        return apir_error_wrap(err, rc, "take another folder");
    if ((st.st_mode & 0005) != 0005)
        apir_text_print(stderr,
                        "apir host serve: users of containers cannot look into %s (mode %04o)\n",
                        s->dir, st.st_mode & 07777u);
    return 0;
}

static void say_what_next(const struct serve *s)
{
    printf("Containers of this machine can use its GPU while this runs; Ctrl-C ends it.\n");
    apir_text_print(stdout, "  who:   root and %s%s\n", s->group ? "group " : "this user",
                    s->group ? s->group : " (--group lets others in)");
    printf("  once:  apir cdi generate");
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
    if (!s->group && geteuid() == 0 && getgrnam(CDI_SOCKET_GROUP))
        s->group = CDI_SOCKET_GROUP;
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

int cdi_host_serve_main(const struct cdi_args *args)
{
    struct serve s = {.dir = args->socket_dir ? args->socket_dir : CDI_SOCKET_DIR,
                      .group = args->group,
                      .dir_given = args->socket_dir};
    struct apir_error err = {0};

    (void)serve(&s, &err);
    apir_text_print(stderr, "%s: %s\n", args->command, err.msg);
    return CDI_EXIT_FAILED;
}
