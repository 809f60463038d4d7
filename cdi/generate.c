/* SPDX-License-Identifier: Apache-2.0 */
/* apir cdi generate */
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
#include "cdi/handshake.h"
#include "cdi/install.h"
#include "cdi/json.h"
#include "cdi/nodes.h"
#include "cdi/rules.h"
#include "cdi/spec.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

#define HANDSHAKE_TIMEOUT_MS 20000u

static const char usage[] =
    "Usage: apir cdi generate [OPTION]...\n"
    "\n"
    "Finds the virtio-gpu render nodes of this machine, does a handshake with the host\n"
    "behind each, and writes a CDI spec with a device gpu0, gpu1, … for each that works.\n"
    "\n"
    "  --output FILE     write to FILE (default " CDI_SPEC_PATH "; - is standard output)\n"
    "  --vendor NAME     the vendor in VENDOR/CLASS=gpu0 (default " CDI_SPEC_VENDOR ")\n"
    "  --class NAME      the class (default " CDI_SPEC_CLASS ")\n"
    "  --plugin PATH     the plug-in (default: beside this program's installation)\n"
    "  --hook PATH       the hook program (default: beside this program's installation)\n"
    "  --no-hook         a spec without the hook: device, plug-in and variables only\n"
    "  --no-handshake    take nodes on the kernel's word, even where the host does not answer\n"
    "  --dev-root DIR    look for nodes under DIR/dev/dri; the spec names them without DIR\n"
    "  --dry-run         print the spec, write nothing\n"
    "  -h, --help        this text\n"
    "\n"
    "Exit codes: 0 written, 1 failed (no usable node, or nothing to inject), 2 wrong usage.\n";

struct generate {
    const char *output, *dev_root, *vendor, *class_name;
    char plugin[PATH_MAX], hook[PATH_MAX];
    bool with_hook, with_handshake, dry_run;
    struct cdi_node nodes[CDI_NODES_MAX];
    char names[CDI_NODES_MAX][16];
    struct cdi_spec_device devices[CDI_NODES_MAX];
    size_t n_devices;
};

static bool node_usable(const struct generate *g, const struct cdi_node *node, char *why,
                        size_t why_size)
{
    struct cdi_handshake handshake;

    if (node->open_error != 0) {
        snprintf(why, why_size, "%s", strerror(node->open_error));
        return false;
    }
    if (!node->is_virtio_gpu) {
        snprintf(why, why_size, "its driver is %s, not " CDI_DRIVER_NAME,
                 node->driver[0] != '\0' ? node->driver : "unknown");
        return false;
    }
    if (node->caps_error != 0) {
        snprintf(why, why_size, "asking the driver: %s", strerror(node->caps_error));
        return false;
    }
    const char *missing = cdi_node_caps_missing(&node->caps);
    if (missing != NULL) {
        snprintf(why, why_size, "the VMM does not offer %s", missing);
        return false;
    }
    if (!g->with_handshake) {
        snprintf(why, why_size, "not asked");
        return true;
    }
    int r = cdi_handshake_run(node->full_path, HANDSHAKE_TIMEOUT_MS, &handshake);
    cdi_handshake_describe(&handshake, why, why_size);
    return r == 0;
}

static int find_devices(struct generate *g, struct apir_error *err)
{
    int n = cdi_nodes_find(g->dev_root, g->nodes);

    if (n < 0)
        return apir_error_sys(err, -n, "look for render nodes in /dev/dri%s%s",
                              strcmp(g->dev_root, "/") == 0 ? "" : " under ",
                              strcmp(g->dev_root, "/") == 0 ? "" : g->dev_root);
    for (int i = 0; i < n; i++) {
        char why[400];
        bool usable = node_usable(g, &g->nodes[i], why, sizeof(why));

        if (usable) {
            snprintf(g->names[g->n_devices], sizeof(g->names[0]), "gpu%zu", g->n_devices);
            g->devices[g->n_devices] =
                (struct cdi_spec_device){g->names[g->n_devices], g->nodes[i].path};
            fprintf(stderr, "%s: %s (%s)\n", g->nodes[i].path, g->names[g->n_devices], why);
            g->n_devices++;
        } else {
            fprintf(stderr, "%s: left out: %s\n", g->nodes[i].path, why);
        }
    }
    if (g->n_devices == 0)
        return apir_error_set(err, ENODEV,
                              "no usable virtio-gpu node; `apir doctor` says what is missing");
    return 0;
}

/* An option's path, or the installed one; absolute in both cases. */
static int resolve(char *path, int (*find)(char *, size_t), const char *what,
                   struct apir_error *err)
{
    char given[PATH_MAX];

    if (path[0] == '\0') {
        int r = find(path, PATH_MAX);
        return r == 0 ? 0 : apir_error_set(err, -r, "%s not found", what);
    }
    snprintf(given, sizeof(given), "%s", path);
    if (realpath(given, path) == NULL)
        return apir_error_sys(err, errno, "%s", given);
    return 0;
}

