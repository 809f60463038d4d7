/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir doctor: the chain from the device node to a computed result, link by
 * link. A link that rests on a broken one is skipped, so the first failure is
 * the one to repair.
 */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/compute.h"
#include "cdi/doctor_image.h"
#include "cdi/engine.h"
#include "cdi/handshake.h"
#include "cdi/install.h"
#include "cdi/json.h"
#include "cdi/nodes.h"
#include "cdi/rules.h"
#include "cdi/spec.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

#define HANDSHAKE_TIMEOUT_MS 20000u
#define COMPUTE_TIMEOUT_MS   60000u

static const char usage[] =
    "Usage: apir doctor [OPTION]...\n"
    "\n"
    "Walks the chain from the device node to a computed result and says, at the first\n"
    "broken link, what to do.\n"
    "\n"
    "  --image IMAGE     only: what ggml is in this image (or folder), and where the hook\n"
    "                    would place the plug-in\n"
    "  --json            machine-readable\n"
    "  --spec FILE       the CDI spec to look at (default " CDI_SPEC_PATH ")\n"
    "  --plugin PATH     the plug-in (default: beside this program's installation)\n"
    "  -h, --help        this text\n"
    "\n"
    "Each link is PASS, FAIL or SKIP. A link is skipped where an earlier one is broken, or\n"
    "where this machine has nothing to try it with; the line says which.\n"
    "\n"
    "Exit codes: 0 no link is broken, 1 one is, 2 wrong usage.\n";

enum verdict { PASS, FAIL, SKIP };

struct outcome {
    enum verdict verdict;
    char text[400];
    char advice[500];
};

struct doctor {
    const char *spec_path;
    char plugin[PATH_MAX];
    struct cdi_node nodes[CDI_NODES_MAX];
    int n_nodes;
    const struct cdi_node *node; /* the one examined */
    struct cdi_handshake handshake;
    struct json_object *spec;
};

__attribute__((format(printf, 3, 4))) static enum verdict say(struct outcome *o, enum verdict v,
                                                              const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->text, sizeof(o->text), fmt, ap);
    va_end(ap);
    return v;
}

__attribute__((format(printf, 2, 3))) static void advise(struct outcome *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->advice, sizeof(o->advice), fmt, ap);
    va_end(ap);
}

static enum verdict link_node(struct doctor *d, struct outcome *o)
{
    d->n_nodes = cdi_nodes_find("/", d->nodes);
    advise(o, "Give the VM a virtio-gpu device (QEMU: -device virtio-gpu-gl,blob=on,venus=on,"
              "hostmem=2G) and load the guest's virtio_gpu driver. In a container, pass the "
              "device: --device virtgpu/apir=gpu0.");
    if (d->n_nodes < 0)
        return say(o, FAIL, "/dev/dri: %s", strerror(-d->n_nodes));
    if (d->n_nodes == 0)
        return say(o, FAIL, "no render node in /dev/dri");
    d->node = &d->nodes[0];
    for (int i = d->n_nodes - 1; i >= 0; i--)
        if (d->nodes[i].is_virtio_gpu)
            d->node = &d->nodes[i];
    return say(o, PASS, "%s%s%s", d->node->path, d->node->bus[0] != '\0' ? ", " : "", d->node->bus);
}

static enum verdict link_permission(struct doctor *d, struct outcome *o)
{
    struct stat st;

    if (d->node->open_error == 0)
        return say(o, PASS, "%s opens", d->node->path);
    if (stat(d->node->full_path, &st) == 0)
        advise(o,
               "The node has mode %04o and group %u: add the user to that group (often "
               "\"render\"). Rootless podman: --group-add keep-groups (crun). SELinux: "
               "setsebool -P container_use_devices on.",
               (unsigned)(st.st_mode & 07777), (unsigned)st.st_gid);
    return say(o, FAIL, "%s: %s", d->node->path, strerror(d->node->open_error));
}

static enum verdict link_driver(struct doctor *d, struct outcome *o)
{
    if (d->node->is_virtio_gpu)
        return say(o, PASS, "%s", d->node->driver);
    advise(o, "This is no VM with virtio-gpu, or another GPU was passed to it. On the machine "
              "that owns the GPU no remoting is needed.");
    return say(o, FAIL, "the driver of %s is \"%s\", not %s", d->node->path, d->node->driver,
               CDI_DRIVER_NAME);
}

static enum verdict link_params(struct doctor *d, struct outcome *o)
{
    struct cdi_node_caps caps = d->node->caps;

