/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook's own look into an image, printed. A folder is looked at as it is. An
 * image's name goes to podman, as one argument of a program that is started
 * without a shell: `podman image mount`, or a container that is mounted and never
 * started; and where that needs a user namespace of podman's, all of us once more
 * inside of it. docker has no such mount: its
 * images are looked at as an exported folder, which the user makes.
 */
#include "cdi/doctor/image.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "common/given.h"
#include "common/json.h"
#include "common/text.h"
#include "common/image/find.h"
#include "common/image/rootfs.h"
#include "common/cleanup.h"

#define NAME_MAX_LENGTH   512
#define PODMAN_TIMEOUT_MS 300000u /* a storage without overlays copies the image */

/* What an image reference may consist of. A dash at its start would be an option. */
static bool is_image_name(const char *name)
{
    static const char set[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-";
    size_t n = strlen(name);

    return n > 0 && n <= NAME_MAX_LENGTH && name[0] != '-' && strspn(name, set) == n;
}

/* ---- podman ------------------------------------------------------------------------ */

/* Runs podman and keeps the first line of its output. Returns its exit code, or -errno. */
static int run(const char *const *argv, bool quiet, char *line, size_t size)
{
    int rc = cdi_program_run(argv, quiet, PODMAN_TIMEOUT_MS, line, size);

    line[strcspn(line, "\n")] = '\0';
    return rc;
}

static int again_in_podmans_namespace(const char *image, bool json)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0)
        return -errno;
    self[n] = '\0';
    fflush(stdout);
    execlp("podman", "podman", "unshare", self, "doctor", "--image", image, json ? "--json" : NULL,
           (char *)NULL);
    return -errno;
}

/* ---- what was found ----------------------------------------------------------------- */

static void print_one(const struct image *image, const struct image_ggml *g, uint16_t machine)
{
    char reason[200];
    const char *names = " ";

    image_ggml_reason(g, machine, reason, sizeof(reason));
    const char *result = reason[0] == '\0' ? "PASS" : image_ggml_fits(g) ? "WARN" : "FAIL";
    apir_text_print(stdout, "%s  %-10s %s: %s, %s%s\n", result, "ggml", g->path,
                    image_ggml_kind_name(g->kind), image_elf_machine_name(g->file.machine),
                    g->file.musl ? ", musl" : "");
    if (g->file.slots != 0) {
        apir_text_print(stdout, "      %-10s looks for", "");
        for (int i = 0; i < IMAGE_SLOTS; i++)
            if ((g->file.slots & (1u << i)) != 0) {
                apir_text_print(stdout, "%s%s", names, image_slot_name((enum image_slot)i));
                names = ", ";
            }
        apir_text_print(stdout, "%s%s\n", g->has_compiled ? " in " : " beside the program",
                        g->has_compiled ? image->dirs[g->compiled].path : "");
    }
    if (reason[0] != '\0')
        apir_text_print(stdout, "      %-10s %s\n", "", reason);
}

static void print_text(const struct image *image, uint16_t machine)
{
    for (size_t i = 0; i < image->n_ggmls; i++)
        print_one(image, &image->ggmls[i], machine);
    if (image->n_ggmls == 0)
        printf("FAIL  %-10s none found in the usual places\n", "ggml");
    for (size_t i = 0; i < image->n_targets; i++)
        apir_text_print(stdout, "%s  %-10s %s/%s%s\n", image_fitting(image) > 0 ? "PASS" : "SKIP",
                        "place", image->dirs[image->targets[i].dir].path, image->targets[i].file,
                        image->targets[i].over ? " (over the image's own)" : "");
    if (image->n_targets == 0)
        printf("SKIP  %-10s nowhere: only GGML_BACKEND_PATH, which the CDI spec sets, remains\n"
               "      %-10s " APIR_GIVEN_EXEC_ADVICE "\n",
               "place", "");
    apir_text_print(stdout, "      %-10s %u files, %llu KiB, %llu ms%s\n", "looked at",
                    image->files, (unsigned long long)image->bytes / 1024,
                    (unsigned long long)image->ms,
                    image->early ? "; not all that is to be looked at, so that nothing follows"
                    : image->truncated ? "; there is more than is looked at"
                                       : "");
}

static void add_string(struct json_object *object, const char *key, const char *value)
{
    json_object_object_add(object, key, value ? json_object_new_string(value) : NULL);
}

static struct json_object *json_of_ggml(const struct image *image, const struct image_ggml *g,
                                        uint16_t machine)
{
    struct json_object *object = json_object_new_object(), *names = json_object_new_array();
    char reason[200];

    image_ggml_reason(g, machine, reason, sizeof(reason));
    add_string(object, "path", g->path);
    add_string(object, "kind", image_ggml_kind_name(g->kind));
    add_string(object, "machine", image_elf_machine_name(g->file.machine));
    add_string(object, "libc", g->file.musl ? "musl" : "glibc");
    for (int i = 0; i < IMAGE_SLOTS; i++)
        if ((g->file.slots & (1u << i)) != 0)
            json_object_array_add(names,
                                  json_object_new_string(image_slot_name((enum image_slot)i)));
    json_object_object_add(object, "names", names);
    add_string(object, "searches", g->has_compiled ? image->dirs[g->compiled].path : NULL);
    json_object_object_add(object, "fits", json_object_new_boolean(image_ggml_fits(g)));
    add_string(object, "reason", reason[0] == '\0' ? NULL : reason);
    return object;
}

