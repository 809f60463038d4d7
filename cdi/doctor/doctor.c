/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir doctor: the chain from the device node to a computed result, link by
 * link. A link that rests on a broken one is not checked, so the first failure
 * is the one to repair.
 */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/doctor/container.h"
#include "cdi/doctor/engine.h"
#include "cdi/doctor/image.h"
#include "cdi/engine/specs.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "common/json.h"
#include "cdi/spec/spec.h"
#include "common/text.h"
#include "common/cleanup.h"

static const char usage[] =
    "Usage: apir doctor [OPTION]...\n"
    "\n"
    "Walks the chain from the device node to a computed result and says, at the first\n"
    "broken link, what to do.\n"
    "\n"
    "  --image IMAGE     only: what ggml is in this image (or folder), and where the hook\n"
    "                    would place the plug-in\n"
    "  --container NAME  only: what this running container of podman or docker was given, and\n"
    "                    whether what exec starts in it finds it\n"
    "  --json            machine-readable; apir(1) says what is in it\n"
    "  --spec FILE       the CDI spec to look at (default: the one that engines take)\n"
    "  --plugin PATH     the plug-in (default: beside this program's installation)\n"
    "  -h, --help        this text\n"
    "\n"
    "Each link is PASS, WARN (works here, but not for every container), FAIL, SKIP (there is\n"
    "nothing here to try it with), or ---- (not checked: it rests on a broken one). With\n"
    "APIR_TRANSPORT in the environment that one is walked, as the plug-in would.\n"
    "\n"
    "Exit codes: 0 no link is broken, 1 one is, 2 wrong usage.\n";

/* Which of the two roads to a host a link is part of. */
enum road { BOTH, NODE, SOCKET };

#define ENGINE_LINK(name) {#name, NULL, BOTH, {NULL}, NULL},

/*
 * needs: the links whose failure makes this one meaningless; all come before. One that is
 * of the other road is no reason.
 */
static const struct link {
    const char *name, *title; /* title and check NULL: an engine's, by its name */
    enum road road;
    const char *needs[3];
    doctor_check *check;
} links[] = {
    {"node", "render node", NODE, {NULL}, doctor_check_node},
    {"permission", "permission to open it", NODE, {"node"}, doctor_check_permission},
    {"driver", "driver", NODE, {"permission"}, doctor_check_driver},
    {"features", "device features", NODE, {"driver"}, doctor_check_features},
    {"capset", "Venus capset", NODE, {"features"}, doctor_check_capset},
    {"context", "context", NODE, {"capset"}, doctor_check_context},
    {"window", "host-visible memory", NODE, {"context"}, doctor_check_window},
    {"handshake", "apir on the host", NODE, {"window"}, doctor_check_handshake},
    {"worker", "the host's worker", NODE, {"handshake"}, doctor_check_worker},
    {"socket", "the host's socket", SOCKET, {NULL}, doctor_check_socket},
    {"connect", "permission to connect", SOCKET, {"socket"}, doctor_check_connect},
    {"session", "apir on the host", SOCKET, {"connect"}, doctor_check_session},
    {"versions", "versions", BOTH, {"worker", "session"}, doctor_check_versions},
    {"devices", "the host's devices", BOTH, {"versions"}, doctor_check_devices},
    {"mps", "NVIDIA's MPS", BOTH, {NULL}, doctor_check_mps},
    {"plugin", "plug-in file", BOTH, {NULL}, doctor_check_plugin},
    {"spec", "CDI spec", BOTH, {NULL}, doctor_check_spec},
    {"hook", "hook", BOTH, {"spec"}, doctor_check_hook},
    CDI_ENGINES(ENGINE_LINK) /* one for each */
    {"engine", "a container engine", BOTH, {NULL}, doctor_check_engines},
    {"hooks.d", "hooks.d", BOTH, {NULL}, doctor_check_hooks_d},
    {"rootless", "rootless containers", BOTH, {"permission", "connect"}, doctor_check_rootless},
    {"selinux", "SELinux", BOTH, {NULL}, doctor_check_selinux},
    {"compute", "a computed result", BOTH, {"devices", "plugin"}, doctor_check_compute},
};
#define N_LINKS (sizeof(links) / sizeof(links[0]))

