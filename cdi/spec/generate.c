/* SPDX-License-Identifier: Apache-2.0 */
/* apir cdi generate */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/engine/specs.h"
#include "cdi/host/session.h"
#include "cdi/install.h"
#include "cdi/machine.h"
#include "common/json.h"
#include "cdi/spec/nodes.h"
#include "cdi/spec/number.h"
#include "common/oci/cdi_names.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "common/text.h"
#include "common/cleanup.h"
#include "common/error.h"

#define SESSION_TIMEOUT_MS 20000u

struct generate {
    const char *output, *dev_root, *vendor, *class_name, *socket_dir;
    char plugin[PATH_MAX], hook[PATH_MAX], own[PATH_MAX];
    bool with_hook, with_handshake, dry_run;
    struct cdi_node nodes[CDI_NODES_MAX];
    struct cdi_session session;                    /* with the node at hand */
    struct cdi_spec_device known[CDI_DEVICES_MAX]; /* the file's, as it was */
    size_t n_known;
    struct cdi_spec_device found[CDI_DEVICES_MAX];
    char what[CDI_DEVICES_MAX][256]; /* of each in found, for the user */
    size_t n_found;
    struct cdi_spec_device host_known[CDI_DEVICES_MAX]; /* the same of the host behind the socket */
    size_t n_host_known;
    struct cdi_spec_device host_found[CDI_DEVICES_MAX];
    size_t n_host_found;
    bool any_node, any_answer, nothing_here;
};

/* What the file says that is about to be replaced. Whatever is wrong with it costs only numbers. */
static void read_known(struct generate *g)
{
    cleanup_json struct json_object *spec = NULL;
    struct apir_error err = {0};
    int rc = apir_json_load(g->output, CDI_SPEC_SIZE_MAX, &spec, &err);

    if (rc == 0) {
        g->n_known = cdi_number_read(spec, false, g->known);
        g->n_host_known = cdi_number_read(spec, true, g->host_known);
    } else if (rc != -ENOENT)
        apir_text_print(stderr, "%s; devices are numbered anew\n", err.msg);
}

/* Why this node is none of ours, or NULL. */
static const char *node_unusable(const struct cdi_node *node, char *why, size_t why_size)
{
    if (node->open_error != 0)
        return strerror(node->open_error);
    if (!node->is_virtio_gpu) {
        snprintf(why, why_size, "its driver is %s, not " CDI_DRIVER_NAME,
                 node->driver[0] != '\0' ? node->driver : "unknown");
        return why;
    }
    const char *missing = node->caps_error == 0 ? cdi_node_caps_missing(&node->caps) : NULL;
    if (node->caps_error != 0)
        snprintf(why, why_size, "asking the driver: %s", strerror(node->caps_error));
    else if (missing)
        snprintf(why, why_size, "the VMM does not offer %s", missing);
    else
        return NULL;
    return why;
}

static void add(struct generate *g, const struct cdi_node *node, const char *id, const char *what)
{
    struct cdi_spec_device *d = &g->found[g->n_found];

    if (g->n_found == CDI_DEVICES_MAX) {
        apir_text_print(stderr, "%s: left out: more than %u devices\n", node->path,
                        CDI_DEVICES_MAX);
        return;
    }
    snprintf(d->node, sizeof(d->node), "%s", node->path);
    snprintf(d->id, sizeof(d->id), "%s", id);
    snprintf(g->what[g->n_found], sizeof(g->what[0]), "%s", what);
    g->n_found++;
}

/* What the file knows of the node, whose host gives no answer. Returns how many. */
static size_t keep_known(struct generate *g, const struct cdi_node *node)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_known; i++) {
        if (strcmp(g->known[i].node, node->path) != 0)
            continue;
        add(g, node, g->known[i].id, "kept");
        n++;
    }
    return n;
}

static void add_node(struct generate *g, const struct cdi_node *node)
{
    struct cdi_session *s = &g->session;
    char why[400], what[256], transport[sizeof(node->full_path) + 8];
    const char *unusable = node_unusable(node, why, sizeof(why));

    g->any_node = g->any_node || node->is_virtio_gpu;
    if (unusable) {
        apir_text_print(stderr, "%s: left out: %s\n", node->path, unusable);
        return;
    }
    if (!g->with_handshake) {
        g->any_answer = true; /* taken for granted */
        add(g, node, "", "not asked");
        return;
    }
    snprintf(transport, sizeof(transport), "virtgpu:%s", node->full_path);
    cdi_session_run(transport, SESSION_TIMEOUT_MS, s);
    if (s->passed < CDI_SESSION_DEVICES || s->n_devices == 0) {
        apir_text_print(stderr, "%s: %s: %s\n", node->path,
                        keep_known(g, node) > 0 ? "as it was" : "left out",
                        s->text[0] != '\0' ? s->text : "the host offers no devices");
        return;
    }
    g->any_answer = true;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct cdi_session_device *d = &s->devices[i];

        /* One without an id cannot be chosen: the node with all of it is one device. */
        if (d->id[0] == '\0' && i > 0)
            continue;
        snprintf(what, sizeof(what), "%s, %s", d->name, d->description);
        add(g, node, d->id, what);
    }
}

