/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cdi/child.h"
#include "cdi/doctor/access.h"
#include "cdi/doctor/engine.h"
#include "cdi/file.h"
#include "common/json.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"

static const char *const root = unit_folder;
static struct doctor d;

static int setup(void **state)
{
    memset(&d, 0, sizeof(d));
    d.root = root;
    d.uid = 1000;
    snprintf(d.user, sizeof(d.user), "joe");
    return unit_folder_setup(state);
}

static int teardown(void **state)
{
    apir_json_put(&d.spec);
    return unit_folder_teardown(state);
}

static const char *make(const char *path, const char *text)
{
    static char full[256];

    snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(cdi_file_write(full, text, NULL), 0);
    return full;
}

/* podman is there, of this version. */
static void have_podman(int major, int minor)
{
    d.engines[cdi_engine_index(&cdi_engine_podman)].found = true;
    d.engines[cdi_engine_index(&cdi_engine_podman)].version = (struct cdi_version){major, minor, 0};
}

/* A device node that is this file; returns its path. */
static const char *make_node(void)
{
    static struct cdi_node node;

    snprintf(node.full_path, sizeof(node.full_path), "%s", make("/node", ""));
    d.node = &node;
    return node.full_path;
}

/* Runs it, expects that status, and that the text (or the advice) has this part. */
static void expect(doctor_check *check, enum doctor_status status, const char *part)
{
    struct doctor_outcome o = {0};
    enum doctor_status got = check(&d, &o);

    if (got != status || (!strstr(o.text, part) && !strstr(o.todo, part)))
        fail_msg("%d, not %d: %s | %s", got, status, o.text, o.todo);
}

