/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/engine.h"
#include "cdi/engine_file.h"
#include "cdi/toml.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

static void versions_are_found_in_what_engines_say(void **state)
{
    static const struct {
        const char *text;
        int major, minor, patch; /* -1: none */
    } cases[] = {
        {"podman version 5.8.2\n", 5, 8, 2},
        {"podman version 4.5.1-dev\n", 4, 5, 1},
        {"Docker version 28.2.2, build e6534b4\n", 28, 2, 2},
        {"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7\n", 2, 1, 4},
        {"containerd containerd.io 1.7.27 05044ec0a9a7", 1, 7, 27},
        {"crio version 1.34.0\n", 1, 34, 0},
        {"4.5", 4, 5, 0},
        {"4.5.", 4, 5, 0},
        {"", -1, -1, -1},
        {"no numbers", -1, -1, -1},
        {"99999999999999999999.1", -1, -1, -1},
        {"1.2.99999999999999999999", -1, -1, -1},
        {"7", -1, -1, -1},
        {"7.", -1, -1, -1},
        {"build4.5", -1, -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cdi_version v = {-1, -1, -1};
        bool found = cdi_engine_parse_version(cases[i].text, &v);

        if (found != (cases[i].major >= 0) || v.major != cases[i].major ||
            v.minor != cases[i].minor || v.patch != cases[i].patch)
            fail_msg("%s: %d.%d.%d", cases[i].text, v.major, v.minor, v.patch);
    }
}

/* ---- plans: a small machine of our own, under a root ------------------------------- */

static char root[64], home[96];

static int setup(void **state)
{
    unit_setup(state);
    snprintf(root, sizeof(root), "/tmp/engine.XXXXXX");
    int r = mkdtemp(root) == NULL;
    snprintf(home, sizeof(home), "%s/home", root);
    return r;
}

static int teardown(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command) != 0 || unit_teardown(state);
}

static void make(const char *path, const char *text)
{
    cleanup_free char *full = NULL;

    assert_true(asprintf(&full, "%s%s", root, path) > 0);
    assert_int_equal(cdi_file_write(full, text, NULL), 0);
}

static struct cdi_engine_where at(int major, int minor)
{
    return (struct cdi_engine_where){
        .version = {major, minor, 0}, .root = root, .home = home, .system = true, .uid = 1000};
}

/* The plan's result: the new text, "-" to remove, "" for nothing, or the error's text. */
static char *outcome(enum cdi_engine engine, const struct cdi_engine_where *where)
{
    struct apir_error err = {0};
    cleanup_plan struct cdi_engine_plan plan = {0};
    int r = cdi_engine_plan(engine, where, &plan, &err);

    if (r < 0) {
        assert_true(err.msg[0] != '\0' && -r == err.code);
        return strdup(err.msg);
    }
    assert_true(plan.note[0] != '\0');
    if (plan.remove)
        return strdup("-");
    return strdup(plan.after == NULL ? "" : plan.after);
}

static void check(enum cdi_engine engine, struct cdi_engine_where where, const char *expected)
{
    cleanup_free char *got = outcome(engine, &where);

    assert_string_equal(got, expected);
}

static void check_says(enum cdi_engine engine, struct cdi_engine_where where, const char *part)
{
    cleanup_free char *got = outcome(engine, &where);

    if (strstr(got, part) == NULL)
        fail_msg("%s\nis not in: %s", part, got);
}

static void engines_without_cdi_are_named(void **state)
{
    (void)state;
    check_says(CDI_ENGINE_PODMAN, at(4, 0), "podman 4.0 has no CDI; 4.1 is the first");
    check_says(CDI_ENGINE_DOCKER, at(24, 9), "docker 24.9 has no CDI; 25.0 is the first");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 6), "containerd 1.6 has no CDI; 1.7 is the first");
    check(CDI_ENGINE_CRIO, at(1, 30), "");
}

#define DOCKER_ON "{\n  \"features\":{\n    \"cdi\":true\n  }\n}\n"

static void docker_is_told_where_its_version_wants_it(void **state)
{
    (void)state;
    check(CDI_ENGINE_DOCKER, at(25, 0), DOCKER_ON);
    check(CDI_ENGINE_DOCKER, at(28, 1), DOCKER_ON);
    check(CDI_ENGINE_DOCKER, at(28, 2), "");
    check(CDI_ENGINE_DOCKER, at(29, 0), "");
    make("/etc/docker/daemon.json", "");
    check(CDI_ENGINE_DOCKER, at(27, 5), DOCKER_ON);
    make("/etc/docker/daemon.json", DOCKER_ON);
    check(CDI_ENGINE_DOCKER, at(27, 5), "");
    make("/etc/docker/daemon.json", "{\"features\": {\"cdi\": false}}");
    check(CDI_ENGINE_DOCKER, at(29, 0), DOCKER_ON);
}