static bool is_socket(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;

    return (size_t)snprintf(path, sizeof(path), "%s/" CDI_SOCKET_NAME, dir) < sizeof(path) &&
           stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* What the host behind the socket offers; as the file has it where that does not answer. */
static void find_host_devices(struct generate *g)
{
    struct cdi_session *s = &g->session;
    char transport[PATH_MAX + 16];

    *s = (struct cdi_session){.text = "not asked"};
    snprintf(transport, sizeof(transport), "unix:%s/" CDI_SOCKET_NAME, g->socket_dir);
    if (g->with_handshake)
        cdi_session_run(transport, SESSION_TIMEOUT_MS, s);
    if (s->passed < CDI_SESSION_DEVICES || s->n_devices == 0) {
        memcpy(g->host_found, g->host_known, sizeof(g->host_found));
        g->n_host_found = g->n_host_known;
        apir_text_print(stderr, "%s/" CDI_SOCKET_NAME ": its devices: %s: %s\n", g->socket_dir,
                        g->n_host_known > 0 ? "as they were" : "left out",
                        s->text[0] != '\0' ? s->text : "the host offers none");
        return;
    }
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].id[0] != '\0')
            snprintf(g->host_found[g->n_host_found++].id, sizeof(g->host_found[0].id), "%s",
                     s->devices[i].id);
    cdi_number_assign(g->host_found, g->n_host_found, g->host_known, g->n_host_known);
}

static void add_host(struct generate *g)
{
    apir_text_print(stderr, "%s/" CDI_SOCKET_NAME ": host0\n", g->socket_dir);
    find_host_devices(g);
    for (size_t i = 0; i < g->n_host_found; i++)
        apir_text_print(stderr, "%s/" CDI_SOCKET_NAME ": host0-%u: %s\n", g->socket_dir,
                        g->host_found[i].number, g->host_found[i].id);
}

static void number_devices(struct generate *g)
{
    cdi_number_assign(g->found, g->n_found, g->known, g->n_known);
    for (size_t i = 0; i < g->n_found; i++) {
        const struct cdi_spec_device *d = &g->found[i];

        apir_text_print(stderr, "%s: gpu%u: %s%s%s%s\n", d->node, d->number, g->what[i],
                        d->id[0] != '\0' ? " (" : "", d->id, d->id[0] != '\0' ? ")" : "");
        for (size_t k = 0; k < g->n_known; k++)
            if (g->known[k].number == d->number && g->known[k].id[0] != '\0' && d->id[0] != '\0' &&
                strcmp(g->known[k].id, d->id) != 0)
                apir_text_print(stderr, "%s: gpu%u was %s before\n", d->node, d->number,
                                g->known[k].id);
    }
}

static int find_devices(struct generate *g, struct apir_error *err)
{
    int n = cdi_nodes_find(g->dev_root, g->nodes);

    /* No folder of nodes is no node. */
    if (n < 0 && n != -ENOENT)
        return apir_error_sys(err, -n, "look for render nodes in /dev/dri%s%s",
                              strcmp(g->dev_root, "/") == 0 ? "" : " under ",
                              strcmp(g->dev_root, "/") == 0 ? "" : g->dev_root);
    for (int i = 0; i < n; i++)
        add_node(g, &g->nodes[i]);
    if (!g->socket_dir && is_socket(CDI_SOCKET_DIR))
        g->socket_dir = CDI_SOCKET_DIR;
    if (g->socket_dir)
        add_host(g);
    else if (!g->any_answer) {
        g->nothing_here = !g->any_node;
        if (g->any_node)
            return apir_error_set(err, ENODEV,
                                  "no virtio-gpu node whose host answers; `apir doctor` says what "
                                  "is missing");
        return apir_error_set(err, ENODEV,
                              "no virtio-gpu node, and no socket in " CDI_SOCKET_DIR ". %s",
                              cdi_machine_advice_here());
    }
    number_devices(g);
    return 0;
}

/* An option's path, or the installed one; absolute in both cases. */
static int resolve(char *path, int (*find)(char *, size_t), const char *what,
                   struct apir_error *err)
{
    char given[PATH_MAX];

    if (path[0] == '\0') {
        int rc = find(path, PATH_MAX);
        return rc == 0 ? 0 : apir_error_set(err, -rc, "%s not found", what);
    }
    snprintf(given, sizeof(given), "%s", path);
    if (!realpath(given, path))
        return apir_error_sys(err, errno, "%s", given);
    return 0;
}

static const char *first_name(const struct generate *g, char *name, size_t size)
{
    if (g->n_found == 0)
        return "host0";
    snprintf(name, size, "gpu%u", g->found[0].number);
    return name;
}

