/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir run: a program of this machine, or a sandbox that it runs in, on APIR0 without a container
 * engine. It sets the environment that the CDI spec would set in a container, and becomes the
 * program.
 */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/engine/specs.h"
#include "cdi/folder.h"
#include "cdi/install.h"
#include "cdi/machine.h"
#include "cdi/sandbox/edits.h"
#include "cdi/spec/nodes.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/oci/cdi_devices.h"
#include "common/text.h"

/* As env(1), timeout(1) and podman run have it: what is below 125 is the program's own. */
enum { EXIT_RUN = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char usage[] =
    "Usage: apir run [OPTION]... [--] COMMAND [ARG]...\n"
    "\n"
    "Runs a program on APIR0 without a container: in a VM on the GPU of its host, on a machine\n"
    "without a VM on its own (`apir host serve`). COMMAND may be a sandbox that keeps its\n"
    "environment, as bwrap and firejail do: it must let the plug-in's folder through, and "
    "/dev/dri\n"
    "or the folder of the host's socket.\n"
    "\n"
    "  --device NAME   a device of the CDI spec, as `apir cdi list` names them; more by one\n"
    "                  option each, or commas (default: the first render node of virtio-gpu,\n"
    "                  and where there is none the host's socket)\n"
    "  --spec FILE     the CDI spec (default: the one that engines take; " CDI_SPEC_PATH ")\n"
    "  --print         runs nothing: prints the variables, NAME=VALUE, a line each, as systemd's\n"
    "                  EnvironmentFile= takes them\n"
    "  -h, --help      this text\n"
    "\n"
    "Exit codes: the command's own; 125 no such device, or nothing to reach a host by, 126 the\n"
    "command cannot be run, 127 it is not found, 2 wrong usage.\n";

struct run {
    const char *device; /* NULL: what there is */
    char devices[CDI_DEVICE_LIST];
    const char *spec;
    bool print;
};

static int set(const struct run *r, const char *name, const char *value, struct apir_error *err)
{
    if (r->print)
        apir_text_print(stdout, "%s=%s\n", name, value);
    else if (setenv(name, value, 1) < 0)
        return apir_error_sys(err, errno, "%s", name);
    return 0;
}

/* ---- a device of the spec -------------------------------------------------------- */

static int set_variables(const struct run *r, struct json_object *const *edits, int n,
                         struct apir_error *err)
{
    for (int i = 0; i < n; i++) {
        struct json_object *env = apir_json_array(edits[i], "env");
        for (size_t k = 0; k < apir_json_length(env); k++) {
            cleanup_free char *name = strdup(apir_json_string_at(env, k));
            char *equals = name ? strchr(name, '=') : NULL;
            if (!equals)
                return apir_error_sys(err, ENOMEM, "%s", r->spec);
            *equals = '\0';
            cleanup_free char *value = NULL;
            int rc = sandbox_outside(edits, n, equals + 1, &value);
            rc = rc < 0 ? apir_error_sys(err, ENOMEM, "%s", r->spec) : set(r, name, value, err);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* Of what was chosen before, by a shell that was run so, say, nothing is left. */
static int forget_devices(void)
{
    for (size_t i = 0; environ[i];) {
        const size_t length = strcspn(environ[i], "=");
        char name[64];

        if (strncmp(environ[i], "APIR_DEVICE_", 12) != 0 || length >= sizeof(name)) {
            i++;
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)length, environ[i]);
        /* What comes behind it moves here. */
        if (unsetenv(name) < 0)
            return -errno;
    }
    return 0;
}

/* A spec says nothing of where a node is found; a container would have just this one. */
static int set_transport(const struct run *r, struct json_object *const *edits, int n,
                         struct apir_error *err)
{
    char text[PATH_MAX];

    for (int i = 0; i < n; i++) {
        struct json_object *nodes = apir_json_array(edits[i], "deviceNodes");
        struct json_object *node = nodes ? json_object_array_get_idx(nodes, 0) : NULL;
        const char *path = apir_json_string(node, "path");
        if (!path)
            continue;
        snprintf(text, sizeof(text), "virtgpu:%s", path);
        return set(r, "APIR_TRANSPORT", text, err);
    }
    return 0;
}

static int take_device(const struct run *r, struct apir_error *err)
{
    cleanup_json struct json_object *spec = NULL;
    struct json_object *edits[CDI_DEVICES_EDITS_MAX];

    /* Its variables decide what the program loads. */
    int rc = geteuid() == 0 ? cdi_folder_check(r->spec, 0002, err) : 0;
    if (rc == 0 || rc == -ENOENT)
        rc = cdi_devices_load(r->spec, &spec, err);
    if (rc < 0)
        return rc;
    int n = cdi_devices_select(spec, r->device, edits, err);
    if (n < 0) {
        apir_error_wrap(err, "`apir cdi list` names the devices");
        return n;
    }
    if (forget_devices() < 0)
        return apir_error_sys(err, EINVAL, "the environment");
    /* The spec's own APIR_TRANSPORT comes after, and wins. */
    rc = set_transport(r, edits, n, err);
    return rc < 0 ? rc : set_variables(r, edits, n, err);
}

/* ---- what there is --------------------------------------------------------------- */

/*
 * The way to the host, as APIR_TRANSPORT names it: a sandbox that does not let it through is then
 * no reason to take another one. Returns false where there is none.
 */
static bool choose_road(char *transport, size_t size)
{
    struct cdi_node nodes[CDI_NODES_MAX];
    const char *wish = getenv("APIR_TRANSPORT");
    const struct cdi_node *node = NULL;
    bool closed = false;

    /* What somebody has asked for is what the plug-in speaks of, if it fails. */
    if (wish && wish[0] != '\0' && strcmp(wish, "auto") != 0)
        return (size_t)snprintf(transport, size, "%s", wish) < size;
    int n = cdi_nodes_find("", nodes);
    for (int i = n - 1; i >= 0; i--) {
        bool whole = nodes[i].caps_error == 0 && !cdi_node_caps_missing(&nodes[i].caps);
        if (nodes[i].is_virtio_gpu && (whole || !node))
            node = &nodes[i];
        /* One that may not be opened may be of virtio-gpu. */
        closed = closed || nodes[i].open_error == EACCES;
    }
    if (node)
        snprintf(transport, size, "virtgpu:%s", node->path);
    else if (access(CDI_SOCKET_DIR "/" CDI_SOCKET_NAME, F_OK) == 0)
        snprintf(transport, size, "unix:" CDI_SOCKET_DIR "/" CDI_SOCKET_NAME);
    else
        snprintf(transport, size, "virtgpu");
    return node || closed || strncmp(transport, "unix:", 5) == 0;
}

static int take_default(const struct run *r, struct apir_error *err)
{
    char plugin[PATH_MAX], transport[PATH_MAX];

    int rc = cdi_install_find_plugin(plugin, sizeof(plugin));
    if (rc < 0)
        return apir_error_sys(err, -rc, "the plug-in is not installed beside this program");
    if (!choose_road(transport, sizeof(transport)))
        return apir_error_set(err, ENODEV,
                              "neither a render node of virtio-gpu nor the socket " CDI_SOCKET_DIR
                              "/" CDI_SOCKET_NAME ". %s",
                              cdi_machine_advice_here());
    rc = set(r, "APIR_TRANSPORT", transport, err);
    if (rc == 0)
        rc = set(r, "GGML_BACKEND_PATH", plugin, err);
    /* As the CDI spec does: Venus, or this machine's own driver, would show the same GPU again. */
    return rc < 0 ? rc : set(r, "GGML_VK_VISIBLE_DEVICES", "", err);
}

int cdi_run_main(int argc, char **argv)
{
    enum { DEVICE = 256, SPEC, PRINT };
    static const struct option options[] = {
        {"device", required_argument, NULL, DEVICE},
        {"spec", required_argument, NULL, SPEC},
        {"print", no_argument, NULL, PRINT},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct run r = {0};
    struct apir_error err = {0};
    char found[PATH_MAX];

    for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
        switch (c) {
        case DEVICE:
            if (cdi_device_add(r.devices, sizeof(r.devices), optarg) < 0)
                return cdi_usage_error(argv[0], "too many devices", "");
            r.device = r.devices;
            break;
        case SPEC:
            r.spec = optarg;
            break;
        case PRINT:
            r.print = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            return cdi_usage_error(argv[0], NULL, NULL);
        }
    }
    if (optind == argc && !r.print)
        return cdi_usage_error(argv[0], "no command", "");
    if (optind < argc && r.print)
        return cdi_usage_error(argv[0], "--print runs nothing; unexpected: ", argv[optind]);
    if (r.device && !r.spec) {
        cdi_specs_find(CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS, CDI_SPEC_FILE, found, sizeof(found));
        r.spec = found;
    }
    int rc = r.device ? take_device(&r, &err) : take_default(&r, &err);
    if (rc < 0) {
        apir_text_print(stderr, "%s: %s\n", argv[0], err.msg);
        return EXIT_RUN;
    }
    if (r.print)
        return CDI_EXIT_OK;
    execvp(argv[optind], argv + optind);
    rc = errno;
    apir_text_print(stderr, "%s: %s: %s\n", argv[0], argv[optind], strerror(rc));
    return rc == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