static void docker_keeps_all_else(void **state)
{
    (void)state;
    make("/etc/docker/daemon.json",
         "{\"mtu\": 1e3, \"dns\": [\"1.1.1.1\"], \"features\": {\"buildkit\": true}, \"x\": "
         "18446744073709551615, \"log-opts\": {\"path\": \"/a/b\"}}");
    check(CDI_ENGINE_DOCKER, at(27, 5),
          "{\n  \"mtu\":1e3,\n  \"dns\":[\n    \"1.1.1.1\"\n  ],\n  \"features\":{\n    "
          "\"buildkit\":true,\n    \"cdi\":true\n  },\n  \"x\":18446744073709551615,\n  "
          "\"log-opts\":{\n    \"path\":\"/a/b\"\n  }\n}\n");
    make("/etc/docker/daemon.json", "{\"cdi-spec-dirs\": [\"/opt/cdi\"]}");
    check(CDI_ENGINE_DOCKER, at(28, 5),
          "{\n  \"cdi-spec-dirs\":[\n    \"/opt/cdi\",\n    \"/etc/cdi\"\n  ]\n}\n");
}

static void docker_refuses_what_it_does_not_understand(void **state)
{
    (void)state;
    make("/etc/docker/daemon.json", "{\n  \"mtu\": 1,\n  bad\n}");
    check_says(CDI_ENGINE_DOCKER, at(27, 5), "daemon.json: line 3: ");
    make("/etc/docker/daemon.json", "{\"features\": []}");
    check_says(CDI_ENGINE_DOCKER, at(27, 5), "features is no object");
    make("/etc/docker/daemon.json", "{\"features\": {\"cdi\": \"yes\"}}");
    check_says(CDI_ENGINE_DOCKER, at(27, 5), "features.cdi is neither");
    make("/etc/docker/daemon.json", "{\"cdi-spec-dirs\": \"/etc/cdi\"}");
    check_says(CDI_ENGINE_DOCKER, at(27, 5), "cdi-spec-dirs is no list");
    make("/etc/docker/daemon.json", "[]");
    check_says(CDI_ENGINE_DOCKER, at(27, 5), "not an object");
}

#define CRI2 "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
#define CRI3 "[plugins.'io.containerd.cri.v1.runtime']\n"

static void containerd_is_told_where_its_version_wants_it(void **state)
{
    (void)state;
    check(CDI_ENGINE_CONTAINERD, at(1, 7), "version = 2\n\n" CRI2 "enable_cdi = true\n");
    check(CDI_ENGINE_CONTAINERD, at(2, 0), "");
    make("/etc/containerd/config.toml", "version = 2\n" CRI2 "  sandbox_image = \"x\"\n");
    check(CDI_ENGINE_CONTAINERD, at(1, 7),
          "version = 2\n" CRI2 "enable_cdi = true\n  sandbox_image = \"x\"\n");
    check(CDI_ENGINE_CONTAINERD, at(2, 1), "");
    make("/etc/containerd/config.toml",
         "version = 2\n" CRI2 "enable_cdi = true\ncdi_spec_dirs = [\"/opt\"]\n");
    check(CDI_ENGINE_CONTAINERD, at(1, 7),
          "version = 2\n" CRI2 "enable_cdi = true\ncdi_spec_dirs = [\"/etc/cdi\", \"/opt\"]\n");
    make("/etc/containerd/config.toml", "version = 3\n" CRI3 "enable_cdi = false\n");
    check(CDI_ENGINE_CONTAINERD, at(2, 1), "version = 3\n" CRI3 "enable_cdi = true\n");
    make("/etc/containerd/config.toml", "version = 3\n" CRI2 "enable_cdi = false\n");
    check(CDI_ENGINE_CONTAINERD, at(2, 1), "");
    make("/etc/containerd/config.toml", "version = 2\ndisabled_plugins = [\"cri\"]\n");
    check(CDI_ENGINE_CONTAINERD, at(1, 7), "");
}

static void containerd_refuses_what_it_does_not_understand(void **state)
{
    (void)state;
    make("/etc/containerd/config.toml", "version = 2\nfoo\n");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 7), "config.toml: line 2: ");
    make("/etc/containerd/config.toml", "[plugins.cri]\n");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 7), "the old format (version 1)");
    make("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = 1\n");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 7), "line 3: enable_cdi is neither");
    make("/etc/containerd/config.toml", "version = 2\n" CRI2 "cdi_spec_dirs = 1\n");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 7), "line 3: cdi_spec_dirs is no list");
    make("/etc/containerd/config.toml", "version = 2\ndisabled_plugins = 1\n");
    check_says(CDI_ENGINE_CONTAINERD, at(1, 7), "line 2: disabled_plugins is no list");
}

