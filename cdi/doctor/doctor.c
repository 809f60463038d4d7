/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir doctor: the chain from the device node to a computed result, link by
 * link. A link that rests on a broken one is not checked, so the first failure
 * is the one to repair.
 */
#include <errno.h>
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

int cdi_doctor_main(const struct cdi_args *args)
{
    cleanup_free struct doctor *d = calloc(1, sizeof(*d));
    cleanup_free struct doctor_outcome *outcomes = calloc(N_LINKS, sizeof(*outcomes));
    struct doctor_row rows[N_LINKS];

    if (!d || !outcomes) {
        perror("apir");
        return CDI_EXIT_FAILED;
    }
    /* ggml takes a name without a slash for one to search. */
    if (args->plugin && !realpath(args->plugin, d->plugin)) {
        apir_text_print(stderr, "apir doctor: %s: %s\n", args->plugin, strerror(errno));
        return CDI_EXIT_USAGE;
    }
    cdi_program_clean_environment();
    if (args->image)
        return cdi_doctor_image_main(args->image, args->json);
    if (args->container)
        return cdi_doctor_container_main(args->container, args->json);
    d->spec_path = args->spec;
    if (!d->spec_path) {
        cdi_specs_find(d->spec_found, sizeof(d->spec_found));
        d->spec_path = d->spec_found;
    }
    prepare(d);
    walk(d, outcomes);
    for (size_t i = 0; i < N_LINKS; i++)
        rows[i] = (struct doctor_row){links[i].name, title(&links[i]), &outcomes[i]};
    apir_json_put(&d->spec);
    return doctor_report(rows, N_LINKS, args->json);
}