TEST(access_is_what_the_kernel_would_say)
{
    static const struct {
        mode_t mode;
        unsigned uid, gid; /* the file's are 5 and 7 */
        enum doctor_access access;
    } cases[] = {
        {0000, 0, 0, DOCTOR_ACCESS_ROOT},  {0660, 5, 1, DOCTOR_ACCESS_OWNER},
        {0066, 5, 7, DOCTOR_ACCESS_NONE},  {0660, 6, 7, DOCTOR_ACCESS_GROUP},
        {0606, 6, 7, DOCTOR_ACCESS_NONE},  {0640, 6, 7, DOCTOR_ACCESS_NONE},
        {0666, 6, 8, DOCTOR_ACCESS_WORLD}, {0664, 6, 8, DOCTOR_ACCESS_NONE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct stat st = {.st_mode = S_IFCHR | cases[i].mode, .st_uid = 5, .st_gid = 7};
        unsigned groups[] = {99, cases[i].gid};

        assert_int_equal(doctor_access_of(&st, cases[i].uid, groups, 2), cases[i].access);
    }
}

TEST_WITHIN(ranges_of_ids_are_found_by_name_and_number, setup, teardown)
{
    static const struct {
        const char *text;
        bool has;
    } cases[] = {
        {"joe:100000:65536\n", true},
        {"ann:1:2\n1000:100000:65536", true},
        {"joey:100000:65536\n", false},
        {"jo:100000:65536\n", false},
        {"joe:100000:0\n", false},
        {"joe:100000\n", false},
        {"joe\n", false},
        {"", false},
        {"10000:1:1\n#joe:1:1\n", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(doctor_subid_has(make("/etc/subuid", cases[i].text), "joe", 1000),
                         cases[i].has);
    assert_false(doctor_subid_has("/nonexistent", "joe", 1000));
}

TEST_WITHIN(venus_is_missing_or_no_capset_was_told_in_time, setup, teardown)
{
    static struct cdi_node node;

    d.node = &node;
    node.caps.capset_ids = 1u << 1 | 1u << 2 | 1u << 4;
    expect(doctor_check_capset, DOCTOR_PASS, "Venus");
    node.caps.capset_ids = 1u << 1 | 1u << 2;
    expect(doctor_check_capset, DOCTOR_FAIL, "0x6");
    expect(doctor_check_capset, DOCTOR_FAIL, "venus=on");
    node.caps.capset_ids = 0;
    expect(doctor_check_capset, DOCTOR_FAIL, "within the five seconds");
    expect(doctor_check_capset, DOCTOR_FAIL, "echo $d >bind");
}

TEST_WITHIN(selinux_is_judged_by_its_booleans, setup, teardown)
{
    expect(doctor_check_selinux, DOCTOR_PASS, "not in use");
    make("/sys/fs/selinux/enforce", "0");
    expect(doctor_check_selinux, DOCTOR_PASS, "permissive");
    make("/sys/fs/selinux/enforce", "1");
    expect(doctor_check_selinux, DOCTOR_WARN, "setsebool -P container_use_devices on");
    make("/sys/fs/selinux/booleans/container_use_devices", "0 1");
    expect(doctor_check_selinux, DOCTOR_WARN, "label=disable");
    make("/sys/fs/selinux/booleans/container_use_devices", "1 1");
    expect(doctor_check_selinux, DOCTOR_PASS, "container_use_devices is on");
    make("/sys/fs/selinux/booleans/container_use_dri_devices", "1 1");
    expect(doctor_check_selinux, DOCTOR_PASS, "container_use_dri_devices is on");
    d.socket = "/run/apir/host/apir.sock";
    expect(doctor_check_selinux, DOCTOR_WARN, "label=disable");
}

/* With these members, and an MPS program of the test's own. */
static void configure(const char *members)
{
    char text[400];
    snprintf(text, sizeof(text), "{\"mps_control\": \"%s/mps\", %s}", root, members);
    setenv("APIR_CONFIG", make("/backend.json", text), 1);
}

/* "auto" and "required", of what keeps MPS from being there. */
static void expect_no_mps(const char *why)
{
    configure("\"mps\": \"auto\"");
    expect(doctor_check_mps, DOCTOR_WARN, "auto, so programs compute without: ");
    expect(doctor_check_mps, DOCTOR_WARN, why);
    configure("\"mps\": \"required\"");
    expect(doctor_check_mps, DOCTOR_FAIL, "required, so no program computes: ");
    expect(doctor_check_mps, DOCTOR_FAIL, why);
}

/* Its own uid is 1000; the parent's name is that. */
static void make_daemon(const char *parent)
{
    make("/proc/77/cmdline", "/usr/bin/nvidia-cuda-mps-control");
    make("/proc/77/status", "Name:\tnvidia-cuda-mps\nPid:\t77\nPPid:\t5\nUid:\t1000\t1000\n");
    make("/proc/5/comm", parent);
}

TEST_WITHIN(mps_is_looked_for_where_the_configuration_wants_it, setup, teardown)
{
    setenv("APIR_CONFIG", "/nonexistent/backend.json", 1);
    expect(doctor_check_mps, DOCTOR_FAIL, "apir config check");
    configure("\"mps\": \"off\"");
    expect(doctor_check_mps, DOCTOR_ABSENT, "");
    configure("\"mps\": \"perhaps\"");
    expect(doctor_check_mps, DOCTOR_FAIL, "\"mps\" must be");
    expect_no_mps("no NVIDIA driver");
    make("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580\n");
    expect_no_mps("NVIDIA's driver has no GPU here");
    expect_no_mps("set \"mps\" to \"off\"");
    make("/dev/nvidiactl", "");
    expect_no_mps("NVIDIA's driver has no GPU here");
    make("/dev/nvidia0", "");
    expect_no_mps("/mps: No such file");
    expect_no_mps("Install nvidia-cuda-mps-control");
    assert_int_equal(chmod(make("/mps", "#!/bin/sh\n"), 0755), 0);
    expect(doctor_check_mps, DOCTOR_PASS, "required: ");
    expect(doctor_check_mps, DOCTOR_PASS, "/mps, 1 GPU of NVIDIA's driver");
    /* What the server offers, where it has been asked. */
    d.socket = "/run/apir/host/apir.sock";
    expect(doctor_check_mps, DOCTOR_PASS, "/mps");
    d.session.passed = CDI_SESSION_DEVICES;
    d.session.n_devices = 1;
    snprintf(d.session.devices[0].name, sizeof(d.session.devices[0].name), "Vulkan0");
    expect_no_mps("none of the host's devices is CUDA's");
    snprintf(d.session.devices[0].name, sizeof(d.session.devices[0].name), "CUDA0");
    expect(doctor_check_mps, DOCTOR_PASS, "/mps");
    unsetenv("APIR_CONFIG");
}

TEST_WITHIN(mps_beside_others_and_mig_is_a_warning, setup, teardown)
{
    make("/proc/driver/nvidia/version", "NVRM version\n");
    make("/dev/nvidia0", "");
    make("/dev/nvidia1", "");
    assert_int_equal(chmod(make("/mps", "#!/bin/sh\n"), 0755), 0);
    configure("\"mps\": \"auto\"");
    make("/proc/self/cmdline", "/usr/bin/nvidia-cuda-mps-control"); /* no process */
    make("/proc/6/cmdline", "nvidia-cuda-mps-server");
    expect(doctor_check_mps, DOCTOR_PASS, "auto: ");
    expect(doctor_check_mps, DOCTOR_PASS, "2 GPUs");
    make_daemon("apir-render-ser\n");
    expect(doctor_check_mps, DOCTOR_PASS, "2 GPUs");
    make_daemon("systemd\n");
    expect(doctor_check_mps, DOCTOR_WARN, "process 77, user 1000");
    expect(doctor_check_mps, DOCTOR_WARN, "echo quit");
    make("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "");
    expect(doctor_check_mps, DOCTOR_WARN, "MIG divides a GPU");
    expect(doctor_check_mps, DOCTOR_WARN, "nvidia-smi -mig 0");
    unsetenv("APIR_CONFIG");
}

TEST_WITHIN(rootless_asks_for_ranges_and_groups, setup, teardown)
{
    const char *path = make_node();

    expect(doctor_check_rootless, DOCTOR_SKIP, "no podman");
    have_podman(5, 8);
    assert_int_equal(chmod(path, 0660), 0);
    expect(doctor_check_rootless, DOCTOR_WARN, "usermod --add-subuids");
    make("/etc/subuid", "joe:100000:65536\n");
    expect(doctor_check_rootless, DOCTOR_WARN, "/etc/subgid");
    make("/etc/subgid", "joe:100000:65536\n");
    assert_int_equal(chmod(path, 0666), 0);
    expect(doctor_check_rootless, DOCTOR_PASS, "no group needed");
    d.uid = 0;
    expect(doctor_check_rootless, DOCTOR_PASS, "users need no group");
    assert_int_equal(chmod(path, 0660), 0);
    expect(doctor_check_rootless, DOCTOR_PASS, "keep-groups");
    assert_int_equal(unlink(path), 0);
    expect(doctor_check_rootless, DOCTOR_FAIL, "No such file");
}

TEST_WITHIN(keep_groups_needs_crun, setup, teardown)
{
    cleanup_free char *old = strdup(getenv("PATH"));
    const char *path = make_node();

    have_podman(5, 8);
    make("/etc/subuid", "joe:100000:65536\n");
    make("/etc/subgid", "joe:100000:65536\n");
    assert_int_equal(chmod(path, 0060), 0);
    /* Of the process's own group, not its own file, where we are root; else by the group. */
    if (geteuid() == 0)
        assert_int_equal(chown(path, 12, (gid_t)-1), 0);
    else
        unit_skip("another owner needs root");
    setenv("PATH", root, 1);
    expect(doctor_check_rootless, DOCTOR_WARN, "Install crun");
    assert_int_equal(chmod(make("/crun", "#!/bin/sh\n"), 0755), 0);
    expect(doctor_check_rootless, DOCTOR_PASS, "pass --group-add keep-groups");
    setenv("PATH", old, 1);
}

#define HOOKS_D "/usr/share/containers/oci/hooks.d"

/* As much of a program as is looked at. */
static void make_static(const char *path)
{
    Elf64_Ehdr e = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                    .e_type = ET_DYN,
                    .e_phoff = sizeof(e),
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1};
    Elf64_Phdr p = {.p_type = PT_LOAD};
    char full[200];

    make(path, "");
    snprintf(full, sizeof(full), "%s%s", root, path);
    cleanup_fd int fd = open(full, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, &e, sizeof(e)), sizeof(e));
    assert_int_equal(write(fd, &p, sizeof(p)), sizeof(p));
    assert_int_equal(fchmod(fd, 0755), 0);
}

TEST_WITHIN(hooks_d_is_what_podman_would_read, setup, teardown)
{
    char text[400];

    expect(doctor_check_hooks_d, DOCTOR_SKIP, "not here");
    have_podman(5, 8);
    expect(doctor_check_hooks_d, DOCTOR_SKIP, "not installed");
    snprintf(d.hooks_dir, sizeof(d.hooks_dir), "/opt" HOOKS_D);
    expect(doctor_check_hooks_d, DOCTOR_WARN, "apir engine configure podman");
    make(HOOKS_D "/50-other.json", "{broken");
    expect(doctor_check_hooks_d, DOCTOR_WARN, "apir engine configure podman");
    make(HOOKS_D "/90-apir.json", "{\"hook\": {\"path\": \"/nonexistent/apir-hook\"}}");
    expect(doctor_check_hooks_d, DOCTOR_FAIL, "/nonexistent/apir-hook: No such file");
    expect(doctor_check_hooks_d, DOCTOR_FAIL, "or remove that file");
    make(HOOKS_D "/90-apir.json", "{");
    expect(doctor_check_hooks_d, DOCTOR_FAIL, "90-apir.json: line 1, byte 1: JSON ends early");
    /* A program, and one with an interpreter. */
    snprintf(text, sizeof(text), "%s/bin/apir-hook", root);
    make("/bin/x", "");
    assert_int_equal(symlink("/proc/self/exe", text), 0);
    snprintf(text, sizeof(text), "{\"hook\": {\"path\": \"%s/bin/apir-hook\"}}", root);
    make(HOOKS_D "/90-apir.json", text);
    expect(doctor_check_hooks_d, DOCTOR_FAIL, "wants shared libraries");
    /* A good one, of a podman that lets images ask. */
    snprintf(text, sizeof(text), "{\"hook\": {\"path\": \"%s/static/apir-hook\"}}", root);
    make(HOOKS_D "/90-apir.json", text);
    make_static("/static/apir-hook");
    expect(doctor_check_hooks_d, DOCTOR_PASS, "the annotation apir.device works");
    have_podman(4, 5);
    expect(doctor_check_hooks_d, DOCTOR_WARN, "lets any image ask for a device");
    have_podman(5, 8);
    make("/etc/containers/containers.conf", "[engine]\nhooks_dir = [\"/elsewhere\"]\n");
    expect(doctor_check_hooks_d, DOCTOR_WARN, "does not read");
    have_podman(4, 5);
    expect(doctor_check_hooks_d, DOCTOR_SKIP, "podman 4.5.1");
    have_podman(5, 8);
    make("/etc/containers/containers.conf", "[engine]\nhooks_dir = 1\n");
    expect(doctor_check_hooks_d, DOCTOR_FAIL,
           "containers.conf: line 2: engine.hooks_dir is no list");
}

#define PLUGIN_OK                                                                                  \
    "\"containerEdits\": {\"mounts\": [{\"hostPath\": \"%s\", \"containerPath\": "                 \
    "\"/usr/lib/apir/libggml-apir.so\", \"options\": "                                             \
    "[\"ro\",\"nosuid\",\"nodev\",\"bind\",\"rprivate\"]}]}"

static void write_spec(const char *node, const char *plugin)
{
    static char path[256];
    char text[1000];

    snprintf(text, sizeof(text),
             "{\"cdiVersion\": \"0.3.0\", \"kind\": \"virtgpu/apir\", \"devices\": [{\"name\": "
             "\"gpu0\", \"containerEdits\": {\"deviceNodes\": [%s]}}], " PLUGIN_OK "}",
             node, plugin);
    snprintf(path, sizeof(path), "%s", make("/spec.json", text));
    d.spec_path = path;
    apir_json_put(&d.spec);
}

TEST_WITHIN(a_spec_is_held_against_this_machine, setup, teardown)
{
    static struct cdi_node node = {.is_virtio_gpu = true};
    char plugin[256], other[256];

    d.spec_path = "/nonexistent";
    expect(doctor_check_spec, DOCTOR_FAIL, "apir cdi generate");
    snprintf(other, sizeof(other), "%s", make("/other.so", "x"));
    snprintf(plugin, sizeof(plugin), "%s", make("/plugin.so", "x"));
    snprintf(d.plugin, sizeof(d.plugin), "%s", plugin);
    /* A node that every machine has. */
    write_spec("{\"path\": \"/dev/null\"}", plugin);
    expect(doctor_check_spec, DOCTOR_PASS, "/spec.json");
    write_spec("{\"path\": \"/dev/null\"}", other);
    expect(doctor_check_spec, DOCTOR_WARN, "another plug-in");
    write_spec("{\"path\": \"/nonexistent-node\"}", plugin);
    expect(doctor_check_spec, DOCTOR_FAIL, "/nonexistent-node");
    write_spec("{\"path\": \"/dev/null\", \"colour\": 1}", plugin);
    expect(doctor_check_spec, DOCTOR_FAIL, "colour");
    write_spec("{\"path\": \"/dev/null\"}", plugin);
    d.node = &node;
    snprintf(node.path, sizeof(node.path), "/dev/dri/renderD128");
    expect(doctor_check_spec, DOCTOR_FAIL, "older than this machine's devices");
    /* On the other road it is host0 that must be there. */
    apir_json_put(&d.spec);
    snprintf(d.transport, sizeof(d.transport), "unix:/run/apir/host/apir.sock");
    d.socket = strchr(d.transport, ':') + 1;
    expect(doctor_check_spec, DOCTOR_FAIL, "lacks host0");
}

TEST_WITHIN(a_device_that_the_host_has_no_more_is_missed, setup, teardown)
{
    static struct cdi_node node = {.path = "/dev/null"};
    static const char *const ids[] = {"a1", "b2"};
    char path[256], text[800];

    d.node = &node;
    d.session.n_devices = 2;
    for (size_t i = 0; i < 2; i++)
        snprintf(d.session.devices[i].id, sizeof(d.session.devices[i].id), "%s", ids[i]);
    for (int lost = 0; lost < 2; lost++) {
        snprintf(
            text, sizeof(text),
            "{\"cdiVersion\": \"0.3.0\", \"kind\": \"virtgpu/apir\", \"devices\": ["
            "{\"name\": \"gpu0\", \"containerEdits\": {\"env\": [\"APIR_DEVICE_0=a1\"],"
            " \"deviceNodes\": [{\"path\": \"/dev/null\"}]}},"
            "{\"name\": \"gpu1\", \"containerEdits\": {\"env\": [\"APIR_DEVICE_1=%s\"],"
            " \"deviceNodes\": [{\"path\": \"/dev/null\"}]}},"
            "{\"name\": \"gpu2\", \"containerEdits\": {\"env\": [\"APIR_DEVICE_2=of-another\"],"
            " \"deviceNodes\": [{\"path\": \"/dev/zero\"}]}}],"
            "\"containerEdits\": {\"mounts\": [{\"hostPath\": \"/etc\", \"containerPath\": "
            "\"/usr/lib/apir/libggml-apir.so\", \"options\": [\"rprivate\"]}]}}",
            lost ? "c3" : "b2");
        snprintf(path, sizeof(path), "%s", make("/spec.json", text));
        d.spec_path = path;
        apir_json_put(&d.spec);
        expect(doctor_check_spec, lost ? DOCTOR_FAIL : DOCTOR_PASS,
               lost ? "gpu1 is a device that the host has no more" : "/spec.json");
    }
}

static void answer_7(void *answer, const void *arg)
{
    memcpy(answer, arg, 1);
}

static void crash(void *answer, const void *arg)
{
    (void)answer;
    (void)arg;
    /* Not by a report of a sanitizer's. */
    signal(SIGABRT, SIG_DFL);
    raise(SIGKILL);
}

/* As a library may. */
static void leave(void *answer, const void *arg)
{
    memcpy(answer, arg, 1);
    _exit(0);
}

static void hang(void *answer, const void *arg)
{
    (void)answer;
    (void)arg;
    for (;;)
        pause();
}

TEST_WITHIN(children_answer_die_or_are_late, setup, teardown)
{
    char answer = 0, seven = 7, text[100] = "";

    assert_int_equal(cdi_child_run(answer_7, &seven, 60000, &answer, 1, text, sizeof(text)),
                     CDI_CHILD_ANSWERED);
    assert_int_equal(answer, 7);
    assert_int_equal(cdi_child_run(crash, NULL, 60000, &answer, 1, text, sizeof(text)),
                     CDI_CHILD_DIED);
    assert_non_null(strstr(text, "Killed"));
    assert_int_equal(cdi_child_run(leave, &seven, 60000, &answer, 1, text, sizeof(text)),
                     CDI_CHILD_DIED);
    assert_non_null(strstr(text, "without an answer"));
    assert_int_equal(cdi_child_run(hang, NULL, 50, &answer, 1, text, sizeof(text)), CDI_CHILD_LATE);
    assert_non_null(strstr(text, "no answer within"));
}
