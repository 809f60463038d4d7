/* SPDX-License-Identifier: Apache-2.0 */
/*
 * createRuntime and prestart: in the runtime's namespaces, while the container's
 * process waits before its root is entered. For engines that know neither CDI nor
 * precreate hooks: what a CDI spec says of the device is done to the container's
 * mount namespace. Two things cannot be done this late: the environment is fixed
 * (so the plug-in goes where the image's ggml searches), and so are the device
 * rules of the cgroup (so the user is told the flag that opens them).
 */
#include <drm/drm.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/json.h"
#include "hook/cgroup.h"
#include "hook/container.h"
#include "hook/inject.h"
#include "hook/log.h"
#include "hook/mounts.h"
#include "hook/place.h"
#include "common/oci/request.h"
#include "hook/rights.h"
#include "common/oci/cdi_devices.h"
#include "hook/stages.h"
#include "common/oci/state.h"
#include "common/cleanup.h"
#include "common/error.h"

#define ITEMS_MAX 128

/* One thing to be mounted: taken from the host before its namespace is left. */
struct item {
    const char *path; /* in the container; the spec's */
    int tree;
    enum hook_kind kind;
    dev_t device;
};

struct work {
    struct item items[ITEMS_MAX];
    size_t n;
    int plugin; /* the host's, to be copied to where the image's ggml searches */
};

static void work_fini(struct work *work)
{
    for (size_t i = 0; i < work->n; i++)
        apir_close_fd(&work->items[i].tree);
    apir_close_fd(&work->plugin);
}
#define cleanup_work __attribute__((cleanup(work_fini)))

static int add_item(struct work *work, const char *path, int source, enum hook_kind kind,
                    dev_t device, struct apir_error *err)
{
    /* Devices of one host share its socket, or its node. */
    for (size_t i = 0; i < work->n; i++)
        if (strcmp(work->items[i].path, path) == 0)
            return 0;
    if (work->n == ITEMS_MAX)
        return apir_error_set(err, E2BIG, "the CDI spec has too many mounts");
    int tree = hook_place_detach(source, kind);
    if (tree < 0)
        return apir_error_sys(err, -tree, "take a mount of %s", path);
    work->items[work->n++] = (struct item){path, tree, kind, device};
    return 0;
}

static bool is_virtio_gpu(int fd)
{
    char name[32] = "";
    struct drm_version version = {.name = name, .name_len = sizeof(name) - 1};

    return ioctl(fd, DRM_IOCTL_VERSION, &version) == 0 && strcmp(name, "virtio_gpu") == 0;
}

static int take_node(struct work *work, int proc, struct json_object *node, struct apir_error *err)
{
    const char *path = apir_json_string(node, "path");
    const char *host_path = apir_json_string(node, "hostPath");
    struct stat st, opened;

    if (!host_path)
        host_path = path;
    cleanup_fd int source = open(host_path, O_PATH | O_CLOEXEC);
    if (source < 0 || fstat(source, &st) < 0)
        return apir_error_sys(err, errno, "device node %s", host_path);
    if (!S_ISCHR(st.st_mode))
        return apir_error_set(err, ENOTTY, "%s is no character device", host_path);
    if (hook_cgroup_may_open(proc, host_path) == 0)
        return apir_error_set(err, EPERM,
                              "the container's cgroup forbids %s, and it is too late to change "
                              "that; add --device %s (or --device-cgroup-rule 'c %u:%u rw')",
                              host_path, host_path, major(st.st_rdev), minor(st.st_rdev));
    cleanup_fd int fd = open(host_path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return apir_error_sys(err, errno, "device node %s", host_path);
    if (fstat(fd, &opened) < 0 || opened.st_rdev != st.st_rdev || !is_virtio_gpu(fd))
        return apir_error_set(err, ENODEV, "%s is no virtio-gpu render node", host_path);
    return add_item(work, path, source, HOOK_NODE, st.st_rdev, err);
}

static int take_mount(struct work *work, struct json_object *mount, struct apir_error *err)
{
    const char *from = apir_json_string(mount, "hostPath");
    struct stat st;

    cleanup_fd int source = open(from, O_PATH | O_CLOEXEC);
    if (source < 0 || fstat(source, &st) < 0)
        return apir_error_sys(err, errno, "mount %s", from);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return apir_error_set(err, EINVAL, "mount %s: neither file nor folder", from);
    return add_item(work, apir_json_string(mount, "containerPath"), source,
                    S_ISDIR(st.st_mode) ? HOOK_FOLDER : HOOK_FILE, 0, err);
}

static int take_edits(struct work *work, int proc, struct json_object *edits,
                      struct apir_error *err)
{
    struct json_object *nodes = apir_json_array(edits, "deviceNodes");
    struct json_object *mounts = apir_json_array(edits, "mounts");
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < apir_json_length(nodes); i++)
        rc = take_node(work, proc, json_object_array_get_idx(nodes, i), err);
    for (size_t i = 0; rc == 0 && i < apir_json_length(mounts); i++)
        rc = take_mount(work, json_object_array_get_idx(mounts, i), err);
    return rc;
}

