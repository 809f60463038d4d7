/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir run: a program of this machine, or a sandbox that it runs in, on APIR0 without a container
 * engine. It sets the environment that the CDI spec would set in a container, and becomes the
 * program.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/install.h"
#include "cdi/machine.h"
#include "cdi/sandbox/edits.h"
#include "cdi/spec/nodes.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

struct run {
    const char *device; /* NULL: what there is */
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

/* Its variables decide what the program loads. */
static int take_device(const struct run *r, struct apir_error *err)
{
    cleanup_edits struct sandbox_edits edits = {0};

    int rc = sandbox_edits_read(r->spec, r->device, false, &edits, err);
    if (rc == 0 && forget_devices() < 0)
        rc = apir_error_sys(err, EINVAL, "the environment");
    /* A spec says nothing of where a node is found; a container would have just this one. */
    if (rc == 0)
        rc = sandbox_edits_pin(&edits, err);
    for (size_t i = 0; rc == 0 && i < edits.n_env; i++) {
        cleanup_free char *name = strdup(edits.env[i]), *value = NULL;
        char *equals = name ? strchr(name, '=') : NULL;
        if (!equals || sandbox_outside(edits.edits, edits.n_edits, equals + 1, &value) < 0)
            return apir_error_sys(err, ENOMEM, "%s", edits.path);
        *equals = '\0';
        rc = set(r, name, value, err);
    }
    return rc;
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

int cdi_run_main(const struct cdi_args *args)
{
    struct run r = {.device = args->device, .spec = args->spec, .print = args->print};
    struct apir_error err = {0};

    if (args->n == 0 && !r.print)
        return cdi_usage_error(args->command, "no COMMAND", "");
    if (args->n > 0 && r.print)
        return cdi_usage_error(args->command, "--print runs nothing; unexpected: ", args->words[0]);
    int rc = r.device ? take_device(&r, &err) : take_default(&r, &err);
    if (rc < 0) {
        apir_text_print(stderr, "%s: %s\n", args->command, err.msg);
        return CDI_EXIT_OURS;
    }
    return r.print ? CDI_EXIT_OK : cdi_become(args->command, args->words);
}