    if (d->node->caps_error != 0)
        return say(o, FAIL, "asking the driver: %s", strerror(d->node->caps_error));
    /* Venus is the next link's. */
    caps.capset_ids = 1u << CDI_CAPSET_VENUS;
    const char *missing = cdi_node_caps_missing(&caps);
    if (missing == NULL)
        return say(o, PASS, "3D, blob resources, context init, host-visible memory");
    advise(o, "Start the VMM with blob=on and hostmem=2G (QEMU), and use a guest kernel of 5.16 "
              "or later.");
    return say(o, FAIL, "the device does not offer %s", missing);
}

static enum verdict link_capset(struct doctor *d, struct outcome *o)
{
    uint32_t ids = d->node->caps.capset_ids;

    if ((ids & (1u << CDI_CAPSET_VENUS)) != 0)
        return say(o, PASS, "Venus (capset %u)", CDI_CAPSET_VENUS);
    advise(o, "Start the VMM with venus=on (QEMU: -device virtio-gpu-gl,…,venus=on) and a "
              "virglrenderer that was built with Venus.");
    return say(o, FAIL, "the capsets are 0x%x, Venus is not among them", ids);
}

static enum verdict link_context(struct doctor *d, struct outcome *o)
{
    cdi_handshake_run(d->node->full_path, HANDSHAKE_TIMEOUT_MS, &d->handshake);
    if (d->handshake.passed >= CDI_HANDSHAKE_CONTEXT)
        return say(o, PASS, "a context named " APIR_CONTEXT_NAME);
    cdi_handshake_describe(&d->handshake, o->text, sizeof(o->text));
    advise(o, "Look into the VMM's log on the host: it starts the render server for the first "
              "context. RENDER_SERVER_EXEC_PATH in its environment must name "
              "apir-render-server, and the VMM must be allowed to run it.");
    return FAIL;
}

static enum verdict link_window(struct doctor *d, struct outcome *o)
{
    if (d->handshake.passed >= CDI_HANDSHAKE_BLOB)
        return say(o, PASS, "%u KiB mapped", APIR_RING_SIZE / 1024);
    cdi_handshake_describe(&d->handshake, o->text, sizeof(o->text));
    advise(o, "The host-visible window is full or missing: give the device more of it (QEMU: "
              "hostmem=2G), or end containers that hold it.");
    return FAIL;
}

static enum verdict link_handshake(struct doctor *d, struct outcome *o)
{
    if (d->handshake.passed >= CDI_HANDSHAKE_MAGIC)
        return say(o, PASS, "protocol %u.%u", d->handshake.major, d->handshake.minor);
    cdi_handshake_describe(&d->handshake, o->text, sizeof(o->text));
    if (d->handshake.code == EPROTONOSUPPORT)
        advise(o, "Install the same release of apir on the host and in the VM.");
    else
        advise(o, "On the host, start the VMM with RENDER_SERVER_EXEC_PATH set to the path of "
                  "apir-render-server.");
    return FAIL;
}

static enum verdict link_worker(struct doctor *d, struct outcome *o)
{
    if (d->handshake.passed >= CDI_HANDSHAKE_READY)
        return say(o, PASS, "ready");
    cdi_handshake_describe(&d->handshake, o->text, sizeof(o->text));
    advise(o, "The host's worker could not start: the render server's log (stderr of the VMM) "
              "has the reason. Often the host's libggml or its GPU driver is missing, or "
              "/etc/apir/backend.json forbids it.");
    return FAIL;
}

static enum verdict link_plugin(struct doctor *d, struct outcome *o)
{
    struct stat st;

    advise(o, "Install the plug-in (make install), or name it with --plugin.");
    if (d->plugin[0] == '\0' && cdi_install_find_plugin(d->plugin, sizeof(d->plugin)) < 0)
        return say(o, FAIL, "libggml-apir.so is not installed");
    if (stat(d->plugin, &st) < 0)
        return say(o, FAIL, "%s: %s", d->plugin, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return say(o, FAIL, "%s is no library", d->plugin);
    if ((st.st_mode & 0444) != 0444) {
        advise(o, "Containers run as other users: chmod 0644 %s", d->plugin);
        return say(o, FAIL, "%s is not readable by everyone", d->plugin);
    }
    return say(o, PASS, "%s", d->plugin);
}

static bool spec_has_node(struct json_object *spec, const char *node)
{
    struct json_object *devices = cdi_json_member(spec, "devices", json_type_array);

    for (size_t i = 0; devices != NULL && i < json_object_array_length(devices); i++) {
        struct json_object *edits = cdi_json_member(json_object_array_get_idx(devices, i),
                                                    "containerEdits", json_type_object);
        struct json_object *nodes = cdi_json_member(edits, "deviceNodes", json_type_array);

        for (size_t k = 0; nodes != NULL && k < json_object_array_length(nodes); k++) {
            const char *path = cdi_json_string(json_object_array_get_idx(nodes, k), "path");
            if (path != NULL && strcmp(path, node) == 0)
                return true;
        }
    }
    return false;
}

static enum verdict link_spec(struct doctor *d, struct outcome *o)
{
    struct apir_error err = {0};
    struct cdi_report report;
    enum verdict v = PASS;