static int generate(struct generate *g, struct apir_error *err)
{
    cleanup_json struct json_object *spec = NULL;
    struct cdi_report report;

    int r = resolve(g->plugin, cdi_install_find_plugin, "plug-in (see --plugin)", err);
    if (r == 0 && g->with_hook)
        r = resolve(g->hook, cdi_install_find_hook, "hook (see --hook and --no-hook)", err);
    if (r == 0)
        r = find_devices(g, err);
    if (r < 0)
        return r;

    struct cdi_spec_options options = {
        .vendor = g->vendor,
        .class_name = g->class_name,
        .plugin_path = g->plugin,
        .hook_path = g->with_hook ? g->hook : NULL,
        .devices = g->devices,
        .n_devices = g->n_devices,
    };
    r = cdi_spec_build(&options, &spec, err);
    if (r < 0)
        return r;

    cdi_report_init(&report);
    cdi_rules_check_host(spec, g->dev_root, &report);
    /* With another root the files of the spec are not where this program sees them. */
    if (report.n_errors > 0 && strcmp(g->dev_root, "/") == 0)
        r = apir_error_set(err, ENOENT, "%s",
                           report.n_kept > 0 ? report.items[0].text : "missing files");
    cdi_report_fini(&report);
    if (r < 0)
        return r;
    if (g->dry_run) {
        cdi_report_init(&report);
        cdi_rules_check(spec, &report);
        if (report.n > 0)
            r = apir_error_set(err, EINVAL, "%s",
                               report.n_kept > 0 ? report.items[0].text : "not valid");
        cdi_report_fini(&report);
        const char *text = cdi_spec_text(spec);
        if (r == 0 && text != NULL)
            puts(text);
        return r;
    }
    r = cdi_spec_store(g->output, spec, err);
    if (r == 0)
        fprintf(stderr, "wrote %s; try: podman run --device %s/%s=gpu0 …\n", g->output, g->vendor,
                g->class_name);
    return r;
}

static int usage_error(const char *text, const char *value)
{
    fprintf(stderr, "apir cdi generate: %s%s\nTry 'apir cdi generate --help'.\n", text, value);
    return CDI_EXIT_USAGE;
}

int cdi_generate_main(int argc, char **argv)
{
    enum { OUTPUT = 256, VENDOR, CLASS, PLUGIN, HOOK, NO_HOOK, NO_HANDSHAKE, DEV_ROOT, DRY_RUN };
    static const struct option long_options[] = {
        {"output", required_argument, NULL, OUTPUT},
        {"vendor", required_argument, NULL, VENDOR},
        {"class", required_argument, NULL, CLASS},
        {"plugin", required_argument, NULL, PLUGIN},
        {"hook", required_argument, NULL, HOOK},
        {"no-hook", no_argument, NULL, NO_HOOK},
        {"no-handshake", no_argument, NULL, NO_HANDSHAKE},
        {"dev-root", required_argument, NULL, DEV_ROOT},
        {"dry-run", no_argument, NULL, DRY_RUN},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct apir_error err = {0};
    bool hook_given = false;
    cleanup_free struct generate *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        perror("apir");
        return CDI_EXIT_FAILED;
    }
    g->output = CDI_SPEC_PATH;
    g->dev_root = "/";
    g->vendor = CDI_SPEC_VENDOR;
    g->class_name = CDI_SPEC_CLASS;
    g->with_hook = g->with_handshake = true;

    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        char *path = c == PLUGIN ? g->plugin : g->hook;

        switch (c) {
        case OUTPUT:
            g->output = optarg;
            break;
        case VENDOR:
            g->vendor = optarg;
            break;
        case CLASS:
            g->class_name = optarg;
            break;
        case PLUGIN:
        case HOOK:
            if (optarg[0] == '\0' || strlen(optarg) >= PATH_MAX)
                return usage_error("not a path: ", optarg);
            snprintf(path, PATH_MAX, "%s", optarg);
            hook_given = hook_given || c == HOOK;
            break;
        case NO_HOOK:
            g->with_hook = false;
            break;
        case NO_HANDSHAKE:
            g->with_handshake = false;
            break;
        case DEV_ROOT:
            g->dev_root = optarg;
            break;
        case DRY_RUN:
            g->dry_run = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            return usage_error("wrong option", "");
        }
    }
    if (optind < argc)
        return usage_error("unexpected: ", argv[optind]);
    if (hook_given && !g->with_hook)
        return usage_error("--hook and --no-hook exclude each other", "");
    if (!cdi_rules_kind_part_ok(g->vendor))
        return usage_error("no vendor name: ", g->vendor);
    if (!cdi_rules_kind_part_ok(g->class_name))
        return usage_error("no class name: ", g->class_name);
    if (g->dev_root[0] != '/')
        return usage_error("--dev-root wants an absolute path, not ", g->dev_root);
    if (strcmp(g->output, "-") == 0)
        g->dry_run = true;

    if (generate(g, &err) < 0) {
        fprintf(stderr, "apir cdi generate: %s\n", err.msg);
        return CDI_EXIT_FAILED;
    }
    return CDI_EXIT_OK;
}