/* How to use it, and what keeps engines from taking it. */
static void say_written(const struct generate *g)
{
    const char *slash = strrchr(g->output, '/');
    char first[32];

    /* podman is told of a folder that is the user's alone. */
    if (strcmp(g->output, g->own) == 0 && geteuid() != 0)
        apir_text_print(stderr,
                        "wrote %s; try: podman --cdi-spec-dir %.*s run --device %s/%s=%s …\n",
                        g->output, (int)(slash - g->output), g->output, g->vendor, g->class_name,
                        first_name(g, first, sizeof(first)));
    else
        apir_text_print(stderr, "wrote %s; try: podman run --device %s/%s=%s …\n", g->output,
                        g->vendor, g->class_name, first_name(g, first, sizeof(first)));
    (void)cdi_specs_check(NULL, g->output, cdi_specs_print, "apir cdi generate");
}

static int generate(struct generate *g, struct apir_error *err)
{
    cleanup_json struct json_object *spec = NULL;
    cleanup_report struct cdi_report report = {0};

    int rc = resolve(g->plugin, cdi_install_find_plugin, "plug-in (see --plugin)", err);
    if (rc == 0 && g->with_hook)
        rc = resolve(g->hook, cdi_install_find_hook, "hook (see --hook and --no-hook)", err);
    if (rc == 0) {
        if (strcmp(g->output, "-") != 0)
            read_known(g);
        rc = find_devices(g, err);
    }
    if (rc < 0)
        return rc;

    struct cdi_spec_options options = {
        .vendor = g->vendor,
        .class_name = g->class_name,
        .plugin_path = g->plugin,
        .hook_path = g->with_hook ? g->hook : NULL,
        .devices = g->found,
        .n_devices = g->n_found,
        .socket_dir = g->socket_dir,
        .host_devices = g->host_found,
        .n_host_devices = g->n_host_found,
    };
    rc = cdi_spec_build(&options, &spec, err);
    if (rc < 0)
        return rc;

    /* With another root the files of the spec are not where this program sees them. */
    if (strcmp(g->dev_root, "/") == 0)
        cdi_rules_check_host(spec, g->dev_root, &report);
    if (report.n_errors > 0)
        return apir_error_set(err, ENOENT, "%s", cdi_report_first(&report));
    if (g->dry_run) {
        cdi_rules_check(spec, &report);
        if (report.n > 0)
            return apir_error_set(err, EINVAL, "%s", cdi_report_first(&report));
        const char *text = cdi_spec_text(spec);
        return text ? apir_text_print_json(text) : 0;
    }
    rc = cdi_spec_store(g->output, spec, err);
    if (rc == 0)
        say_written(g);
    return rc;
}

/* Into path (PATH_MAX), where one was given. */
static bool take_path(const char *given, char *path)
{
    if (given)
        snprintf(path, PATH_MAX, "%s", given);
    return !given || (given[0] != '\0' && strlen(given) < PATH_MAX);
}

/* Returns an exit code where the command ends here, else -1. */
static int take_options(struct generate *g, const struct cdi_args *a)
{
    const char *usage = a->command, *fault;
    bool refused;

    cdi_specs_own_path(g->own, sizeof(g->own));
    g->output = a->output ? a->output : g->own;
    g->dev_root = a->dev_root ? a->dev_root : "/";
    g->vendor = a->vendor ? a->vendor : CDI_SPEC_VENDOR;
    g->class_name = a->class_name ? a->class_name : CDI_SPEC_CLASS;
    g->socket_dir = a->host_socket;
    g->with_hook = !a->no_hook;
    g->with_handshake = !a->no_handshake;
    g->dry_run = a->dry_run;
    if (!take_path(a->plugin, g->plugin))
        return cdi_usage_error(usage, "not a path: ", a->plugin);
    if (!take_path(a->hook, g->hook))
        return cdi_usage_error(usage, "not a path: ", a->hook);
    if (a->hook && a->no_hook)
        return cdi_usage_error(usage, "--hook and --no-hook exclude each other", "");
    if ((fault = cdi_names_vendor_fault(g->vendor, &refused)))
        return cdi_usage_error(usage, "no vendor: ", fault);
    if ((fault = cdi_names_class_fault(g->class_name, &refused)))
        return cdi_usage_error(usage, "no class: ", fault);
    if (g->dev_root[0] != '/')
        return cdi_usage_error(usage, "--dev-root wants an absolute path, not ", g->dev_root);
    if (g->socket_dir && g->socket_dir[0] != '/')
        return cdi_usage_error(usage, "--host-socket wants an absolute path, not ", g->socket_dir);
    return -1;
}

int cdi_generate_main(const struct cdi_args *args)
{
    struct apir_error err = {0};
    cleanup_free struct generate *g = calloc(1, sizeof(*g));

    if (!g) {
        perror("apir");
        return CDI_EXIT_FAILED;
    }
    int code = take_options(g, args);
    if (code >= 0)
        return code;
    if (strcmp(g->output, "-") == 0)
        g->dry_run = true;

    if (generate(g, &err) < 0) {
        apir_text_print(stderr, "apir cdi generate: %s\n", err.msg);
        return g->nothing_here ? CDI_EXIT_NOTHING : CDI_EXIT_FAILED;
    }
    return CDI_EXIT_OK;
}
