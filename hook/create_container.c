/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/json.h"
#include "hook/find.h"
#include "hook/log.h"
#include "hook/place.h"
#include "hook/request.h"
#include "hook/rootfs.h"
#include "hook/stages.h"
#include "hook/state.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

#define FALLBACK "GGML_BACKEND_PATH still leads to the plug-in where the environment is kept"

static void place_one(const struct hook_dir *dir, const char *name, int source, bool over_existing)
{
    struct apir_error err = {0};
    int shared = hook_place_is_shared(dir->fd);

    if (shared != 0) {
        hook_log(HOOK_WARNING, "%s: not placed: %s; " FALLBACK, dir->path,
                 shared > 0 ? "the root's mounts are shared with the host"
                            : "the root's mount propagation is unknown");
        return;
    }
    int r = hook_place_file(dir->fd, name, source, over_existing, &err);
    if (r == 0)
        hook_log(HOOK_INFO, "placed as %s/%s", dir->path, name);
    else if (r == -EALREADY)
        hook_log(HOOK_INFO, "%s: %s", dir->path, err.msg);
    else if (r == -EROFS)
        hook_log(HOOK_WARNING, "%s: not placed: the root is read-only; " FALLBACK, dir->path);
    else
        hook_log(HOOK_WARNING, "%s: not placed: %s; " FALLBACK, dir->path, err.msg);
}

static void place_all(const struct hook_image *image, int source)
{
    const char *slot = hook_image_slot(image);
    size_t wanted = 0;

    for (size_t i = 0; i < image->n; i++) {
        const struct hook_dir *dir = &image->dirs[i];

        /* The image's own client of another protocol would open the same device. */
        if (dir->virtgpu)
            place_one(dir, "libggml-virtgpu.so", source, true);
        if (hook_image_wants(image, dir)) {
            wanted++;
            place_one(dir, slot, source, false);
        }
    }
    if (image->n == 0)
        hook_log(HOOK_INFO, "no ggml found in the usual places of this image; " FALLBACK);
    else if (wanted == 0)
        hook_log(HOOK_INFO, "ggml is there, but no folder that it searches; " FALLBACK);
    if (image->truncated)
        hook_log(HOOK_WARNING, "the image has more folders or files than were looked at");
}

static bool is_own_root(int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat("/", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * Where the configuration cannot be read (in a user namespace the bundle is another
 * user's) that we are called at all is the request: a spec has put the hook there.
 */
static bool is_wanted(const struct hook_state *state)
{
    cleanup_request struct hook_request request = {0};
    cleanup_json struct json_object *config = NULL;
    struct apir_error why = {0};

    int r = hook_state_config(state, &config, &why);
    if (r == -EBADMSG || r == -EFBIG)
        hook_log(HOOK_WARNING, "cannot read the container's configuration: %s", why.msg);
    else if (r < 0)
        return true;
    return hook_request_find(state, config, &request, NULL) == 0 && request.wanted;
}

/* Returns 0 with *ret_root -1 where nothing is wanted, or the root cannot be found; that is logged.
 */
static int find_root(struct apir_error *err, int *ret_root)
{
    cleanup_state struct hook_state state = {0};
    cleanup_free char *path = NULL;
    struct apir_error why = {0};

    *ret_root = -1;
    int r = hook_state_read(STDIN_FILENO, &state, err);
    if (r < 0 || !is_wanted(&state))
        return r;
    r = hook_state_root(&state, &path, &why);
    if (r < 0) {
        hook_log(HOOK_WARNING, "cannot find the container's root: %s; " FALLBACK, why.msg);
        return 0;
    }
    r = hook_rootfs_open(path);
    if (r < 0)
        hook_log(HOOK_WARNING, "cannot open the container's root %s: %s; " FALLBACK, path,
                 strerror(-r));
    if (r < 0)
        return 0;
    cleanup_fd int root = r;
    /* The host's own root is no container's, whatever name leads to it. */
    if (is_own_root(root))
        return apir_error_set(err, EINVAL, "%s is no container's root", path);
    *ret_root = steal_fd(&root);
    return 0;
}

void hook_stage_place(int root, int source)
{
    cleanup_image struct hook_image image;

    hook_image_init(&image);
    int r = hook_image_scan(root, &image);
    if (r < 0)
        hook_log(HOOK_WARNING, "cannot look into the image: %s; " FALLBACK, strerror(-r));
    else
        place_all(&image, source);
}

int hook_stage_create_container(const struct hook_options *options, struct apir_error *err)
{
    struct apir_error why = {0};
    cleanup_fd int root = -1;

    int r = find_root(err, &root);
    if (r < 0 || root < 0)
        return r;
    cleanup_fd int source = hook_place_open_source(options->plugin, &why);
    if (source < 0)
        hook_log(HOOK_ERROR, "%s", why.msg);
    else
        hook_stage_place(root, source);
    return 0;
}
