/* SPDX-License-Identifier: Apache-2.0 */
/* apir spec */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/doctor/access.h"
#include "cdi/engine/specs.h"
#include "cdi/sandbox/edits.h"
#include "cdi/sandbox/formats.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

/* ---- what the text alone does not do -------------------------------------------------- */

/* Of a node or the socket: what keeps users of the sandbox from opening it. */
static void say_access(const char *command, const struct sandbox_format *f, const char *path,
                       const struct stat *st)
{
    const char *fix = S_ISSOCK(st->st_mode)
                          ? "SocketMode=0666 in [Socket], by systemctl edit apir-host.socket"
                          : "MODE=\"0666\" in a rule of udev";
    const unsigned mode = st->st_mode & 0777;
    char group[64];

    if ((mode & 06) == 06)
        return;
    if (f->users == SANDBOX_USERS_MAPPED)
        apir_text_print(stderr,
                        "%s: %s has mode %04o: where users of the sandbox are not the host's, only "
                        "mode 0666 lets them in: %s\n",
                        command, path, mode, fix);
    else if ((mode & 060) != 060 || st->st_gid == 0)
        apir_text_print(stderr, "%s: %s has mode %04o, so only its owner may open it: %s\n",
                        command, path, mode, fix);
    else if (f->users == SANDBOX_USERS_SAME)
        apir_text_print(stderr,
                        "%s: %s has mode %04o: who starts the sandbox must be in the group %s\n",
                        command, path, mode, doctor_group_name(st->st_gid, group, sizeof(group)));
}

static void say_nodes(const char *command, const struct sandbox_format *f,
                      const struct sandbox_edits *e)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct sandbox_place *p = &e->nodes[i];
        const struct stat st = {.st_mode = p->mode, .st_gid = p->gid};

        if (f->device_allow)
            apir_text_print(stderr,
                            "%s: as a service it wants, by systemctl edit systemd-nspawn@NAME, in "
                            "[Service]: DeviceAllow=%s rw\n",
                            command, p->from);
        if (!f->own_nodes)
            say_access(command, f, p->from, &st);
    }
}

static void say_rest(const char *command, const struct sandbox_format *f,
                     const struct sandbox_edits *e)
{
    struct stat st;

    apir_text_print(stderr, "%s: %s%s of %s: %s\n", command, e->names[0],
                    e->n_names > 1 ? " and more" : "", e->path, f->where);
    if (f->engine && !cdi_specs_engine_reads(f->engine, e->path))
        apir_text_print(stderr,
                        "%s: %s does not look for specs in that folder: apir cdi generate as root "
                        "writes " CDI_SPEC_PATH "; or apir engine configure %s\n",
                        command, f->engine, f->engine);
    if (f->engine)
        (void)cdi_specs_check(NULL, e->path, cdi_specs_print, "apir spec");
    say_nodes(command, f, e);
    if (e->socket && stat(e->socket, &st) == 0)
        say_access(command, f, e->socket, &st);
    else if (e->socket)
        apir_text_print(stderr,
                        "%s: nobody listens at %s: systemctl enable --now apir-host.socket\n",
                        command, e->socket);
}

/* ---- the command ---------------------------------------------------------------------- */

static int print(const struct cdi_args *args, const struct sandbox_format *f, const char *name,
                 struct apir_error *err)
{
    cleanup_edits struct sandbox_edits edits = {0};
    cleanup_free char *text = NULL;

    int rc = sandbox_edits_read(args->spec, args->device, true, &edits, err);
    edits.name = name;
    if (rc == 0 && f->keeps_env)
        sandbox_edits_forget_given(&edits);
    if (rc == 0 && f->sees_all)
        rc = sandbox_edits_pin(&edits, err);
    if (rc == 0)
        rc = sandbox_format_text(f, &edits, &text, err);
    if (rc < 0)
        return rc;
    fputs(text, stdout);
    say_rest(args->command, f, &edits);
    return 0;
}

int cdi_spec_main(const struct cdi_args *args)
{
    const char *name = args->name ? args->name : "CONTAINER";
    const struct sandbox_format *format = sandbox_formats;
    struct apir_error err = {0};

    if (!args->format)
        return cdi_usage_error(args->command, "no --format", "");
    while (format->name && strcmp(format->name, args->format) != 0)
        format++;
    if (!format->name)
        return cdi_usage_error(args->command, "no such format: ", args->format);
    /* It is written as it is, and is no option of a command. */
    if (name[0] == '\0' || strchr("-._", name[0]) || name[strspn(name, NAME_CHARACTERS)] != '\0')
        return cdi_usage_error(args->command, "--name wants letters, digits, -, . and _, not ",
                               name);
    if (print(args, format, name, &err) == 0)
        return CDI_EXIT_OK;
    apir_text_print(stderr, "%s: %s\n", args->command, err.msg);
    return CDI_EXIT_FAILED;
}
