/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files of container engines: read, planned for, and planned back again. A plan
 * is one that needs no second one; what was turned on and taken back is as it was.
 *
 * Input: u8 engine, u8 which version, then the text of its configuration.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/engine/engine.h"
#include "common/error.h"

const char fuzz_corpus[] = "engine";

enum { PODMAN, DOCKER, CONTAINERD, ENGINES };
static const struct cdi_version versions[ENGINES][3] = {
    [PODMAN] = {{4, 3, 0}, {5, 4, 0}, {5, 6, 0}},
    [DOCKER] = {{25, 0, 0}, {28, 1, 0}, {28, 2, 0}},
    [CONTAINERD] = {{1, 7, 0}, {2, 0, 0}, {2, 1, 0}},
};

static char root[64], config[128];

static void remove_all(void)
{
    char path[160];
    static const char *const names[] = {"/config", "/etc/containers/containers.conf",
                                        "/etc/containers", "/etc", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", root, names[i]);
        (void)remove(path);
    }
}

static void set_up(void)
{
    char path[160];
    fuzz_folder(root);
    snprintf(path, sizeof(path), "%s/etc", root);
    FUZZ_CHECK(mkdir(path, 0755) == 0);
    snprintf(path, sizeof(path), "%s/etc/containers", root);
    FUZZ_CHECK(mkdir(path, 0755) == 0);
    snprintf(config, sizeof(config), "%s/config", root);
    atexit(remove_all);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void check_plan(const struct cdi_engine_plan *plan, int r, const struct apir_error *err)
{
    FUZZ_CHECK((r < 0) == (err->msg[0] != '\0'));
    FUZZ_CHECK(r < 0 || plan->note[0] != '\0');
    FUZZ_CHECK(r == 0 || (!plan->after && !plan->remove));
}

/* Ours is added to what podman reads; the file with the input is somebody else's. */
static void podman(const struct cdi_engine_where *where, const char *text)
{
    char path[160];
    struct apir_error err = {0};
    cleanup_plan struct cdi_engine_plan plan = {0}, again = {0};

    snprintf(path, sizeof(path), "%s/etc/containers/containers.conf", root);
    write_text(path, text);
    (void)unlink(config);
    int rc = cdi_engine_plan(&cdi_engine_podman, where, &plan, &err);
    check_plan(&plan, rc, &err);
    if (rc == 0 && plan.after) {
        write_text(config, plan.after);
        FUZZ_CHECK(cdi_engine_plan(&cdi_engine_podman, where, &again, &err) == 0);
        FUZZ_CHECK(!again.after && !again.remove);
    }
}

/* Nothing is ever changed, and lines are printed or not. */
static void containerd(const struct cdi_engine_where *where, const char *text)
{
    struct apir_error err = {0};
    cleanup_plan struct cdi_engine_plan plan = {0};

    write_text(config, text);
    int rc = cdi_engine_plan(&cdi_engine_containerd, where, &plan, &err);
    check_plan(&plan, rc, &err);
    FUZZ_CHECK(!plan.after && !plan.remove);
}

static void docker(const struct cdi_engine_where *where, const char *text)
{
    struct apir_error err = {0};
    cleanup_plan struct cdi_engine_plan plan = {0}, again = {0}, undo = {0}, last = {0};

    write_text(config, text);
    int rc = cdi_engine_plan(&cdi_engine_docker, where, &plan, &err);
    check_plan(&plan, rc, &err);
    if (rc < 0 || !plan.after)
        return;
    write_text(config, plan.after);
    rc = cdi_engine_plan(&cdi_engine_docker, where, &again, &err);
    FUZZ_CHECK(rc == 0 && !again.after);
    rc = cdi_engine_plan_undo(&cdi_engine_docker, config, plan.changes, false, &undo, &err);
    FUZZ_CHECK(rc == 0 && undo.after && !undo.remove);
    /* And so the same is to be done once more. */
    write_text(config, undo.after);
    rc = cdi_engine_plan(&cdi_engine_docker, where, &last, &err);
    FUZZ_CHECK(rc == 0 && last.after && strcmp(last.note, plan.note) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (!root[0])
        set_up();
    const unsigned engine = data[0] % ENGINES;
    const struct cdi_engine_where where = {
        .version = versions[engine][data[1] % 3],
        .config = config,
        .root = root,
        .system = true,
        .hooks_dir = "/usr/share/apir/hooks.d",
    };
    char *text = calloc(1, size - 1);
    struct cdi_version version;

    FUZZ_CHECK(text);
    memcpy(text, data + 2, size - 2);
    if (cdi_engine_parse_version(text, &version))
        FUZZ_CHECK(version.major >= 0 && version.minor >= 0 && version.patch >= 0);
    if (engine == PODMAN)
        podman(&where, text);
    else if (engine == DOCKER)
        docker(&where, text);
    else
        containerd(&where, text);
    free(text);
    return 0;
}
