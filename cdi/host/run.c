/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir host run: a hypervisor with our server in place of virglrenderer's own. It sets the
 * environment, looks at QEMU's command line before a guest can only say that there is no GPU, and
 * becomes the hypervisor.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/child.h"
#include "cdi/commands.h"
#include "cdi/host/qemu.h"
#include "cdi/install.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

#define SERVER_VARIABLE "RENDER_SERVER_EXEC_PATH"
#define VIRGLRENDERER   "libvirglrenderer.so.1"
#define LIBRARY_MAX     (64u << 20)
#define LIBRARY_WAIT_MS 10000u

enum { EXIT_HOST = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char usage[] =
    "Usage: apir host run [OPTION]... [--] VMM [ARG]...\n"
    "\n"
    "Runs a hypervisor whose guests find APIR0: sets " SERVER_VARIABLE "\n"
    "to the installed apir-render-server, checks the flags of QEMU (qemu-system-*), and becomes "
    "it.\n"
    "Of another VMM nothing is checked.\n"
    "\n"
    "  --server FILE  the server, instead of the installed one\n"
    "  --check        only checks\n"
    "  --json         with --check: one JSON object: version, ok, vmm, checked, environment, "
    "checks\n"
    "  -h, --help     this text\n"
    "\n"
    "Exit codes: the VMM's own (with --check 0: nothing is missing); 2 flags are missing, or "
    "wrong\n"
    "usage, 125 the server or virglrenderer is not in place, 126 the VMM cannot be run, 127 it is\n"
    "not found.\n";

struct run {
    char *const *vmm; /* its command line, NULL-terminated */
    int n_vmm;
    const char *given; /* --server, or NULL */
    bool check, json;
    char server[PATH_MAX];
    bool offscreen; /* SDL_VIDEODRIVER is ours to set */
    struct qemu_finding findings[QEMU_FINDINGS_MAX + 2];
    int n_findings;
};

static struct qemu_finding *find(struct run *r, const char *name, enum qemu_status status)
{
    struct qemu_finding *f = &r->findings[r->n_findings++];

    *f = (struct qemu_finding){.name = name, .status = status};
    return f;
}

/* ---- the server, and who starts it ------------------------------------------------- */

static int check_server(struct run *r)
{
    struct stat st;
    int rc = 0;

    if (r->given) {
        if (!realpath(r->given, r->server))
            rc = -errno;
    } else {
        rc = cdi_install_find_render_server(r->server, sizeof(r->server));
    }
    if (rc == 0 && stat(r->server, &st) < 0)
        rc = -errno;
    if (rc == 0 && (!S_ISREG(st.st_mode) || access(r->server, X_OK) < 0))
        rc = -EACCES;
    struct qemu_finding *f = find(r, "server", rc == 0 ? QEMU_PASS : QEMU_FAIL);
    if (rc == 0) {
        snprintf(f->text, sizeof(f->text), "%.200s", r->server);
    } else {
        snprintf(f->text, sizeof(f->text), "%.180s: %s", r->given ? r->given : "apir-render-server",
                 rc == -EACCES ? "no program that may be run" : strerror(-rc));
        snprintf(f->add, sizeof(f->add), "%s",
                 r->given
                     ? "--server FILE with its path"
                     : "install apir on this machine (make install, or the package apir-host)");
    }
    apir_text_clean(f->text);
    return rc;
}

/* What a look at virglrenderer's library came to. */
struct library {
    bool there, honours;
    char path[160];
};

static bool file_has(const char *path, const char *text)
{
    cleanup_free char *data = NULL;
    FILE *file = fopen(path, "re");
    size_t size = 0;

    if (file) {
        data = malloc(LIBRARY_MAX);
        size = data ? fread(data, 1, LIBRARY_MAX, file) : 0;
        fclose(file);
    }
    return size > 0 && memmem(data, size, text, strlen(text));
}

/* In a child, since the library brings a stack of drivers along. */
static void look_at_library(void *answer, const void *arg)
{
    struct library *library = answer;
    struct link_map *map = NULL;
    void *handle = dlopen(arg, RTLD_LAZY | RTLD_LOCAL);

    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0)
        return;
    library->there = true;
    snprintf(library->path, sizeof(library->path), "%s", map->l_name);
    library->honours = file_has(map->l_name, SERVER_VARIABLE);
}

/*
 * The library that programs of this machine get by default; a QEMU of another prefix may have one
 * of its own, so its absence is no failure.
 */
static void check_virglrenderer(struct run *r)
{
    struct library library;
    char why[128];
    const bool looked = cdi_child_run(look_at_library, VIRGLRENDERER, LIBRARY_WAIT_MS, &library,
                                      sizeof(library), why, sizeof(why)) == CDI_CHILD_ANSWERED;

    if (!looked || !library.there) {
        struct qemu_finding *f = find(r, "virglrenderer", QEMU_WARN);
        snprintf(f->text, sizeof(f->text),
                 VIRGLRENDERER
                 " cannot be looked at (%s): whether it starts the server cannot be told",
                 looked ? "not where this machine's libraries are" : why);
    } else if (!library.honours) {
        struct qemu_finding *f = find(r, "virglrenderer", QEMU_FAIL);
        snprintf(f->text, sizeof(f->text), "%s does not know " SERVER_VARIABLE, library.path);
        snprintf(f->add, sizeof(f->add),
                 "a virglrenderer with Venus and its render server, as distributions build it");
    } else {
        struct qemu_finding *f = find(r, "virglrenderer", QEMU_PASS);
        snprintf(f->text, sizeof(f->text), "%s knows " SERVER_VARIABLE, library.path);
    }
}