static void print_json(const struct image *image, const char *name, uint16_t machine)
{
    cleanup_json struct json_object *object = json_object_new_object();
    struct json_object *ggmls = json_object_new_array(), *places = json_object_new_array();

    add_string(object, "image", name);
    add_string(object, "plugin_machine", image_elf_machine_name(machine));
    for (size_t i = 0; i < image->n_ggmls; i++)
        json_object_array_add(ggmls, json_of_ggml(image, &image->ggmls[i], machine));
    json_object_object_add(object, "ggml", ggmls);
    for (size_t i = 0; i < image->n_targets; i++) {
        struct json_object *place = json_object_new_object();
        char path[IMAGE_PATH_SIZE + 80];

        snprintf(path, sizeof(path), "%s/%s", image->dirs[image->targets[i].dir].path,
                 image->targets[i].file);
        add_string(place, "path", path);
        json_object_object_add(place, "over", json_object_new_boolean(image->targets[i].over));
        json_object_array_add(places, place);
    }
    json_object_object_add(object, "places", places);
    json_object_object_add(object, "fits", json_object_new_boolean(image_fitting(image) > 0));
    json_object_object_add(object, "truncated", json_object_new_boolean(image->truncated));
    json_object_object_add(object, "files", json_object_new_int64(image->files));
    json_object_object_add(object, "bytes", json_object_new_int64((int64_t)image->bytes));
    json_object_object_add(object, "ms", json_object_new_int64((int64_t)image->ms));
    (void)apir_json_print(object);
}

static uint16_t machine_of_plugin(void)
{
    char path[PATH_MAX];

    if (cdi_install_find_plugin(path, sizeof(path)) < 0)
        snprintf(path, sizeof(path), "/proc/self/exe");
    cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
    return image_find_machine(fd);
}

static int look_into(const char *folder, const char *name, bool json)
{
    cleanup_image struct image image;
    cleanup_fd int root = image_rootfs_open(folder);
    uint16_t machine = machine_of_plugin();

    image_init(&image);
    int rc = root < 0 ? root : image_scan(root, NULL, 0, machine, &image);
    if (rc < 0) {
        apir_text_print(stderr, "apir doctor: %s: %s\n", folder, strerror(-rc));
        return CDI_EXIT_FAILED;
    }
    if (json)
        print_json(&image, name, machine);
    else
        print_text(&image, machine);
    return image_fitting(&image) > 0 ? CDI_EXIT_OK : CDI_EXIT_FAILED;
}

/* Returns the exit code of the look, or of podman where it has no such image, or -errno. */
static int look_into_mount(const char *name, bool json, bool *ret_looked)
{
    const char *const mount[] = {"podman", "image", "mount", name, NULL};
    const char *const unmount[] = {"podman", "image", "unmount", name, NULL};
    char folder[PATH_MAX], ignored[8];
    int rc = run(mount, true, folder, sizeof(folder));

    *ret_looked = rc == 0 && folder[0] == '/';
    if (!*ret_looked)
        return rc;
    rc = look_into(folder, name, json);
    (void)run(unmount, true, ignored, sizeof(ignored));
    return rc;
}

/* An image of a read-only store is mounted only as a container, which is never started. */
static int look_into_container(const char *name, bool json, bool *ret_looked)
{
    char id[80], folder[PATH_MAX], ignored[8];
    const char *const create[] = {"podman", "create", "--quiet", "--pull=never",
                                  name,     "none",   NULL};
    const char *const mount[] = {"podman", "mount", id, NULL};
    const char *const rm[] = {"podman", "rm", "--force", "--volumes", id, NULL};
    int rc = run(create, false, id, sizeof(id));

    *ret_looked = false;
    if (rc != 0 || strspn(id, "0123456789abcdef") != strlen(id) || id[0] == '\0')
        return rc;
    rc = run(mount, false, folder, sizeof(folder));
    *ret_looked = rc == 0 && folder[0] == '/';
    if (*ret_looked)
        rc = look_into(folder, name, json);
    (void)run(rm, true, ignored, sizeof(ignored));
    return rc;
}

static int look_into_image(const char *image, bool json)
{
    char name[NAME_MAX_LENGTH + 1];
    bool looked = false;
    int rc;

    snprintf(name, sizeof(name), "%s", image);
    if (geteuid() != 0)
        rc = again_in_podmans_namespace(name, json);
    else
        rc = look_into_mount(name, json, &looked);
    if (geteuid() == 0 && !looked && rc > 0)
        rc = look_into_container(name, json, &looked);
    if (looked)
        return rc;
    if (rc < 0)
        apir_text_print(stderr, "apir doctor: %s is no folder, and podman cannot be asked: %s\n",
                        name, strerror(-rc));
    fprintf(stderr,
            "apir doctor: an image of docker or containerd can be looked at as a folder:\n"
            "  mkdir rootfs && docker export $(docker create %s) | tar -x -C rootfs\n"
            "  apir doctor --image ./rootfs\n",
            name);
    return CDI_EXIT_FAILED;
}

int cdi_doctor_image_main(const char *image, bool json)
{
    struct stat st;

    if (stat(image, &st) == 0 && S_ISDIR(st.st_mode))
        return look_into(image, image, json);
    if (image[0] == '/' || image[0] == '.') {
        apir_text_print(stderr, "apir doctor: %s is no folder\n", image);
        return CDI_EXIT_FAILED;
    }
    if (!is_image_name(image)) {
        apir_text_print(stderr, "apir doctor: that is neither a folder nor the name of an image\n");
        return CDI_EXIT_USAGE;
    }
    return look_into_image(image, json);
}
