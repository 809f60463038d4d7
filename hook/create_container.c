/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "common/json.h"
#include "common/image/find.h"
#include "hook/log.h"
#include "hook/place.h"
#include "common/oci/request.h"
#include "common/image/rootfs.h"
#include "hook/stages.h"
#include "common/oci/state.h"
#include "common/cleanup.h"
#include "common/error.h"

#define FALLBACK HOOK_FALLBACK

static void place_one(const struct image *image, const struct image_target *target, int source)
{
    const struct image_dir *dir = &image->dirs[target->dir];
    struct apir_error err = {0};
    int shared = hook_place_is_shared(dir->fd);

    if (shared != 0) {
        hook_log(HOOK_WARNING, "%s: not placed: %s; " FALLBACK, dir->path,
                 shared > 0 ? "the root's mounts are shared with the host"
                            : "the root's mount propagation is unknown");
        return;
    }
    int rc = target->over ? hook_place_over(dir->fd, target->file, source, &err)
                          : hook_place_copy(dir->fd, target->file, source, &err);
    if (rc == 0)
        hook_log(HOOK_INFO, "placed as %s/%s", dir->path, target->file);
    else if (rc == -EALREADY)
        hook_log(HOOK_INFO, "%s: %s", dir->path, err.msg);
    else if (rc == -EROFS)
        hook_log(HOOK_WARNING, "%s: not placed: the root is read-only; " FALLBACK, dir->path);
    else
        hook_log(HOOK_WARNING, "%s: not placed: %s; " FALLBACK, dir->path, err.msg);
}

/* One line on those that do not fit, or on those that may not ask, however many there are. */
static void explain(const struct image *image, uint16_t machine, bool fit, const char *what)
{
    const struct image_ggml *first = NULL;
    char reason[160];
    size_t more = 0;

    for (size_t i = 0; i < image->n_ggmls; i++) {
        if (image->ggmls[i].verdict == IMAGE_FITS || image_ggml_fits(&image->ggmls[i]) != fit)
            continue;
        more += first ? 1 : 0;
        first = first ? first : &image->ggmls[i];
    }
    if (!first)
        return;
    image_ggml_reason(first, machine, reason, sizeof(reason));
    char others[40] = "";
    if (more > 0)
        snprintf(others, sizeof(others), " (and %zu more)", more);
    hook_log(HOOK_WARNING, "%s for the ggml in %s: %s%s", what, first->path, reason, others);
}

static void place_all(const struct image *image, uint16_t machine, int source)
{
    if (image->early) {
        hook_log(HOOK_WARNING,
                 "the image was not looked through within %d s (no processor time, a slow file "
                 "system, or a million names); placed nowhere; " FALLBACK,
                 IMAGE_FIND_MS / 1000);
        return;
    }
    for (size_t i = 0; i < image->n_targets; i++)
        place_one(image, &image->targets[i], source);
    explain(image, machine, false, "no acceleration");
    explain(image, machine, true, "perhaps no acceleration");
    if (image->n_ggmls == 0 && image->n_targets == 0)
        hook_log(HOOK_INFO, "no ggml found in the usual places of this image%s; " FALLBACK,
                 image->truncated ? " (it has more than is looked at)" : "");
    else if (image_fitting(image) > 0 && image->n_targets == 0)
        hook_log(HOOK_INFO, "ggml is there, but no folder that it searches; " FALLBACK);
}

static bool is_own_root(int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat("/", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

struct hints {
    char *folders[2];
    size_t n;
};

static void free_hints(struct hints *hints)
{
    for (size_t i = 0; i < hints->n; i++)
        free(hints->folders[i]);
}
#define cleanup_hints __attribute__((cleanup(free_hints)))

/*
 * The working directory and the program's folder are where an image of one's own
 * has what the usual places lack. Only hints: without them the rest is looked at.
 */
static void read_hints(struct json_object *config, struct hints *ret)
{
    struct json_object *process = apir_json_object(config, "process");
    struct json_object *args = apir_json_array(process, "args");
    const char *cwd = apir_json_string(process, "cwd");
    struct json_object *first = args ? json_object_array_get_idx(args, 0) : NULL;
    const char *program = first ? json_object_get_string(first) : NULL;

    if (cwd && (ret->folders[ret->n] = strdup(cwd)))
        ret->n++;
    if (program && program[0] == '/') {
        size_t length = (size_t)(strrchr(program, '/') - program);

        if ((ret->folders[ret->n] = strndup(program, length)))
            ret->n++;
    }
}

/*
 * Where the configuration cannot be read (in a user namespace the bundle is another
 * user's) that we are called at all is the request: a spec has put the hook there.
 */
static bool is_wanted(const struct oci_state *state, struct hints *hints)
{
    struct oci_request request = {0};
    cleanup_json struct json_object *config = NULL;
    struct apir_error why = {0};

    int rc = oci_state_config(state, &config, &why);
    if (rc == -EBADMSG || rc == -EFBIG)
        hook_log(HOOK_WARNING, "cannot read the container's configuration: %s", why.msg);
    else if (rc < 0)
        return true;
    read_hints(config, hints);
    return oci_request_find(state, config, &request, NULL) == 0 &&
           (request.devices || request.edited);
}

/* Returns 0 with *ret_root -1 where nothing is wanted, or the root cannot be found; that is logged.
 */
static int find_root(const struct oci_state *state, struct apir_error *err, int *ret_root,
                     struct hints *hints)
{
    cleanup_free char *path = NULL;
    struct apir_error why = {0};

    *ret_root = -1;
    if (!is_wanted(state, hints))
        return 0;
    int rc = oci_state_root(state, &path, &why);
    if (rc < 0) {
        hook_log(HOOK_WARNING, "cannot find the container's root: %s; " FALLBACK, why.msg);
        return 0;
    }
    rc = image_rootfs_open(path);
    if (rc < 0)
        hook_log(HOOK_WARNING, "cannot open the container's root %s: %s; " FALLBACK, path,
                 strerror(-rc));
    if (rc < 0)
        return 0;
    cleanup_fd int root = rc;
    /* The host's own root is no container's, whatever name leads to it. */
    if (is_own_root(root))
        return apir_error_set(err, EINVAL, "%s is no container's root", path);
    *ret_root = steal_fd(&root);
    return 0;
}

static void place(int root, int source, const struct hints *hints)
{
    cleanup_image struct image image;
    uint16_t machine = image_find_machine(source);

    image_init(&image);
    int rc = image_scan(root, hints->folders, hints->n, machine, &image);
    if (rc < 0)
        hook_log(HOOK_WARNING, "cannot look into the image: %s; " FALLBACK, strerror(-rc));
    else
        place_all(&image, machine, source);
}

void hook_stage_place(int root, int source, struct json_object *config)
{
    cleanup_hints struct hints hints = {0};

    read_hints(config, &hints);
    place(root, source, &hints);
}

int hook_stage_create_container(const struct hook_options *options, const struct oci_state *state,
                                struct apir_error *err)
{
    cleanup_hints struct hints hints = {0};
    struct apir_error why = {0};
    cleanup_fd int root = -1;

    int rc = find_root(state, err, &root, &hints);
    if (rc < 0 || root < 0)
        return rc;
    cleanup_fd int source = hook_place_open_source(options->plugin, &why);
    if (source < 0)
        hook_log(HOOK_ERROR, "%s", why.msg);
    else
        place(root, source, &hints);
    return 0;
}