/* ---- what is said ------------------------------------------------------------------ */

static bool failed(const struct run *r, const char *name)
{
    for (int i = 0; i < r->n_findings; i++) {
        if (r->findings[i].status == QEMU_FAIL && (!name || strcmp(r->findings[i].name, name) == 0))
            return true;
    }
    return false;
}

/* Before a VMM runs only what is wrong is said; --check says all. */
static void print_findings(const struct run *r)
{
    static const char *const words[] = {"PASS", "WARN", "FAIL"};

    for (int i = 0; i < r->n_findings; i++) {
        const struct qemu_finding *f = &r->findings[i];
        if (f->status == QEMU_PASS && !r->check)
            continue;
        FILE *out = r->check ? stdout : stderr;
        apir_text_print(out, "%s %-13s %s\n", words[f->status], f->name, f->text);
        if (f->add[0] != '\0')
            apir_text_print(out, "     %-13s add: %s\n", "", f->add);
    }
    if (!qemu_is(r->vmm[0]))
        apir_text_print(stderr, "apir host run: the flags of %s were not checked (QEMU's are)\n",
                        r->vmm[0]);
}

static void print_json(const struct run *r)
{
    static const char *const words[] = {"pass", "warn", "fail"};
    cleanup_json struct json_object *all = json_object_new_object();
    struct json_object *environment = json_object_new_object();
    struct json_object *checks = json_object_new_array();

    for (int i = 0; i < r->n_findings; i++) {
        const struct qemu_finding *f = &r->findings[i];
        struct json_object *row = json_object_new_object();
        (void)apir_json_set(row, "name", json_object_new_string(f->name));
        (void)apir_json_set(row, "status", json_object_new_string(words[f->status]));
        (void)apir_json_set(row, "text", json_object_new_string(f->text));
        if (f->add[0] != '\0')
            (void)apir_json_set(row, "add", json_object_new_string(f->add));
        (void)apir_json_append(checks, row);
    }
    (void)apir_json_set(environment, SERVER_VARIABLE, json_object_new_string(r->server));
    if (r->offscreen)
        (void)apir_json_set(environment, "SDL_VIDEODRIVER", json_object_new_string("offscreen"));
    (void)apir_json_set(all, "version", json_object_new_int(1));
    (void)apir_json_set(all, "ok", json_object_new_boolean(!failed(r, NULL)));
    (void)apir_json_set(all, "vmm", json_object_new_string(r->vmm[0]));
    (void)apir_json_set(all, "checked", json_object_new_boolean(qemu_is(r->vmm[0])));
    (void)apir_json_set(all, "environment", environment);
    (void)apir_json_set(all, "checks", checks);
    (void)apir_json_print(all);
}

/* ---- the command ------------------------------------------------------------------- */

static int look(struct run *r)
{
    const char *driver = getenv("SDL_VIDEODRIVER");

    (void)check_server(r);
    check_virglrenderer(r);
    if (qemu_is(r->vmm[0])) {
        r->n_findings += qemu_check(r->n_vmm - 1, r->vmm + 1, r->findings + r->n_findings);
        /* SDL without a screen: its own driver without one still has OpenGL. */
        r->offscreen = qemu_draws_by_sdl(r->n_vmm - 1, r->vmm + 1) && !driver &&
                       !getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY");
    }
    if (r->json)
        print_json(r);
    else
        print_findings(r);
    if (failed(r, "server") || failed(r, "virglrenderer"))
        return EXIT_HOST;
    return failed(r, NULL) ? CDI_EXIT_USAGE : CDI_EXIT_OK;
}

static int become(const struct run *r, const char *command)
{
    if (setenv(SERVER_VARIABLE, r->server, 1) < 0 ||
        (r->offscreen && setenv("SDL_VIDEODRIVER", "offscreen", 1) < 0)) {
        apir_text_print(stderr, "%s: %s\n", command, strerror(errno));
        return EXIT_HOST;
    }
    execvp(r->vmm[0], r->vmm);
    const int error = errno;
    apir_text_print(stderr, "%s: %s: %s\n", command, r->vmm[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int cdi_host_run_main(int argc, char **argv)
{
    enum { SERVER = 256, CHECK, JSON };
    static const struct option options[] = {
        {"server", required_argument, NULL, SERVER},
        {"check", no_argument, NULL, CHECK},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct run r = {0};

    for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
        switch (c) {
        case SERVER:
            r.given = optarg;
            break;
        case CHECK:
            r.check = true;
            break;
        case JSON:
            r.json = true;
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
    if (r.json && !r.check)
        return cdi_usage_error(argv[0], "--json goes with --check", "");
    r.vmm = argv + optind;
    r.n_vmm = argc - optind;
    const int code = look(&r);
    return code != CDI_EXIT_OK || r.check ? code : become(&r, argv[0]);
}
