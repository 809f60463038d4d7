/* SPDX-License-Identifier: Apache-2.0 */
/* apir spec */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/doctor/access.h"
#include "cdi/engine/specs.h"
#include "cdi/folder.h"
#include "cdi/sandbox/edits.h"
#include "cdi/sandbox/formats.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

static const char usage[] =
    "Usage: apir spec --format FORMAT [OPTION]...\n"
    "\n"
    "Prints what a sandbox or an engine is told so that programs in it find APIR0, as the CDI\n"
    "spec has it: device, plug-in, variables. Where that goes, and what is missing for who is\n"
    "to open the device, is said on standard error. FORMAT is one of:\n"
    "\n";
static const char usage_options[] =
    "\n"
    "  --format FORMAT   what it is for\n"
    "  --device NAME     a device of the CDI spec, as `apir cdi list` names them; more by one\n"
    "                    option each, or commas (default: the spec's first)\n"
    "  --spec FILE       the CDI spec (default: the one that engines take; " CDI_SPEC_PATH ")\n"
    "  --name NAME       of the container, or of the service of compose, where the text has it\n"
    "                    (default: CONTAINER)\n"
    "  -h, --help        this text\n"
    "\n"
    "Exit codes: 0 printed, 1 no such device, what the spec names is not here, or the format\n"
    "has no way to say it, 2 wrong usage.\n";

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static void print_usage(void)
{
    fputs(usage, stdout);
    for (const struct sandbox_format *f = sandbox_formats; f->name; f++)
        printf("  %-10s  %s\n", f->name, f->where);
    fputs(usage_options, stdout);
}

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

static int say_clash(const struct cdi_specs_clash *clash, void *user)
{
    char text[512];

    cdi_specs_say(clash, text, sizeof(text));
    apir_text_print(stderr, "%s: %s\n", (const char *)user, text);
    return 0;
}

static void say_rest(char *command, const struct sandbox_format *f, const struct sandbox_edits *e,
                     const char *spec)
{
    struct stat st;

    apir_text_print(stderr, "%s: %s%s of %s: %s\n", command, e->names[0],
                    e->n_names > 1 ? " and more" : "", spec, f->where);
    if (f->engine && !cdi_specs_engine_reads(f->engine, spec))
        apir_text_print(stderr,
                        "%s: %s does not look for specs in that folder: apir cdi generate as root "
                        "writes " CDI_SPEC_PATH "; or apir engine configure %s\n",
                        command, f->engine, f->engine);
    if (f->engine)
        (void)cdi_specs_check(NULL, spec, say_clash, command);
    say_nodes(command, f, e);
    if (e->socket && stat(e->socket, &st) == 0)
        say_access(command, f, e->socket, &st);
    else if (e->socket)
        apir_text_print(stderr,
                        "%s: nobody listens at %s: systemctl enable --now apir-host.socket\n",
                        command, e->socket);
}

/* ---- the command ---------------------------------------------------------------------- */

struct request {
    const struct sandbox_format *format;
    const char *device, *spec, *name;
    char devices[CDI_DEVICE_LIST]; /* where `device` is, if it was given */
};

static int print(char *command, const struct request *r, struct apir_error *err)
{
    cleanup_edits struct sandbox_edits edits = {0};
    cleanup_free char *text = NULL;
    char path[PATH_MAX];
    const char *spec = r->spec;

    if (!spec) {
        cdi_specs_find(CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS, CDI_SPEC_FILE, path, sizeof(path));
        spec = path;
    }
    /* What it says is what a container then loads. */
    int rc = geteuid() == 0 ? cdi_folder_check(spec, 0002, err) : 0;
    if (rc == 0 || rc == -ENOENT)
        rc = sandbox_edits_read(spec, r->device, &edits, err);
    if (rc == 0 && r->format->keeps_env)
        sandbox_edits_forget_given(&edits);
    if (rc == 0 && r->format->sees_all)
        rc = sandbox_edits_pin(&edits, err);
    if (rc == 0)
        rc = sandbox_format_text(r->format, &edits, r->name, &text, err);
    if (rc < 0)
        return rc;
    fputs(text, stdout);
    say_rest(command, r->format, &edits, spec);
    return 0;
}

/* Returns an exit code where the command ends here, else -1. */
static int parse(struct request *r, int argc, char **argv)
{
    enum { FORMAT = 256, DEVICE, SPEC, NAME };
    static const struct option options[] = {
        {"format", required_argument, NULL, FORMAT},
        {"device", required_argument, NULL, DEVICE},
        {"spec", required_argument, NULL, SPEC},
        {"name", required_argument, NULL, NAME},
        {"help", no_argument, NULL, 'h'},
        {0},
    };

    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case FORMAT:
            r->format = sandbox_format_find(optarg);
            if (!r->format)
                return cdi_usage_error(argv[0], "no such format: ", optarg);
            break;
        case DEVICE:
            if (cdi_device_add(r->devices, sizeof(r->devices), optarg) < 0)
                return cdi_usage_error(argv[0], "too many devices", "");
            r->device = r->devices;
            break;
        case SPEC:
            r->spec = optarg;
            break;
        case NAME:
            r->name = optarg;
            break;
        case 'h':
            print_usage();
            return CDI_EXIT_OK;
        default:
            return cdi_usage_error(argv[0], NULL, NULL);
        }
    }
    if (optind < argc)
        return cdi_usage_error(argv[0], "unexpected: ", argv[optind]);
    if (!r->format)
        return cdi_usage_error(argv[0], "no --format", "");
    /* It is written as it is, and is no option of a command. */
    if (r->name[0] == '\0' || strchr("-._", r->name[0]) ||
        r->name[strspn(r->name, NAME_CHARACTERS)] != '\0')
        return cdi_usage_error(argv[0], "--name wants letters, digits, -, . and _, not ", r->name);
    return -1;
}

int cdi_spec_main(int argc, char **argv)
{
    struct request r = {.name = "CONTAINER"};
    struct apir_error err = {0};

    int code = parse(&r, argc, argv);
    if (code >= 0)
        return code;
    if (print(argv[0], &r, &err) == 0)
        return CDI_EXIT_OK;
    apir_text_print(stderr, "%s: %s\n", argv[0], err.msg);
    return CDI_EXIT_FAILED;
}
