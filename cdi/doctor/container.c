/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine is asked for the container's first process, and the kernel for the rest: the mounts
 * that a spec makes, and the plug-in that the hook has placed. What is in the container is read
 * as the hook reads an image, and trusted as little.
 */
#include "cdi/doctor/container.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/doctor/check.h"
#include "cdi/program.h"
#include "common/cleanup.h"
#include "common/given.h"
#include "common/image/find.h"
#include "common/image/rootfs.h"
#include "common/text.h"

#define ENGINE_TIMEOUT_MS 60000u
#define GIVEN_TEXT        400

struct container {
    long pid;
    bool plugin;            /* the spec's mount of it is there */
    char given[GIVEN_TEXT]; /* "gpu0 (ID), host0" */
    char placed[IMAGE_PATH_SIZE + 80];
};

/* As engines have it; a dash at its start would be an option. */
static bool is_container_name(const char *name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(name);

    return n > 0 && n <= 255 && name[0] != '-' && name[0] != '.' && strspn(name, set) == n;
}

/* Returns 0; -ESRCH: it does not run; -ENOENT: no engine here has it. */
static int find_process(const char *name, struct container *c)
{
    static const char *const engines[] = {"podman", "docker"};
    int rc = -ENOENT;

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        const char *const argv[] = {engines[i],       "container", "inspect", "--format",
                                    "{{.State.Pid}}", name,        NULL};
        char line[64];

        if (cdi_program_run(argv, true, ENGINE_TIMEOUT_MS, line, sizeof(line)) != 0)
            continue;
        c->pid = strtol(line, NULL, 10);
        if (c->pid > 0 && c->pid <= INT_MAX)
            return 0;
        rc = -ESRCH;
    }
    return rc;
}

/* A mount point of the container. */
static void note_mount(struct container *c, const char *point)
{
    static const char folder[] = APIR_GIVEN_FOLDER "/";
    const size_t used = strlen(c->given);

    if (strcmp(point, APIR_GIVEN_PLUGIN) == 0)
        c->plugin = true;
    if (strncmp(point, folder, sizeof(folder) - 1) == 0) {
        const char *name = point + sizeof(folder) - 1, *id = strchr(name, '=');

        snprintf(c->given + used, sizeof(c->given) - used, "%s%.*s%s%s%s", used > 0 ? ", " : "",
                 id ? (int)(id - name) : (int)strlen(name), name, id ? " (" : "", id ? id + 1 : "",
                 id ? ")" : "");
    }
    /* Over the image's own client the hook mounts. */
    for (int i = 0; i < IMAGE_SLOTS; i++) {
        const char *slash = strrchr(point, '/');

        if (slash && strcmp(slash + 1, image_slot_file((enum image_slot)i)) == 0)
            snprintf(c->placed, sizeof(c->placed), "%.*s", (int)sizeof(c->placed) - 1, point);
    }
}

static int read_mounts(struct container *c)
{
    cleanup_free char *line = NULL;
    char path[64], point[PATH_MAX];
    size_t size = 0;

    snprintf(path, sizeof(path), "/proc/%ld/mountinfo", c->pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return -errno;
    while (getline(&line, &size, f) > 0)
        if (sscanf(line, "%*d %*d %*s %*s %4095s", point) == 1)
            note_mount(c, point);
    fclose(f);
    return 0;
}

static int find_placed(struct container *c)
{
    cleanup_image struct image image;
    char path[64], folder[PATH_MAX];
    char *also[1] = {folder};

    image_init(&image);
    snprintf(path, sizeof(path), "/proc/%ld/root", c->pid);
    cleanup_fd int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    snprintf(path, sizeof(path), "/proc/%ld/cwd", c->pid);
    ssize_t n = readlink(path, folder, sizeof(folder) - 1);
    folder[n > 0 ? n : 0] = '\0';
    int rc = image_scan(root, also, folder[0] == '/' ? 1 : 0, image_find_machine(-1), &image);
    for (size_t i = 0; rc == 0 && i < image.n_targets && c->placed[0] == '\0'; i++) {
        const struct image_dir *dir = &image.dirs[image.targets[i].dir];
        cleanup_fd int there = image_rootfs_open_child(dir->fd, image.targets[i].file, O_RDONLY, 0);

        if (there >= 0 && image_find_is_plugin(there))
            snprintf(c->placed, sizeof(c->placed), "%s/%s", dir->path, image.targets[i].file);
    }
    return rc;
}

/* ---- in words ---------------------------------------------------------------------- */

enum { DEVICE, EXEC, N_ROWS };

static void judge(const struct container *c, struct doctor_outcome rows[N_ROWS])
{
    struct doctor_outcome *device = &rows[DEVICE], *exec = &rows[EXEC];

    if (!c->plugin) {
        device->status = doctor_say(device, DOCTOR_FAIL, "it was given none");
        doctor_todo(
            device,
            "Start it with --device virtgpu/apir=gpu0 (or host0). A pod's own --device is not its "
            "containers'; kube play wants limits of virtgpu/apir=gpu0, and no name without \"=\"; "
            "clone and generate kube lose it.");
        exec->status = doctor_say(exec, DOCTOR_UNCHECKED, "not checked; needs: device");
        return;
    }
    device->status = doctor_say(device, DOCTOR_PASS, "%s",
                                c->given[0] != '\0' ? c->given : "all that the host offers");
    if (c->placed[0] != '\0') {
        exec->status = doctor_say(exec, DOCTOR_PASS, "finds %s", c->placed);
        return;
    }
    exec->status =
        doctor_say(exec, DOCTOR_WARN, "the plug-in is nowhere that a ggml here searches");
    doctor_todo(exec, APIR_GIVEN_EXEC_ADVICE);
}

int cdi_doctor_container_main(const char *name, bool json)
{
    struct container c = {0};
    struct doctor_outcome outcomes[N_ROWS] = {0};
    const struct doctor_row rows[N_ROWS] = {{"device", "device", &outcomes[DEVICE]},
                                            {"exec", "exec", &outcomes[EXEC]}};

    if (!is_container_name(name)) {
        apir_text_print(stderr, "apir doctor: that is no name of a container\n");
        return CDI_EXIT_USAGE;
    }
    int rc = find_process(name, &c);
    if (rc < 0) {
        apir_text_print(stderr,
                        rc == -ESRCH ? "apir doctor: the container %s does not run: start it, and "
                                       "ask again\n"
                                     : "apir doctor: neither podman nor docker has a container %s; "
                                       "each user of podman has containers of their own: ask as "
                                       "who has started it\n",
                        name);
        return CDI_EXIT_FAILED;
    }
    rc = read_mounts(&c);
    if (rc == 0 && c.plugin)
        rc = find_placed(&c);
    if (rc < 0) {
        apir_text_print(stderr, "apir doctor: process %ld of %s: %s\n", c.pid, name, strerror(-rc));
        return CDI_EXIT_FAILED;
    }
    judge(&c, outcomes);
    return doctor_report(rows, N_ROWS, json);
}
