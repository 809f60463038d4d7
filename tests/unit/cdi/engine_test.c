/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <json-c/json.h>

#include "cdi/engine/engine.h"
#include "cdi/file.h"
#include "cdi/engine/podman.h"
#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"

TEST(versions_are_found_in_what_engines_say)
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

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cdi_version v = {-1, -1, -1};
        bool found = cdi_engine_parse_version(cases[i].text, &v);

        if (found != (cases[i].major >= 0) || v.major != cases[i].major ||
            v.minor != cases[i].minor || v.patch != cases[i].patch)
            fail_msg("%s: %d.%d.%d", cases[i].text, v.major, v.minor, v.patch);
    }
}

/* ---- plans: a small machine of our own, under a root ------------------------------- */

static const char *const root = unit_folder;
static char home[96];

static int setup(void **state)
{
    int rc = unit_folder_setup(state);
    snprintf(home, sizeof(home), "%s/home", root);
    return rc;
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

/*
 * The plan's result: the new text, "-" to remove, "PATH: LINES" (the path below the root) for what
 * the user is to add, "" for nothing, or the error's text.
 */
static char *outcome(const struct engine_ops *engine, const struct cdi_engine_where *where)
{
    struct apir_error err = {0};
    cleanup_plan struct cdi_engine_plan plan = {0};
    int rc = cdi_engine_plan(engine, where, &plan, &err);

    if (rc < 0) {
        assert_true(err.msg[0] != '\0' && -rc == err.code);
        return strdup(err.msg);
    }
    assert_true(plan.note[0] != '\0');
    if (plan.remove)
        return strdup("-");
    if (plan.lines) {
        char *text = NULL;

        assert_null(plan.after);
        assert_true(asprintf(&text, "%s: %s", plan.path + strlen(root), plan.lines) > 0);
        return text;
    }
    return strdup(plan.after ? plan.after : "");
}

static void check(const struct engine_ops *engine, struct cdi_engine_where where,
                  const char *expected)
{
    cleanup_free char *got = outcome(engine, &where);

    assert_string_equal(got, expected);
}

static void check_says(const struct engine_ops *engine, struct cdi_engine_where where,
                       const char *part)
{
    cleanup_free char *got = outcome(engine, &where);

    if (!strstr(got, part))
        fail_msg("%s\nis not in: %s", part, got);
}

TEST_WITHIN(engines_without_cdi_are_named, setup, unit_folder_teardown)
{
    check_says(&cdi_engine_podman, at(4, 0), "podman 4.0 has no CDI; 4.1 is the first");
    check_says(&cdi_engine_docker, at(24, 9), "docker 24.9 has no CDI; 25.0 is the first");
    check_says(&cdi_engine_containerd, at(1, 6), "containerd 1.6 has no CDI; 1.7 is the first");
    check(&cdi_engine_crio, at(1, 30), "");
}

#define DOCKER_ON "{\n  \"features\":{\n    \"cdi\":true\n  }\n}\n"

TEST_WITHIN(docker_is_told_where_its_version_wants_it, setup, unit_folder_teardown)
{
    check(&cdi_engine_docker, at(25, 0), DOCKER_ON);
    check(&cdi_engine_docker, at(28, 1), DOCKER_ON);
    check(&cdi_engine_docker, at(28, 2), "");
    check(&cdi_engine_docker, at(29, 0), "");
    make("/etc/docker/daemon.json", "");
    check(&cdi_engine_docker, at(27, 5), DOCKER_ON);
    make("/etc/docker/daemon.json", DOCKER_ON);
    check(&cdi_engine_docker, at(27, 5), "");
    make("/etc/docker/daemon.json", "{\"features\": {\"cdi\": false}}");
    check(&cdi_engine_docker, at(29, 0), DOCKER_ON);
}

TEST_WITHIN(docker_keeps_all_else, setup, unit_folder_teardown)
{
    make("/etc/docker/daemon.json",
         "{\"mtu\": 1e3, \"dns\": [\"1.1.1.1\"], \"features\": {\"buildkit\": true}, \"x\": "
         "18446744073709551615, \"log-opts\": {\"path\": \"/a/b\"}}");
    check(&cdi_engine_docker, at(27, 5),
          "{\n  \"mtu\":1e3,\n  \"dns\":[\n    \"1.1.1.1\"\n  ],\n  \"features\":{\n    "
          "\"buildkit\":true,\n    \"cdi\":true\n  },\n  \"x\":18446744073709551615,\n  "
          "\"log-opts\":{\n    \"path\":\"/a/b\"\n  }\n}\n");
    make("/etc/docker/daemon.json", "{\"cdi-spec-dirs\": [\"/opt/cdi\"]}");
    check(&cdi_engine_docker, at(28, 5),
          "{\n  \"cdi-spec-dirs\":[\n    \"/opt/cdi\",\n    \"/etc/cdi\"\n  ]\n}\n");
}

TEST_WITHIN(docker_refuses_what_it_does_not_understand, setup, unit_folder_teardown)
{
    make("/etc/docker/daemon.json", "{\n  \"mtu\": 1,\n  bad\n}");
    check_says(&cdi_engine_docker, at(27, 5), "daemon.json: line 3, byte ");
    make("/etc/docker/daemon.json", "{\"features\": []}");
    check_says(&cdi_engine_docker, at(27, 5), "features is no object");
    make("/etc/docker/daemon.json", "{\"features\": {\"cdi\": \"yes\"}}");
    check_says(&cdi_engine_docker, at(27, 5), "features.cdi is neither");
    make("/etc/docker/daemon.json", "{\"cdi-spec-dirs\": \"/etc/cdi\"}");
    check_says(&cdi_engine_docker, at(27, 5), "cdi-spec-dirs is no list");
    make("/etc/docker/daemon.json", "[]");
    check_says(&cdi_engine_docker, at(27, 5), "not an object");
}

#define CRI1 "[plugins.cri]\n"
#define CRI2 "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
#define CRI3 "[plugins.\"io.containerd.cri.v1.runtime\"]\n"
#define CONF "/etc/containerd/config.toml"
#define ON   "  enable_cdi = true\n"

TEST_WITHIN(containerd_gets_the_lines_that_its_version_wants, setup, unit_folder_teardown)
{
    check(&cdi_engine_containerd, at(1, 7), CONF ": version = 2\n\n" CRI2 ON);
    check(&cdi_engine_containerd, at(2, 0), "");
    /* An empty file says no format; without one it would be read as the oldest. */
    make(CONF, "");
    check(&cdi_engine_containerd, at(1, 7), CONF ": version = 2\n\n" CRI2 ON);
    make(CONF, "\n# nothing\n\n");
    check(&cdi_engine_containerd, at(1, 7), CONF ": version = 2\n\n" CRI2 ON);
    make(CONF, "version = 2\n");
    check(&cdi_engine_containerd, at(1, 7), CONF ": " CRI2 ON);
    make(CONF, "version = 2\n" CRI2 "  sandbox_image = \"x\"\n");
    check(&cdi_engine_containerd, at(1, 7), CONF ": " CRI2 ON);
    check(&cdi_engine_containerd, at(2, 1), "");
    make(CONF, "version = 2\n" CRI2 "enable_cdi = true\n");
    check(&cdi_engine_containerd, at(1, 7), "");
    make(CONF, "version = 3\n" CRI3 "enable_cdi = false\n");
    check(&cdi_engine_containerd, at(2, 1), CONF ": " CRI3 ON);
    make(CONF, "version = 3\n" CRI2 "enable_cdi = false\n");
    check(&cdi_engine_containerd, at(2, 1), "");
    make(CONF, "version = 2\ndisabled_plugins = [\"cri\"]\n");
    check(&cdi_engine_containerd, at(1, 7), "");
    /* The oldest format, which 1.7 still reads, and has no command to rewrite. */
    make(CONF, "root = \"/x\"\n");
    check(&cdi_engine_containerd, at(1, 7), CONF ": " CRI1 ON);
    make(CONF, CRI1 "enable_cdi = true\n");
    check(&cdi_engine_containerd, at(1, 7), "");
}

TEST_WITHIN(containerd_refuses_what_it_does_not_understand, setup, unit_folder_teardown)
{
    make(CONF, "version = 2\nfoo\n");
    check_says(&cdi_engine_containerd, at(1, 7), "config.toml: line 2: ");
    make(CONF, "version = 2\ndisabled_plugins = 1\n");
    check_says(&cdi_engine_containerd, at(1, 7),
               "config.toml: line 2: disabled_plugins is no list");
}

#define MARK                                                                                       \
    "# Written by `apir engine configure podman`; `apir engine reset podman` removes "             \
    "it.\n[engine]\n"
#define DROP_IN "/etc/containers/containers.conf.d/50-apir.conf"

TEST_WITHIN(podman_is_told_of_a_hooks_folder_it_does_not_read, setup, unit_folder_teardown)
{
    struct cdi_engine_where where = at(5, 8);

    check(&cdi_engine_podman, where, "");
    where.hooks_dir = "/usr/share/containers/oci/hooks.d";
    check(&cdi_engine_podman, where, "");
    where.hooks_dir = "/opt/a\"b";
    check(&cdi_engine_podman, where, MARK "hooks_dir = [\"/opt/a\\\"b\", {append = true}]\n");
    where.version = (struct cdi_version){4, 7, 0};
    check(&cdi_engine_podman, where,
          MARK "hooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/opt/a\\\"b\"]\n");
    make(DROP_IN, MARK "hooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/opt/a\\\"b\"]\n");
    check(&cdi_engine_podman, where, "");
    /* An image brings its own annotation along: what was set is taken out. */
    for (int patch = 0; patch < 2; patch++) {
        where.version = (struct cdi_version){4, 5, patch};
        check(&cdi_engine_podman, where, patch == 0 ? "-" : "");
    }
    where.hooks_dir = NULL;
    check(&cdi_engine_podman, where, "-");
    make(DROP_IN, "[engine]\n");
    check_says(&cdi_engine_podman, where, "is there and not ours");
}

TEST_WITHIN(podman_that_takes_annotations_of_images_is_not_told_of_hooks, setup,
            unit_folder_teardown)
{
    struct cdi_engine_where where = at(4, 3);
    cleanup_plan struct cdi_engine_plan plan = {0};

    where.hooks_dir = "/opt/hooks.d";
    assert_int_equal(cdi_engine_plan(&cdi_engine_podman, &where, &plan, NULL), 0);
    assert_true(!plan.after && !plan.remove);
    assert_non_null(strstr(plan.note, "takes CDI devices by itself"));
    assert_non_null(strstr(plan.note, "the annotation apir.device is not set up"));
    assert_non_null(strstr(plan.note, "update podman"));
}

TEST_WITHIN(podman_is_told_of_etc_cdi_where_it_reads_other_folders, setup, unit_folder_teardown)
{
    struct cdi_engine_where where = at(5, 8);

    make("/etc/containers/containers.conf", "[engine]\ncdi_spec_dirs = [\"/opt/cdi\"]\n");
    check(&cdi_engine_podman, where, MARK "cdi_spec_dirs = [\"/etc/cdi\", {append = true}]\n");
    /* Before 5.5 podman takes no notice of it. */
    where.version = (struct cdi_version){5, 4, 0};
    check(&cdi_engine_podman, where, "");
    make("/etc/containers/containers.conf", "[engine]\nhooks_dir = \"/x\"\n");
    check_says(&cdi_engine_podman, where, "containers.conf: line 2: engine.hooks_dir is no list");
    make("/etc/containers/containers.conf", "[engine\n");
    check_says(&cdi_engine_podman, where, "containers.conf: line 1: a table's name");
}

TEST_WITHIN(podman_folders_come_from_all_files_in_order, setup, unit_folder_teardown)
{
    struct cdi_engine_where where = at(5, 8);
    cleanup_strings struct cdi_strings hooks = {0}, specs = {0}, root_hooks = {0};

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

TEST_WITHIN(a_user_gets_files_of_the_users_own, setup, unit_folder_teardown)
{
    struct cdi_engine_where where = at(27, 0);
    struct cdi_engine_plan plan;

    where.system = false;
    assert_int_equal(cdi_engine_plan(&cdi_engine_docker, &where, &plan, NULL), 0);
    assert_true(strncmp(plan.path, home, strlen(home)) == 0);
    assert_string_equal(plan.restart, "systemctl --user restart docker");
    cdi_engine_plan_fini(&plan);
    where.home = NULL;
    check_says(&cdi_engine_docker, where, "no home folder");
    where.version = (struct cdi_version){5, 0, 0};
    check_says(&cdi_engine_podman, where, "no home folder");
    check_says(&cdi_engine_containerd, where, "no home folder");
}

/*
 * Configures docker where it has `before` (NULL: no file), has somebody turn the result into
 * `since` (NULL: nobody does), and undoes: the text then, "-" removed, "" nothing.
 */
static void check_undo(const char *before, const char *since, const char *expected)
{
    struct apir_error err = {0};
    struct cdi_engine_where where = at(27, 5);
    cleanup_plan struct cdi_engine_plan plan = {0}, undo = {0};
    char path[128];

    snprintf(path, sizeof(path), "%s/conf", root);
    where.config = path;
    unlink(path);
    if (before)
        make("/conf", before);
    assert_int_equal(cdi_engine_plan(&cdi_engine_docker, &where, &plan, &err), 0);
    assert_non_null(plan.after);
    make("/conf", since ? since : plan.after);
    /* What is kept for the way back says nothing of the rest. */
    assert_null(strstr(json_object_to_json_string(plan.changes), "secret"));
    if (cdi_engine_plan_undo(&cdi_engine_docker, path, plan.changes, !before, &undo, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(undo.remove ? "-" : !undo.after ? "" : undo.after, expected);
}

TEST_WITHIN(undoing_restores_what_was_there, setup, unit_folder_teardown)
{
    char path[128];
    cleanup_plan struct cdi_engine_plan undo = {0}, gone = {0};

    check_undo(NULL, NULL, "-");
    check_undo("{}", NULL, "{}\n");
    check_undo("{ \"mtu\": 1, \"secret\": \"x\" }", NULL,
               "{\n  \"mtu\":1,\n  \"secret\":\"x\"\n}\n");
    check_undo("{\"features\": {\"secret\": 1}}", NULL,
               "{\n  \"features\":{\n    \"secret\":1\n  }\n}\n");
    check_undo(
        "{\"cdi-spec-dirs\": [\"/opt\"], \"features\": {\"cdi\": false}}", NULL,
        "{\n  \"cdi-spec-dirs\":[\n    \"/opt\"\n  ],\n  \"features\":{\n    \"cdi\":false\n  "
        "}\n}\n");
    snprintf(path, sizeof(path), "%s/conf", root);
    assert_int_equal(cdi_file_write(path, "not ours", NULL), 0);
    assert_int_equal(cdi_engine_plan_undo(&cdi_engine_podman, path, NULL, true, &undo, NULL),
                     -EEXIST);
    cdi_engine_plan_fini(&undo);
    assert_int_equal(cdi_file_write(path, cdi_engine_podman.mark, NULL), 0);
    assert_int_equal(cdi_engine_plan_undo(&cdi_engine_podman, path, NULL, true, &undo, NULL), 0);
    assert_true(undo.remove);
    cdi_engine_plan_fini(&undo);
    /* One without files of its own: nothing that a record says of it can be right. */
    assert_int_equal(cdi_engine_plan_undo(&cdi_engine_containerd, path, NULL, true, &undo, NULL),
                     -EEXIST);
    unlink(path);
    assert_int_equal(cdi_engine_plan_undo(&cdi_engine_podman, path, NULL, true, &gone, NULL), 0);
    assert_false(gone.remove);
}

TEST_WITHIN(undoing_keeps_what_others_changed_since, setup, unit_folder_teardown)
{
    check_undo(NULL, "{\"dns\": [], \"features\": {\"cdi\": true}}", "{\n  \"dns\":[]\n}\n");
    check_undo("{\"features\": {\"cdi\": false}}", "{\"features\": {\"cdi\": true, \"x\": true}}",
               "{\n  \"features\":{\n    \"cdi\":false,\n    \"x\":true\n  }\n}\n");
    /* Somebody set it anew, or took it out: it is theirs now. */
    check_undo(NULL, "{\"features\": {\"cdi\": false}}", "");
    check_undo("{\"mtu\": 1}", "{\"mtu\": 1}", "");
    check_undo("{\"mtu\": 1}", "{\"features\": 7}", "");
}

TEST_WITHIN(a_record_that_is_none_is_refused, setup, unit_folder_teardown)
{
    static const char *const bad[] = {"[1]",
                                      "[{}]",
                                      "[{\"path\": [], \"is\": 1}]",
                                      "[{\"path\": [\"a\"]}]",
                                      "[{\"path\": [\"a\", \"b\", \"c\"], \"is\": 1}]",
                                      "[{\"path\": [null, \"b\"], \"is\": 1}]"};
    char path[128];

    make("/conf", "{\"a\": 1}");
    snprintf(path, sizeof(path), "%s/conf", root);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct json_object *changes = json_tokener_parse(bad[i]);
        cleanup_plan struct cdi_engine_plan undo = {0};

        if (cdi_engine_plan_undo(&cdi_engine_docker, path, changes, false, &undo, NULL) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
        json_object_put(changes);
    }
}