    advise(o, "apir cdi generate");
    if (cdi_spec_load(d->spec_path, &d->spec, &err) < 0)
        return say(o, FAIL, "%s", err.msg);
    cdi_report_init(&report);
    cdi_rules_check(d->spec, &report);
    if (report.n_errors == 0)
        cdi_rules_check_host(d->spec, "/", &report);
    if (report.n_errors > 0)
        v = say(o, FAIL, "%s: %s", d->spec_path,
                report.n_kept > 0 ? report.items[0].text : "not valid");
    else if (d->node != NULL && d->node->is_virtio_gpu && !spec_has_node(d->spec, d->node->path))
        v = say(o, FAIL, "%s is older than this machine's devices: it lacks %s", d->spec_path,
                d->node->path);
    else
        say(o, PASS, "%s", d->spec_path);
    cdi_report_fini(&report);
    return v;
}

static enum verdict link_hook(struct doctor *d, struct outcome *o)
{
    struct json_object *edits = cdi_json_member(d->spec, "containerEdits", json_type_object);
    struct json_object *hooks = cdi_json_member(edits, "hooks", json_type_array);
    const char *path = NULL;

    if (hooks != NULL && json_object_array_length(hooks) > 0)
        path = cdi_json_string(json_object_array_get_idx(hooks, 0), "path");
    if (path == NULL)
        return say(o, SKIP, "the spec has no hook (--no-hook)");
    if (access(path, X_OK) == 0)
        return say(o, PASS, "%s", path);
    advise(o, "Every container with the device fails to start without it: make install, then apir "
              "cdi generate.");
    return say(o, FAIL, "%s: %s", path, strerror(errno));
}

static enum verdict link_engine(struct doctor *d, struct outcome *o)
{
    char text[300];
    int n = cdi_engine_find(text, sizeof(text));

    (void)d;
    if (n < 0)
        return say(o, SKIP, "no container engine on PATH");
    if (n > 0)
        return say(o, PASS, "%s", text);
    advise(o, "podman 4.1, docker 28.2 or containerd 2.0 and later know CDI by themselves; older "
              "docker (25) and containerd (1.7) have a setting for it.");
    return say(o, FAIL, "no engine here knows CDI: %s", text);
}

static enum verdict link_compute(struct doctor *d, struct outcome *o)
{
    char text[300];