static const char *const labels[] = {"PASS", "WARN", "FAIL", "SKIP", "----"};
static const char *const statuses[] = {"pass", "warn", "fail", "skip", "unchecked"};

static size_t link_index(const char *name)
{
    size_t i = 0;

    while (strcmp(links[i].name, name) != 0)
        i++;
    return i;
}

static const struct engine_ops *engine_of(const struct link *l)
{
    size_t i = 0;

    while (strcmp(cdi_engines[i]->name, l->name) != 0)
        i++;
    return cdi_engines[i];
}

static const char *title(const struct link *l)
{
    return l->title ? l->title : engine_of(l)->title;
}

static const struct link *broken(const struct link *l, const struct doctor_outcome *outcomes)
{
    for (size_t i = 0; i < 3 && l->needs[i]; i++) {
        size_t k = link_index(l->needs[i]);

        if (outcomes[k].status == DOCTOR_FAIL || outcomes[k].status == DOCTOR_UNCHECKED)
            return &links[k];
    }
    return NULL;
}

static void walk(struct doctor *d, struct doctor_outcome *outcomes)
{
    enum road road = d->socket ? SOCKET : NODE;

    for (size_t i = 0; i < N_LINKS; i++) {
        struct doctor_outcome *o = &outcomes[i];
        const struct link *reason = broken(&links[i], outcomes);

        if (links[i].road != BOTH && links[i].road != road)
            o->status = DOCTOR_ABSENT;
        else if (reason)
            o->status = doctor_say(o, DOCTOR_UNCHECKED, "not checked; needs: %s", title(reason));
        else
            o->status = links[i].check ? links[i].check(d, o)
                                       : doctor_check_engine(d, engine_of(&links[i]), o);
        if (o->status != DOCTOR_FAIL && o->status != DOCTOR_WARN)
            o->todo[0] = '\0';
    }
}

static void print_table(const struct doctor_outcome *outcomes, const struct doctor_outcome *first)
{
    for (size_t i = 0; i < N_LINKS; i++) {
        const struct doctor_outcome *o = &outcomes[i];

        if (o->status == DOCTOR_ABSENT)
            continue;
        apir_text_print(stdout, "%s  %-22s %s\n", labels[o->status], title(&links[i]), o->text);
        if (o->status == DOCTOR_WARN && o->todo[0] != '\0')
            printf("%30s%s\n", "-> ", o->todo);
    }
    if (first)
        printf("\nFirst broken link: %s (%s)\n%s%s%s", title(&links[first - outcomes]), first->text,
               first->todo[0] != '\0' ? "What to do: " : "", first->todo,
               first->todo[0] != '\0' ? "\n" : "");
}

static int print_json(const struct doctor_outcome *outcomes, const struct doctor_outcome *first)
{
    cleanup_json struct json_object *top = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < N_LINKS; i++) {
        const struct doctor_outcome *o = &outcomes[i];

        if (o->status == DOCTOR_ABSENT)
            continue;
        struct json_object *row = json_object_new_object();
        json_object_object_add(row, "name", json_object_new_string(links[i].name));
        json_object_object_add(row, "status", json_object_new_string(statuses[o->status]));
        json_object_object_add(row, "text", json_object_new_string(o->text));
        if (o->todo[0] != '\0')
            json_object_object_add(row, "todo", json_object_new_string(o->todo));
        json_object_array_add(list, row);
    }
    json_object_object_add(top, "version", json_object_new_int(1));
    json_object_object_add(top, "ok", json_object_new_boolean(!first));
    if (first)
        json_object_object_add(top, "broken", json_object_new_string(links[first - outcomes].name));
    json_object_object_add(top, "checks", list);
    return apir_json_print(top);
}