#define MARK                                                                                       \
    "# Written by `apir engine configure podman`; `apir engine reset podman` removes "             \
    "it.\n[engine]\n"
#define DROP_IN "/etc/containers/containers.conf.d/50-apir.conf"

static void podman_is_told_of_a_hooks_folder_it_does_not_read(void **state)
{
    struct cdi_engine_where where = at(5, 8);

    (void)state;
    check(CDI_ENGINE_PODMAN, where, "");
    where.hooks_dir = "/usr/share/containers/oci/hooks.d";
    check(CDI_ENGINE_PODMAN, where, "");
    where.hooks_dir = "/opt/a\"b";
    check(CDI_ENGINE_PODMAN, where, MARK "hooks_dir = [\"/opt/a\\\"b\", {append = true}]\n");
    where.version = (struct cdi_version){4, 7, 0};
    check(CDI_ENGINE_PODMAN, where,
          MARK "hooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/opt/a\\\"b\"]\n");
    make(DROP_IN, MARK "hooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/opt/a\\\"b\"]\n");
    check(CDI_ENGINE_PODMAN, where, "");
    /* An image brings its own annotation along: what was set is taken out. */
    for (int patch = 0; patch < 2; patch++) {
        where.version = (struct cdi_version){4, 5, patch};
        check(CDI_ENGINE_PODMAN, where, patch == 0 ? "-" : "");
    }
    where.hooks_dir = NULL;
    check(CDI_ENGINE_PODMAN, where, "-");
    make(DROP_IN, "[engine]\n");
    check_says(CDI_ENGINE_PODMAN, where, "is there and not ours");
}

static void podman_that_takes_annotations_of_images_is_not_told_of_hooks(void **state)
{
    struct cdi_engine_where where = at(4, 3);
    cleanup_plan struct cdi_engine_plan plan = {0};

    (void)state;
    where.hooks_dir = "/opt/hooks.d";
    assert_int_equal(cdi_engine_plan(CDI_ENGINE_PODMAN, &where, &plan, NULL), 0);
    assert_true(plan.after == NULL && !plan.remove);
    assert_non_null(strstr(plan.note, "takes CDI devices by itself"));
    assert_non_null(strstr(plan.note, "the annotation apir.device is not set up"));
    assert_non_null(strstr(plan.note, "update podman"));
}

static void podman_is_told_of_etc_cdi_where_it_reads_other_folders(void **state)
{
    struct cdi_engine_where where = at(5, 8);

    (void)state;
    make("/etc/containers/containers.conf", "[engine]\ncdi_spec_dirs = [\"/opt/cdi\"]\n");
    check(CDI_ENGINE_PODMAN, where, MARK "cdi_spec_dirs = [\"/etc/cdi\", {append = true}]\n");
    /* Before 5.5 podman takes no notice of it. */
    where.version = (struct cdi_version){5, 4, 0};
    check(CDI_ENGINE_PODMAN, where, "");
    make("/etc/containers/containers.conf", "[engine]\nhooks_dir = \"/x\"\n");
    check_says(CDI_ENGINE_PODMAN, where, "containers.conf: line 2: hooks_dir is no list");
    make("/etc/containers/containers.conf", "[engine\n");
    check_says(CDI_ENGINE_PODMAN, where, "containers.conf: line 1: ] is missing");
}

static void podman_folders_come_from_all_files_in_order(void **state)
{
    struct cdi_engine_where where = at(5, 8);
    cleanup_strings struct cdi_strings hooks = {0}, specs = {0}, root_hooks = {0};

    (void)state;
    make("/usr/share/containers/containers.conf", "[engine]\nhooks_dir = [\"/a\"]\n");
    make("/etc/containers/containers.conf.d/2.conf",
         "[engine]\nhooks_dir = [\"/c\", {append=true}]\n");
    make("/etc/containers/containers.conf.d/1.conf", "[engine]\nhooks_dir = [\"/b\"]\n");
    make("/etc/containers/containers.conf.d/3.off", "[engine]\nhooks_dir = [\"/x\"]\n");
    make("/home/containers/containers.conf.d/1.conf",
         "[engine]\nhooks_dir = [\"/d\", {append=true}]\n");
    make("/etc/containers/containers.rootless.d/1000/1.conf",
         "[engine]\ncdi_spec_dirs = [\"/e\"]\n");
    assert_int_equal(cdi_podman_dirs(&where, NULL, &root_hooks, NULL, NULL), 0);
    assert_int_equal(root_hooks.n, 2);
    assert_true(cdi_strings_have(&root_hooks, "/b") && cdi_strings_have(&root_hooks, "/c"));
    where.system = false;
    assert_int_equal(cdi_podman_dirs(&where, NULL, &hooks, &specs, NULL), 0);
    assert_int_equal(hooks.n, 3);
    assert_string_equal(hooks.items[2], "/d");
    assert_int_equal(specs.n, 1);
    assert_string_equal(specs.items[0], "/e");
}