/* Of the spec's variables this one has no other way; the user can give it. */
static void say_variable(struct json_object *edits, struct json_object *config)
{
    static const char name[] = "APIR_TRANSPORT=";
    struct json_object *env = apir_json_array(edits, "env");
    struct json_object *there = apir_json_array(apir_json_object(config, "process"), "env");

    for (size_t i = 0; i < apir_json_length(there); i++) {
        const char *text = apir_json_string_at(there, i);
        if (text && strncmp(text, name, sizeof(name) - 1) == 0)
            return;
    }
    for (size_t i = 0; i < apir_json_length(env); i++) {
        const char *text = apir_json_string_at(env, i);
        if (text && strncmp(text, name, sizeof(name) - 1) == 0)
            hook_log(HOOK_WARNING, "the environment cannot be changed at this stage: add -e %s",
                     text);
    }
}

/* All that the host's namespace is needed for. */
static int take(struct work *work, const struct hook_options *options, int proc,
                struct json_object *edits[], int n, struct apir_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < n; i++)
        rc = take_edits(work, proc, edits[i], err);
    if (rc < 0)
        return rc;
    work->plugin = hook_place_open_source(options->plugin, err);
    return work->plugin < 0 ? work->plugin : 0;
}

static void put(const struct work *work, const struct hook_site *site, struct json_object *config)
{
    for (size_t i = 0; i < work->n; i++) {
        const struct item *item = &work->items[i];
        struct apir_error why = {0};
        int rc = hook_inject_mount(site, item->path, item->tree, item->kind, item->device, &why);

        if (rc == 0)
            hook_log(HOOK_INFO, "mounted %s", item->path);
        else
            hook_log(rc == -EALREADY ? HOOK_INFO : HOOK_WARNING, "%s", why.msg);
    }
    hook_stage_place(site->root, work->plugin, config);
}

/* Everything from the request on. Returns -errno only where the request or the state is wrong. */
static int inject(const struct hook_options *options, const struct oci_state *state,
                  struct json_object *config, const struct oci_request *request,
                  struct apir_error *err)
{
    cleanup_container struct hook_container container = HOOK_CONTAINER_NONE;
    cleanup_devices struct hook_devices host = {0};
    cleanup_work struct work work = {.plugin = -1};
    cleanup_json struct json_object *spec = NULL;
    cleanup_free char *path = NULL;
    struct json_object *edits[CDI_DEVICES_EDITS_MAX];
    struct apir_error why = {0};

    int rc = cdi_devices_load(options->spec, &spec, &why);
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot add %s: %s", request->devices, why.msg);
        return 0;
    }
    int n = cdi_devices_select(spec, request->devices, edits, err);
    if (n < 0)
        return n;
    rc = hook_container_open(state->pid, &container, err);
    if (rc < 0)
        return rc;
    rc = hook_devices_read(&host);
    if (rc < 0)
        rc = apir_error_sys(&why, -rc, "the host's mounts");
    if (rc == 0)
        rc = take(&work, options, container.proc, edits, n, &why);
    if (rc == 0)
        rc = !config || state->root ? oci_state_root(state, &path, &why)
                                    : oci_config_root(config, state->bundle, &path, &why);
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot add %s: %s", request->devices, why.msg);
        return 0;
    }
    cleanup_fd int root = hook_container_enter(&container, path, err);
    if (root < 0)
        return root;
    rc = hook_rights_keep(HOOK_RIGHTS_MOUNT);
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot give up capabilities: %s; nothing done", strerror(-rc));
        return 0;
    }
    for (int i = 0; i < n; i++)
        say_variable(edits[i], config);
    put(&work, &(struct hook_site){.root = root, .host = &host}, config);
    return 0;
}

int hook_stage_create_runtime(const struct hook_options *options, const struct oci_state *state,
                              struct apir_error *err)
{
    struct oci_request request = {0};
    cleanup_json struct json_object *config = NULL;
    struct apir_error why = {0};

    if (oci_state_config(state, &config, &why) < 0)
        hook_log(HOOK_WARNING, "cannot read the container's configuration: %s", why.msg);
    int rc = oci_request_find(state, config, &request, err);
    /* What an engine with CDI, or precreate, has done is not done again. */
    if (rc < 0 || !request.devices || request.edited)
        return rc;
    return inject(options, state, config, &request, err);
}