    switch (cdi_compute_run(d->plugin, COMPUTE_TIMEOUT_MS, text, sizeof(text))) {
    case CDI_COMPUTE_OK:
        return say(o, PASS, "%s", text);
    case CDI_COMPUTE_NO_GGML:
        return say(o, SKIP,
                   "%s; to see it in a container: podman run --rm --device virtgpu/apir=gpu0 "
                   "IMAGE llama-bench --list-devices",
                   text);
    case CDI_COMPUTE_FAILED:
        break;
    }
    advise(o,
           "Run a program of this machine with APIR_LOG=debug GGML_BACKEND_PATH=%s for the "
           "plug-in's own words, and see the render server's log on the host.",
           d->plugin);
    return say(o, FAIL, "%s", text);
}

/* needs: the link whose failure makes this one meaningless; it comes before. */
static const struct link {
    const char *id, *title, *needs;
    enum verdict (*run)(struct doctor *, struct outcome *);
} links[] = {
    {"node", "render node", NULL, link_node},
    {"permission", "permission to open it", "node", link_permission},
    {"driver", "driver", "permission", link_driver},
    {"params", "device features", "driver", link_params},
    {"capset", "Venus capset", "params", link_capset},
    {"context", "context", "capset", link_context},
    {"window", "host-visible memory", "context", link_window},
    {"handshake", "apir on the host", "window", link_handshake},
    {"worker", "the host's worker", "handshake", link_worker},
    {"plugin", "plug-in file", NULL, link_plugin},
    {"spec", "CDI spec", NULL, link_spec},
    {"hook", "hook", "spec", link_hook},
    {"engine", "container engine", NULL, link_engine},
    {"compute", "a computed result", "worker", link_compute},
};
#define N_LINKS (sizeof(links) / sizeof(links[0]))

static const char *const verdict_names[] = {"PASS", "FAIL", "SKIP"};

static size_t link_index(const char *id)
{
    size_t i = 0;

    while (strcmp(links[i].id, id) != 0)
        i++;
    return i;
}

static void walk(struct doctor *d, struct outcome *outcomes)
{
    size_t plugin = link_index("plugin");

    for (size_t i = 0; i < N_LINKS; i++) {
        struct outcome *o = &outcomes[i];
        const char *broken = NULL;

        if (links[i].needs != NULL && outcomes[link_index(links[i].needs)].verdict != PASS)
            broken = links[i].needs;
        else if (links[i].run == link_compute && outcomes[plugin].verdict != PASS)
            broken = links[plugin].id;
        if (broken != NULL)
            o->verdict = say(o, SKIP, "needs: %s", links[link_index(broken)].title);
        else
            o->verdict = links[i].run(d, o);
        if (o->verdict != FAIL)
            o->advice[0] = '\0';
    }
}

static void print_table(const struct outcome *outcomes, const struct outcome *first)
{
    for (size_t i = 0; i < N_LINKS; i++)
        printf("%s  %-22s %s\n", verdict_names[outcomes[i].verdict], links[i].title,
               outcomes[i].text);
    if (first != NULL)
        printf("\nFirst broken link: %s (%s)\n%s%s%s", links[first - outcomes].title, first->text,
               first->advice[0] != '\0' ? "What to do: " : "", first->advice,
               first->advice[0] != '\0' ? "\n" : "");
}

static int print_json(const struct outcome *outcomes, const struct outcome *first)
{
    cleanup_json struct json_object *top = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < N_LINKS; i++) {
        struct json_object *row = json_object_new_object();

        json_object_object_add(row, "link", json_object_new_string(links[i].id));
        json_object_object_add(row, "verdict",
                               json_object_new_string(verdict_names[outcomes[i].verdict]));
        json_object_object_add(row, "text", json_object_new_string(outcomes[i].text));
        if (outcomes[i].advice[0] != '\0')
            json_object_object_add(row, "advice", json_object_new_string(outcomes[i].advice));
        json_object_array_add(list, row);
    }
    json_object_object_add(top, "ok", json_object_new_boolean(first == NULL));
    if (first != NULL)
        json_object_object_add(top, "firstBroken",
                               json_object_new_string(links[first - outcomes].id));
    json_object_object_add(top, "links", list);
    const char *text = json_object_to_json_string_ext(top, JSON_C_TO_STRING_PRETTY |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE);
    return text == NULL || puts(text) < 0 ? -1 : 0;
}

int cdi_doctor_main(int argc, char **argv)
{
    enum { JSON = 256, SPEC, PLUGIN, IMAGE };
    static const struct option long_options[] = {
        {"json", no_argument, NULL, JSON},
        {"image", required_argument, NULL, IMAGE},
        {"spec", required_argument, NULL, SPEC},
        {"plugin", required_argument, NULL, PLUGIN},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool as_json = false;
    const char *image = NULL;
    cleanup_free struct doctor *d = calloc(1, sizeof(*d));
    cleanup_free struct outcome *outcomes = calloc(N_LINKS, sizeof(*outcomes));
    const struct outcome *first = NULL;

    if (d == NULL || outcomes == NULL) {
        perror("apir");
        return CDI_EXIT_FAILED;
    }
    d->spec_path = CDI_SPEC_PATH;
    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (c) {
        case JSON:
            as_json = true;
            break;
        case IMAGE:
            image = optarg;
            break;
        case SPEC:
            d->spec_path = optarg;
            break;
        case PLUGIN:
            /* ggml takes a name without a slash for one to search. */
            if (realpath(optarg, d->plugin) == NULL) {
                fprintf(stderr, "apir doctor: %s: %s\n", optarg, strerror(errno));
                return CDI_EXIT_USAGE;
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            fputs("Try 'apir doctor --help'.\n", stderr);
            return CDI_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "apir doctor: unexpected: %s\nTry 'apir doctor --help'.\n", argv[optind]);
        return CDI_EXIT_USAGE;
    }
    if (image != NULL)
        return cdi_doctor_image_main(image, as_json);
    walk(d, outcomes);
    for (size_t i = 0; first == NULL && i < N_LINKS; i++)
        if (outcomes[i].verdict == FAIL)
            first = &outcomes[i];
    int r = 0;
    if (as_json)
        r = print_json(outcomes, first);
    else
        print_table(outcomes, first);
    cdi_json_put(&d->spec);
    return first == NULL && r == 0 ? CDI_EXIT_OK : CDI_EXIT_FAILED;
}