static void a_user_gets_files_of_the_users_own(void **state)
{
    struct cdi_engine_where where = at(27, 0);
    struct cdi_engine_plan plan;

    (void)state;
    where.system = false;
    assert_int_equal(cdi_engine_plan(CDI_ENGINE_DOCKER, &where, &plan, NULL), 0);
    assert_true(strncmp(plan.path, home, strlen(home)) == 0);
    assert_string_equal(plan.restart, "systemctl --user restart docker");
    cdi_engine_plan_fini(&plan);
    where.home = NULL;
    check_says(CDI_ENGINE_DOCKER, where, "no home folder");
    where.version = (struct cdi_version){5, 0, 0};
    check_says(CDI_ENGINE_PODMAN, where, "no home folder");
    check_says(CDI_ENGINE_CONTAINERD, where, "no home folder");
}

/* What undoing makes of `now`: its text, "-" removed, "" nothing. */
static void check_undo(enum cdi_engine engine, const char *before, const char *after,
                       const char *now, const char *expected)
{
    struct apir_error err = {0};
    char path[128];
    cleanup_plan struct cdi_engine_plan plan = {0};

    snprintf(path, sizeof(path), "%s/conf", root);
    if (now != NULL)
        make("/conf", now);
    if (cdi_engine_plan_undo(engine, path, before, after, &plan, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(plan.remove ? "-" : plan.after == NULL ? "" : plan.after, expected);
    unlink(path);
}

static void undoing_restores_what_was_there(void **state)
{
    static const char *const before = "{ \"mtu\": 1 }";
    static const char *const after =
        "{\n  \"mtu\":1,\n  \"features\":{\n    \"cdi\":true\n  }\n}\n";

    (void)state;
    check_undo(CDI_ENGINE_DOCKER, NULL, DOCKER_ON, DOCKER_ON, "-");
    check_undo(CDI_ENGINE_DOCKER, before, after, after, before);
    check_undo(CDI_ENGINE_DOCKER, before, after, before, "");
    check_undo(CDI_ENGINE_DOCKER, before, after, NULL, "");
    check_undo(CDI_ENGINE_PODMAN, NULL, MARK, MARK "more", "-");
}

static void undoing_keeps_what_others_changed_since(void **state)
{
    (void)state;
    check_undo(CDI_ENGINE_DOCKER, NULL, DOCKER_ON, "{\"dns\": [], \"features\": {\"cdi\": true}}",
               "{\n  \"dns\":[]\n}\n");
    check_undo(CDI_ENGINE_DOCKER, "{\"features\": {\"cdi\": false}}", DOCKER_ON,
               "{\"features\": {\"cdi\": true, \"x\": true}}",
               "{\n  \"features\":{\n    \"cdi\":false,\n    \"x\":true\n  }\n}\n");
    /* Somebody set it anew: it is theirs now. */
    check_undo(CDI_ENGINE_DOCKER, NULL, DOCKER_ON, "{\"features\": {\"cdi\": false}}",
               "{\n  \"features\":{\n    \"cdi\":false\n  }\n}\n");
    check_undo(CDI_ENGINE_CONTAINERD, "version = 2\n", "version = 2\n" CRI2 "enable_cdi = true\n",
               "version = 2\n# mine\n" CRI2 "enable_cdi = true\nx = 1\n",
               "version = 2\n# mine\n" CRI2 "x = 1\n");
    check_undo(CDI_ENGINE_CONTAINERD, "version = 3\n" CRI3 "enable_cdi = false\n",
               "version = 3\n" CRI3 "enable_cdi = true\n",
               "version = 3\n" CRI3 "enable_cdi = true\nx = 1\n",
               "version = 3\n" CRI3 "enable_cdi = false\nx = 1\n");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_found_in_what_engines_say),
        T(engines_without_cdi_are_named),
        T(docker_is_told_where_its_version_wants_it),
        T(docker_keeps_all_else),
        T(docker_refuses_what_it_does_not_understand),
        T(containerd_is_told_where_its_version_wants_it),
        T(containerd_refuses_what_it_does_not_understand),
        T(podman_is_told_of_a_hooks_folder_it_does_not_read),
        T(podman_that_takes_annotations_of_images_is_not_told_of_hooks),
        T(podman_is_told_of_etc_cdi_where_it_reads_other_folders),
        T(podman_folders_come_from_all_files_in_order),
        T(a_user_gets_files_of_the_users_own),
        T(undoing_restores_what_was_there),
        T(undoing_keeps_what_others_changed_since),
    };

    return cmocka_run_group_tests_name("cdi_engine", tests, NULL, NULL);
}