/* The road to walk: what APIR_TRANSPORT says, else a node of virtio-gpu, else the host's socket. */
static void choose_road(struct doctor *d)
{
    const char *wish = getenv("APIR_TRANSPORT");
    const char *path = wish ? strchr(wish, ':') : NULL;
    bool node_wished = wish && strncmp(wish, "virtgpu", 7) == 0;
    struct stat st;

    if (path && !node_wished) {
        snprintf(d->transport, sizeof(d->transport), "%s", wish);
        d->socket = strchr(d->transport, ':') + 1;
        return;
    }
    d->n_nodes = cdi_nodes_find("/", d->nodes);
    if (d->n_nodes > 0 && !path)
        d->node = &d->nodes[0];
    for (int i = d->n_nodes - 1; i >= 0; i--)
        if (path ? strcmp(d->nodes[i].path, path + 1) == 0 : d->nodes[i].is_virtio_gpu)
            d->node = &d->nodes[i];
    snprintf(d->transport, sizeof(d->transport), "virtgpu:%s",
             d->node ? d->node->path
             : path  ? path + 1
                     : "");
    if (!node_wished && (!d->node || !d->node->is_virtio_gpu) && stat(CDI_SOCKET_DIR, &st) == 0) {
        d->node = NULL;
        snprintf(d->transport, sizeof(d->transport), "unix:" CDI_SOCKET_DIR "/" CDI_SOCKET_NAME);
        d->socket = strchr(d->transport, ':') + 1;
    }
}

static void prepare(struct doctor *d)
{
    const struct passwd *user = getpwuid(geteuid());
    char home[PATH_MAX];

    d->root = "";
    d->uid = geteuid();
    snprintf(d->user, sizeof(d->user), "%s", d->uid == 0 || !user ? "USER" : user->pw_name);
    if (cdi_install_find_hooks_dir(d->hooks_dir, sizeof(d->hooks_dir)) < 0)
        d->hooks_dir[0] = '\0';
    const char *config = cdi_install_config_home(home, sizeof(home));
    snprintf(d->config_home, sizeof(d->config_home), "%s", config ? config : "");
    choose_road(d);
}

struct wishes {
    bool json;
    const char *image, *container; /* NULL: the chain */
};

/* Returns an exit code where the command ends here, else -1. */
static int parse(struct doctor *d, struct wishes *w, int argc, char **argv)
{
    enum { JSON = 256, SPEC, PLUGIN, IMAGE, CONTAINER };
    static const struct option long_options[] = {
        {"json", no_argument, NULL, JSON},
        {"image", required_argument, NULL, IMAGE},
        {"spec", required_argument, NULL, SPEC},
        {"plugin", required_argument, NULL, PLUGIN},
        {"container", required_argument, NULL, CONTAINER},
        {"help", no_argument, NULL, 'h'},
        {0},
    };

    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (c) {
        case JSON:
            w->json = true;
            break;
        case IMAGE:
            w->image = optarg;
            break;
        case CONTAINER:
            w->container = optarg;
            break;
        case SPEC:
            d->spec_path = optarg;
            break;
        case PLUGIN:
            /* ggml takes a name without a slash for one to search. */
            if (!realpath(optarg, d->plugin)) {
                apir_text_print(stderr, "apir doctor: %s: %s\n", optarg, strerror(errno));
                return CDI_EXIT_USAGE;
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return CDI_EXIT_OK;
        default:
            return cdi_usage_error(argv[0], NULL, NULL);
        }
    }
    return optind < argc ? cdi_usage_error(argv[0], "unexpected: ", argv[optind]) : -1;
}

int cdi_doctor_main(int argc, char **argv)
{
    cleanup_free struct doctor *d = calloc(1, sizeof(*d));
    cleanup_free struct doctor_outcome *outcomes = calloc(N_LINKS, sizeof(*outcomes));
    const struct doctor_outcome *first = NULL;
    struct wishes w = {0};
    int rc = 0;

    if (!d || !outcomes) {
        perror("apir");
        return CDI_EXIT_FAILED;
    }
    int code = parse(d, &w, argc, argv);
    if (code >= 0)
        return code;
    cdi_program_clean_environment();
    if (w.image)
        return cdi_doctor_image_main(w.image, w.json);
    if (w.container)
        return cdi_doctor_container_main(w.container, w.json);
    if (!d->spec_path) {
        cdi_specs_find(CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS, CDI_SPEC_FILE, d->spec_found,
                       sizeof(d->spec_found));
        d->spec_path = d->spec_found;
    }
    prepare(d);
    walk(d, outcomes);
    for (size_t i = 0; !first && i < N_LINKS; i++)
        if (outcomes[i].status == DOCTOR_FAIL)
            first = &outcomes[i];
    if (w.json)
        rc = print_json(outcomes, first);
    else
        print_table(outcomes, first);
    apir_json_put(&d->spec);
    return !first && rc == 0 ? CDI_EXIT_OK : CDI_EXIT_FAILED;
}
